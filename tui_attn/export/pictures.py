"""The coloured grid as a file: HTML and SVG that need nothing else, one figure a head."""

from __future__ import annotations

import html
import io
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from tui_attn.answers import BoolArray, FloatArray
from tui_attn.errors import ExitCode, InspectError
from tui_attn.export import plain_json
from tui_attn.render.cells import width
from tui_attn.render.palette import COLOUR_MAPS
from tui_attn.render.scale import BROKEN, Scale

_MOST_CELLS = 1 << 18
"""Cells of one figure; a browser chokes on more."""
_CELL, _FONT = 38, 10
"""A cell holds `-0.12` and `-1.00` with room at both sides."""
_LETTER, _CAPTION_LETTER, _NARROWEST = _FONT * 0.62, 7.5, 640
_NAN = ("#808080", "#000000", "NaN")
"""A cell that is seen but is no number; unlike all colours of the ramps."""


@dataclass(frozen=True)
class Figure:
    """One coloured grid.

    Attributes:
        caption: What it shows.
        row_labels: As they are written.
        column_labels: As they are written.
        values: (rows, columns), what the colours say.
        visible: (rows, columns); other cells stay blank.
        scale: What the colours span.
        texts: (rows, columns), what the cells say; None: the values.
    """

    caption: str
    row_labels: list[str]
    column_labels: list[str]
    values: FloatArray
    visible: BoolArray
    scale: Scale
    texts: list[list[str]] | None = None


def must_be_drawable(rows: int, columns: int) -> None:
    """Refuse a figure that nothing could show.

    Raises:
        InspectError: It has too many cells (exit code 5).
    """
    if rows * columns > _MOST_CELLS:
        raise InspectError(
            f"a picture of {rows} x {columns} cells is too large to draw",
            "select fewer, for example --select 'q=0:200 k=0:200', or export a table",
            ExitCode.INPUT,
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
    """For each row its cells: (background, ink, text) in CSS; no text where invisible."""
    ramp = COLOUR_MAPS[0].ramp(figure.scale.signed)
    backgrounds = [_css(colour) for colour in ramp.colours]
    inks = [_css(colour) for colour in ramp.inks]
    levels = figure.scale.levels(figure.values, len(ramp), figure.visible)
    texts = figure.texts or [[f"{value:.2f}" for value in row] for row in figure.values]
    for row, row_levels, row_visible in zip(texts, levels, figure.visible, strict=True):
        cells: list[tuple[str, str, str]] = []
        for text, level, seen in zip(row, row_levels, row_visible, strict=True):
            if not seen:
                cells.append(("none", "none", ""))
            elif level == BROKEN:
                cells.append(_NAN)
            else:
                cells.append((backgrounds[level], inks[level], text))
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
        heads = "".join(f"<th>{html.escape(label)}</th>" for label in figure.column_labels)
        text.write(f"<tr><td></td>{heads}</tr></thead><tbody>\n")
        for label, cells in zip(figure.row_labels, _paint(figure), strict=True):
            row = "".join(
                f'<td style="background:{background};color:{ink}">{html.escape(text)}</td>'
                if text
                else "<td></td>"
                for background, ink, text in cells
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
    row_height, cell = 16, _cell_width(figure)
    left = round(max(map(width, figure.row_labels)) * _LETTER) + 12
    across = max(left + len(figure.column_labels) * cell + 8, _NARROWEST)
    caption = textwrap.wrap(figure.caption, int((across - 12) / _CAPTION_LETTER))
    header = round(max(map(width, figure.column_labels)) * _LETTER) + 18 + 16 * len(caption)
    lines = [
        f'<text x="6" y="{top + 16 * line}" font-size="12">{html.escape(part)}</text>'
        for line, part in enumerate(caption, 1)
    ]
    for column, label in enumerate(figure.column_labels):
        x, y = left + column * cell + cell / 2 + 3, top + header - 4
        lines.append(
            f'<text transform="translate({x:g} {y}) rotate(-90)">{html.escape(label)}</text>'
        )
    for row, (label, cells) in enumerate(zip(figure.row_labels, _paint(figure), strict=True)):
        y = top + header + row * row_height
        lines.append(
            f'<text x="{left - 6}" y="{y + 12}" text-anchor="end">{html.escape(label)}</text>'
        )
        for column, (background, ink, text) in enumerate(cells):
            if not text:
                continue
            x = left + column * cell
            lines.append(
                f'<rect x="{x}" y="{y}" width="{cell}" height="{row_height}" fill="{background}"/>'
                f'<text x="{x + cell - 3}" y="{y + 12}" text-anchor="end" fill="{ink}">'
                f"{html.escape(text)}</text>"
            )
    return lines, across, header + len(figure.row_labels) * row_height + 14


def _cell_width(figure: Figure) -> int:
    texts = [text for row in figure.texts or [] for text in row]
    return max(_CELL, round(max(map(width, texts), default=0) * _LETTER) + 8)
