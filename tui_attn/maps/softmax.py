"""Raw attention of the rows that are wanted: softmax of scaled q k^T over visible keys.

A window needs what every row of it is divided by, which takes all keys once; those numbers stay, so
that the next window costs its own cells and nothing else.
"""

from __future__ import annotations

import torch

from tui_attn.model import scores
from tui_attn.model.trace import LayerTrace, Trace

_KEPT_HEADS = 64
"""Heads of which normalisers are kept, one number for every row."""
_AHEAD = 32
"""Rows that get their normalisers together: whoever looks at one goes on to its neighbours."""


def attention_window(
    trace: Trace,
    layer_number: int,
    head: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> torch.Tensor:
    """Attention of `rows` to `columns` (half-open): float64 (rows, columns), 0 where invisible."""
    layer = trace.layers[layer_number]
    positions = torch.arange(*rows, device=layer.q.device)
    first, stop = _seen(layer, positions)
    if columns[0] <= first and stop <= columns[1]:
        return attention_rows(layer, head, positions)[:, slice(*columns)]
    logits = _logits(layer, head, positions, columns)
    return (logits - _normalisers(trace, layer, head, rows)[:, None]).exp()


def _normalisers(trace: Trace, layer: LayerTrace, head: int, rows: tuple[int, int]) -> torch.Tensor:
    """(r,) float64: log of the sum of exp of all logits of each row; NaN where they overflow."""
    where = (layer.layer, head)
    unknown = torch.full((layer.length,), torch.nan, dtype=torch.float64, device=layer.q.device)
    kept = trace.recent("normalisers", where, lambda: unknown, most=_KEPT_HEADS)
    start = rows[0] // _AHEAD * _AHEAD
    stop = -(-rows[1] // _AHEAD) * _AHEAD
    missing = start + torch.nonzero(kept[start:stop].isnan()).flatten()
    if len(missing):
        logits = _logits(layer, head, missing, _seen(layer, missing))
        if layer.sinks is not None:
            logits = scores.with_sink(logits, layer.sinks[head])
        found = logits.logsumexp(-1)
        found = found.where(found != torch.inf, torch.nan)
        kept[missing] = found.masked_fill(layer.visibility.blind(missing), 0.0)
    return kept[slice(*rows)]


def attention_rows(
    layer: LayerTrace, head: int, rows: tuple[int, int] | torch.Tensor
) -> torch.Tensor:
    """Attention of some queries to all keys.

    Args:
        layer: The layer's trace.
        head: A query head.
        rows: Half-open range of queries, or their positions (r,) int64.

    Returns:
        (r, s) float64; exactly 0 where the query does not see the key.
    """
    positions = torch.arange(*rows, device=layer.q.device) if isinstance(rows, tuple) else rows
    first, stop = _seen(layer, positions)
    sinks = None if layer.sinks is None else layer.sinks[head]
    found = scores.weights(_logits(layer, head, positions, (first, stop)), sinks)
    found = scores.without_blind(found, layer.visibility.blind(positions))
    return torch.nn.functional.pad(found, (first, layer.k.shape[1] - stop))


def _seen(layer: LayerTrace, positions: torch.Tensor) -> tuple[int, int]:
    """The keys that any of these queries sees, half-open."""
    visibility = layer.visibility
    return int(visibility.first[positions].min()), int(visibility.stop[positions].max())


def _logits(
    layer: LayerTrace, head: int, positions: torch.Tensor, columns: tuple[int, int]
) -> torch.Tensor:
    """(r, columns) float64, minus infinity where the query does not see the key."""
    which, keys = slice(head, head + 1), slice(*columns)
    return scores.logits(
        layer.q[head, positions].double(),  # (r, d_k)
        layer.k[layer.kv_head(head), keys].double(),  # (c, d_k)
        layer.scaling,
        ~layer.visibility.mask(positions, columns),
        softcap=layer.softcap,
        bias=None if layer.bias is None else layer.bias.cells(which, positions, keys)[0].double(),
    )


def missing_mass(layer: LayerTrace, head: int, rows: tuple[int, int]) -> float:
    """What the queries of `rows` give to the head's sink, on average; 0 where there is none."""
    if layer.sinks is None:
        return 0.0
    return 1 - float(attention_rows(layer, head, rows).sum(-1).mean())


def output_rows(layer: LayerTrace, head: int, rows: tuple[int, int] | torch.Tensor) -> torch.Tensor:
    """The head's outputs A V of some queries from recomputed attention: (r, d_v) float64."""
    return attention_rows(layer, head, rows) @ layer.v[layer.kv_head(head)].double()
