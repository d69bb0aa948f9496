"""The text of the command line, from wherever it comes."""

from __future__ import annotations

import sys
from pathlib import Path

from tui_attn.errors import ExitCode, InspectError


def read_text(text: str | None, file: str | None) -> str | None:
    """The text of the command line; None means the demo's.

    Raises:
        InspectError: Two texts were given, or the file cannot be read (exit code 2).
    """
    if file is None and text != "-":
        return text
    if file is not None and text is not None:
        raise InspectError(
            "there are two texts", "give TEXT or --text-file, not both", ExitCode.USAGE
        )
    try:
        if text == "-" or file == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        return Path(str(file)).read_bytes().decode("utf-8")
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise InspectError(
            f"cannot read {file}: {reason}", "check --text-file", ExitCode.USAGE
        ) from error
    except UnicodeDecodeError as error:
        raise InspectError(
            f"the text is not UTF-8 (byte {error.start})",
            "convert it first, for example with iconv -t utf-8",
            ExitCode.USAGE,
        ) from error
