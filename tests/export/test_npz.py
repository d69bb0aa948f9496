"""npz in pieces: what numpy reads back is what went in, whatever came in which block."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tui_attn.export import npz

CELL = st.one_of(
    st.integers(-(2**40), 2**40),
    st.floats(),
    st.text(st.characters(exclude_characters="\0"), max_size=5),
    st.booleans(),
)


def written(columns: list[str], blocks: list[list[tuple]]) -> dict[str, np.ndarray]:
    stream = io.BytesIO()
    npz.write(columns, blocks, {"map": "attention"}, stream)
    again = io.BytesIO()
    npz.write(columns, blocks, {"map": "attention"}, again)
    assert stream.getvalue() == again.getvalue()
    return dict(np.load(io.BytesIO(stream.getvalue())))


@given(st.data())
def test_what_went_in_comes_out(data: st.DataObject) -> None:
    kind = data.draw(
        st.sampled_from([st.integers(-9, 9), st.floats(), st.booleans(), CELL.filter(_is_text)])
    )
    column = data.draw(st.lists(st.lists(kind, min_size=1, max_size=4), min_size=1, max_size=4))
    found = written(["value"], [[(cell,) for cell in block] for block in column])["value"]
    np.testing.assert_array_equal(found, np.array([cell for block in column for cell in block]))


def _is_text(cell: object) -> bool:
    return isinstance(cell, str)


def test_blocks_of_different_kinds_come_together() -> None:
    blocks = [[(0, "emb", 1)], [(1, "a longer one", 0.5), (2, "", float("nan"))]]
    found = written(["layer", "name", "value"], blocks)
    assert found["layer"].tolist() == [0, 1, 2]
    assert found["name"].tolist() == ["emb", "a longer one", ""]
    np.testing.assert_array_equal(found["value"], [1.0, 0.5, np.nan])
    assert "attention" in str(found["metadata"])


def test_a_table_without_rows_has_its_columns() -> None:
    assert written(["layer"], [])["layer"].shape == (0,)
    assert written(["layer"], [[]])["layer"].shape == (0,)


def test_a_table_larger_than_memory_would_hold_is_written_in_pieces() -> None:
    """As Python objects these rows would take hundreds of bytes a row."""
    rows = 20_000

    def blocks():
        for number in range(20):
            yield [(number, row, "the same token", row / 7) for row in range(rows)]

    tracemalloc.start()
    npz.write(["layer", "query", "token", "value"], blocks(), {}, io.BytesIO())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 2**20  # one block of rows, and what a chunk takes
