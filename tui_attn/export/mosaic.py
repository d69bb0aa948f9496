"""Every head at once as a picture: thumbnails of raw attention, layers by heads, in SVG or HTML."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from typing import BinaryIO

from tui_attn.answers import HeadSummary, Inspector
from tui_attn.export import plain_json
from tui_attn.export.request import ExportRequest, pick, stack_title
from tui_attn.progress import Job
from tui_attn.render.cells import visible
from tui_attn.render.palette import COLOUR_MAPS
from tui_attn.render.scale import NO_LEVEL, Scale

_SIDE = 72
"""Points of a thumbnail's sides."""
_GAP, _LEFT, _TOP = 8, 40, 44
_SCALE = Scale(0.0, 1.0)


def write(
    session: Inspector,
    request: ExportRequest,
    metadata: dict[str, object],
    stream: BinaryIO,
    job: Job,
) -> None:
    """Write the heads of a selection to a binary stream, as `request.format` says.

    Raises:
        InspectError: The selection names what is not there (exit code 2).
        Cancelled: The job was cancelled.
    """
    picked = pick(session, request.selection)
    wall = []
    for layer in picked.layers:
        found = session.summaries(layer, variant=request.variant, job=job)
        wall.append([found[head] for head in picked.heads])
    described = html.escape(plain_json.dumps(metadata, indent=2), quote=False)
    drawing = _drawing(wall, _caption(session, wall[0][0]), described)
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n", write_through=True)
    try:
        text.write(drawing if request.format == "svg" else _page(drawing))
    finally:
        text.flush()
        text.detach()


def _caption(session: Inspector, sample: HeadSummary) -> str:
    model = session.model
    rows = f", {sample.sampled_rows:,} of the rows" if sample.sampled_rows else ""
    return (
        f"{stack_title(session)}Raw attention of every head, pooled by maximum{rows} · "
        f"scale {_SCALE.legend()} · "
        f"{visible(model.name)}, {len(session.run.tokens):,} tokens"
    )


def _page(drawing: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>attn-inspect</title>'
        f"</head><body>\n{drawing}</body></html>\n"
    )


def _drawing(wall: Sequence[Sequence[HeadSummary]], caption: str, described: str) -> str:
    step = _SIDE + _GAP
    width = max(_LEFT + step * len(wall[0]), 640)
    height = _TOP + step * len(wall)
    # One path a level, and not one rectangle a cell: a tenth of the size.
    paths: dict[int, list[str]] = {}
    lines = []
    for row, layer in enumerate(wall):
        y = _TOP + row * step
        lines.append(f'<text x="4" y="{y + _SIDE // 2}">L{layer[0].layer}</text>')
        for column, head in enumerate(layer):
            x = _LEFT + column * step
            if not row:
                lines.append(f'<text x="{x}" y="{_TOP - 6}">H{head.head}</text>')
            lines.append(
                f'<rect x="{x}" y="{y}" width="{_SIDE}" height="{_SIDE}" fill="none" '
                f'stroke="#888"><title>L{head.layer}H{head.head}</title></rect>'
            )
            _add_thumbnail(paths, head, x, y)
    ramp = COLOUR_MAPS[0].ramp(False)
    for level, parts in sorted(paths.items()):
        colour = "#{:02x}{:02x}{:02x}".format(*ramp.colours[level])
        lines.append(f'<path fill="{colour}" d="{"".join(parts)}"/>')
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="monospace" font-size="11">\n'
        f"<metadata>{described}</metadata>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="4" y="16">{html.escape(caption)}</text>\n{body}\n</svg>\n'
    )


def _add_thumbnail(paths: dict[int, list[str]], head: HeadSummary, x: int, y: int) -> None:
    """Add a head's cells to the paths of their levels, neighbours of one level as one piece."""
    ramp = COLOUR_MAPS[0].ramp(False)
    levels = _SCALE.levels(head.thumbnail, len(ramp)).tolist()
    high = _SIDE / max(len(levels), 1)
    wide = _SIDE / max(len(levels[0]) if levels else 0, 1)
    for row, line in enumerate(levels):
        start = 0
        for column in range(1, len(line) + 1):
            if column < len(line) and line[column] == line[start]:
                continue
            if line[start] != NO_LEVEL:  # nothing is visible there
                across = (column - start) * wide
                paths.setdefault(line[start], []).append(
                    f"M{x + start * wide:g} {y + row * high:g}h{across:g}v{high:g}h{-across:g}z"
                )
            start = column
