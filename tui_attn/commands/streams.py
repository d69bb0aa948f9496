"""What a command without a screen owes the shell: whole output, quiet ends, no leftovers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import BinaryIO

from tui_attn.errors import ExitCode, InspectError
from tui_attn.render.cells import visible


def say(sentence: str) -> None:
    """One line on standard error, where there is one; names in it may hold anything."""
    if sys.stderr is not None:
        sys.stderr.write(f"attn-inspect: {visible(' '.join(sentence.split()))}\n")


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Standard output, flushed when the block ends.

    Raises:
        InspectError: It is closed or full (exit code 6).
        BrokenPipeError: The reader went away.
    """
    if sys.stdout is None:
        raise InspectError("standard output is closed", "add -o FILE", ExitCode.OUTPUT)
    try:
        yield sys.stdout.buffer
        sys.stdout.flush()
    except OSError as error:
        # What is still in Python's buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        reason = (error.strerror or "unknown reason").lower()
        raise InspectError(
            f"cannot write to standard output: {reason}", "add -o FILE", ExitCode.OUTPUT
        ) from error


@contextmanager
def tidy_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program as an exception, so that half a file is removed."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    # A signal that is ignored already (nohup) stays ignored.
    mine = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in mine:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)
