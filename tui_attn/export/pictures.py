"""The coloured grid as a file: HTML and SVG that need nothing else, one figure a head."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import BinaryIO

from tui_attn.answers import BoolArray, FloatArray, Inspector
from tui_attn.errors import ExitCode, InspectError
from tui_attn.export import plain_json
from tui_attn.export.request import ExportRequest, Picked, pick
from tui_attn.maps import get
from tui_attn.progress import Job
from tui_attn.render.cells import visible, width
from tui_attn.render.palette import COLOUR_MAPS
from tui_attn.render.scale import NO_LEVEL, Scale

_MOST_CELLS = 1 << 18
"""Cells of one figure; a browser chokes on more."""
_CELL, _FONT = 38, 10
"""A cell holds `-0.12` and `-1.00` with room at both sides."""
_NAN = ("#808080", "#000000", "NaN")
"""A cell that is seen but is no number; unlike all colours of the ramps."""


@dataclass(frozen=True)
class Figure:
    """One head's grid."""

    caption: str
    query_labels: list[str]
    key_labels: list[str]
    values: FloatArray
    visible: BoolArray
    scale: Scale


def figures(session: Inspector, request: ExportRequest, job: Job) -> Iterator[Figure]:
    """The figures of an export.

    Raises:
        InspectError: The selection names what is not there (2), or is too large to draw (5).
    """
    picked = pick(session, request.selection)
    if len(picked.queries) * len(picked.keys) > _MOST_CELLS:
        raise InspectError(
            f"a picture of {len(picked.queries)} x {len(picked.keys)} cells is too large to draw",
            "select fewer, for example --select 'q=0:200 k=0:200', or export a table",
            ExitCode.INPUT,
        )
    labels = [visible(token.text) for token in session.run.tokens]
    return (
        _figure(session, request, layer, head, picked, labels, job)
        for layer, head in product(picked.layers, picked.heads)
    )


def _figure(
    session: Inspector,
    request: ExportRequest,
    layer: int,
    head: int,
    picked: Picked,
    labels: list[str],
    job: Job,
) -> Figure:
    job.check()
    spec, model = get(request.map), session.model
    window = session.window(
        request.map,
        layer,
        head,
        picked.rows,
        picked.columns,
        variant=request.variant,
    )
    rows = [[query - picked.rows[0]] for query in picked.queries]
    columns = [key - picked.columns[0] for key in picked.keys]
    extent = session.extent(request.map, layer, head, variant=request.variant, job=job)
    scale = Scale(extent.low, extent.high, spec.scale == "signed")
    variant = f" ({request.variant})" if spec.has_variants else ""
    caption = (
        f"{spec.title}{variant} · L{layer} H{head} · scale {scale.legend()} · "
        f"{visible(model.name)}, {model.device} {model.dtype}, kernel {model.kernel}"
    )
    return Figure(
        caption,
        [labels[query] for query in picked.queries],
        [labels[key] for key in picked.keys],
        window.values[rows, columns],
        window.visible[rows, columns],
        scale,
    )


def write(form: str, made: Iterator[Figure], metadata: dict[str, object], stream: BinaryIO) -> None:
    """Write figures to a binary stream as `html` or `svg`."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n", write_through=True)
    try:
        described = html.escape(plain_json.dumps(metadata, indent=2), quote=False)
        (_write_html if form == "html" else _write_svg)(made, described, text)
    finally:
        text.flush()
        text.detach()


def _paint(figure: Figure) -> Iterator[list[tuple[str, str, str]]]:
    """For each row its cells: (background, ink, number) in CSS; no number where invisible."""
    ramp = COLOUR_MAPS[0].ramp(figure.scale.signed)
    backgrounds = [_css(colour) for colour in ramp.colours]
    inks = [_css(colour) for colour in ramp.inks]
    levels = figure.scale.levels(figure.values, len(ramp))
    for row, row_levels, row_visible in zip(figure.values, levels, figure.visible, strict=True):
        cells: list[tuple[str, str, str]] = []
        for value, level, seen in zip(row, row_levels, row_visible, strict=True):
            if not seen:
                cells.append(("none", "none", ""))
            elif level == NO_LEVEL:
                cells.append(_NAN)
            else:
                cells.append((backgrounds[level], inks[level], f"{value:.2f}"))
        yield cells


def _css(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _write_html(made: Iterator[Figure], described: str, text: io.TextIOWrapper) -> None:
    text.write(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>attn-inspect</title>'
        "<style>body{font:14px sans-serif}table{border-collapse:collapse;font:11px monospace}"
        "td{padding:2px 4px;text-align:right}th{font-weight:normal;padding:2px 4px;"
        "white-space:nowrap;text-align:right}thead th{writing-mode:vertical-rl;text-align:left}"
        "figure{margin:1em 0}</style></head><body>\n"
    )
    for figure in made:
        text.write(
            f"<figure><figcaption>{html.escape(figure.caption)}</figcaption>\n<table><thead>"
        )
        heads = "".join(f"<th>{html.escape(label)}</th>" for label in figure.key_labels)
        text.write(f"<tr><td></td>{heads}</tr></thead><tbody>\n")
        for label, cells in zip(figure.query_labels, _paint(figure), strict=True):
            row = "".join(
                f'<td style="background:{background};color:{ink}">{number}</td>'
                if number
                else "<td></td>"
                for background, ink, number in cells
            )
            text.write(f"<tr><th>{html.escape(label)}</th>{row}</tr>\n")
        text.write("</tbody></table></figure>\n")
    text.write(
        "<details><summary>How to make this again</summary>"
        f"<pre>{described}</pre></details></body></html>\n"
    )


def _write_svg(made: Iterator[Figure], described: str, text: io.TextIOWrapper) -> None:
    drawn = list(made)
    body, top, right = [], 0, 0
    for figure in drawn:
        lines, wide, high = _svg_figure(figure, top)
        body += lines
        top, right = top + high, max(right, wide)
    text.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {top}" width="{right}" '
        f'height="{top}" font-family="monospace" font-size="{_FONT}">\n'
        f"<metadata>{described}</metadata>\n"
        f'<rect width="{right}" height="{top}" fill="#ffffff"/>\n'
    )
    text.writelines(f"{line}\n" for line in body)
    text.write("</svg>\n")


def _svg_figure(figure: Figure, top: int) -> tuple[list[str], int, int]:
    """The lines of one figure below `top`, and its width and height."""
    letter, row_height = _FONT * 0.62, 16
    left = round(max(map(width, figure.query_labels)) * letter) + 12
    header = round(max(map(width, figure.key_labels)) * letter) + 34
    lines = [f'<text x="6" y="{top + 16}" font-size="12">{html.escape(figure.caption)}</text>']
    for column, label in enumerate(figure.key_labels):
        x, y = left + column * _CELL + _CELL / 2 + 3, top + header - 4
        lines.append(
            f'<text transform="translate({x:g} {y}) rotate(-90)">{html.escape(label)}</text>'
        )
    for row, (label, cells) in enumerate(zip(figure.query_labels, _paint(figure), strict=True)):
        y = top + header + row * row_height
        lines.append(
            f'<text x="{left - 6}" y="{y + 12}" text-anchor="end">{html.escape(label)}</text>'
        )
        for column, (background, ink, number) in enumerate(cells):
            if not number:
                continue
            x = left + column * _CELL
            lines.append(
                f'<rect x="{x}" y="{y}" width="{_CELL}" height="{row_height}" fill="{background}"/>'
                f'<text x="{x + _CELL - 3}" y="{y + 12}" text-anchor="end" fill="{ink}">{number}'
                "</text>"
            )
    wide = max(left + len(figure.key_labels) * _CELL + 8, round(width(figure.caption) * 7.5) + 12)
    return lines, wide, header + len(figure.query_labels) * row_height + 14
