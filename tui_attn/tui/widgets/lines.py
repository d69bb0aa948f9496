"""Single lines of text: status, titles, details, footer. Never markup."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from tui_attn.render.cells import fit_visible, width


class Line(Widget):
    """One line with a left part and a right part; the right part gives way first."""

    DEFAULT_CSS = "Line { height: 1; width: 1fr; }"
    can_focus = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._left = Text()
        self._right = Text()

    @property
    def text(self) -> str:
        """What the line says, for tests."""
        return f"{self._left.plain}  {self._right.plain}".strip()

    def show(self, left: str | Text, right: str | Text = "") -> None:
        """Write the line; both parts are visible text already."""
        made = (_as_text(left), _as_text(right))
        if made != (self._left, self._right):
            self._left, self._right = made
            self.refresh()

    def retitle(self, left: str) -> None:
        """Write the left part; the right one stays."""
        self.show(left, self._right)

    def render(self) -> Text:
        """The line, exactly as wide as the widget."""
        room = self.size.width
        left, right = self._left, self._right
        gap = room - width(left.plain) - width(right.plain)
        if gap >= 1 or not right.plain:
            line = left.copy()
            line.append(" " * max(gap, 0))
            line.append_text(right)
        else:
            line = left.copy()
            keep = room - width(left.plain) - 1
            if keep > 8:
                line.append(" " + fit_visible(right.plain, keep, False), style=right.style)
        line.no_wrap = True
        line.truncate(room, overflow="ellipsis", pad=True)
        return line


def _as_text(part: str | Text) -> Text:
    return Text(part) if isinstance(part, str) else part
