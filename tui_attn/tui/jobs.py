"""Work off the UI thread: one lane per kind, the newest request wins, answers come as messages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

from textual.message import Message
from textual.widget import Widget

from tui_attn.errors import Cancelled, InspectError
from tui_attn.progress import Job, Progress

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


class Done(Message):
    """A lane's work ended: with an answer, an error, or neither when it was cancelled."""

    def __init__(
        self,
        lane: Lane[object, object],
        request: object,
        answer: object = None,
        error: InspectError | None = None,
        cancelled: bool = False,
    ) -> None:
        super().__init__()
        self.lane = lane
        self.request = request
        self.answer = answer
        self.error = error
        self.cancelled = cancelled


class Progressed(Message):
    """A lane's work got on."""

    def __init__(self, lane: Lane[object, object], progress: Progress) -> None:
        super().__init__()
        self.lane = lane
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        """Only the latest report of a lane counts."""
        return isinstance(message, Progressed) and message.lane is self.lane


class Lane(Generic[Request, Answer]):
    """Runs one request at a time on a thread; of those that wait, only the newest.

    A held-down key therefore costs one computation at a time, never a queue.

    Args:
        owner: The widget that gets `Done` and `Progressed`.
        name: For the log and the thread.
        work: Computes an answer, on a thread of its own.
        unexpected: Turns an error of ours into a sentence for people.
    """

    def __init__(
        self,
        owner: Widget,
        name: str,
        work: Callable[[Request, Job], Answer],
        unexpected: Callable[[Exception], InspectError],
    ) -> None:
        self.name = name
        self._owner = owner
        self._work = work
        self._unexpected = unexpected
        self._waiting: Request | None = None
        self._job: Job | None = None
        self._thread: Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether something runs."""
        return self._job is not None

    def ask(self, request: Request, *, supersede: bool = False) -> None:
        """Run a request as soon as the running one has ended.

        Args:
            request: What to compute.
            supersede: Stop the running one.
        """
        if self._job is None:
            self._start(request)
            return
        self._waiting = request
        if supersede:
            self._job.cancel()

    def cancel(self) -> bool:
        """Stop what runs and forget what waits; whether anything ran."""
        self._waiting = None
        if self._job is None:
            return False
        self._job.cancel()
        return True

    def stop(self, seconds: float) -> bool:
        """Cancel, and wait for the thread to clean up; whether it did."""
        self.cancel()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def finished(self) -> None:
        """The owner has taken `Done`: the next request may start."""
        self._job = None
        if self._waiting is not None:
            request, self._waiting = self._waiting, None
            self._start(request)

    def _start(self, request: Request) -> None:
        job = Job(lambda progress: self._post(Progressed(self, progress)))  # type: ignore[arg-type]
        self._job = job
        # A daemon: an import or a download cannot be stopped, and must not hold up the exit.
        self._thread = Thread(target=self._run, args=(request, job), name=self.name, daemon=True)
        self._thread.start()

    def _run(self, request: Request, job: Job) -> None:
        done = Done(self, request)  # type: ignore[arg-type]
        try:
            done.answer = self._work(request, job)
        except Cancelled:
            done.cancelled = True
        except InspectError as error:
            done.error = error
        except Exception as error:
            _log.exception("%s failed", self.name)
            done.error = self._unexpected(error)
        # Work that ended in spite of a late cancel is done; the owner knows whether it still fits.
        self._post(done)

    def _post(self, message: Message) -> None:
        if self._owner.is_attached:  # the screen may be gone by now
            self._owner.post_message(message)
