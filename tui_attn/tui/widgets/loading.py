"""What stands in the place of the map while a model loads."""

from __future__ import annotations

import time

from rich.text import Text
from textual.timer import Timer
from textual.widget import Widget

from tui_attn.progress import Progress

_BAR = 24


class Loading(Widget):
    """The phase, the time and a bar that moves; the timer runs only while this is shown."""

    DEFAULT_CSS = "Loading { width: 1fr; height: 1fr; content-align: center middle; }"
    can_focus = False

    def __init__(self, *, id: str | None = None, ascii: bool = False) -> None:
        super().__init__(id=id)
        self._ascii = ascii
        self._phase = Progress("starting")
        self._started = 0.0
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Start counting."""
        self._started = time.monotonic()
        self.display = True
        if self._timer is None:
            self._timer = self.set_interval(0.2, self.refresh)

    def end(self) -> None:
        """Stop counting and disappear."""
        self.display = False
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def report(self, phase: Progress) -> None:
        """Show another phase."""
        self._phase = phase
        self.refresh()

    def render(self) -> Text:
        """Three lines."""
        elapsed = time.monotonic() - self._started
        full, empty = ("#", "-") if self._ascii else ("━", "─")
        if self._phase.total:
            done = _BAR * self._phase.done // self._phase.total
            bar = full * done + empty * (_BAR - done)
        else:
            place = int(elapsed * 5) % (_BAR - 3)
            bar = empty * place + full * 4 + empty * (_BAR - 4 - place)
        return Text(
            f"{self._phase.phase}\n{bar}\n{elapsed:.0f} s   esc stops, ? explains, q quits",
            justify="center",
        )
