"""A view with its title line."""

from __future__ import annotations

from typing import Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from tui_attn.tui.widgets.lines import Line

Body = TypeVar("Body", bound=Widget)


class Titled(Vertical, Generic[Body]):
    """A widget under a line that says what it shows.

    Args:
        body: The widget.
        id: Of the whole.
    """

    DEFAULT_CSS = "Titled { width: 1fr; height: 1fr; }"

    def __init__(self, body: Body, *, id: str) -> None:
        super().__init__(id=id)
        self.body = body
        self.title = Line(classes="map-title")

    def compose(self) -> ComposeResult:
        """Title above, body below."""
        yield self.title
        yield self.body
