"""The text of the command line, from wherever it comes."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path

from tui_attn.errors import ExitCode, InspectError

_MOST_BYTES = 1 << 26
"""Far beyond what any model takes; a device such as /dev/zero has no end."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # begins like the next
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def read_text(text: str | None, file: str | None) -> str | None:
    """The text of the command line; None means the demo's.

    Raises:
        InspectError: Two texts were given, the file cannot be read, or it is no text (exit code
            2); it is empty, or too long for anything (5).
    """
    if file is None and text != "-":
        return None if text is None else _not_empty(checked(text), "the text")
    if file is not None and text is not None:
        raise InspectError(
            "there are two texts", "give TEXT or --text-file, not both", ExitCode.USAGE
        )
    name = "-" if file is None else file
    return _not_empty(decoded(read_bytes(name, "--text-file")), told(name))


def read_bytes(file: str, option: str) -> bytes:
    """All of a file, or of standard input for `-`.

    Args:
        file: Its name.
        option: The option that named it, for the sentence.

    Raises:
        InspectError: It cannot be read (exit code 2), or has no end (5).
    """
    try:
        if file == "-":
            if sys.stdin is None:
                raise InspectError(
                    "standard input is closed", f"give TEXT or {option}", ExitCode.USAGE
                )
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise InspectError(
            f"cannot read {file}: {reason}", f"check {option}", ExitCode.USAGE
        ) from error
    except ValueError as error:  # a NUL in the name
        raise InspectError(
            f"{file} is no name of a file", f"check {option}", ExitCode.USAGE
        ) from error
    if len(data) > _MOST_BYTES:
        raise InspectError(
            f"{told(file)} is longer than {_MOST_BYTES >> 20} MiB",
            "give a part of it",
            ExitCode.INPUT,
        )
    return data


def decoded(data: bytes) -> str:
    r"""Bytes -> text: UTF-8, or what a byte order mark says; `\r\n` ends a line as `\n` does.

    Raises:
        InspectError: They are no such text (exit code 2).
    """
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    encoding = _MARKS.get(mark, "utf-8")
    if not mark and _looks_like_utf16(data):
        raise InspectError(
            "the text looks like UTF-16 without its byte order mark",
            "convert it first, for example with iconv -f utf-16le -t utf-8",
            ExitCode.USAGE,
        )
    try:
        return data[len(mark) :].decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _no_text(encoding.upper()[:6].rstrip("-"), len(mark) + error.start) from error


def checked(argument: str) -> str:
    """An argument that is text: Python hands on bytes that are none as lone surrogates.

    Raises:
        InspectError: It is not UTF-8 (exit code 2).
    """
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _no_text("UTF-8", len(argument[: error.start].encode("utf-8"))) from error
    return argument


def told(file: str) -> str:
    """A file in a sentence."""
    return "standard input" if file == "-" else file


def _looks_like_utf16(data: bytes) -> bool:
    """Whether every other byte is mostly NUL, as in 16 bits; a NUL alone is a character."""
    even, odd = data[0::2].count(0), data[1::2].count(0)
    return len(data) >= 4 and min(even, odd) == 0 and 4 * max(even, odd) > len(data)


def _not_empty(text: str, what: str) -> str:
    if not text.strip():
        raise InspectError(f"{what} is empty", "give a text with at least one word", ExitCode.INPUT)
    return text


def _no_text(encoding: str, byte: int) -> InspectError:
    return InspectError(
        f"the text is not {encoding} (byte {byte})",
        "convert it first, for example with iconv -t utf-8",
        ExitCode.USAGE,
    )
