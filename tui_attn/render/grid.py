"""One line of the coloured grid: values -> runs of equal style.

numpy is imported with the first cell, so that the first frame does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Literal

from rich.segment import Segment
from rich.style import Style

from tui_attn.answers import BoolArray, FloatArray
from tui_attn.render.palette import BROKEN_CELL, COLOUR_MAPS, ColourMap, indexed, shade
from tui_attn.render.scale import BROKEN, NO_LEVEL, Scale

Zoom = Literal["numbers", "blocks", "half", "fit"]
ZOOMS: tuple[Zoom, ...] = ("fit", "half", "blocks", "numbers")
"""From far to near, as the keys - and + walk."""
CELL_WIDTH: dict[Zoom, int] = {"numbers": 4, "blocks": 2, "half": 1, "fit": 1}

PLAIN = Style()
_CURSOR = Style(color=indexed(16), bgcolor=indexed(81), bold=True)
_CURSOR_MONO = Style(reverse=True, bold=True)
_NEGATIVE_SHADES = " ,vnN"


@dataclass(frozen=True)
class Look:
    """How cells are drawn.

    Attributes:
        colours: The colour map.
        colour: False on terminals without enough colours: glyphs carry value and sign.
        ascii: Use ASCII only.
    """

    colours: ColourMap = COLOUR_MAPS[0]
    colour: bool = True
    ascii: bool = False

    def rows_per_line(self, zoom: Zoom) -> int:
        """Half blocks hold two rows in a line, where colour and Unicode allow it."""
        return 2 if zoom in ("half", "fit") and self.colour and not self.ascii else 1

    @property
    def cursor(self) -> Style:
        """The style of the cursor's cell: a colour that no ramp has."""
        return _CURSOR if self.colour else _CURSOR_MONO


def number(value: float) -> str:
    """A value in four cells with two digits: ` .03`, `-.12`, `1.00`; NaN and infinities by name."""
    if value != value:
        return " NaN"
    if abs(value) == inf:
        return "-inf" if value < 0 else " inf"
    if abs(value) >= 99.5:
        return "-big" if value < 0 else " big"
    if abs(value) >= 9.95:
        return f"{value:4.0f}"
    if abs(value) >= 0.995:
        return f"{value:4.1f}" if value < 0 else f"{value:4.2f}"
    digits = f"{abs(value):.2f}"[1:]
    return f"{'-' if value < 0 else ' '}{digits}"


def line(
    values: FloatArray,
    scale: Scale,
    zoom: Zoom,
    look: Look,
    cursor: int | None = None,
    visible: BoolArray | None = None,
) -> list[Segment]:
    """The cells of one line of the grid.

    Args:
        values: (columns,), or (2, columns) where a line holds two rows.
        scale: What the colours span.
        zoom: The size of a cell.
        look: How cells are drawn.
        cursor: Column of the cursor if it is in this line; for two rows, in the upper one when
            >= 0, or in the lower one encoded as -1 - column.
        visible: The shape of the values: where NaN is said; elsewhere, or if None, it is blank.
    """
    if values.ndim == 2:
        return _half_blocks(values, scale, look, cursor, visible)
    texts = _texts(values, scale, zoom, look, visible)
    if look.colour:
        ramp = look.colours.ramp(scale.signed)
        odd = {NO_LEVEL: PLAIN, BROKEN: BROKEN_CELL}
        levels = scale.levels(values, len(ramp), visible).tolist()
        styles = [odd[level] if level in odd else ramp.styles[level] for level in levels]
    else:
        styles = [PLAIN] * len(texts)
    if cursor is not None:
        styles[cursor] = look.cursor
    return merge(texts, styles)


def merge(texts: Sequence[str], styles: Sequence[Style]) -> list[Segment]:
    """Join neighbours of one style into one segment: the terminal gets half the bytes."""
    segments: list[Segment] = []
    start = 0
    for end in range(1, len(texts) + 1):
        if end == len(texts) or styles[end] is not styles[start]:
            segments.append(Segment("".join(texts[start:end]), styles[start]))
            start = end
    return segments


def _texts(
    values: FloatArray, scale: Scale, zoom: Zoom, look: Look, visible: BoolArray | None
) -> list[str]:
    width = CELL_WIDTH[zoom]
    if zoom == "numbers":
        texts = [" " * width if value != value else number(value) for value in values.tolist()]
    elif look.colour:
        texts = [" " * width] * len(values)
    else:
        texts = [_glyphs(place, width, look) for place in scale.positions(values).tolist()]
    if visible is not None:
        for column in (visible & (values != values)).nonzero()[0].tolist():
            texts[column] = " NaN" if zoom == "numbers" else "?".rjust(width)
    return texts


def _glyphs(place: float, width: int, look: Look) -> str:
    """A position on the scale without colour, in one or two cells; NaN is blank."""
    if place != place:
        return " " * width
    if width > 1:
        return ("-" if place < 0 else " ") + shade(place, ascii=look.ascii)
    if place < 0:  # a glyph of its own, since there is no room for a sign
        return _NEGATIVE_SHADES[min(int(-place * 5), 4)]
    return shade(place, ascii=look.ascii)


def _half_blocks(
    values: FloatArray, scale: Scale, look: Look, cursor: int | None, visible: BoolArray | None
) -> list[Segment]:
    ramp = look.colours.ramp(scale.signed)
    upper, lower = scale.levels(values, len(ramp), visible).tolist()
    styles = [ramp.pair(top, bottom) for top, bottom in zip(upper, lower, strict=True)]
    texts = ["▀"] * len(styles)
    for column, (top, bottom) in enumerate(zip(upper, lower, strict=True)):
        if top == NO_LEVEL:  # the upper half shows the screen's own background
            texts[column] = " " if bottom == NO_LEVEL else "▄"
            styles[column] = PLAIN if bottom == NO_LEVEL else ramp.pair(bottom, NO_LEVEL)
    if cursor is not None:
        column = cursor if cursor >= 0 else -1 - cursor
        texts[column] = "▀" if cursor >= 0 else "▄"
        other = lower[column] if cursor >= 0 else upper[column]
        beside = ramp.pair(other, NO_LEVEL).color if other != NO_LEVEL else None
        styles[column] = Style(color=look.cursor.bgcolor, bgcolor=beside)
    return merge(texts, styles)


def blank(rows: int, columns: int) -> FloatArray:
    """Cells that show nothing: NaN, (rows, columns)."""
    import numpy as np

    return np.full((rows, columns), np.nan)


def pool(picture: FloatArray, rows: int, columns: int) -> FloatArray:
    """A picture pooled to at most rows x columns cells, each the value of largest magnitude."""
    import numpy as np

    rows, columns = min(rows, picture.shape[0]), min(columns, picture.shape[1])
    row_starts = np.arange(rows) * picture.shape[0] // rows
    column_starts = np.arange(columns) * picture.shape[1] // columns
    filled = np.where(np.isnan(picture), -np.inf, picture)
    high = np.maximum.reduceat(np.maximum.reduceat(filled, row_starts, 0), column_starts, 1)
    return np.where(np.isinf(high), np.nan, high)


def thumbnail(picture: FloatArray, width: int, height: int, look: Look) -> list[list[Segment]]:
    """A head's raw attention in `height` lines of `width` cells."""
    scale = Scale(0.0, 1.0)
    per_line = look.rows_per_line("half")
    small = pool(picture, height * per_line, width)
    tall = blank(height * per_line, width)
    tall[: small.shape[0], : small.shape[1]] = small
    if per_line == 1:
        return [line(row, scale, "half", look) for row in tall]
    return [line(pair, scale, "half", look) for pair in tall.reshape(height, 2, width)]


def spark(values: Sequence[float], width: int, *, ascii: bool = False) -> str:
    """One character a value from 0 to 1, pooled by maximum where there are more than `width`."""
    if not values:
        return " " * width
    count = min(width, len(values))
    edges = [step * len(values) // count for step in range(count + 1)]
    peaks = [
        max((value for value in values[start:stop] if value == value), default=0.0)
        for start, stop in pairwise(edges)
    ]
    bars = " .:-=+*#" if ascii else "▁▂▃▄▅▆▇█"
    return "".join(bars[min(max(int(peak * 8), 0), 7)] for peak in peaks).ljust(width)
