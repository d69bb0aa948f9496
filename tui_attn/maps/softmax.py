"""Raw attention of the rows that are wanted: softmax of scaled q k^T over visible keys."""

from __future__ import annotations

import torch

from tui_attn.model import scores
from tui_attn.model.trace import LayerTrace


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
    first = int(layer.visibility.first[positions].min())
    stop = int(layer.visibility.stop[positions].max())
    which, keys = slice(head, head + 1), slice(first, stop)
    found = scores.weights(
        layer.q[head, positions].double(),  # (r, d_k)
        layer.k[layer.kv_head(head), keys].double(),  # (c, d_k)
        layer.scaling,
        ~layer.visibility.mask(positions, (first, stop)),
        softcap=layer.softcap,
        bias=None if layer.bias is None else layer.bias.cells(which, positions, keys)[0].double(),
        sinks=None if layer.sinks is None else layer.sinks[head],
    )
    return torch.nn.functional.pad(found, (first, layer.k.shape[1] - stop))


def missing_mass(layer: LayerTrace, head: int, rows: tuple[int, int]) -> float:
    """What the queries of `rows` give to the head's sink, on average; 0 where there is none."""
    if layer.sinks is None:
        return 0.0
    return 1 - float(attention_rows(layer, head, rows).sum(-1).mean())


def output_rows(layer: LayerTrace, head: int, rows: tuple[int, int] | torch.Tensor) -> torch.Tensor:
    """The head's outputs A V of some queries from recomputed attention: (r, d_v) float64."""
    return attention_rows(layer, head, rows) @ layer.v[layer.kv_head(head)].double()
