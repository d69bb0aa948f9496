"""A map with its title line."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from tui_attn.render.grid import Look
from tui_attn.tui.widgets.grid import AttentionGrid
from tui_attn.tui.widgets.lines import Line


class MapView(Vertical):
    """One map of one head."""

    def __init__(self, look: Look, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._look = look

    def compose(self) -> ComposeResult:
        """Title above, grid below."""
        yield Line(classes="map-title")
        yield AttentionGrid(self._look)

    @property
    def title(self) -> Line:
        """The title line."""
        return self.query_one(Line)

    @property
    def grid(self) -> AttentionGrid:
        """The grid."""
        return self.query_one(AttentionGrid)
