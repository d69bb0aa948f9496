"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tui_attn.errors import ExitCode, InspectError


@contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A stream that becomes the file `path` when the block ends, and nothing when it fails.

    Args:
        path: The file to make; its folder must exist.
        force: Replace a file that exists.

    Raises:
        InspectError: The file exists, or cannot be written (exit code 6).
    """
    if path.is_dir():
        raise InspectError(f"{path} is a folder", "give a file name", ExitCode.OUTPUT)
    if path.exists() and not force:
        raise InspectError(f"{path} exists already", "add --force to replace it", ExitCode.OUTPUT)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot_write(path: Path, error: OSError) -> InspectError:
    reason = (error.strerror or "unknown reason").lower()
    return InspectError(
        f"cannot write {path}: {reason}", "choose another folder with -o", ExitCode.OUTPUT
    )
