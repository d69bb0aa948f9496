"""Raw attention, as the model computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_attn.maps.base import MapSpec

if TYPE_CHECKING:
    import torch

    from tui_attn.answers import Variant
    from tui_attn.model.trace import Trace


def window(
    trace: Trace,
    layer: int,
    head: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    variant: Variant,
) -> torch.Tensor:
    """Attention of `rows` to `columns` (half-open): float64 (rows, columns)."""
    from tui_attn.maps.softmax import attention_window

    return attention_window(trace, layer, head, rows, columns)


MAP = MapSpec(
    name="attention",
    title="Raw attention",
    axes="query x key",
    scale="share",
    formula="A = softmax(Q K^T / sqrt(d_k))",
    source="Vaswani et al. 2017 (arXiv 1706.03762), equation 1",
    meaning="the share of its attention that the query gives to the key",
    window=window,
)
