"""The text itself, its tokens coloured by one row or column of the map."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tui_attn.render import cells
from tui_attn.render.grid import PLAIN, Look
from tui_attn.render.palette import BROKEN_CELL, shade
from tui_attn.render.scale import BROKEN, NO_LEVEL, Scale
from tui_attn.tui.widgets.canvas import Canvas


class Sentence(Canvas, inherit_bindings=False):
    """Tokens in reading order; the cursor's token is the one that looks (or is looked at).

    Where tokens look at another text (cross attention), that one stands below and is coloured.
    """

    can_focus = True
    DEFAULT_CSS = "Sentence { scrollbar-size: 0 0; width: 1fr; height: 1fr; }"

    class Moved(Message):
        """The cursor stands on another token."""

        def can_replace(self, message: Message) -> bool:
            """Of a burst of moves only the last counts."""
            return isinstance(message, Sentence.Moved)

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self.cursor = 0
        self._labels: list[str] = []
        self._values: dict[int, float] = {}
        self._scale = Scale(0.0, 1.0)
        self._lines: list[list[int]] = []
        self._reach = 0
        self._coloured_from = 0

    def set_labels(
        self, labels: Sequence[str], cursor: int, other: Sequence[str] | None = None
    ) -> None:
        """The tokens, in order, among which the cursor moves; `other` is the text it looks at."""
        self._reach = len(labels)
        self._coloured_from = 0 if other is None else self._reach
        self._labels = [
            cells.visible(label, ascii=self.look.ascii) for label in (*labels, *(other or ()))
        ]
        self.cursor = min(cursor, max(self._reach - 1, 0))
        self._values = {}
        self._wrap()

    def show(self, values: dict[int, float], scale: Scale, cursor: int) -> None:
        """Colour the tokens by these values; those without one stay plain."""
        self._values, self._scale, self.cursor = values, scale, cursor
        self._follow()
        self.refresh()

    def move(self, lines: int, tokens: int) -> None:
        """Move the cursor by so many lines and tokens."""
        if not self._reach:
            return
        target = self.cursor + tokens
        if lines:
            here, last = self._line_of(self.cursor), self._line_of(self._reach - 1)
            there = min(max(here + lines, 0), last)
            if there == here:  # the text that is looked at may be longer than the screen
                self.scroll_relative(y=lines, animate=False, force=True)
                return
            column = self.cursor - self._lines[here][0]
            target = min(self._lines[there][0] + column, self._lines[there][-1])
        target = min(max(target, 0), self._reach - 1)
        if target != self.cursor:
            self.cursor = target
            self._follow()
            self.refresh()
            self.post_message(self.Moved())

    @property
    def page_size(self) -> int:
        """Lines on one screen."""
        return max(self.size.height, 1)

    def on_resize(self) -> None:
        """Another width wraps elsewhere."""
        self._wrap()

    def _wrap(self) -> None:
        room = max(self.size.width - 1, 1)
        self._lines, used = [], room + 1
        for position, label in enumerate(self._labels):
            wide = cells.width(label) + 1
            if position and position == self._coloured_from:
                self._lines.append([])  # between two texts
                used = room + 1
            if used + wide > room:
                self._lines.append([])
                used = 0
            self._lines[-1].append(position)
            used += wide
        self.virtual_size = Size(self.size.width, len(self._lines))
        self._follow()
        self.refresh()

    def _line_of(self, token: int) -> int:
        return next(number for number, line in enumerate(self._lines) if line and line[-1] >= token)

    def _follow(self) -> None:
        if self._lines:
            line = self._line_of(self.cursor)
            y = min(max(self.scroll_offset.y, line - self.size.height + 1), line)
            self.scroll_to(0, max(y, 0), animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """One line of tokens."""
        base, number = self.base, self.scroll_offset.y + y
        if number >= len(self._lines):
            return Strip.blank(self.size.width, base)
        import numpy as np  # with the first token, not before the first frame

        ramp = self.look.colours.ramp(self._scale.signed)
        segments = []
        for token in self._lines[number]:
            place = token - self._coloured_from
            value = self._values.get(place, np.nan)
            known = np.array([place in self._values])
            level = int(self._scale.levels(np.array([value]), len(ramp), known)[0])
            style = PLAIN
            if self.look.colour and level != NO_LEVEL:
                style = BROKEN_CELL if level == BROKEN else ramp.styles[level]
            text = self._labels[token]
            if not self.look.colour and value == value:  # value and sign without colour
                mark = shade(
                    float(self._scale.positions(np.array([value]))[0]), ascii=self.look.ascii
                )
                gap = "-" if value < 0 and mark != " " else mark
            else:
                gap = "?" if level == BROKEN else " "
            if token == self.cursor:
                style = self.look.cursor
            segments += [Segment(text, base + style), Segment(gap, base)]
        room = self.size.width
        return Strip(segments).adjust_cell_length(room, base)
