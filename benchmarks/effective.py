"""Effective attention of all heads, against its limit and against the published way.

The limit is one batched product O V^T into memory that is already there: whoever wants all cells
must at least read V and O and write the map. The published way makes T = V W_O, its full singular
value decomposition, and projects A off the left null space, head by head.
"""

from __future__ import annotations

import torch

from benchmarks.measuring import Row, ratio, row, seconds
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model.scores import attend
from tui_attn.model.trace import LayerTrace, Trace, Visibility

HEADS, WIDTH = 12, 64
LENGTHS = (512, 2048)
BLOCK = 256


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark: all sides in turn, so that drift hits all of them."""
    rows = []
    for kind in ("encoder", "decoder"):
        for length in LENGTHS:
            rows += _of(kind, length, runs)
    return rows


def _of(kind: str, length: int, runs: int) -> list[Row]:
    layer = _layer(length, causal=kind == "decoder")
    cells = torch.empty(HEADS, length, length, dtype=torch.float64)
    outputs, values = layer.o.double(), layer.v.double()
    ours, limits, published = [], [], []
    for _ in range(runs):
        ours.append(seconds(lambda: _ours(layer)))
        limits.append(seconds(lambda: torch.bmm(outputs, values.transpose(1, 2), out=cells)))
        if kind == "encoder":
            published.append(_published(layer))
    what = f"effective attention, {HEADS} heads, {kind}, s = {length:,}"
    found = [row(f"{what} / one product O V^T", ratio(ours, limits), "times", "at most 2")]
    if published:
        value = ratio(published, ours)
        found.append(row(f"SVD and projection / {what}", value, "times", "at least 20"))
    return found


def _layer(length: int, *, causal: bool) -> LayerTrace:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(HEADS, length, WIDTH, generator=generator) for _ in range(3))
    seen = Visibility.causal(length) if causal else Visibility.full(length)
    scaling = WIDTH**-0.5
    return LayerTrace(0, q, k, v, attend(q, k, v, scaling, seen), scaling, seen)


def _ours(layer: LayerTrace) -> None:
    """Every block of every head as exports stream them: made, and let go."""
    trace = Trace({0: layer})  # a new one: its factors are part of the cost
    length = layer.length
    for head in range(HEADS):
        for start in range(0, length, BLOCK):
            rows = (start, min(start + BLOCK, length))
            effective_rows(trace, 0, head, rows, (0, length), "output")


def _published(layer: LayerTrace) -> float:
    """Seconds for all heads, from one of them."""
    width = HEADS * WIDTH
    projection = torch.randn(WIDTH, width, generator=torch.Generator().manual_seed(1))
    attention = (layer.q[0] @ layer.k[0].T * layer.scaling).softmax(-1)

    def one_head() -> None:
        left, singular, _ = torch.linalg.svd(layer.v[0] @ projection, full_matrices=True)
        tolerance = layer.length * torch.finfo(torch.float32).eps * singular[0]
        null = left[:, int((singular > tolerance).sum()) :]
        attention - attention @ null @ null.T

    return seconds(one_head) * HEADS
