"""Which rows of a map a figure about all of it looks at: so many cells, however long the text."""

from __future__ import annotations

from collections.abc import Iterator

STATISTICS = 1 << 20
"""Cells that the statistics of a head look at: every row of a text of 1,024 tokens."""
SPAN = 1 << 19
"""Cells that the span of a map looks at: every row of a text of 724 tokens."""
_BLOCK = 256
_SPREAD = 32
"""Blocks into which the rows of a long text are spread: more than a thumbnail has rows."""


def row_blocks(length: int, cells: int) -> Iterator[tuple[int, int]]:
    """Half-open ranges of rows: all of them, or evenly spread ones from the first to the last.

    Args:
        length: Number of rows and columns of the map.
        cells: How many cells may be looked at.
    """
    if length * length <= cells:
        for start in range(0, length, _BLOCK):
            yield start, min(start + _BLOCK, length)
        return
    rows = _rows_of_a_block(length, cells)
    for number in range(_SPREAD):
        start = round(number * (length - rows) / (_SPREAD - 1))
        yield start, start + rows


def sampled_rows(length: int, cells: int) -> int | None:
    """How many rows `row_blocks` looks at, None if all."""
    return None if length * length <= cells else _SPREAD * _rows_of_a_block(length, cells)


def _rows_of_a_block(length: int, cells: int) -> int:
    return max(cells // length // _SPREAD, 1)
