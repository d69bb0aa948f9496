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


def logits(
    query: torch.Tensor,
    key: torch.Tensor,
    scaling: float,
    hidden: torch.Tensor | None = None,
    *,
    softcap: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """What the softmax is taken of, in the precision of the arguments.

    Args:
        query: (..., r, d_k).
        key: (..., c, d_k).
        scaling: What q k^T is multiplied by.
        hidden: (r, c) bool, True where the query does not see the key.
        softcap: Logits x become softcap tanh(x / softcap).
        bias: (..., r, c), added to the logits after that.

    Returns:
        (..., r, c), minus infinity where hidden.
    """
    found = query @ key.transpose(-1, -2) * scaling
    if softcap is not None:
        found = torch.tanh(found / softcap) * softcap
    if bias is not None:
        found = found + bias
    return found if hidden is None else found.masked_fill(hidden, -torch.inf)


def weights(found: torch.Tensor, sinks: torch.Tensor | None = None) -> torch.Tensor:
    """Attention, from the logits of every key that any of the queries sees.

    Args:
        found: (..., r, c), see `logits`.
        sinks: (...) logits of an extra key that has no value: rows sum to less than one.

    Returns:
        (..., r, c), exactly 0 where hidden.
    """
    if sinks is None:
        return found.softmax(-1)
    return with_sink(found, sinks).softmax(-1)[..., :-1]


def without_blind(found: torch.Tensor, blind: torch.Tensor) -> torch.Tensor:
    """Attention (..., r, c) where queries that see no key (r,) have zeros, not 0 / 0."""
    return found.masked_fill(blind[:, None], 0.0) if bool(blind.any()) else found


def with_sink(found: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Logits (..., r, c) and those of the sinks (...) behind them: (..., r, c + 1)."""
    sink = sinks.to(found)[..., None, None].expand(*found.shape[:-1], 1)
    return torch.cat([found, sink], -1)


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
        scaling: As for `logits`, likewise `softcap`.
        visibility: The keys that each query sees.
        softcap: See `logits`.
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
        before = logits(
            of_rows.reshape(*grouped, -1, width),
            key[:, None, keys].to(kind),
            scaling,
            ~visibility.mask(positions, (keys.start, keys.stop)),
            softcap=softcap,
            bias=added,
        )
        found = weights(before, None if sinks is None else sinks.reshape(grouped))
        found = without_blind(found, visibility.blind(positions))
        read[:, rows] = (found @ value[:, None, keys].to(kind)).flatten(0, 1).to(read.dtype)
        start = rows.stop
    return read


def _rows(visibility: Visibility, start: int, heads: int) -> int:
    """How many rows from `start` on go together."""
    block = slice(start, start + _BLOCK)
    keys = int(visibility.stop[block].max()) - int(visibility.first[block].min())
    return max(1, min(_BLOCK, _CELLS // (heads * max(keys, 1))))
