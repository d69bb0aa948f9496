"""NaN, infinities and rows without a key: shown as such, counted, never zeros, never a crash."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import toys
from tests.model import tiny
from tui_attn.answers import VARIANTS, ModelRequest
from tui_attn.errors import ExitCode, InspectError
from tui_attn.export import FORMATS, ExportRequest, export_stream
from tui_attn.maps import checks, heads, softmax
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model import capture, scores
from tui_attn.model.loading import LoadedModel
from tui_attn.model.trace import Trace, Visibility
from tui_attn.progress import Job
from tui_attn.selection import parse
from tui_attn.session import Session, open_session

LENGTH = 40
BLIND = [0, 7, 8, 39]


def half_model(family: str, **changes: Any) -> Any:
    """A model whose logits leave float16 behind, while what it attends to does not."""
    model = tiny.model(family, **changes)
    for name, parameter in model.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight", "query.weight", "key.weight")):
            parameter.mul_(200.0)
    return model.to(torch.float16)


@pytest.mark.parametrize("family", ["llama", "bert", "qwen2"])
def test_eager_attention_that_overflows_in_float16_is_told_from_a_wrong_capture(
    family: str,
) -> None:
    model = half_model(family)
    ids = torch.arange(16)[None] * 7919 % tiny.VOCABULARY
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        assert not bool(model(ids).last_hidden_state.isfinite().all())
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    trace = capture.capture(model, inputs, sites, Job())
    found = checks.of_run(trace, {}, family != "bert", Job())
    assert (found.nan_count, found.inf_count) == (0, 0)
    assert all(check.ok for check in found.checks), found.checks


def test_an_overflow_that_nothing_undoes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "WIDE", "eager")
    with pytest.raises(InspectError, match=r"float16.*--dtype bfloat16") as caught:
        capture.verify(half_model("llama"), tiny.VOCABULARY)
    assert caught.value.code == ExitCode.UNSUPPORTED


def broken(folder: Path, part: str, value: float, family: str = "bert") -> Session:
    """A model folder with one number that is none."""
    model = tiny.model(family)
    parameter = dict(model.named_parameters())[part]
    parameter.view(-1)[-1] = value
    model.save_pretrained(folder)
    # Position and vocabulary of the last embedding: the last word of the tokenizer has it.
    tiny.byte_level_tokenizer().save_pretrained(folder)
    return open_session(ModelRequest(name=str(folder), device="cpu"))


ONE_TOKEN = "embeddings.position_embeddings.weight"
EVERYTHING = "encoder.layer.1.attention.self.value.weight"


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("part", [ONE_TOKEN, EVERYTHING, "encoder.layer.2.output.dense.bias"])
def test_a_model_with_a_broken_number_opens_and_every_answer_comes(
    tmp_path: Path, part: str, value: float
) -> None:
    session = broken(tmp_path, part, value)
    run = session.analyse("x" * 64)
    assert run.nan_count > 0
    assert session.provenance()["nan_count"] == run.nan_count
    for layer in range(3):
        for variant in VARIANTS:
            session.summaries(layer, variant=variant)
        for name in ("attention", "effective", "null"):
            window = session.window(name, layer, 1, (0, 64), (0, 64))
            assert window.visible.all()
            extent = session.extent(name, layer, 1)
            assert math.isfinite(extent.low) and math.isfinite(extent.high)
            shown = session.overview(name, layer, 1, (8, 8))
            odd = ~np.isfinite(window.values).reshape(8, 8, 8, 8)
            assert (~np.isfinite(shown.values) == odd.any((1, 3))).all()
        session.cell(layer, 0, 63, 0)


def test_nan_reaches_every_export(tmp_path: Path) -> None:
    session = broken(tmp_path, ONE_TOKEN, math.nan)
    session.analyse("x" * 64)
    made: dict[str, bytes] = {}
    for form in FORMATS:
        stream = io.BytesIO()
        export_stream(session, ExportRequest("attention", parse("L0H0 q=62: k=0"), form), stream)
        made[form] = stream.getvalue()
    table = list(csv.DictReader(io.StringIO(made["csv"].decode())))
    assert [row["value"] for row in table] == ["nan", "nan"]  # one key is NaN, so all its rows are
    assert [row[-1] for row in json.loads(made["json"])["rows"]] == [None, None]
    assert np.isnan(np.load(io.BytesIO(made["npz"]))["value"]).all()
    assert all(made[form].decode().lower().count("nan") >= 2 for form in ("md", "tex", "tsv"))
    assert all(made[form].decode().count(">NaN<") == 2 for form in ("html", "svg"))


def blind() -> Visibility:
    """Causal, but some queries see nothing."""
    stop = torch.arange(1, LENGTH + 1)
    stop[BLIND] = 0
    return Visibility(torch.zeros_like(stop), stop)


def test_a_mask_may_have_rows_without_a_key() -> None:
    rule = blind()
    mask = rule.mask((0, LENGTH), (0, LENGTH))
    read = Visibility.from_mask(mask)
    assert read is not None
    assert torch.equal(read.mask((0, LENGTH), (0, LENGTH)), mask)
    assert read.blind((0, LENGTH)).nonzero().flatten().tolist() == BLIND


def session_of(trace: Trace, causal: bool = True) -> Session:
    """A session over a toy trace: only what windows ask of a model is there."""
    from tui_attn.answers import ModelInfo, Run, Token

    info = ModelInfo("toy", "toy", 1, 2, 2, 32, 64, "cpu", "float64", "toy", causal, None)
    session = Session(LoadedModel(None, None, info, [], {}, None))  # type: ignore[arg-type]
    words = [0, 1, *range(1, LENGTH - 1)]  # tokens 1 and 2 are one word
    tokens = tuple(Token(i, i, "a", "a", False, words[i]) for i in range(LENGTH))
    session._current = (Run("a", tokens, (), 0.0), trace)
    return session


@pytest.mark.parametrize("visibility", [blind(), Visibility.full(LENGTH, keys=0)])
def test_a_query_without_a_key_has_no_numbers(visibility: Visibility) -> None:
    layer = toys.layer_trace(LENGTH, visibility=visibility)
    none = visibility.blind((0, LENGTH))
    layer = replace(layer, o=layer.o.nan_to_num())
    trace = toys.trace(layer)
    session = session_of(trace)
    assert (softmax.attention_rows(layer, 0, (0, LENGTH))[none] == 0).all()
    read = scores.attend(layer.q, layer.k, layer.v, layer.scaling, visibility)
    torch.testing.assert_close(read, layer.o)
    for variant in VARIANTS:
        for name in ("attention", "effective", "null"):
            for columns in ((0, LENGTH), (0, 3)):
                rows, asked = (5, LENGTH), (0, 0)
                window = session.window(name, *asked, rows, columns, variant=variant)
                assert list(window.blind) == [5 + row for row in none[5:].nonzero()[:, 0].tolist()]
                assert not window.visible[none[5:].numpy()].any()
                assert np.isnan(window.values[none[5:].numpy()]).all()
                assert np.isfinite(window.values[window.visible]).all()
        summary = heads.summarise(trace, 0, 0, variant, lambda: None)
        assert not none.all() or math.isnan(summary.entropy)
        assert none.all() or summary.row_sum_min > 0.1 or variant != "sum-one"
    assert session.cell(0, 0, 7, 0).visible_keys == 0
    assert not effective_rows(trace, 0, 0, (0, LENGTH), (0, LENGTH), "output")[none].any()
    found = checks.of_run(trace, {}, True, Job())
    assert all(check.ok for check in found.checks)
    assert f"{int(none.sum())} queries see no key" in found.checks[0].note


def test_a_word_sees_no_key_when_none_of_its_tokens_does() -> None:
    stop = torch.arange(1, LENGTH + 1)
    stop[[1, 5]] = 0
    session = session_of(
        toys.trace(toys.layer_trace(LENGTH, visibility=Visibility(torch.zeros_like(stop), stop)))
    )
    assert session.window("attention", 0, 0, (0, 9), (0, 9)).blind == (1, 5)
    assert session.window("attention", 0, 0, (0, 9), (0, 9), unit="word").blind == (4,)
