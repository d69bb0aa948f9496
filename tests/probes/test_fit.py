"""`fit` from a corpus to saved probes, over a tiny model: resuming, refusing, disk and memory."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.probes import toys
from tui_attn.answers import ModelRequest
from tui_attn.answers.identity import choose
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.model.loading import LoadedModel
from tui_attn.probes import activations, store
from tui_attn.probes.fit import Corpus, fit
from tui_attn.probes.recipe import Recipe
from tui_attn.progress import Job, Progress
from tui_attn.session import Session, open_session

RECIPE = Recipe(
    methods=("ridge", "linear-cosine"), tokens=400, learning_rate=1e-2, epochs=5, batch=64
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return toys.loaded(tmp_path_factory.getbasetemp())


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    file = tmp_path / "corpus.txt"
    file.write_text(toys.corpus())
    return Corpus(file)


def stop_at(phase: str, done: int) -> Job:
    def listen(progress: Progress) -> None:
        if phase in progress.phase and progress.done >= done:
            raise Cancelled

    return Job(listen)


def weights(info) -> dict[str, torch.Tensor]:
    return load_file(info.path)


def test_fit_saves_probes_that_a_session_uses(model: LoadedModel, corpus: Corpus) -> None:
    told = []
    made = fit(model, corpus, RECIPE, tell=lambda info, fresh: told.append((info.method, fresh)))
    assert told == [("ridge", True), ("linear-cosine", True)]
    assert [info.path for info, _ in store.saved()] == sorted(info.path for info in made)
    session = Session(model)
    session.analyse("the cat sat on a mat while it rained")
    assert [info.method for info in session.identity.probes()] == ["ridge", "linear-cosine"]
    for info in made:
        rates = session.identity.rates(choose(probe=info.method))
        assert [rate.layer for rate in rates] == ["emb", "0", "1", "2"]
        same = session.identity.rates(choose(probe=info.path, metric="cosine"))
        assert [rate.identified for rate in rates] == [rate.identified for rate in same]
        assert session.identity.transfer(choose(probe=info.method)).rates.shape == (4, 4)
    ridge = made[0]
    naive = [rate for rate in ridge.held_out if rate.choices.probe is None]
    assert {rate.n for rate in ridge.held_out} == {len(naive) and naive[0].n}
    assert np.allclose(
        np.diag(ridge.transfer.rates),
        [rate.rate for rate in ridge.held_out if rate.choices == choose(probe="ridge")],
    )
    assert not list(Path(ridge.path).parent.glob(".work-*/*"))


def test_a_second_fit_finds_everything_done(model: LoadedModel, corpus: Corpus) -> None:
    first = [weights(info) for info in fit(model, corpus, RECIPE)]
    told = []
    fit(model, corpus, RECIPE, job=stop_at("", 0), tell=lambda info, fresh: told.append(fresh))
    assert told == [False, False]
    again = fit(model, corpus, RECIPE, again=True)
    for one, other in zip(first, again, strict=True):
        assert all(torch.equal(one[name], value) for name, value in weights(other).items())
    other_seed = fit(model, corpus, replace(RECIPE, methods=("ridge",), seed=1))
    assert not torch.equal(first[0]["weight"], weights(other_seed[0])["weight"])


@pytest.mark.parametrize(
    "phase,done",
    [("corpus", 100), ("linear-cosine: epoch", 2), ("linear-cosine: epoch", 4), ("testing", 2)],
)
def test_an_interrupted_fit_resumes_to_the_same_result(
    model: LoadedModel, corpus: Corpus, phase: str, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_attn.probes.gradient._SAVE_SECONDS", -1.0)
    expected = [(info.held_out, weights(info)) for info in fit(model, corpus, RECIPE)]
    shutil.rmtree(store.probes_folder())
    with pytest.raises(Cancelled):
        fit(model, corpus, RECIPE, job=stop_at(phase, done))
    phases: list[str] = []
    resumed = fit(model, corpus, RECIPE, job=Job(lambda p: phases.append(f"{p.phase} {p.done}")))
    if "epoch" in phase:
        assert not any("corpus" in told for told in phases)
        assert not any(told.endswith(" left 0") for told in phases if "epoch" in told)
    for info, (held_out, tensors) in zip(resumed, expected, strict=True):
        assert info.held_out == held_out
        assert all(torch.equal(weights(info)[name], value) for name, value in tensors.items())


def test_one_fit_at_a_time(model: LoadedModel, corpus: Corpus) -> None:
    def second(_: Progress) -> None:
        with pytest.raises(InspectError, match="another fit"):
            fit(model, corpus, RECIPE)
        raise Cancelled

    with pytest.raises(Cancelled):
        fit(model, corpus, RECIPE, job=Job(second))


def test_memory_and_disk_follow_the_tokens_not_the_corpus(
    model: LoadedModel, tmp_path: Path
) -> None:
    """Of an endless corpus only so much is read as is used."""

    def endless():
        while True:
            yield "the cat sat on a mat while it rained and dogs ran"

    made = activations.collect(
        model, endless(), tmp_path, target="embedding", most=330, seed=0, job=Job()
    )
    assert 320 < len(made.ids) <= 330
    assert made.states.shape == (4, len(made.ids), 48)
    assert isinstance(made.states, np.memmap)
    assert (tmp_path / "states.f32").stat().st_size == 5 * 330 * 48 * 4


def test_hidden_states_are_those_of_the_model(model: LoadedModel, corpus: Corpus, tmp_path) -> None:
    made = activations.collect(
        model,
        iter(["the cat sat on a mat", "dogs ran far over hills"] * 20),
        tmp_path,
        target="word",
        most=400,
        seed=0,
        job=Job(),
    )
    session = Session(model)
    session.analyse("dogs ran far over hills")
    trace = session.trace
    rows = made.sentence == 1
    for layer, hidden in enumerate(trace.hidden):
        np.testing.assert_allclose(made.states[layer, rows], hidden.numpy(), atol=1e-6)
    assert made.ids[rows].tolist() == trace.ids.tolist()
    words = model.model.get_input_embeddings().weight[trace.ids]
    np.testing.assert_array_equal(made.targets[rows], words.numpy())


@pytest.mark.parametrize("count", [0, 1, 19])
def test_a_corpus_that_cannot_be_split(model: LoadedModel, tmp_path: Path, count: int) -> None:
    file = tmp_path / "few.txt"
    file.write_text(toys.corpus(count) if count else "")
    with pytest.raises(InspectError, match="at least 20") as caught:
        fit(model, Corpus(file), RECIPE)
    assert caught.value.code == ExitCode.USAGE


def test_a_disk_without_room(model: LoadedModel, corpus: Corpus, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 8, 1))
    with pytest.raises(InspectError, match="use fewer tokens") as caught:
        fit(model, corpus, RECIPE)
    assert caught.value.code == ExitCode.OUTPUT


def test_a_probe_of_another_model_is_refused(
    model: LoadedModel, corpus: Corpus, tmp_path: Path
) -> None:
    info = fit(model, corpus, replace(RECIPE, methods=("ridge",)))[0]
    name = model.info.name
    half = open_session(ModelRequest(name=name, dtype="bfloat16"))
    half.analyse("the cat sat on a mat")
    for probe in ("ridge", info.path):
        with pytest.raises(InspectError, match=r"made for .* in float32") as caught:
            half.identity.window((0, 1), choose(probe=probe))
        assert caught.value.code == ExitCode.USAGE
        assert "probe fit" in caught.value.hint
    assert not half.identity.probes()
    session = Session(model)
    session.analyse("the cat sat on a mat")
    changed = model.model.get_parameter("encoder.layer.1.output.dense.weight")
    before = changed.detach().clone()
    try:
        changed.data += 1
        with pytest.raises(InspectError, match="made for"):
            Session(model).identity.probes() or _use(model, info.path)
    finally:
        changed.data.copy_(before)
    with pytest.raises(InspectError, match="target embedding, not word"):
        session.identity.window((0, 1), choose(target="word", probe=info.path))
    with pytest.raises(InspectError, match="no probe ridge with target word"):
        session.identity.window((0, 1), choose(target="word", probe="ridge"))


def _use(model: LoadedModel, path: str) -> None:
    session = Session(model)
    session.analyse("the cat sat on a mat")
    session.identity.window((0, 1), choose(probe=path))


@pytest.mark.parametrize("fault", ["text", "empty", "other", "cut"])
def test_a_file_that_is_no_probe(
    model: LoadedModel, corpus: Corpus, tmp_path: Path, fault: str
) -> None:
    path = tmp_path / "probe.safetensors"
    if fault == "cut":
        whole = Path(fit(model, corpus, replace(RECIPE, methods=("ridge",)))[0].path).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif fault == "other":
        save_file({"weight": torch.zeros(2)}, path)
    else:
        path.write_bytes(b"" if fault == "empty" else b"not a probe at all")
    with pytest.raises(InspectError, match="is not a probe, or it is damaged"):
        _use(model, str(path))


@pytest.mark.parametrize("wrong", [{"methods": ("knn",)}, {"target": "previous"}])
def test_recipes_that_are_none(wrong: dict[str, object]) -> None:
    with pytest.raises(InspectError) as caught:
        Recipe(**wrong)
    assert caught.value.code == ExitCode.USAGE
