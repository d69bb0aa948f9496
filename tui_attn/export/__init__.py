"""Exports: the same bytes from the screen, the command line and Python."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from tui_attn.answers import Inspector
from tui_attn.export import attention, attribution, identity, mosaic, pictures, plain_json, tables
from tui_attn.export.request import (
    FORMATS,
    PICTURES,
    TABLES,
    ExportRequest,
    attention_layers,
    command_line,
    format_of,
    metadata,
)
from tui_attn.files import check_place, is_stream, settle, whole_file
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
    contents = {"identity": identity, "attribution": attribution}.get(request.map, attention)
    if request.format in PICTURES and request.map == "heads":
        mosaic.write(session, request, metadata(session, request), stream, job)
    elif request.format in PICTURES:
        figures = contents.figures(session, request, job)
        pictures.write(request.format, figures, metadata(session, request), stream)
    else:
        table = contents.table(session, request, job)
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
    check_places(path, request.format, force=force)
    beside = _beside(path, request.format)
    with whole_file(path, force=force) as stream:
        export_stream(session, request, stream, job=job)
        if beside is not None:
            settle(stream)  # no metadata for a table that did not fit on the disk
            with whole_file(beside, force=force) as meta:
                text = plain_json.dumps(metadata(session, request), indent=2)
                meta.write(f"{text}\n".encode())
    return path


def check_places(path: Path, form: str, *, force: bool) -> None:
    """Refuse a file, or one beside it, that cannot be written; before any work is done for it.

    Raises:
        InspectError: Something is there already, or the folder is not (exit code 6).
    """
    check_place(path, force=force)
    beside = _beside(path, form)
    if beside is not None:
        check_place(beside, force=force)


def _beside(path: Path, form: str) -> Path | None:
    """Where the metadata goes that the format has no room for; a pipe has nothing beside it."""
    if form in _CARRY_METADATA or is_stream(path):
        return None
    return path.with_name(path.name + ".meta.json")


__all__ = [
    "FORMATS",
    "PICTURES",
    "TABLES",
    "ExportRequest",
    "attention_layers",
    "check_places",
    "command_line",
    "export_file",
    "export_stream",
    "format_of",
]
