"""The one error that people see, and the exit codes that scripts rely on."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns; the numbers are a contract."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    """Wrong usage or configuration: an unknown option, map, layer, head or device."""
    NO_MODEL = 3
    """Model or tokenizer not to be had: not found, offline, gated, damaged, refused for safety."""
    UNSUPPORTED = 4
    """Model not supported, or it failed the self-check."""
    INPUT = 5
    """Input too long, empty, or out of memory."""
    OUTPUT = 6
    """Output cannot be written."""
    INTERRUPTED = 130


class InspectError(Exception):
    """A failure that a person can act on.

    Args:
        title: What went wrong, without a full stop.
        hint: What to do about it, without a full stop.
        code: The exit code of the process when nothing catches this.
    """

    def __init__(self, title: str, hint: str = "", code: ExitCode = ExitCode.UNEXPECTED) -> None:
        super().__init__(title)
        self.title = title
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        return f"{self.title}; {self.hint}." if self.hint else f"{self.title}."


class Cancelled(Exception):
    """Somebody asked a running job to stop."""
