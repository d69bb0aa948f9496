"""A question with a few answers: one key takes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static


@dataclass(frozen=True)
class Answer:
    """One answer, what it means, and what it does."""

    name: str
    meaning: str
    take: Callable[[], None]


class Menu(ModalScreen[None]):
    """Answers below a question; a digit takes one, or up and down and Enter. Escape takes none.

    Args:
        question: What is asked.
        answers: At most nine.
        chosen: The one that Enter takes at first.
    """

    BINDINGS = [
        Binding("escape,q", "close", "close", show=False),
        Binding("up,k", "line(-1)", "line", show=False),
        Binding("down,j,tab", "line(1)", "line", show=False),
        Binding("enter", "take", "take", show=False),
    ]

    def __init__(self, question: str, answers: list[Answer], chosen: int = 0) -> None:
        super().__init__()
        self._question = question
        self._answers = answers
        self._line = chosen

    def compose(self) -> ComposeResult:
        """The dialog."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._question), classes="dialog-title")
            yield Static(id="answers")
            note = f"1-{len(self._answers)}, or up, down and enter   esc: none of these"
            yield Static(Text(note), classes="dialog-note")

    def on_mount(self) -> None:
        """Draw the answers."""
        self._draw()

    def on_key(self, event: Key) -> None:
        """A digit takes its answer at once."""
        if event.key.isdecimal() and 1 <= int(event.key) <= len(self._answers):
            event.stop()
            self._line = int(event.key) - 1
            self.action_take()

    def action_line(self, step: int) -> None:
        """Another answer."""
        self._line = (self._line + step) % len(self._answers)
        self._draw()

    def action_take(self) -> None:
        """Do what the answer says."""
        self.dismiss()
        self._answers[self._line].take()

    def action_close(self) -> None:
        """Take none."""
        self.dismiss()

    def _draw(self) -> None:
        widest = max(len(answer.name) for answer in self._answers)
        lines = Text()
        for number, answer in enumerate(self._answers):
            here = number == self._line
            lines.append(f"{'>' if here else ' '} {number + 1}  ", "bold" if here else "dim")
            lines.append(f"{answer.name:<{widest}}", "bold" if here else "")
            lines.append(f"  {answer.meaning}\n", "dim")
        lines.rstrip()
        self.query_one("#answers", Static).update(lines)
