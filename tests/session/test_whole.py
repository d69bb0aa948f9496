"""Pictures and spans of whole maps: bounded work, and no word of it left out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_attn.answers import BoolArray, FloatArray
from tui_attn.errors import Cancelled
from tui_attn.maps import sampling
from tui_attn.progress import Job
from tui_attn.session import whole


def _map(length: int) -> tuple[whole.Window, FloatArray, list[tuple[int, int]]]:
    """A causal map of random values, as a window function, and the windows it was asked for."""
    values = np.random.default_rng(0).normal(size=(length, length))
    values[np.triu_indices(length, 1)] = np.nan
    asked: list[tuple[int, int]] = []

    def window(rows: tuple[int, int]) -> tuple[FloatArray, BoolArray]:
        asked.append(rows)
        part = values[slice(*rows)].copy()
        return part, np.tril(np.ones_like(values, dtype=bool))[slice(*rows)]

    return window, values, asked


def test_a_thorough_picture_holds_the_largest_magnitude_of_every_part() -> None:
    window, values, _ = _map(50)
    found = whole.picture(window, (50, 50), (7, 9), thorough=True, job=Job())
    assert found.sampled_rows is None
    rows, columns = np.arange(8) * 50 // 7, np.arange(10) * 50 // 9
    for row in range(7):
        for column in range(9):
            part = values[rows[row] : rows[row + 1], columns[column] : columns[column + 1]]
            seen = part[~np.isnan(part)]
            if len(seen):
                assert found.values[row, column] == seen[np.abs(seen).argmax()]
            else:
                assert np.isnan(found.values[row, column])


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_one_cell_that_is_no_number_is_never_lost_and_never_spans_the_colours(odd: float) -> None:
    window, values, _ = _map(50)
    values[30, 11] = odd
    finite = values[np.isfinite(values)]
    found = whole.picture(window, (50, 50), (5, 5), thorough=True, job=Job())
    assert found.visible[3, 1]
    np.testing.assert_equal(found.values[3, 1], odd)
    assert np.isfinite(found.values[found.visible]).sum() == found.visible.sum() - 1
    span = whole.span(window, (50, 50), ([], []), Job())
    assert (span.low, span.high) == (finite.min(), finite.max())


def test_a_map_without_a_number_has_a_span_all_the_same() -> None:
    window, values, _ = _map(20)
    values[:] = np.nan
    span = whole.span(window, (20, 20), ([], []), Job())
    assert (span.low, span.high) == (0.0, 0.0)
    assert np.isnan(whole.picture(window, (20, 20), (4, 4), thorough=True, job=Job()).values).all()


def test_blocks_of_a_long_row_of_the_picture_pool_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    window, _, asked = _map(60)
    wanted = whole.picture(window, (60, 60), (3, 10), thorough=True, job=Job()).values
    asked.clear()
    monkeypatch.setattr(whole, "_BLOCK", 60 * 7)
    np.testing.assert_array_equal(
        whole.picture(window, (60, 60), (3, 10), thorough=True, job=Job()).values, wanted
    )
    assert max(stop - start for start, stop in asked) == 7


def test_a_quick_picture_looks_at_few_rows_and_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    window, _, asked = _map(200)
    monkeypatch.setattr(whole, "_QUICK", 200 * 40)
    found = whole.picture(window, (200, 200), (20, 20), thorough=False, job=Job())
    assert found.sampled_rows == 40 == sum(stop - start for start, stop in asked)
    assert not np.isnan(found.values[:, 0]).any()


def test_a_picture_can_be_stopped() -> None:
    window, _, asked = _map(50)
    job = Job(lambda progress: job.cancel() if progress.done == 3 else None)
    with pytest.raises(Cancelled):
        whole.picture(window, (50, 50), (10, 10), thorough=True, job=job)
    assert len(asked) == 3


def test_the_span_leaves_out_rows_and_columns() -> None:
    window, values, _ = _map(30)
    values[5, 5], values[20, 3] = 90.0, -80.0
    found = whole.span(window, (30, 30), ([5, 3], [5, 3]), Job())
    assert -10 < found.low < 0 < found.high < 10
    assert whole.span(window, (30, 30), ([], []), Job()).low == -80.0


@given(st.integers(1, 20_000), st.sampled_from([sampling.STATISTICS, sampling.SPAN, 5_000]))
def test_row_blocks_stay_inside_their_bounds(length: int, cells: int) -> None:
    blocks = list(sampling.row_blocks(length, cells))
    assert blocks[0][0] == 0
    assert blocks[-1][1] == length
    assert all(0 <= start < stop <= length for start, stop in blocks)
    assert all(one[1] <= two[0] for one, two in pairwise(blocks))
    rows = sum(stop - start for start, stop in blocks)
    sampled = sampling.sampled_rows(length, cells)
    assert rows == (length if sampled is None else sampled)
    assert rows * length <= max(cells, 32 * length)
