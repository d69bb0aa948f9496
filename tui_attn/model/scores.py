"""From queries and keys to attention, and to what heads read, in blocks of rows.

The fast kernels know scaled products, causality and nothing else. Windows, soft caps, sinks and
position biases are computed here: memory O(block x keys), never s x s.
"""

from __future__ import annotations

import torch

from tui_attn.model.bias import Bias
from tui_attn.model.trace import Visibility

_BLOCK = 64
_CELLS = 1 << 24
"""Rows, and cells of all heads together, that exist at a time."""


def weights(
    query: torch.Tensor,
    key: torch.Tensor,
    scaling: float,
    hidden: torch.Tensor | None = None,
    *,
    softcap: float | None = None,
    bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of some queries to some keys, in the precision of its arguments.

    Args:
        query: (..., r, d_k).
        key: (..., c, d_k): every key that any of the queries sees.
        scaling: What q k^T is multiplied by.
        hidden: (r, c) bool, True where the query does not see the key.
        softcap: Logits x become softcap tanh(x / softcap).
        bias: (..., r, c), added to the logits after that.
        sinks: (...) logits of an extra key that has no value: rows sum to less than one.

    Returns:
        (..., r, c), exactly 0 where hidden.
    """
    logits = query @ key.transpose(-1, -2) * scaling
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    if bias is not None:
        logits = logits + bias
    if hidden is not None:
        logits = logits.masked_fill(hidden, -torch.inf)
    if sinks is None:
        return logits.softmax(-1)
    sink = sinks.to(logits)[..., None, None].expand(*logits.shape[:-1], 1)
    return torch.cat([logits, sink], -1).softmax(-1)[..., :-1]


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float,
    visibility: Visibility,
    *,
    softcap: float | None = None,
    bias: Bias | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """What the heads read, A V.

    Args:
        query: (H, s, d_k).
        key: (H_kv, keys, d_k); grouped keys are not expanded.
        value: (H_kv, keys, d_v).
        scaling: As for `weights`, likewise `softcap`.
        visibility: The keys that each query sees.
        softcap: See `weights`.
        bias: Added to the logits.
        sinks: (H,), see `weights`.

    Returns:
        (H, s, d_v) in the dtype of the values; the softmax runs in float32 or better.
    """
    kind = torch.float64 if query.dtype == torch.float64 else torch.float32
    heads, length, width = query.shape
    grouped = (key.shape[0], heads // key.shape[0])
    read = value.new_empty(heads, length, value.shape[-1])
    start = 0
    while start < length:
        rows = slice(start, start + _rows(visibility, start, heads))
        keys = slice(int(visibility.first[rows].min()), int(visibility.stop[rows].max()))
        positions = torch.arange(start, min(rows.stop, length), device=query.device)
        of_rows = query[:, rows].to(kind)
        added = None
        if bias is not None:
            cells = bias.cells(slice(0, heads), positions, keys).to(kind)
            added = cells.reshape(*grouped, *cells.shape[1:])
        found = weights(
            of_rows.reshape(*grouped, -1, width),
            key[:, None, keys].to(kind),
            scaling,
            ~visibility.mask(positions, (keys.start, keys.stop)),
            softcap=softcap,
            bias=added,
            sinks=None if sinks is None else sinks.reshape(grouped),
        )
        read[:, rows] = (found @ value[:, None, keys].to(kind)).flatten(0, 1).to(read.dtype)
        start = rows.stop
    return read


def _rows(visibility: Visibility, start: int, heads: int) -> int:
    """How many rows from `start` on go together."""
    block = slice(start, start + _BLOCK)
    keys = int(visibility.stop[block].max()) - int(visibility.first[block].min())
    return max(1, min(_BLOCK, _CELLS // (heads * keys)))
