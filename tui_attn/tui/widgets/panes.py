"""The two narrow panes: layers and heads, each line a thing to stand on."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tui_attn.tui.widgets.canvas import Canvas

Entry = list[list[Segment]]
"""The lines of one entry."""


class Pane(Canvas, inherit_bindings=False):
    """A list of entries of equal height under a title, one of them chosen."""

    can_focus = True
    DEFAULT_CSS = "Pane { scrollbar-size: 0 0; height: 1fr; }"
    COMPONENT_CLASSES = {"pane--title", "pane--chosen"}

    class Chosen(Message):
        """The person moved to another entry."""

        def __init__(self, pane: Pane, index: int) -> None:
            super().__init__()
            self.pane = pane
            self.index = index

        def can_replace(self, message: Message) -> bool:
            """Of a burst of moves only the last counts."""
            return isinstance(message, Pane.Chosen) and message.pane is self.pane

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.title = ""
        self.chosen = 0
        self._entries: list[Entry] = []

    @property
    def entry_height(self) -> int:
        """Lines of one entry."""
        return len(self._entries[0]) if self._entries else 1

    def show(self, title: str, entries: list[Entry], chosen: int) -> None:
        """Replace everything that is shown; what is the same is not painted again."""
        if (title, entries) != (self.title, self._entries):
            self.title, self._entries = title, entries
            self.virtual_size = Size(self.size.width, 1 + len(entries) * self.entry_height)
            self.refresh()
        self._mark(chosen)

    def move(self, steps: int) -> None:
        """Choose another entry, at most as far as there are any."""
        self.choose(self.chosen + steps)

    def choose(self, index: int) -> None:
        """Choose an entry and say so."""
        index = min(max(index, 0), len(self._entries) - 1)
        if index == self.chosen or index < 0:
            return
        self._mark(index)
        self.post_message(self.Chosen(self, index))

    def _mark(self, index: int) -> None:
        for entry in {self.chosen, index}:
            self._refresh_entry(entry)
        self.chosen = index
        self._follow()

    @property
    def page_size(self) -> int:
        """Entries on one screen."""
        return max((self.size.height - 1) // self.entry_height, 1)

    def on_resize(self) -> None:
        """The chosen entry stays in view."""
        self._follow()

    def _follow(self) -> None:
        top, room = self.chosen * self.entry_height, max(self.size.height - 1, 1)
        y = min(max(self.scroll_offset.y, top + self.entry_height - room), top)
        self.scroll_to(0, max(y, 0), animate=False, force=True)

    def _refresh_entry(self, index: int) -> None:
        y = 1 + index * self.entry_height - self.scroll_offset.y
        self.refresh(Region(0, y, self.size.width, self.entry_height))

    def render_line(self, y: int) -> Strip:
        """One line: the title, or a part of an entry."""
        base, width = self.base, self.size.width
        if y == 0:
            style = base + self.get_component_rich_style("pane--title", partial=True)
            return Strip([Segment(f" {self.title}", style)]).adjust_cell_length(width, style)
        index, part = divmod(self.scroll_offset.y + y - 1, self.entry_height)
        if index >= len(self._entries):
            return Strip.blank(width, base)
        if index == self.chosen:
            base = base + self.get_component_rich_style("pane--chosen", partial=True)
        mark = Segment("▸" if index == self.chosen and part == 0 else " ", base)
        segments = (
            Segment(text, base + style if style else base)
            for text, style, _ in self._entries[index][part]
        )
        return Strip([mark, *segments]).adjust_cell_length(width, base)
