"""Figures about all of a map, made from windows: never more than a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tui_attn.answers import BoolArray, Extent, FloatArray, Overview
from tui_attn.maps import grouping
from tui_attn.maps.sampling import SPAN, row_blocks, sampled_rows
from tui_attn.progress import Job

Window = Callable[[tuple[int, int]], tuple[FloatArray, BoolArray]]
"""All columns of some rows (half-open): values and whether they are visible, (rows, keys) each."""

_QUICK = 1 << 21
"""Cells that a quick picture of a map looks at."""
_BLOCK = 1 << 20
"""Cells that are held at a time."""


def picture(
    window: Window, size: tuple[int, int], shape: tuple[int, int], *, thorough: bool, job: Job
) -> Overview:
    """The map pooled to at most `shape` cells, each the value of largest magnitude.

    Args:
        window: The map.
        size: Its rows and columns.
        shape: Rows and columns of the picture at most.
        thorough: Look at every row; otherwise, of a long text, at some rows of each picture row.
        job: Told about every row of the picture.

    Raises:
        Cancelled: The job was cancelled.
    """
    length, keys = size
    rows, columns = min(shape[0], length), min(shape[1], keys)
    row_edges = np.arange(rows + 1) * length // rows
    column_edges = np.arange(columns + 1) * keys // columns
    sampled = 0
    cells, seen = np.full((rows, columns), np.nan), np.zeros((rows, columns), dtype=bool)
    for row in range(rows):
        job.report("pooling the map", row, rows)
        start, stop = int(row_edges[row]), int(row_edges[row + 1])
        if not thorough and length * keys > _QUICK:
            some = min(max(_QUICK // (keys * rows), 1), stop - start)
            start += (stop - start - some) // 2
            stop = start + some
        sampled += stop - start
        for block in _blocks(start, stop, keys):
            job.check()
            pooled, there = grouping.largest_magnitude(*window(block), column_edges)
            pair = np.stack([cells[row], pooled]), np.stack([seen[row], there])
            cells[row], seen[row] = grouping.largest_row(*pair)
    return Overview(cells, seen, sampled if sampled < length else None)


def span(
    window: Window, size: tuple[int, int], left_out: tuple[list[int], list[int]], job: Job
) -> Extent:
    """Least and largest finite value; of a long text, of sampled rows.

    Args:
        window: The map.
        size: Its rows and columns.
        left_out: Rows and columns that do not count.
        job: Checked at every block.

    Raises:
        Cancelled: The job was cancelled.
    """
    low, high = np.inf, -np.inf
    for rows in row_blocks(size[0], SPAN, size[1]):
        job.check()
        values, visible = window(rows)
        counted = visible & np.isfinite(values)
        counted[:, left_out[1]] = False
        counted[[row - rows[0] for row in left_out[0] if rows[0] <= row < rows[1]]] = False
        if counted.any():
            low, high = min(low, values[counted].min()), max(high, values[counted].max())
    if low > high:
        low = high = 0.0
    return Extent(float(low), float(high), sampled_rows(size[0], SPAN, size[1]))


def _blocks(start: int, stop: int, keys: int) -> Iterator[tuple[int, int]]:
    step = max(_BLOCK // keys, 1)
    for first in range(start, stop, step):
        yield first, min(first + step, stop)
