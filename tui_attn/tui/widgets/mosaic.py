"""Every head of every layer as a thumbnail."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tui_attn.answers import HeadSummary
from tui_attn.render import grid
from tui_attn.render.grid import Look
from tui_attn.tui.widgets.canvas import Canvas

_WIDE, _HIGH, _LABEL = 7, 4, 4
"""Cells and lines of a tile with its gap, and of the layer labels."""


class Mosaic(Canvas, inherit_bindings=False):
    """A wall of heads: columns are heads, rows are layers."""

    can_focus = True
    DEFAULT_CSS = "Mosaic { scrollbar-size: 0 0; width: 1fr; height: 1fr; }"
    COMPONENT_CLASSES = {"mosaic--label", "mosaic--here"}

    class Moved(Message):
        """The cursor stands on another head."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self.cursor = (0, 0)
        self._layers: Sequence[int] = ()
        self._heads = 0
        self._tiles: dict[tuple[int, int], list[list[Segment]]] = {}

    def start(self, layers: Sequence[int], heads: int, cursor: tuple[int, int]) -> None:
        """An empty wall for the heads of these layers; the cursor is a layer and a head."""
        self._layers, self._heads, self.cursor = layers, heads, cursor
        self._tiles.clear()
        self.virtual_size = Size(_LABEL + heads * _WIDE, 1 + len(layers) * _HIGH)
        self._follow()
        self.refresh()

    def add(self, summaries: list[HeadSummary]) -> None:
        """Hang up the heads of a layer."""
        for summary in summaries:
            self._tiles[summary.layer, summary.head] = grid.thumbnail(
                summary.thumbnail, _WIDE - 1, _HIGH - 1, self.look
            )
        self.refresh()

    def move(self, layers: int, heads: int) -> None:
        """Move the cursor by so many rows and heads."""
        row = self._layers.index(self.cursor[0]) + layers
        self.stand_on(
            self._layers[min(max(row, 0), len(self._layers) - 1)],
            min(max(self.cursor[1] + heads, 0), self._heads - 1),
        )

    def stand_on(self, layer: int, head: int) -> None:
        """Put the cursor on a head."""
        if (layer, head) != self.cursor:
            self.cursor = (layer, head)
            self._follow()
            self.refresh()
            self.post_message(self.Moved())

    @property
    def page_size(self) -> int:
        """Layers on one screen."""
        return max((self.size.height - 1) // _HIGH, 1)

    def on_resize(self) -> None:
        """The cursor stays in view."""
        self._follow()

    def _follow(self) -> None:
        row = self._layers.index(self.cursor[0]) if self._layers else 0
        top, left = row * _HIGH, self.cursor[1] * _WIDE
        room_down, room_right = self.size.height - 1, self.size.width - _LABEL
        y = min(max(self.scroll_offset.y, top + _HIGH - room_down), top)
        x = min(max(self.scroll_offset.x, left + _WIDE - room_right), left)
        self.scroll_to(max(x, 0), max(y, 0), animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """One line: the head numbers, or a line of the tiles of a layer."""
        base, width = self.base, self.size.width
        label = base + self.get_component_rich_style("mosaic--label", partial=True)
        here = base + self.get_component_rich_style("mosaic--here", partial=True)
        first = self.scroll_offset.x // _WIDE
        heads = range(first, min(first + width // _WIDE + 1, self._heads))
        if y == 0:
            names = [
                Segment(f"H{head}".ljust(_WIDE), here if head == self.cursor[1] else label)
                for head in heads
            ]
            return self._line([Segment(" " * _LABEL, label), *names], base)
        row, part = divmod(self.scroll_offset.y + y - 1, _HIGH)
        if row >= len(self._layers):
            return Strip.blank(width, base)
        layer = self._layers[row]
        name = f"L{layer}" if part == 0 else ""
        segments = [Segment(name.ljust(_LABEL), here if layer == self.cursor[0] else label)]
        for head in heads:
            segments += self._tile_line(layer, head, part, here)
        return self._line(segments, base)

    def _tile_line(self, layer: int, head: int, part: int, here: Style) -> list[Segment]:
        chosen = (layer, head) == self.cursor
        if part == _HIGH - 1:
            under = "▔" * (_WIDE - 1) if not self.look.ascii else "^" * (_WIDE - 1)
            return [Segment((under if chosen else "").ljust(_WIDE), here if chosen else None)]
        edge = "▐" if not self.look.ascii else "|"
        tile = self._tiles.get((layer, head))
        cells = tile[part] if tile else [Segment("·".center(_WIDE - 1))]
        return [*cells, Segment(edge if chosen else " ", here if chosen else None)]

    def _line(self, segments: list[Segment], base: Style) -> Strip:
        joined = (Segment(text, base + style if style else base) for text, style, _ in segments)
        return Strip(joined).adjust_cell_length(self.size.width, base)
