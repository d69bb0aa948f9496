"""The main map: a coloured text grid of any size, of which only what is seen is built."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tui_attn.answers import BoolArray, FloatArray, Overview, Window
from tui_attn.render import cells, grid
from tui_attn.render.grid import CELL_WIDTH, Look, Zoom
from tui_attn.render.scale import Scale
from tui_attn.tui.widgets.canvas import Canvas

_WHOLE = 256
"""Maps up to this length are held whole, so that scrolling asks for nothing."""
_HEADER_LINES: dict[Zoom, int] = {"numbers": 2, "blocks": 5, "half": 5, "fit": 0}


class AttentionGrid(Canvas, inherit_bindings=False):
    """A query x key map with sticky headers and a cursor.

    It asks for cells with `NeedWindow` and draws what `show` brings.
    """

    can_focus = True
    DEFAULT_CSS = """
    AttentionGrid { scrollbar-size: 0 0; height: 1fr; width: 1fr; }
    """
    COMPONENT_CLASSES = {"grid--label", "grid--here", "grid--missing"}

    class NeedWindow(Message):
        """The cells on the screen are not here yet."""

    class Resized(Message):
        """The grid has another size, and has scrolled to its cursor."""

    class CursorMoved(Message):
        """The cursor stands on another cell."""

        def __init__(self, sender: AttentionGrid) -> None:
            super().__init__()
            self.sender = sender

        def can_replace(self, message: Message) -> bool:
            """Of a burst of moves only the last counts."""
            return isinstance(message, AttentionGrid.CursorMoved)

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self.zoom: Zoom = "numbers"
        self.cursor = (0, 0)
        self.window: Window | None = None
        self.scale = Scale(0.0, 1.0)
        self.overview: Overview | None = None
        self._rows: list[str] = []
        self._columns: list[str] = []

    # --- what is shown ---------------------------------------------------------------------------

    def set_axes(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Label rows and columns; old cells are dropped, the cursor stays where it can."""
        self._rows, self._columns = list(rows), list(columns)
        self.clear()
        self.cursor = self._inside(*self.cursor)
        self._measure()

    def clear(self) -> None:
        """Forget the cells, which belong to something else now."""
        self.window = self.overview = None

    def show(self, window: Window, scale: Scale) -> None:
        """Draw these cells."""
        self.window, self.scale = window, scale
        self.refresh()

    def show_overview(self, overview: Overview, scale: Scale) -> None:
        """Draw the whole map pooled (zoom `fit`)."""
        self.overview, self.scale = overview, scale
        self.refresh()

    def set_zoom(self, zoom: Zoom) -> None:
        """Change the size of a cell; the cursor stays in view."""
        self.zoom = zoom
        self._measure()
        self._follow_cursor()

    @property
    def length(self) -> int:
        """Number of rows."""
        return len(self._rows)

    @property
    def width(self) -> int:
        """Number of columns; as many as rows, but for cross attention."""
        return len(self._columns)

    @property
    def label_width(self) -> int:
        """Cells of the sticky column of row labels."""
        return 14 if self.size.width >= 90 else 9

    @property
    def header_lines(self) -> int:
        """Lines of the sticky column labels; few where the screen is low."""
        return min(_HEADER_LINES[self.zoom], max(self.size.height // 4, 1))

    @property
    def overview_shape(self) -> tuple[int, int]:
        """How many pooled rows and columns fit."""
        lines = max(self.size.height, 1) * self.look.rows_per_line("fit")
        return lines, max(self.size.width - self.label_width, 1)

    @property
    def caption(self) -> str:
        """How the picture came about, where it is not cell by cell."""
        if self.zoom != "fit" or self.overview is None or not self.overview.values.size:
            return ""
        rows, columns = self.overview.values.shape
        if (rows, columns) == (self.length, self.width):
            return ""
        down, across = self.length / rows, self.width / columns
        looked_at = self.overview.sampled_rows
        so_far = "" if looked_at is None else f" of {looked_at:,} rows so far"
        return f"pooled {down:.3g} x {across:.3g}, largest magnitude{so_far}"

    def wanted(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns to ask for: what is seen and a page around it, or everything."""
        if max(self.length, self.width) <= _WHOLE:
            return (0, self.length), (0, self.width)
        rows, columns = self._seen()
        return _widened(rows, self.length), _widened(columns, self.width)

    def row_values(self) -> list[tuple[int, float]]:
        """The cursor's row as far as it is here: (key, value) of visible cells."""
        if self.window is None:
            return []
        row = self.cursor[0] - self.window.rows[0]
        if not 0 <= row < len(self.window.values):
            return []
        first = self.window.columns[0]
        return [
            (first + column, float(value))
            for column, (value, seen) in enumerate(
                zip(self.window.values[row], self.window.visible[row], strict=True)
            )
            if seen
        ]

    # --- moving ----------------------------------------------------------------------------------

    def move(self, queries: int, keys: int) -> None:
        """Move the cursor by so many cells."""
        self.move_to(self.cursor[0] + queries, self.cursor[1] + keys)

    def page(self, down: int, right: int) -> None:
        """Move the cursor by so many screens."""
        rows, columns = self._seen()
        self.move(down * max(rows[1] - rows[0], 1), right * max(columns[1] - columns[0], 1))

    def move_to(self, query: int, key: int, *, notify: bool = True) -> None:
        """Put the cursor on a cell, the nearest one that exists."""
        if not self.length:
            return
        old = self.cursor
        self.cursor = self._inside(query, key)
        if self.cursor == old:
            return
        if not self._follow_cursor():
            self._refresh_around(old)
            self._refresh_around(self.cursor)
        if notify:
            self.post_message(self.CursorMoved(self))

    def _inside(self, query: int, key: int) -> tuple[int, int]:
        return max(min(query, self.length - 1), 0), max(min(key, self.width - 1), 0)

    def follow(self, other: AttentionGrid) -> None:
        """Put the cursor and the scrolling where those of another grid of the same axes are."""
        self.move_to(*other.cursor, notify=False)
        self.scroll_to(*other.scroll_offset, animate=False, force=True)
        self._ask_if_needed()

    def _follow_cursor(self) -> bool:
        """Scroll so that the cursor is seen; whether that moved anything."""
        if not self.size.area:
            return False  # hidden: nothing is seen, and a guess would stay when it is shown
        if self.zoom == "fit":
            self.scroll_to(0, 0, animate=False, force=True)
            return False
        width, rows_per_line = CELL_WIDTH[self.zoom], self.look.rows_per_line(self.zoom)
        before = self.scroll_offset
        line, column = self.cursor[0] // rows_per_line, self.cursor[1] * width
        y = min(max(before.y, line - self._body_lines() + 1), line)
        x = min(max(before.x, column - self._body_columns() * width + width), column)
        self.scroll_to(x, y, animate=False, force=True)
        moved = self.scroll_offset != before
        if moved:
            self._ask_if_needed()
        return moved

    def _body_lines(self) -> int:
        return max(self.size.height - self.header_lines, 1)

    def _body_columns(self) -> int:
        return max((self.size.width - self.label_width) // CELL_WIDTH[self.zoom], 1)

    def _seen(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Half-open rows and columns on the screen."""
        if self.zoom == "fit":
            return (0, self.length), (0, self.width)
        rows_per_line = self.look.rows_per_line(self.zoom)
        top, left = (
            self.scroll_offset.y * rows_per_line,
            self.scroll_offset.x // CELL_WIDTH[self.zoom],
        )
        bottom = min(top + self._body_lines() * rows_per_line, self.length)
        return (top, bottom), (left, min(left + self._body_columns(), self.width))

    def _ask_if_needed(self) -> None:
        if not self.length:
            return
        if self.zoom == "fit":
            missing = self.overview is None or not _fits(self.overview, self.overview_shape)
        else:
            rows, columns = self._seen()
            have = self.window
            missing = have is None or not (
                have.rows[0] <= rows[0]
                and rows[1] <= have.rows[1]
                and have.columns[0] <= columns[0]
                and columns[1] <= have.columns[1]
            )
        if missing:
            self.post_message(self.NeedWindow())

    def on_resize(self) -> None:
        """Another size sees other cells."""
        self._measure()
        self._follow_cursor()
        self.post_message(self.Resized())

    def _measure(self) -> None:
        width, rows_per_line = CELL_WIDTH[self.zoom], self.look.rows_per_line(self.zoom)
        if self.zoom == "fit":
            self.virtual_size = Size(0, 0)
        else:
            # The last column must be reachable by whole cells.
            rest = max(self.size.width - self.label_width, 0) % width
            lines = -(-self.length // rows_per_line)
            self.virtual_size = Size(
                self.label_width + self.width * width + rest, self.header_lines + lines
            )
        self._ask_if_needed()
        self.refresh()

    # --- drawing ---------------------------------------------------------------------------------

    def _refresh_around(self, cell: tuple[int, int]) -> None:
        """Repaint a cell and its two labels."""
        if self.zoom == "fit":
            self.refresh()
            return
        width, rows_per_line = CELL_WIDTH[self.zoom], self.look.rows_per_line(self.zoom)
        x = self.label_width + cell[1] * width - self.scroll_offset.x
        y = self.header_lines + cell[0] // rows_per_line - self.scroll_offset.y
        self.refresh(
            Region(x, y, width, 1),
            Region(0, y, self.label_width, 1),
            Region(x, 0, width, self.header_lines),
        )

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        base = self.base
        if not self.length:
            return Strip.blank(self.size.width, base)
        if self.zoom == "fit":
            segments = self._overview_line(y)
        elif y < self.header_lines:
            segments = self._header_line(y)
        else:
            segments = self._body_line(self.scroll_offset.y + y - self.header_lines)
        return _on(base, segments, self.size.width)

    def _label_style(self, here: bool) -> Style:
        return self.get_component_rich_style("grid--here" if here else "grid--label")

    def _header_line(self, y: int) -> list[Segment]:
        width = CELL_WIDTH[self.zoom]
        _, (left, right) = self._seen()
        texts, styles = [self._corner(y)], [self._label_style(False)]
        plain, here = self._label_style(False), self._label_style(True)
        for column in range(left, right):
            box = cells.wrap(self._columns[column], width, self.header_lines, ascii=self.look.ascii)
            texts.append(box[y])
            styles.append(here if column == self.cursor[1] else plain)
        return grid.merge(texts, styles)

    def _corner(self, y: int) -> str:
        """The ends of the scale above the row labels: a narrow title has no room for them."""
        ends = (f"{self.scale.low:.2g}", f"to {self.scale.high:.2g}")
        line = y - self.header_lines + len(ends)
        text = ends[line] if self.window is not None and line >= 0 else ""
        return cells.fit(text, self.label_width, ascii=self.look.ascii)

    def _row_label(self, row: int, here: bool) -> Segment:
        name = self._rows[row]
        if self._is_blind(row):
            name = f"{'-' if self.look.ascii else '∅'} {name}"
        label = cells.fit(name, self.label_width - 1, ascii=self.look.ascii)
        return Segment(label + " ", self._label_style(here))

    def _body_line(self, line: int) -> list[Segment]:
        rows_per_line = self.look.rows_per_line(self.zoom)
        top = line * rows_per_line
        if top >= self.length:
            return []
        query, key = self.cursor
        here = top <= query < top + rows_per_line
        _, (left, right) = self._seen()
        found = self._values(range(top, top + rows_per_line), left, right)
        label = self._row_label(query if here else top, here)
        if found is None:
            missing = self.get_component_rich_style("grid--missing")
            dots = "·".rjust(CELL_WIDTH[self.zoom]) if not self.look.ascii else "."
            return [label, Segment(dots.rjust(CELL_WIDTH[self.zoom]) * (right - left), missing)]
        cursor = key - left if here and left <= key < right else None
        if cursor is not None and rows_per_line == 2 and query > top:
            cursor = -1 - cursor
        values, visible = found
        if rows_per_line == 1:
            if self._is_blind(top):
                return [label, *self._blind_line(right - left, cursor)]
            values, visible = values[0], visible[0]
        return [label, *grid.line(values, self.scale, self.zoom, self.look, cursor, visible)]

    def _is_blind(self, row: int) -> bool:
        """Whether the query sees no key at all."""
        return self.window is not None and row in self.window.blind

    def _blind_line(self, columns: int, cursor: int | None) -> list[Segment]:
        """A row without a number: dashes instead of zeros."""
        dash = ("-" if self.look.ascii else "–").rjust(CELL_WIDTH[self.zoom])
        styles = [self.get_component_rich_style("grid--missing")] * columns
        if cursor is not None:
            styles[cursor] = self.look.cursor
        return grid.merge([dash] * columns, styles)

    def _values(self, rows: range, left: int, right: int) -> tuple[FloatArray, BoolArray] | None:
        """Cells and whether they are visible, (rows, columns); None while they are on their way."""
        have = self.window
        if have is None or left < have.columns[0] or right > have.columns[1]:
            return None
        values = grid.blank(len(rows), right - left)
        visible = values == values
        part = slice(left - have.columns[0], right - have.columns[0])
        for number, row in enumerate(rows):
            if row >= self.length:
                continue
            if not have.rows[0] <= row < have.rows[1]:
                return None
            values[number] = have.values[row - have.rows[0], part]
            visible[number] = have.visible[row - have.rows[0], part]
        return values, visible

    def _overview_line(self, y: int) -> list[Segment]:
        if self.overview is None:
            return []
        rows_per_line = self.look.rows_per_line("fit")
        count, columns = self.overview.values.shape
        top = y * rows_per_line
        if top >= count:
            return []
        cursor_row = self.cursor[0] * count // self.length
        here = top <= cursor_row < top + rows_per_line
        first = self.cursor[0] if here else top * self.length // count
        values = grid.blank(rows_per_line, columns)
        visible = values == values
        part = slice(top, min(top + rows_per_line, count))
        values[: part.stop - top] = self.overview.values[part]
        visible[: part.stop - top] = self.overview.visible[part]
        cursor = self.cursor[1] * columns // self.width if here else None
        if cursor is not None and cursor_row > top:
            cursor = -1 - cursor
        if rows_per_line == 1:
            values, visible = values[0], visible[0]
        return [
            self._row_label(first, here),
            *grid.line(values, self.scale, "fit", self.look, cursor, visible),
        ]


def _on(base: Style, segments: list[Segment], width: int) -> Strip:
    """A line on the widget's background, exactly as wide as the widget."""
    joined = (Segment(text, base + style if style else base) for text, style, _ in segments)
    return Strip(joined).adjust_cell_length(width, base)


def _widened(span: tuple[int, int], length: int) -> tuple[int, int]:
    page = span[1] - span[0]
    return max(span[0] - page, 0), min(span[1] + page, length)


def _fits(overview: Overview, shape: tuple[int, int]) -> bool:
    rows, columns = overview.values.shape
    return bool(rows <= shape[0] and columns <= shape[1])
