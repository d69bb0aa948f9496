"""Dialogs: a few fields that are checked when Enter is pressed, and a larger one for the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.message import Message
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static, TextArea

from tui_attn.errors import InspectError
from tui_attn.render.cells import visible


@dataclass(frozen=True)
class Field:
    """One line of a form."""

    name: str
    value: str
    hint: str = ""
    known: tuple[str, ...] = ()
    """Values that are offered as soon as one is begun; the right arrow takes them."""


class Form(ModalScreen[None]):
    """Fields under a title; Enter hands their values over, Escape closes.

    Args:
        title: What the form is for.
        fields: The fields.
        submit: Takes the values by field name; raises InspectError with a sentence to show.
        note: A line of help.
    """

    BINDINGS = [Binding("escape", "close", "close", show=False)]

    def __init__(
        self,
        title: str,
        fields: list[Field],
        submit: Callable[[dict[str, str]], None],
        note: str = "enter: do it   tab: next field   esc: close",
    ) -> None:
        super().__init__()
        self._title = title
        self._fields = fields
        self._submit = submit
        self._note = note

    def compose(self) -> ComposeResult:
        """The dialog."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._title), classes="dialog-title")
            for field in self._fields:
                with Horizontal(classes="field"):
                    yield Static(Text(field.name), classes="field-name")
                    yield Input(
                        field.value,
                        id=f"field-{field.name}",
                        placeholder=field.hint,
                        compact=True,
                        select_on_focus=False,
                        suggester=SuggestFromList(field.known, case_sensitive=False),
                    )
                if field.known:
                    latest = f"latest: {'  '.join(field.known[:4])}"
                    yield Static(Text(visible(latest)), classes="dialog-note")
            yield Static(Text(""), id="form-error")
            yield Static(Text(self._note), classes="dialog-note")

    @on(Input.Submitted)
    def submit(self) -> None:
        """Hand the values over, and close unless there is something to say."""
        values = {
            field.name: self.query_one(f"#field-{field.name}", Input).value
            for field in self._fields
        }
        try:
            self._submit(values)
        except InspectError as error:
            self.query_one("#form-error", Static).update(Text(str(error)))
        else:
            self.dismiss()

    def action_close(self) -> None:
        """Close without doing anything."""
        self.dismiss()


class _TextField(TextArea):
    """Enter runs the text instead of breaking the line."""

    BINDINGS = [
        Binding("ctrl+n", "new_line", "new line", show=False),
        Binding("escape", "screen.close", "close", priority=True, show=False),
    ]

    class Submitted(Message):
        """Enter was pressed, after everything that was typed before it."""

    async def _on_key(self, event: Key) -> None:
        # Not a binding: those overtake letters that still wait in this widget's queue.
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Submitted())
        else:
            await super()._on_key(event)

    def action_new_line(self) -> None:
        """Break the line."""
        self.insert("\n")


class EditText(ModalScreen[None]):
    """The text to run, over as many lines as it has.

    Args:
        title: What the text is for.
        text: The text now.
        submit: Takes the new text.
    """

    def __init__(self, title: str, text: str, submit: Callable[[str], None]) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._submit = submit

    def compose(self) -> ComposeResult:
        """The dialog."""
        with Vertical(classes="dialog tall"):
            yield Static(Text(self._title), classes="dialog-title")
            yield _TextField(self._text, id="text-field", soft_wrap=True)
            yield Static(
                Text("enter: run it   ctrl+n: new line   esc: close"), classes="dialog-note"
            )

    def on_mount(self) -> None:
        """Start at the end of the text."""
        field = self.query_one(_TextField)
        field.focus()
        field.move_cursor(field.document.end)

    @on(_TextField.Submitted)
    def submit(self) -> None:
        """Run the text."""
        self._submit(self.query_one(_TextField).text)
        self.dismiss()

    def action_close(self) -> None:
        """Close without doing anything."""
        self.dismiss()
