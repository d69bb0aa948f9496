"""Words instead of sub-word tokens, and honest pooling of maps larger than the screen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from tui_attn.answers import BoolArray, FloatArray


def word_edges(words: list[int]) -> list[int]:
    """Positions at which words start, and the end.

    Args:
        words: The number of each token's word, in runs.
    """
    starts = [
        position
        for position, word in enumerate(words)
        if position == 0 or word != words[position - 1]
    ]
    return [*starts, len(words)]


def by_words(
    cells: torch.Tensor,
    visible: torch.Tensor,
    edges: tuple[Sequence[int], Sequence[int]],
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token cells -> word cells: sums over a word's keys, means over its queries.

    So a row still sums to what it summed to. Invisible token cells count as zero.

    Args:
        cells: (token rows, token columns) of the words wanted.
        visible: The same shape.
        edges: `word_edges` of the queries and of the keys.
        rows: Half-open range of words.
        columns: Likewise.

    Returns:
        Word cells and whether any of their token cells is visible.
    """
    row_sizes, column_sizes = (
        _sizes(starts, span).to(cells.device)
        for starts, span in zip(edges, (rows, columns), strict=True)
    )

    def pooled(table: torch.Tensor) -> torch.Tensor:
        sums = torch.segment_reduce(table.T.contiguous(), "sum", lengths=column_sizes)
        return torch.segment_reduce(sums.T.contiguous(), "sum", lengths=row_sizes)

    seen = pooled(visible.double()) > 0
    return pooled(cells.masked_fill(~visible, 0.0)) / row_sizes[:, None], seen


def all_of_words(marked: torch.Tensor, edges: Sequence[int], rows: tuple[int, int]) -> torch.Tensor:
    """Which words have nothing but marked tokens: (words,) bool, from the tokens of `rows`."""
    sizes = _sizes(edges, rows).to(marked.device)
    return torch.segment_reduce(marked.double(), "sum", lengths=sizes) == sizes


def largest_magnitude(
    values: FloatArray, visible: BoolArray, column_edges: NDArray[np.int64]
) -> tuple[FloatArray, BoolArray]:
    """Pool rows into one, and columns between edges: see `largest_row`.

    Args:
        values: (rows, columns).
        visible: The same shape; other cells do not count.
        column_edges: Increasing positions, first 0 and last the number of columns.

    Returns:
        (len(column_edges) - 1,) values, and where anything is visible.
    """
    row, seen = largest_row(values, visible)
    heights = _magnitudes(row, seen)
    picks = np.array(
        [start + heights[start:stop].argmax() for start, stop in pairwise(column_edges)]
    )
    return row[picks], seen[picks]


def largest_row(values: FloatArray, visible: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Of each column the visible value of largest magnitude; one NaN among them is never lost.

    Args:
        values: (rows, columns).
        visible: The same shape.

    Returns:
        (columns,) values, and where anything is visible.
    """
    tallest = _magnitudes(values, visible).argmax(axis=0)[None]
    seen: BoolArray = np.logical_or.reduce(visible, axis=0)
    return np.take_along_axis(values, tallest, axis=0)[0], seen


def _magnitudes(values: FloatArray, visible: BoolArray) -> FloatArray:
    """What is compared: NaN stands above infinities, everything visible above the rest."""
    found = np.nan_to_num(np.abs(values), nan=np.inf, posinf=np.finfo(np.float64).max)
    return np.where(visible, found, -1.0)


def _sizes(edges: Sequence[int], span: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(edges[span[0] : span[1] + 1]).diff()
