"""The text of the command line, from wherever it comes."""

from __future__ import annotations

import sys
from pathlib import Path

from tui_attn.errors import ExitCode, InspectError


def read_text(text: str | None, file: str | None) -> str | None:
    """The text of the command line; None means the demo's.

    Raises:
        InspectError: Two texts were given, the file cannot be read, or it is not UTF-8 (exit
            code 2).
    """
    if file is None and text != "-":
        return None if text is None else checked(text)
    if file is not None and text is not None:
        raise InspectError(
            "there are two texts", "give TEXT or --text-file, not both", ExitCode.USAGE
        )
    try:
        if text == "-" or file == "-":
            if sys.stdin is None:
                raise InspectError(
                    "standard input is closed", "give TEXT or --text-file", ExitCode.USAGE
                )
            return sys.stdin.buffer.read().decode("utf-8")
        return Path(str(file)).read_bytes().decode("utf-8")
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise InspectError(
            f"cannot read {file}: {reason}", "check --text-file", ExitCode.USAGE
        ) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(error.start) from error


def checked(argument: str) -> str:
    """An argument that is text: Python hands on bytes that are none as lone surrogates.

    Raises:
        InspectError: It is not UTF-8 (exit code 2).
    """
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _not_utf8(len(argument[: error.start].encode("utf-8"))) from error
    return argument


def _not_utf8(byte: int) -> InspectError:
    return InspectError(
        f"the text is not UTF-8 (byte {byte})",
        "convert it first, for example with iconv -t utf-8",
        ExitCode.USAGE,
    )
