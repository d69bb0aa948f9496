"""Exports: the same bytes from the screen, the command line and Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

from tui_attn.answers import Inspector
from tui_attn.export import pictures, tables
from tui_attn.export.request import (
    FORMATS,
    PICTURES,
    TABLES,
    ExportRequest,
    command_line,
    format_of,
    metadata,
)
from tui_attn.export.writing import whole_file
from tui_attn.progress import Job

_CARRY_METADATA = ("json", "npz", *PICTURES)
"""Formats that hold their metadata inside; the others have a file beside them."""


def export_stream(
    session: Inspector, request: ExportRequest, stream: BinaryIO, *, job: Job | None = None
) -> None:
    """Write an export to a binary stream.

    Raises:
        InspectError: The selection names what is not there (exit code 2).
        Cancelled: The job was cancelled.
    """
    job = job or Job()
    if request.format in PICTURES:
        made = pictures.figures(session, request, job)
        pictures.write(request.format, made, command_line(session, request), stream)
    else:
        table = tables.table(session, request, job)
        tables.write(request.format, table, metadata(session, request), stream)


def export_file(
    session: Inspector,
    request: ExportRequest,
    path: Path,
    *,
    force: bool = False,
    job: Job | None = None,
) -> Path:
    """Write an export to a file, whole or not at all.

    Tables without room for metadata get a `.meta.json` beside them.

    Raises:
        InspectError: What was asked for is not there (2), or the file cannot be written (6).
        Cancelled: The job was cancelled; no file is left.
    """
    beside = path.with_name(path.name + ".meta.json")
    with whole_file(path, force=force) as stream:
        export_stream(session, request, stream, job=job)
        if request.format not in _CARRY_METADATA:
            with whole_file(beside, force=True) as meta:
                text = json.dumps(metadata(session, request), indent=2, ensure_ascii=False)
                meta.write(f"{text}\n".encode())
    return path


__all__ = [
    "FORMATS",
    "PICTURES",
    "TABLES",
    "ExportRequest",
    "command_line",
    "export_file",
    "export_stream",
    "format_of",
]
