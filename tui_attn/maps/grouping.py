"""Words instead of sub-word tokens, and honest pooling of maps larger than the screen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from tui_attn.answers import FloatArray


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


def largest_magnitude(values: FloatArray, column_edges: NDArray[np.int64]) -> FloatArray:
    """Pool rows into one, and columns between edges: the value of largest magnitude, NaN if none.

    Args:
        values: (rows, columns), NaN where invisible.
        column_edges: Increasing positions, first 0 and last the number of columns.

    Returns:
        (len(column_edges) - 1,) values.
    """
    magnitude = np.where(np.isnan(values), -1.0, np.abs(values))
    tallest = magnitude.argmax(axis=0)
    row = np.take_along_axis(values, tallest[None], axis=0)[0]
    pooled = np.empty(len(column_edges) - 1)
    for cell, (start, stop) in enumerate(pairwise(column_edges)):
        part = row[start:stop]
        pooled[cell] = part[np.where(np.isnan(part), -1.0, np.abs(part)).argmax()]
    return pooled


def larger(one: FloatArray, other: FloatArray) -> FloatArray:
    """Of each pair the value of larger magnitude; NaN only where both are."""
    taken = np.isnan(one) | (np.abs(other) > np.abs(one))
    return np.where(taken, other, one)


def _sizes(edges: Sequence[int], span: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(edges[span[0] : span[1] + 1]).diff()
