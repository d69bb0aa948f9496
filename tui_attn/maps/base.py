"""What a map is: its declaration, which the screen, the exports, `maps` and the docs all read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

    from tui_attn.answers import Variant
    from tui_attn.model.trace import Trace

Axes = Literal["query x key", "layer x head", "token x layer"]
Scale = Literal["share", "signed", "rank", "table"]


class WindowFunction(Protocol):
    """Computes the cells of `rows` x `columns` (half-open) of one head: float64, 0 if invisible."""

    def __call__(
        self,
        trace: Trace,
        layer: int,
        head: int,
        rows: tuple[int, int],
        columns: tuple[int, int],
        variant: Variant,
    ) -> torch.Tensor:
        """The window, (rows, columns)."""
        ...


@dataclass(frozen=True)
class MapSpec:
    """The declaration of a map. Importing one costs nothing: torch comes with the first window.

    Attributes:
        name: What people type: `effective`.
        title: What the screen says: `Effective attention`.
        axes: What rows and columns are.
        scale: `share` (0 to 1), `signed` (zero matters), `rank` (from 1), or `table` (columns of
            statistics).
        formula: One line of mathematics.
        source: Where the definition comes from.
        meaning: One sentence on what a value says.
        has_variants: Whether the variants output, no-bias and sum-one differ here.
        window: Computes cells; None where they are not computed from a trace window by window.
        per_head: Whether each head has its own; otherwise it is one map a layer.
        summaries: Names of the tables that sum the map up.
    """

    name: str
    title: str
    axes: Axes
    scale: Scale
    formula: str
    source: str
    meaning: str
    has_variants: bool = False
    window: WindowFunction | None = None
    per_head: bool = True
    summaries: tuple[str, ...] = ()
