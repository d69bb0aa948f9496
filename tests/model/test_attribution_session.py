"""Attribution through a session over tiny models of the families: exports, faults, precision."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.model import tiny
from tui_attn.answers import ModelRequest
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.export import ExportRequest, export_file
from tui_attn.progress import Job
from tui_attn.selection import parse
from tui_attn.session import Session, open_session

TEXT = "the cat sat on mat and slept the cat sat"
EXACT = AttributionChoices(exact=True)


def opened(tmp_path: Path, family: str, **options) -> Session:
    folder = tiny.save(family, tmp_path / family)
    session = open_session(ModelRequest(name=str(folder), **options))
    session.analyse(TEXT[:20])
    return session


def reverse_mode(session: Session) -> np.ndarray:
    """(layers, s, s) shares by torch's own Jacobian of the model as it stands."""
    loaded, trace = session._loaded, session.trace
    model = loaded.model
    blocks = [site.block for site in loaded.sites]
    inputs = trace.inputs
    found = []

    def run(hidden: torch.Tensor, last: int) -> torch.Tensor:
        kept: list[torch.Tensor] = []

        def replace(_: object, args: tuple, kwargs: dict):
            if args:
                return (hidden, *args[1:]), kwargs
            return args, {**kwargs, next(iter(kwargs)): hidden}

        def keep(_: object, __: object, output: object) -> None:
            kept.append(output if isinstance(output, torch.Tensor) else output[0])

        handles = [
            blocks[0].register_forward_pre_hook(replace, with_kwargs=True),
            blocks[last].register_forward_hook(keep),
        ]
        try:
            model(**inputs, use_cache=False)
        finally:
            for handle in handles:
                handle.remove()
        return kept[0][0]

    start = trace.hidden[0][None].clone()
    for layer in range(len(blocks)):
        jacobian = torch.autograd.functional.jacobian(lambda h, layer=layer: run(h, layer), start)
        norms = jacobian[:, :, 0].square().sum((1, 3)).sqrt()
        found.append((norms / norms.sum(-1, keepdim=True)).numpy())
    return np.stack(found)


@pytest.mark.parametrize("family", ["bert", "distilbert", "gpt2", "llama", "qwen3", "mistral"])
def test_exported_shares_agree_with_an_independent_autograd(tmp_path: Path, family: str) -> None:
    session = opened(tmp_path, family)
    expected = reverse_mode(session)
    request = ExportRequest("attribution", format="npz", attribution=EXACT)
    path = export_file(session, request, tmp_path / "a.npz")
    table = np.load(path)
    s = session.length()
    causal = session.model.causal
    assert len(table["value"]) == 3 * (s * (s + 1) // 2 if causal else s * s)
    for layer, query, key, value in zip(
        table["layer"], table["query"], table["key"], table["value"], strict=True
    ):
        assert value == pytest.approx(expected[layer, query, key], abs=2e-5)
    assert "--exact --norm frobenius" in str(table["metadata"])


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_half_precision_models_are_computed_in_float32(tmp_path: Path, family: str) -> None:
    session = opened(tmp_path, family, dtype="bfloat16")
    session.attribution.refine(EXACT)
    window = session.window("attribution", 2, 0, (0, 4), (0, 4), attribution=EXACT)
    assert np.isfinite(window.values[window.visible]).all()
    assert session.attribution.state(EXACT).kernel == "plain softmax in float32"
    before = session.window("attention", 1, 0, (0, 4), (0, 4)).values
    session.analyse(TEXT[:20])  # the model's own kernel is back
    after = session.window("attention", 1, 0, (0, 4), (0, 4)).values
    np.testing.assert_array_equal(before, after)


def test_an_estimate_is_made_again_whatever_was_computed_before(tmp_path: Path) -> None:
    """What `--probes 4` exports does not depend on what the screen had refined."""
    one, other = (opened(tmp_path, "bert") for _ in range(2))
    few = AttributionChoices(probes=4)
    one.attribution.refine(few)
    for probes in (2, 4, 8, 16):
        other.attribution.refine(AttributionChoices(probes=probes))
    with pytest.raises(InspectError, match="not computed yet"):
        other.attribution.shares(1, few)  # only the latest are kept
    other.attribution.refine(few)
    assert torch.equal(one.attribution.shares(1, few), other.attribution.shares(1, few))
    state = other.attribution.state(few)
    assert (state.probes, state.inputs) == (4, other.length())
    assert 0 < state.standard_error < state.largest_error
    another = AttributionChoices(probes=4, seed=1)
    other.attribution.refine(another)
    assert not torch.equal(other.attribution.shares(1, another), one.attribution.shares(1, few))


def test_a_cancelled_sweep_goes_on(tmp_path: Path) -> None:
    session = opened(tmp_path, "bert")

    def stop(progress) -> None:
        if "exact" in progress.phase and progress.done == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        session.attribution.refine(EXACT, job=Job(stop))
    assert session.attribution.state(EXACT).exact_inputs == 2
    with pytest.raises(InspectError, match="inputs are done"):
        session.window("attribution", 0, 0, (0, 1), (0, 1), attribution=EXACT)
    session.attribution.refine(EXACT)
    assert session.attribution.state(EXACT).exact_inputs == session.length()


def test_windows_are_answered_while_it_computes(tmp_path: Path) -> None:
    session = opened(tmp_path, "bert")
    inside, go = threading.Event(), threading.Event()

    def hold(progress) -> None:
        if "estimating" in progress.phase:
            inside.set()
            assert go.wait(20)

    work = threading.Thread(
        target=lambda: session.attribution.refine(AttributionChoices(probes=2), job=Job(hold))
    )
    work.start()
    try:
        assert inside.wait(20)
        assert session.window("effective", 1, 0, (0, 2), (0, 2)).values.shape == (2, 2)
    finally:
        go.set()
        work.join()
    assert session.attribution.state(AttributionChoices(probes=2)).probes == 2


def test_two_sessions_compute_at_once(tmp_path: Path) -> None:
    """Torch has one level of forward derivatives for all threads."""
    sessions = [opened(tmp_path, "bert") for _ in range(2)]
    choices = AttributionChoices(probes=32)
    failures: list[BaseException] = []

    def work(session: Session) -> None:
        try:
            session.attribution.refine(choices)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    one, other = (session.attribution.shares(2, choices) for session in sessions)
    assert torch.equal(one, other)


def test_comparison_and_summaries(tmp_path: Path) -> None:
    session = opened(tmp_path, "llama")
    session.attribution.refine(EXACT)
    found = session.attribution.compare(1, 2, 5, EXACT, "output")
    assert found.keys == tuple(range(6))
    raw = session.window("attention", 1, 2, (5, 6), (0, 6)).values[0]
    np.testing.assert_allclose(found.raw, raw)
    assert -1 <= found.raw_correlation <= 1
    first = session.attribution.compare(1, 2, 0, EXACT, "output")
    assert np.isnan(first.raw_correlation)  # of a single number
    for layer in range(-1, 3):
        mixing = session.attribution.mixing(layer, EXACT)
        assert mixing.before + mixing.own_each.mean() + mixing.after == pytest.approx(1)
        assert mixing.after == 0
    assert session.attribution.mixing(-1, EXACT).own.minimum == 1


@pytest.mark.parametrize("summary", ["own", "distance", "offset", "kind"])
@pytest.mark.parametrize("form", ["csv", "svg", "html"])
def test_summaries_export(tmp_path: Path, summary: str, form: str) -> None:
    session = opened(tmp_path, "bert")
    request = ExportRequest("attribution", parse("Lemb,2"), form, summary=summary)
    path = export_file(session, request, tmp_path / f"a.{form}")
    assert "emb" in path.read_text()


def test_words_add_up(tmp_path: Path) -> None:
    session = opened(tmp_path, "gpt2")
    session.attribution.refine(EXACT)
    n = session.length("word")
    window = session.window("attribution", 1, 0, (0, n), (0, n), unit="word", attribution=EXACT)
    np.testing.assert_allclose(np.nansum(window.values, 1), 1)


def test_one_token_is_its_own(tmp_path: Path) -> None:
    folder = tiny.save("gpt2", tmp_path / "gpt2")
    session = open_session(ModelRequest(name=str(folder)))
    session.analyse("a")
    session.attribution.refine(AttributionChoices(probes=2))
    assert session.attribution.shares(2, AttributionChoices(probes=2)).tolist() == [[1.0]]


def test_a_text_that_does_not_fit_into_memory(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tui_attn.session.attribution._MOST_BYTES", 4 * 16 * 4 * 9)
    session = opened(tmp_path, "bert")
    with pytest.raises(InspectError, match="needs") as caught:
        session.attribution.refine(EXACT)
    assert caught.value.code == ExitCode.INPUT
    assert "to 3 tokens" in caught.value.hint


def test_layers_that_are_not_there(tmp_path: Path) -> None:
    session = opened(tmp_path, "bert")
    session.attribution.refine(EXACT)
    for layer in (-2, 3):
        with pytest.raises(InspectError, match="no layer") as caught:
            session.attribution.shares(layer, EXACT)
        assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize("wrong", [{"norm": "ones"}, {"norm": "max"}, {"probes": 0}, {"seed": -1}])
def test_choices_that_are_none(wrong: dict) -> None:
    with pytest.raises(InspectError) as caught:
        AttributionChoices(**wrong)
    assert caught.value.code == ExitCode.USAGE
