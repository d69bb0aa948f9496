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


def row_blocks(length: int, cells: int, keys: int | None = None) -> Iterator[tuple[int, int]]:
    """Half-open ranges of rows: all of them, or evenly spread ones from the first to the last.

    Args:
        length: Number of rows of the map.
        cells: How many cells may be looked at.
        keys: Number of its columns; None: as many as rows.
    """
    keys = keys or length
    if _all(length, cells, keys):
        for start in range(0, length, _BLOCK):
            yield start, min(start + _BLOCK, length)
        return
    rows = _rows_of_a_block(cells, keys)
    for number in range(_SPREAD):
        start = round(number * (length - rows) / (_SPREAD - 1))
        yield start, start + rows


def sampled_rows(length: int, cells: int, keys: int | None = None) -> int | None:
    """How many rows `row_blocks` looks at, None if all."""
    keys = keys or length
    if _all(length, cells, keys):
        return None
    return _SPREAD * _rows_of_a_block(cells, keys)


def _all(length: int, cells: int, keys: int) -> bool:
    return length * keys <= cells or length <= _SPREAD


def _rows_of_a_block(cells: int, keys: int) -> int:
    return max(cells // keys // _SPREAD, 1)
