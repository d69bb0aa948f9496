"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tui_attn.errors import ExitCode, InspectError


def check_place(path: Path, *, force: bool) -> None:
    """Refuse a place where no file can be made, before any work is done for it.

    Raises:
        InspectError: There is no folder, or there is something already (exit code 6).
    """
    try:
        if not path.parent.is_dir():
            raise InspectError(
                f"there is no folder {path.parent}", "make it first", ExitCode.OUTPUT
            )
        if path.is_dir():
            raise InspectError(f"{path} is a folder", "give a file name", ExitCode.OUTPUT)
        if path.is_file() and not force:
            raise InspectError(
                f"{path} exists already", "add --force to replace it", ExitCode.OUTPUT
            )
    except OSError as error:
        raise _cannot_write(path, error) from error


def is_stream(path: Path) -> bool:
    """Whether this is a device or a pipe: something to write into, never to replace."""
    try:
        return path.exists() and not path.is_file()
    except OSError:  # a name that no file can have; `check_place` says so
        return False


@contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A stream that becomes the file `path` when the block ends, and nothing when it fails.

    A link stays a link: the file that it names is replaced.

    Args:
        path: The file to make; its folder must exist.
        force: Replace a file that exists.

    Raises:
        InspectError: The file exists, or cannot be written (exit code 6).
    """
    check_place(path, force=force)
    try:
        if is_stream(path):
            with path.open("wb") as stream:
                yield stream
            return
        target = path.resolve()
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w+b") as stream:
                yield stream
                settle(stream)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def settle(stream: BinaryIO) -> None:
    """Bring what was written to the disk, so that a full disk shows now and not later."""
    stream.flush()
    os.fsync(stream.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot_write(path: Path, error: OSError) -> InspectError:
    reason = (error.strerror or "unknown reason").lower()
    return InspectError(
        f"cannot write {path}: {reason}", "choose another folder with -o", ExitCode.OUTPUT
    )
