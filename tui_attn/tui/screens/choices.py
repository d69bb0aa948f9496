"""The dialog of the choices that change a map's numbers: each key press takes effect at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from tui_attn.render.cells import visible


@dataclass(frozen=True)
class Choice:
    """One line: what is chosen, from what, and what takes the new value."""

    name: str
    value: str
    values: Sequence[str]
    take: Callable[[str], None]


class Choices(ModalScreen[None]):
    """Choices one below the other; up and down pick a line, left and right change it.

    Args:
        title: What the choices are of.
        choices: The lines as they are now; asked again after each change, since one choice may
            bring another along.
    """

    BINDINGS = [
        Binding("escape,i,q", "close", "close", show=False),
        Binding("up,k", "line(-1)", "line", show=False),
        Binding("down,j,tab", "line(1)", "line", show=False),
        Binding("left,h", "change(-1)", "change", show=False),
        Binding("right,l,enter,space", "change(1)", "change", show=False),
    ]

    def __init__(self, title: str, choices: Callable[[], list[Choice]]) -> None:
        super().__init__()
        self._title = title
        self._choices = choices
        self._line = 0

    def compose(self) -> ComposeResult:
        """The dialog."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._title), classes="dialog-title")
            yield Static(id="choices")
            note = "up, down: choose a line   left, right: change it   esc: close"
            yield Static(Text(note), classes="dialog-note")

    def on_mount(self) -> None:
        """Draw the lines."""
        self._draw()

    def action_line(self, step: int) -> None:
        """Another line."""
        self._line = (self._line + step) % len(self._choices())
        self._draw()

    def action_change(self, step: int) -> None:
        """Another value of the line."""
        choice = self._choices()[self._line]
        place = choice.values.index(choice.value) if choice.value in choice.values else 0
        choice.take(choice.values[(place + step) % len(choice.values)])
        self._draw()

    def action_close(self) -> None:
        """Back to the map."""
        self.dismiss()

    def _draw(self) -> None:
        lines = Text()
        for number, choice in enumerate(self._choices()):
            here = number == self._line
            lines.append(f"{'>' if here else ' '} {choice.name:<16}", "bold" if here else "dim")
            for value in choice.values:
                chosen = value == choice.value
                lines.append(f" {visible(value)} ", "reverse" if chosen else "")
            lines.append("\n")
        lines.rstrip()
        self.query_one("#choices", Static).update(lines)
