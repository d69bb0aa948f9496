"""Encoder-decoders as three stacks, against their family's own eager attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.model import tiny
from tests.model.test_capture import text
from tests.model.test_families import reference
from tui_attn.answers import STACKS, ModelRequest
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.answers.identity import IdentityChoices
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.maps import softmax
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model import capture
from tui_attn.progress import Job
from tui_attn.session import open_session
from tui_attn.session.core import Session

TEXT = "the cat sat on the mat and slept"
READ, WRITTEN = 30, 19
"""Both longer than the head width and one (12 + 1), so that no stack is identifiable."""


def inputs(read: int = READ, written: int = WRITTEN) -> dict[str, torch.Tensor]:
    ids = text(read)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "decoder_input_ids": text(read + written)[:, read:],
    }


def captured(model: Any, given: dict[str, torch.Tensor], **how: Any) -> dict[str, Any]:
    found = capture.verify_stacks(model, tiny.VOCABULARY)
    sites = [site for own, _ in found.values() for site in own]
    return capture.capture_stacks(model, given, sites, Job(), **how)


@pytest.fixture(scope="module", params=["t5", "bart"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tiny.save(request.param, tmp_path_factory.mktemp(request.param))
    opened = open_session(ModelRequest(str(folder)))
    opened.analyse(TEXT, decoder_text="the mat slept")
    return opened


@pytest.mark.parametrize("family", tiny.ENCODER_DECODERS)
def test_every_stack_equals_eager_attention(family: str) -> None:
    model, given = tiny.model(family), inputs()
    traces = captured(model, given)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        eager = model(**given, output_attentions=True, use_cache=False)
    assert tuple(traces) == STACKS
    for stack, trace in traces.items():
        planes = getattr(eager, f"{stack}_attentions")
        assert list(trace.layers) == list(range(len(planes)))
        for number, plane in enumerate(planes):
            layer = trace.layers[number]
            assert (layer.heads, layer.length, layer.keys) == tuple(plane.shape[1:])
            rows, columns = (0, layer.length), (0, layer.keys)
            seen = layer.visibility.mask(rows, columns).numpy()
            for head in range(layer.heads):
                raw = softmax.attention_rows(layer, head, rows)
                values = layer.v[layer.kv_head(head)].double()
                torch.testing.assert_close(raw.float(), plane[0, head], rtol=0, atol=1e-5)
                scale = max(float(layer.o[head].abs().max()), 1.0)
                torch.testing.assert_close(
                    raw @ values, layer.o[head].double(), rtol=0, atol=1e-5 * scale
                )
            for variant in ("output", "sum-one"):
                found = effective_rows(trace, number, head, rows, columns, variant).numpy()
                wanted = reference(raw.numpy(), values.numpy(), seen, variant == "sum-one")
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
            assert np.abs(found - raw.numpy()).max() > 1e-3


def test_t5_has_8_by_8_3_by_3_and_3_by_8() -> None:
    traces = captured(tiny.model("t5"), inputs(8, 3))
    shapes = {
        stack: (trace.layers[0].length, trace.layers[0].keys) for stack, trace in traces.items()
    }
    assert shapes == {"encoder": (8, 8), "decoder": (3, 3), "cross": (3, 8)}
    for stack, trace in traces.items():
        for layer in trace.layers.values():
            assert layer.scaling == 1.0
            assert (layer.bias is None) == (stack == "cross")


@pytest.mark.parametrize("family", tiny.ENCODER_DECODERS)
def test_only_the_decoder_is_causal(family: str) -> None:
    for stack, trace in captured(tiny.model(family), inputs()).items():
        for layer in trace.layers.values():
            plane = softmax.attention_rows(layer, 0, (0, layer.length))
            assert bool((plane.triu(1) == 0).all()) == (stack == "decoder")


@pytest.mark.parametrize("family", ["t5", "bart"])
@pytest.mark.parametrize("keep", ["host", "recompute"])
def test_layers_that_are_kept_elsewhere_are_the_same(family: str, keep: str) -> None:
    model, given = tiny.model(family), inputs()
    for one, other in zip(
        captured(model, given).values(), captured(model, given, keep=keep).values(), strict=True
    ):
        assert list(one.layers) == list(other.layers)
        for number in one.layers:
            for part in ("q", "k", "v", "o"):
                torch.testing.assert_close(
                    getattr(other.layers[number], part), getattr(one.layers[number], part)
                )
        for state, again in zip(one.hidden, other.hidden, strict=True):
            torch.testing.assert_close(state, again)


def test_hidden_states_are_those_of_each_side() -> None:
    model, given = tiny.model("bart"), inputs()
    traces = captured(model, given)
    with torch.inference_mode():
        made = model(**given, output_hidden_states=True, use_cache=False)
    for stack, trace in traces.items():
        side = "decoder" if stack == "cross" else stack
        for state, wanted in zip(trace.hidden, getattr(made, f"{side}_hidden_states"), strict=True):
            torch.testing.assert_close(state, wanted[0], rtol=0, atol=1e-5)
        ids = given["input_ids" if stack == "encoder" else "decoder_input_ids"]
        assert torch.equal(trace.ids, ids[0])


def test_a_stack_outside_the_interface_is_refused() -> None:
    """LongT5's encoder has an attention of its own; its decoder alone would look right."""
    settings = {**tiny.ENCODER_DECODERS["t5"]}
    config = transformers.AutoConfig.for_model("longt5", **settings)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    with pytest.raises(InspectError, match="encoder outside") as caught:
        capture.verify_stacks(model, tiny.VOCABULARY)
    assert caught.value.code == ExitCode.UNSUPPORTED


def test_the_session_has_a_stack_for_each(session: Session) -> None:
    assert session.stacks == STACKS
    assert session.model.stack == "encoder"
    names = {stack: [t.text for t in session.on(stack).run.tokens] for stack in STACKS}
    read = [*TEXT.split(), "</s>"]
    assert names["encoder"] == read
    assert names["decoder"] == names["cross"]
    assert names["decoder"][1:] == ["the", "mat", "slept"]
    assert session.on("decoder").run.tokens[0].special
    assert [t.text for t in session.on("cross").run.key_tokens] == read
    assert session.on("decoder").run.key_tokens == session.on("decoder").run.tokens
    assert session.on("cross").on("encoder") is session
    for stack, causal in zip(STACKS, (False, True, False), strict=True):
        model, run = session.on(stack).model, session.on(stack).run
        assert (model.stack, model.causal) == (stack, causal)
        assert model.layers == (3 if stack == "encoder" else 2)
        assert all(check.ok for check in run.checks), run.checks
        assert any(check.name == "causal" for check in run.checks) == causal


@pytest.mark.parametrize("unit", ["token", "word"])
def test_cross_attention_has_a_rectangle_of_cells(session: Session, unit: str) -> None:
    cross = session.on("cross")
    rows, columns = cross.length(unit), cross.length(unit, "key")
    assert (rows, columns) == (4, 9)
    raw, effective, null = (
        cross.window(name, 1, 2, (0, rows), (0, columns), unit=unit)
        for name in ("attention", "effective", "null")
    )
    np.testing.assert_allclose(raw.values.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(effective.values + null.values, raw.values, atol=1e-9)
    assert raw.visible.all()
    cell = cross.cell(1, 2, 3, 8, unit=unit)
    assert cell.raw == pytest.approx(raw.values[3, 8])
    assert cell.visible_keys == 9
    assert cross.overview("attention", 1, 2, (2, 3), unit=unit).values.shape == (2, 3)
    extent = cross.extent("attention", 1, 2, unit=unit)
    assert (extent.low, extent.high) == (raw.values.min(), raw.values.max())
    inner = cross.extent("attention", 1, 2, unit=unit, without_special=True)
    assert inner.high == raw.values[1:, 1:8].max()
    part = cross.window("effective", 1, 2, (1, 3), (5, 9), unit=unit).values
    np.testing.assert_allclose(part, effective.values[1:3, 5:9], atol=1e-9)
    with pytest.raises(InspectError, match=r"no (token|word)s 0:9"):
        cross.window("attention", 1, 2, (0, 9), (0, 4), unit=unit)


def test_statistics_of_cross_attention(session: Session) -> None:
    cross = session.on("cross")
    for summary in cross.summaries(0):
        raw = cross.window("attention", 0, summary.head, (0, 4), (0, 9)).values
        np.testing.assert_allclose(summary.thumbnail, raw)
        assert summary.visible_keys == 9
        assert summary.first_token_share == pytest.approx(raw[:, 0].mean())
        entropy = -(raw * np.log(raw)).sum(1) / np.log(9)
        assert summary.entropy == pytest.approx(entropy.mean())


def test_long_cross_attention_is_sampled_by_its_cells() -> None:
    from tui_attn.maps.sampling import row_blocks, sampled_rows

    assert sampled_rows(10, 1000, 1_000_000) is None
    assert list(row_blocks(10, 1000, 1_000_000)) == [(0, 10)]
    rows = sampled_rows(1000, 100_000, 200)
    assert rows == sum(stop - start for start, stop in row_blocks(1000, 100_000, 200))
    assert rows * 200 <= 100_000


def test_what_identity_and_attribution_answer(session: Session) -> None:
    length = session.length()
    for stack in ("encoder", "decoder"):
        identity = session.on(stack).identity
        rates = identity.rates(IdentityChoices(match="id"))
        assert [rate.layer for rate in rates] == list(identity.layers)
        assert rates[0].rate == 1
    choices = AttributionChoices(exact=True)
    session.attribution.refine(choices)
    shares = session.attribution.shares(2, choices)
    torch.testing.assert_close(shares.sum(-1), torch.ones(length, dtype=torch.float64))
    cross = session.on("cross")
    refused = (
        lambda: cross.identity.rates(IdentityChoices()),
        lambda: cross.identity.window((0, 1), IdentityChoices()),
        lambda: session.on("decoder").identity.rates(IdentityChoices(probe="ridge")),
        lambda: cross.attribution.refine(choices),
        lambda: session.on("decoder").attribution.refine(choices),
    )
    for ask in refused:
        with pytest.raises(InspectError, match="encoder") as caught:
            ask()
        assert caught.value.code == ExitCode.USAGE
    assert session.on("decoder").identity.probes() == ()


def test_attribution_of_the_encoder_is_that_of_the_encoder_alone(session: Session) -> None:
    """The decoder reads other tokens, and that moves nothing."""
    choices = AttributionChoices(exact=True)
    session.attribution.refine(choices)
    before = session.attribution.shares(1, choices)
    session.analyse(TEXT, decoder_text="sat")
    session.attribution.refine(choices)
    torch.testing.assert_close(session.attribution.shares(1, choices), before)
    session.analyse(TEXT, decoder_text="the mat slept")


def test_without_a_text_the_decoder_reads_what_the_model_writes(session: Session) -> None:
    session.analyse(TEXT)
    run = session.on("decoder").run
    assert run.decoder_source == "greedy"
    ids = [token.id for token in run.tokens]
    model = session._loaded.model
    encoded = torch.tensor([[token.id for token in session.run.tokens]])
    with torch.inference_mode():
        logits = model(input_ids=encoded, decoder_input_ids=torch.tensor([ids])).logits
    assert len(ids) > 10
    forced = 1 if model.config.model_type == "bart" else 0  # </s> comes last whatever is likeliest
    assert logits[0].argmax(-1).tolist()[: len(ids) - 1 - forced] == ids[1 : len(ids) - forced]
    session.analyse(TEXT, decoder_text="the mat slept")


def test_writing_can_be_stopped(session: Session) -> None:
    before = session.run
    job = Job(lambda progress: job.cancel() if "writing" in progress.phase else None)
    with pytest.raises(Cancelled):
        session.analyse("the mat slept", job=job)
    assert session.run is before


@pytest.mark.parametrize("missing", ["head", "start"])
def test_a_model_that_cannot_write_reads_its_text(tmp_path: Path, missing: str) -> None:
    if missing == "head":
        folder = tiny.save("bart", tmp_path, tie_word_embeddings=False)
        transformers.AutoModel.from_pretrained(folder).save_pretrained(folder)
    else:
        folder = tiny.save("m2m_100", tmp_path, decoder_start_token_id=None)
    session = open_session(ModelRequest(str(folder)))
    session.analyse(TEXT)
    run = session.on("cross").run
    assert run.decoder_source == "copied"
    assert [token.text for token in run.tokens] == ["</s>", *TEXT.split()]


def test_what_was_asked_of_the_wrong_model_is_refused(tmp_path: Path, session: Session) -> None:
    single = open_session(ModelRequest(str(tiny.save("bert", tmp_path))))
    assert single.stacks == ()
    assert single.model.stack is None
    for ask in (
        lambda: single.on("cross"),
        lambda: single.analyse(TEXT, decoder_text="the mat"),
        lambda: session.on("middle"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InspectError) as caught:
            ask()
        assert caught.value.code == ExitCode.USAGE
    with pytest.raises(InspectError, match="decoder's text is empty") as caught:
        session.analyse(TEXT, decoder_text=" ")
    assert caught.value.code == ExitCode.INPUT


def test_a_decoder_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    session = open_session(ModelRequest(str(tiny.save("bart", tmp_path))))
    with pytest.raises(InspectError, match="decoder's text has 66 tokens") as caught:
        session.analyse(TEXT, decoder_text="mat " * 65)
    assert caught.value.code == ExitCode.INPUT


def test_provenance_names_the_stack(session: Session) -> None:
    for stack in STACKS:
        known = session.on(stack).provenance()
        assert known["stack"] == stack
        assert known["decoder_text"] == "the mat slept"
        assert known["decoder_source"] == "given"
    assert session.on("cross").provenance()["keys"] == 9
