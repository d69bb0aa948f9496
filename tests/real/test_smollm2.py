"""SmolLM2-135M from its GGUF file: a real decoder with grouped queries and rotary embedding."""

from __future__ import annotations

import csv
import gc
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import toys
from tui_attn.export import export_file
from tui_attn.export.request import ExportRequest
from tui_attn.maps import softmax
from tui_attn.selection import parse
from tui_attn.session import Session

pytestmark = pytest.mark.real


def test_a_real_decoder(smollm2_session: Session, licence: str) -> None:
    session = smollm2_session
    assert (session.model.heads, session.model.kv_heads, session.model.head_width) == (9, 3, 64)
    assert session.model.causal
    assert session.model.quantised == "gguf"
    run = session.analyse(licence, max_tokens=100)
    assert all(check.ok for check in run.checks), run.checks
    model = session._loaded.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    ids = torch.tensor([[token.id for token in run.tokens]])
    with torch.inference_mode():
        expected = model(input_ids=ids, output_attentions=True, use_cache=False).attentions
    model.set_attn_implementation(before)
    span = (0, 100)
    for layer in (0, 15, 29):
        record = session.trace.layers[layer]
        mask = record.visibility.mask(span, span)
        for head in (0, 4, 8):
            raw = softmax.attention_rows(record, head, span)
            torch.testing.assert_close(raw.float(), expected[layer][0, head], rtol=0, atol=1e-5)
            eff = session.window("effective", layer, head, span, span)
            assert np.isnan(eff.values[~eff.visible]).all()
            values = record.v[record.kv_head(head)].double()
            rows = toys.effective(raw, values, mask, rtol=1.2e-5).numpy()
            np.testing.assert_allclose(np.nan_to_num(eff.values), rows, rtol=0, atol=1e-4)


def test_repeated_tokens_are_not_identifiable_in_layer_0(smollm2_session: Session) -> None:
    """No position is in the values of layer 0, so equal tokens have equal values."""
    session = smollm2_session
    session.analyse("the cat and the cat and the cat and the cat")
    length = session.length()
    distinct = len({token.id for token in session.run.tokens})
    first = session.summaries(0)[0]
    assert first.rank == distinct < length < 64
    assert not first.identifiable
    assert session.summaries(29)[0].identifiable


def test_a_text_of_8000_tokens(smollm2_session: Session, licence: str, tmp_path: Path) -> None:
    """Capture, a walk through heads, one head's rows in a file; nothing is of size s x s."""
    session, length = smollm2_session, 8000
    run = session.analyse(licence + " " + licence, max_tokens=length)
    assert len(run.tokens) == length
    assert all(check.ok for check in run.checks), run.checks
    rows, columns = (7000, 7040), (6900, 7020)
    for layer, head in ((0, 0), (15, 4), (29, 8)):
        record = session.trace.layers[layer]
        logits = record.q[head, slice(*rows)].double() @ record.k[head // 3].double().T
        future = torch.arange(length) > torch.arange(*rows)[:, None]
        raw = (logits * record.scaling).masked_fill(future, -torch.inf).softmax(-1)
        shown = session.window("attention", layer, head, rows, columns)
        expected = raw[:, slice(*columns)].numpy()
        np.testing.assert_allclose(np.nan_to_num(shown.values), expected, rtol=1e-9, atol=1e-15)

        whole = session.window("effective", layer, head, rows, (0, length)).values
        values = record.v[head // 3].double().numpy()
        np.testing.assert_allclose(np.nan_to_num(whole) @ values, raw.numpy() @ values, atol=1e-4)
        window = session.window("effective", layer, head, rows, columns).values
        np.testing.assert_allclose(window, whole[:, slice(*columns)], atol=1e-9)
    largest = max(tensor.numel() for tensor in gc.get_objects() if type(tensor) is torch.Tensor)
    assert largest < length**2 / 2

    path = tmp_path / "row.csv"
    request = ExportRequest("effective", parse("L15H4 q=7000"))
    export_file(session, request, path)
    table = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert len(table) == 7001  # the keys that it sees
