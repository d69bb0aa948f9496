"""Effective attention, and the null attention that it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_attn.maps import attention
from tui_attn.maps.base import MapSpec

if TYPE_CHECKING:
    import torch

    from tui_attn.answers import Variant
    from tui_attn.model.trace import Trace


def effective_window(
    trace: Trace,
    layer: int,
    head: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    variant: Variant,
) -> torch.Tensor:
    """Effective attention of `rows` x `columns` (half-open): float64 (rows, columns), signed."""
    from tui_attn.maps.nullspace import effective_rows

    return effective_rows(trace, layer, head, rows, columns, variant)


def null_window(
    trace: Trace,
    layer: int,
    head: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    variant: Variant,
) -> torch.Tensor:
    """Raw minus effective attention of `rows` x `columns`: float64 (rows, columns), signed."""
    raw = attention.window(trace, layer, head, rows, columns, variant)
    return raw - effective_window(trace, layer, head, rows, columns, variant)


EFFECTIVE = MapSpec(
    name="effective",
    title="Effective attention",
    axes="query x key",
    scale="signed",
    formula="A_eff = A T T^+ = O V^+, the part of A outside the left null space of T = V W_O",
    source="On Identifiability in Transformers (arXiv 1908.04211), section 3",
    meaning="the part of the attention that can matter for the head's output",
    has_variants=True,
    window=effective_window,
)

NULL = MapSpec(
    name="null",
    title="Null attention",
    axes="query x key",
    scale="signed",
    formula="A_null = A - A_eff, with A_null V = 0",
    source="On Identifiability in Transformers (arXiv 1908.04211), section 3 and appendix",
    meaning="the part of the attention that cannot matter: it multiplies the values to zero",
    has_variants=True,
    window=null_window,
)
