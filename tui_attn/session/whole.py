"""Figures about all of a map, made from windows: never more than a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tui_attn.answers import BoolArray, Extent, FloatArray, Overview
from tui_attn.maps import grouping
from tui_attn.maps.sampling import SPAN, row_blocks, sampled_rows
from tui_attn.progress import Job

Window = Callable[[tuple[int, int]], tuple[FloatArray, BoolArray]]
"""All columns of some rows (half-open): values and whether they are visible, (rows, s) each."""

_QUICK = 1 << 21
"""Cells that a quick picture of a map looks at."""
_BLOCK = 1 << 20
"""Cells that are held at a time."""


def picture(
    window: Window, length: int, shape: tuple[int, int], *, thorough: bool, job: Job
) -> Overview:
    """The map pooled to at most `shape` cells, each the value of largest magnitude.

    Args:
        window: The map.
        length: Its rows and columns.
        shape: Rows and columns of the picture at most.
        thorough: Look at every row; otherwise, of a long text, at some rows of each picture row.
        job: Told about every row of the picture.

    Raises:
        Cancelled: The job was cancelled.
    """
    rows, columns = (min(size, length) for size in shape)
    row_edges, column_edges = (np.arange(size + 1) * length // size for size in (rows, columns))
    sampled = 0
    cells, seen = np.full((rows, columns), np.nan), np.zeros((rows, columns), dtype=bool)
    for row in range(rows):
        job.report("pooling the map", row, rows)
        start, stop = int(row_edges[row]), int(row_edges[row + 1])
        if not thorough and length * length > _QUICK:
            some = min(max(_QUICK // (length * rows), 1), stop - start)
            start += (stop - start - some) // 2
            stop = start + some
        sampled += stop - start
        for block in _blocks(start, stop, length):
            job.check()
            pooled, there = grouping.largest_magnitude(*window(block), column_edges)
            pair = np.stack([cells[row], pooled]), np.stack([seen[row], there])
            cells[row], seen[row] = grouping.largest_row(*pair)
    return Overview(cells, seen, sampled if sampled < length else None)


def span(window: Window, length: int, left_out: list[int], job: Job) -> Extent:
    """Least and largest finite value; of a long text, of sampled rows.

    Args:
        window: The map.
        length: Its rows and columns.
        left_out: Rows and columns that do not count.
        job: Checked at every block.

    Raises:
        Cancelled: The job was cancelled.
    """
    low, high = np.inf, -np.inf
    for rows in row_blocks(length, SPAN):
        job.check()
        values, visible = window(rows)
        counted = visible & np.isfinite(values)
        counted[:, left_out] = False
        counted[[row - rows[0] for row in left_out if rows[0] <= row < rows[1]]] = False
        if counted.any():
            low, high = min(low, values[counted].min()), max(high, values[counted].max())
    if low > high:
        low = high = 0.0
    return Extent(float(low), float(high), sampled_rows(length, SPAN))


def _blocks(start: int, stop: int, length: int) -> Iterator[tuple[int, int]]:
    step = max(_BLOCK // length, 1)
    for first in range(start, stop, step):
        yield first, min(first + step, stop)
