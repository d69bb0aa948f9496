"""Raw attention of the rows that are wanted: softmax of scaled q k^T over visible keys."""

from __future__ import annotations

import torch

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
    index = slice(*rows) if isinstance(rows, tuple) else rows
    q = layer.q[head, index].double()  # (r, d_k)
    k = layer.k[layer.kv_head(head)].double()  # (s, d_k)
    logits = q @ k.T * layer.scaling
    hidden = ~layer.visibility.mask(rows, (0, layer.length))
    return logits.masked_fill_(hidden, -torch.inf).softmax(-1)


def output_rows(layer: LayerTrace, head: int, rows: tuple[int, int] | torch.Tensor) -> torch.Tensor:
    """The head's outputs A V of some queries from recomputed attention: (r, d_v) float64."""
    return attention_rows(layer, head, rows) @ layer.v[layer.kv_head(head)].double()
