"""Whose turn it is to compute: answers for the screen come between the blocks of long work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from tui_attn.progress import Job


class Turn:
    """A lock that one thread holds at a time, again and again if it likes.

    Long work gives way at every block, so that a window waits for one block and not for a layer.
    """

    def __init__(self) -> None:
        self._held = threading.Condition(threading.RLock())
        self._counting = threading.Lock()
        self._waiting = 0

    def __enter__(self) -> None:
        self._count(1)
        try:
            self._held.acquire()
        finally:
            self._count(-1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._held.notify()
        self._held.release()

    def between_blocks(self, job: Job) -> Callable[[], None]:
        """What long work calls between its blocks while it has the turn.

        It raises `Cancelled` when the job was cancelled, and lets those who wait go first.
        """

        def pause() -> None:
            job.check()
            if self._waiting:
                # Woken by the next who is done. One who got away without is waited for no longer.
                self._held.wait(0.05)

        return pause

    def _count(self, change: int) -> None:
        with self._counting:
            self._waiting += change
