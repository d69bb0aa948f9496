"""Windows of raw attention are cut out of the softmax of whole rows, and cost only themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import toys
from tui_attn import maps
from tui_attn.maps import softmax
from tui_attn.model import scores
from tui_attn.model.bias import DistanceBias, KeyBias
from tui_attn.model.trace import LayerTrace, Trace, Visibility

LENGTH = 90
HEADS = 4


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def sliding() -> Visibility:
    stop = torch.arange(1, LENGTH + 1)
    return Visibility((stop - 17).clamp(min=0), stop)


KINDS: dict[str, LayerTrace] = {
    "encoder": toys.layer_trace(LENGTH, HEADS),
    "decoder": toys.layer_trace(LENGTH, HEADS, causal=True),
    "sliding window": toys.layer_trace(LENGTH, HEADS, visibility=sliding()),
    "soft cap": replace(toys.layer_trace(LENGTH, HEADS, causal=True), softcap=2.0),
    "sinks": replace(toys.layer_trace(LENGTH, HEADS, causal=True), sinks=random(HEADS)),
    "bias of keys": replace(
        toys.layer_trace(LENGTH, HEADS, causal=True), bias=KeyBias(random(HEADS, LENGTH))
    ),
    "bias of distances": replace(
        toys.layer_trace(LENGTH, HEADS), bias=DistanceBias(random(HEADS, 2 * LENGTH - 1), LENGTH)
    ),
}


def textbook(layer: LayerTrace, head: int) -> torch.Tensor:
    """(s, s): the formula, every step of it on whole rows."""
    positions, everything = torch.arange(LENGTH), (0, LENGTH)
    logits = layer.q[head] @ layer.k[layer.kv_head(head)].T * layer.scaling
    if layer.softcap is not None:
        logits = (logits / layer.softcap).tanh() * layer.softcap
    if layer.bias is not None:
        cells = layer.bias.cells(slice(head, head + 1), positions, slice(*everything))
        logits = logits + cells[0]
    logits = logits.masked_fill(~layer.visibility.mask(everything, everything), -torch.inf)
    if layer.sinks is not None:
        logits = torch.cat([logits, layer.sinks[head].expand(LENGTH, 1)], 1)
    return logits.softmax(-1)[:, :LENGTH]


def window(
    trace: Trace, head: int, rows: tuple[int, int], columns: tuple[int, int]
) -> torch.Tensor:
    make = maps.get("attention").window
    assert make is not None
    return make(trace, 0, head, rows, columns, "output")


spans = st.tuples(st.integers(0, LENGTH - 1), st.integers(1, LENGTH)).map(
    lambda span: (span[0], min(span[0] + span[1], LENGTH))
)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(walk=st.lists(st.tuples(spans, spans, st.integers(0, HEADS - 1)), min_size=1, max_size=4))
def test_any_walk_of_windows_shows_the_textbook_softmax(
    kind: str, walk: list[tuple[tuple[int, int], tuple[int, int], int]]
) -> None:
    trace = Trace({0: KINDS[kind]})
    for rows, columns, head in walk:
        expected = textbook(KINDS[kind], head)[slice(*rows), slice(*columns)]
        actual = window(trace, head, rows, columns)
        torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-15)
        assert ((actual == 0) == (expected == 0)).all()


def test_rows_that_overflow_are_nan_in_every_window_as_in_the_whole_row() -> None:
    layer = toys.layer_trace(LENGTH)
    layer.k[0, 50] = torch.inf
    whole = softmax.attention_rows(layer, 0, (0, LENGTH))
    cut = window(Trace({0: layer}), 0, (0, LENGTH), (3, 20))
    assert whole.isnan().any()
    torch.testing.assert_close(cut, whole[:, 3:20], equal_nan=True)


def test_a_walk_reads_whole_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(*arguments: torch.Tensor, **named: object) -> torch.Tensor:
        found = original(*arguments, **named)  # type: ignore[arg-type]
        read.append(found.numel())
        return found

    original = scores.logits
    monkeypatch.setattr(scores, "logits", counted)
    trace = Trace({0: toys.layer_trace(LENGTH)})
    for _ in range(3):
        for row in range(60):
            window(trace, 0, (row, row + 4), (10, 20))
    assert sum(read) <= 3 * 60 * 40 + LENGTH**2
