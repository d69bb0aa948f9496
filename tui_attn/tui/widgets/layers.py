"""A grid with a column for every layer: tokens by layers, or layers by layers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tui_attn.answers import FloatArray
from tui_attn.render import cells, grid
from tui_attn.render.grid import PLAIN, Look
from tui_attn.render.palette import shade
from tui_attn.render.scale import NO_LEVEL, Scale
from tui_attn.tui.widgets.canvas import Canvas

LayerZoom = Literal["names", "numbers", "blocks"]
LAYER_ZOOMS: tuple[LayerZoom, ...] = ("blocks", "numbers", "names")
"""From far to near, as the keys - and + walk."""
_WIDTHS: dict[LayerZoom, int] = {"names": 9, "numbers": 5, "blocks": 2}


@dataclass(frozen=True)
class Rows:
    """Some rows of the grid: values (n, columns) with what their cells say, from row `first`."""

    first: int
    values: FloatArray
    texts: Sequence[Sequence[str]]
    scale: Scale


class LayerGrid(Canvas, inherit_bindings=False):
    """Rows by layers, with sticky headers, a cursor and lines of numbers under the columns.

    It asks for rows with `NeedRows` and draws what `show` brings.
    """

    can_focus = True
    DEFAULT_CSS = """
    LayerGrid { scrollbar-size: 0 0; height: 1fr; width: 1fr; }
    """
    COMPONENT_CLASSES = {"grid--label", "grid--here", "grid--missing"}

    class NeedRows(Message):
        """The rows on the screen are not here yet."""

    class CursorMoved(Message):
        """The cursor stands on another cell."""

        def __init__(self, sender: LayerGrid) -> None:
            super().__init__()
            self.sender = sender

        def can_replace(self, message: Message) -> bool:
            """Of a burst of moves only the last counts."""
            return isinstance(message, LayerGrid.CursorMoved) and message.sender is self.sender

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self.zoom: LayerZoom = "names"
        self.cursor = (0, 0)
        self.rows: Rows | None = None
        self.under: list[tuple[str, list[str]]] = []
        """Lines under the grid: a label, and a text for each column."""
        self.message = ""
        self._labels: list[str] = []
        self._columns: list[str] = []

    # --- what is shown ---------------------------------------------------------------------------

    def set_axes(self, labels: Sequence[str], columns: Sequence[str]) -> None:
        """Label rows and columns; old cells are dropped, the cursor stays where it can."""
        self._labels, self._columns = list(labels), list(columns)
        self.rows, self.message = None, ""
        self.cursor = (
            min(self.cursor[0], max(len(labels) - 1, 0)),
            min(self.cursor[1], max(len(columns) - 1, 0)),
        )
        self._measure()

    def show(self, rows: Rows) -> None:
        """Draw these cells."""
        self.rows, self.message = rows, ""
        self.refresh()

    def show_under(self, lines: list[tuple[str, list[str]]]) -> None:
        """Write lines of numbers under the columns."""
        if lines != self.under:
            self.under = lines
            self._measure()
            self._follow_cursor()

    def say(self, message: str) -> None:
        """Say why there is nothing to draw."""
        self.rows, self.message, self.under = None, message, []
        self.refresh()

    def set_zoom(self, step: int) -> None:
        """Nearer or farther; the cursor stays in view."""
        place = LAYER_ZOOMS.index(self.zoom) + step
        self.zoom = LAYER_ZOOMS[min(max(place, 0), len(LAYER_ZOOMS) - 1)]
        self._measure()
        self._follow_cursor()

    @property
    def length(self) -> int:
        """Number of rows."""
        return len(self._labels)

    @property
    def label_width(self) -> int:
        """Cells of the sticky column of labels."""
        return 22 if self.size.width >= 110 else 14

    @property
    def page_size(self) -> int:
        """Rows on one screen."""
        return max(self.size.height - 1 - len(self._lines_under()), 1)

    def _lines_under(self) -> list[tuple[str, list[str]]]:
        """The lines that there is room for: the first ones, as far as a third of the height."""
        return self.under[: max(self.size.height // 3, 1)]

    def wanted(self) -> tuple[int, int]:
        """Half-open rows to ask for: what is seen, and a page around it."""
        top = self.scroll_offset.y
        return max(top - self.page_size, 0), min(top + 2 * self.page_size, self.length)

    # --- moving ----------------------------------------------------------------------------------

    def move(self, down: int, right: int) -> None:
        """Move the cursor by so many cells."""
        self.move_to(self.cursor[0] + down, self.cursor[1] + right)

    def move_to(self, row: int, column: int) -> None:
        """Put the cursor on a cell, the nearest one that exists."""
        if not self._labels:
            return
        old = self.cursor
        self.cursor = (
            min(max(row, 0), len(self._labels) - 1),
            min(max(column, 0), len(self._columns) - 1),
        )
        if self.cursor == old:
            return
        if not self._follow_cursor():
            self.refresh(*(self._region(row) for row in {old[0], self.cursor[0]}), self._region(-1))
        self.post_message(self.CursorMoved(self))

    def _region(self, row: int) -> Region:
        """The line of a row; -1 is the header."""
        y = 0 if row < 0 else 1 + row - self.scroll_offset.y
        return Region(0, y, self.size.width, 1)

    def _follow_cursor(self) -> bool:
        """Scroll so that the cursor is seen; whether that moved anything."""
        if not self.size.area:
            return False
        before = self.scroll_offset
        row, column = self.cursor
        width = _WIDTHS[self.zoom]
        left, room = column * width, max(self.size.width - self.label_width, width)
        y = min(max(before.y, row - self.page_size + 1), row)
        x = min(max(before.x, left + width - room // width * width), left)
        self.scroll_to(x, y, animate=False, force=True)
        self._ask_if_needed()
        return self.scroll_offset != before

    def _ask_if_needed(self) -> None:
        if not self._labels or self.message:
            return
        first = self.scroll_offset.y
        last = min(first + self.page_size, self.length)
        have = self.rows
        if have is None or not (have.first <= first and last <= have.first + len(have.values)):
            self.post_message(self.NeedRows())

    def on_resize(self) -> None:
        """Another size sees other cells."""
        self._measure()
        self._follow_cursor()

    def _measure(self) -> None:
        width = _WIDTHS[self.zoom]
        rest = max(self.size.width - self.label_width, 0) % width
        lines = 1 + self.length + len(self._lines_under())
        self.virtual_size = Size(self.label_width + len(self._columns) * width + rest, lines)
        self._ask_if_needed()
        self.refresh()

    # --- drawing ---------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        base = self.base
        if self.message:
            return self._message_line(y, base)
        if not self._labels:
            return Strip.blank(self.size.width, base)
        under = self._lines_under()
        first_under = self.size.height - len(under)
        if y == 0:
            segments = self._header()
        elif y >= first_under:
            segments = self._under_line(*under[y - first_under])
        else:
            segments = self._row_line(self.scroll_offset.y + y - 1)
        joined = (Segment(text, base + style if style else base) for text, style, _ in segments)
        return Strip(joined).adjust_cell_length(self.size.width, base)

    def _message_line(self, y: int, base: Style) -> Strip:
        lines = textwrap.wrap(cells.visible(self.message), max(self.size.width - 4, 8))
        text = f"  {lines[y - 1]}" if 0 < y <= len(lines) else ""
        return Strip([Segment(text, base)]).adjust_cell_length(self.size.width, base)

    def _label_style(self, here: bool) -> Style:
        return self.get_component_rich_style("grid--here" if here else "grid--label")

    def _seen_columns(self) -> range:
        width = _WIDTHS[self.zoom]
        first = self.scroll_offset.x // width
        count = max(self.size.width - self.label_width, width) // width
        return range(first, min(first + count, len(self._columns)))

    def _header(self) -> list[Segment]:
        width = _WIDTHS[self.zoom]
        segments = [Segment(" " * self.label_width, self._label_style(False))]
        for column in self._seen_columns():
            name = self._columns[column]
            text = name.removeprefix("L")[-2:] if width == 2 else name
            here = self._label_style(column == self.cursor[1])
            segments.append(Segment(cells.fit(text, width, ascii=self.look.ascii), here))
        return segments

    def _under_line(self, label: str, texts: list[str]) -> list[Segment]:
        width, quiet = _WIDTHS[self.zoom], self._label_style(False)
        segments = [Segment(cells.fit(label, self.label_width), quiet)]
        for column in self._seen_columns():
            text = texts[column] if column < len(texts) else ""
            style = self._label_style(column == self.cursor[1])
            segments.append(Segment(cells.fit(text[:width], width), style))
        return segments

    def _row_line(self, row: int) -> list[Segment]:
        if row >= self.length:
            return []
        here = row == self.cursor[0]
        label = cells.fit(self._labels[row], self.label_width - 1, ascii=self.look.ascii) + " "
        segments = [Segment(label, self._label_style(here))]
        have, columns = self.rows, self._seen_columns()
        if have is None or not have.first <= row < have.first + len(have.values):
            dots = "·" if not self.look.ascii else "."
            missing = self.get_component_rich_style("grid--missing")
            return [*segments, Segment(dots.ljust(_WIDTHS[self.zoom]) * len(columns), missing)]
        place = row - have.first
        texts = [self._cell(have, place, column) for column in columns]
        styles = self._styles(have, place, columns)
        if here and self.cursor[1] in columns:
            styles[self.cursor[1] - columns.start] = self.look.cursor
        return [*segments, *grid.merge(texts, styles)]

    def _cell(self, have: Rows, place: int, column: int) -> str:
        width, text = _WIDTHS[self.zoom], have.texts[place][column]
        if self.zoom == "blocks":
            value = have.values[place, column]
            if self.look.colour or value != value:
                return " " * width
            position = float(have.scale.positions(have.values[place, column : column + 1])[0])
            sign = "-" if position < 0 else " "
            return sign + shade(position, ascii=self.look.ascii)
        if not self.look.colour and width > 6:  # without colour a glyph carries the value
            position = float(have.scale.positions(have.values[place, column : column + 1])[0])
            glyph = " " if position != position else shade(position, ascii=self.look.ascii)
            return cells.fit(text, width - 2, ascii=self.look.ascii) + glyph + " "
        return cells.fit(text, width - 1, ascii=self.look.ascii) + " "

    def _styles(self, have: Rows, place: int, columns: range) -> list[Style]:
        if not self.look.colour:
            return [PLAIN] * len(columns)
        ramp = self.look.colours.ramp(have.scale.signed)
        levels = have.scale.levels(have.values[place, columns.start : columns.stop], len(ramp))
        return [PLAIN if level == NO_LEVEL else ramp.styles[level] for level in levels]
