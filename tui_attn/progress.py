"""What long work tells, and how it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tui_attn.errors import Cancelled


@dataclass(frozen=True)
class Progress:
    """One report of a job: `done` of `total` steps of `phase` (total 0: unknown)."""

    phase: str
    done: int = 0
    total: int = 0


class Job:
    """A piece of long work: it reports where it is, and stops when asked.

    The worker calls `report` or `check` at every layer or block; any thread may call `cancel`.

    Args:
        listener: Called with each `Progress`, on the worker's thread.
    """

    def __init__(self, listener: Callable[[Progress], None] | None = None) -> None:
        self._listener = listener
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Ask the work to stop at its next check."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Leave the work if it was cancelled.

        Raises:
            Cancelled: Somebody called `cancel`.
        """
        if self._cancelled.is_set():
            raise Cancelled

    def report(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Tell the listener where the work is.

        Raises:
            Cancelled: Somebody called `cancel`.
        """
        self.check()
        if self._listener is not None:
            self._listener(Progress(phase, done, total))
