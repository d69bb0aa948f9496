"""Pages to read: the help, and an error with what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tui_attn.errors import InspectError
from tui_attn.render.cells import visible
from tui_attn.tui.keys import ACTIONS

_INTRODUCTION = """\
Rows are queries (tokens that look), columns are keys (tokens looked at).

Raw attention is what the head gives each key. Effective attention is the part of it that can \
matter for the head's output; it is signed and need not sum to 1. Null attention is the rest: the \
values turn it into zero.

They differ as soon as more keys are visible than the head is wide (rank/keys in the heads \
pane), or when tokens have equal values.
"""


class Help(ModalScreen[None]):
    """Every key, by group."""

    BINDINGS = [
        Binding("escape,q,question_mark,f1", "close", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def compose(self) -> ComposeResult:
        """The page."""
        text = Text(_INTRODUCTION)
        group = ""
        for action in ACTIONS:
            if action.group != group:
                group = action.group
                text.append(f"\n{group}\n", style="bold")
            text.append(f"  {action.shown:<10}", style="bold")
            text.append(f" {action.help}\n")
        with VerticalScroll(classes="dialog page"):
            yield Static(Text("Help   esc closes, j and k scroll"), classes="dialog-title")
            yield Static(text)

    def action_scroll(self, lines: int) -> None:
        """Scroll the page."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        """Back to the map."""
        self.dismiss()


class ErrorPage(ModalScreen[None]):
    """What went wrong, what to do, and where the details are.

    Args:
        error: The failure.
        log: The log file, if there is one.
        retry: What `r` does, None where trying again makes no sense.
    """

    BINDINGS = [
        Binding("escape,enter", "close", show=False),
        Binding("r", "retry", show=False),
        Binding("d", "details", show=False),
        Binding("y", "copy", show=False),
        Binding("q", "app.quit", show=False),
    ]

    def __init__(
        self, error: InspectError, log: Path | None, retry: Callable[[], None] | None = None
    ) -> None:
        super().__init__()
        self._error = error
        self._log = log
        self._retry = retry

    def compose(self) -> ComposeResult:
        """The page."""
        keys = "esc: close   y: copy   d: details" + ("   r: try again" if self._retry else "")
        with Vertical(classes="dialog"):
            yield Static(Text(visible(self._error.title)), classes="dialog-title error")
            yield Static(Text(visible(self._error.hint)), id="error-hint")
            yield Static(Text(""), id="error-details")
            yield Static(Text(keys + "   q: quit"), classes="dialog-note")

    def action_details(self) -> None:
        """Show the cause and the log's path."""
        cause = self._error.__cause__
        lines = [f"{type(cause).__name__}: {cause}"[:600]] if cause else []
        lines.append(f"log: {self._log}" if self._log else "no log could be written")
        shown = "\n".join(visible(line) for line in lines)
        self.query_one("#error-details", Static).update(Text(shown))

    def action_copy(self) -> None:
        """Send the sentence to the terminal's clipboard."""
        self.app.copy_to_clipboard(str(self._error))

    def action_retry(self) -> None:
        """Close and try again."""
        self.dismiss()
        if self._retry is not None:
            self._retry()

    def action_close(self) -> None:
        """Back to where it happened."""
        self.dismiss()
