"""What there is to know about one head: cells, spans, statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui_attn.answers.arrays import BoolArray, FloatArray

Variant = Literal["output", "no-bias", "sum-one"]
Unit = Literal["token", "word"]
Axis = Literal["query", "key"]

VARIANTS: tuple[Variant, ...] = ("output", "no-bias", "sum-one")


@dataclass(frozen=True)
class Window:
    """Cells of a query x key map: rows are queries, columns are keys.

    `values` is float64 (rows, columns), NaN where the query cannot see the key; `visible` has the
    same shape. `rows` and `columns` are half-open (start, stop) positions, of tokens or words.
    `blind` are the positions among `rows` of queries that see no key at all.
    """

    map: str
    layer: int
    head: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    values: FloatArray
    visible: BoolArray
    blind: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cell:
    """Everything known about one query and one key of one head."""

    raw: float
    effective: float
    null: float
    visible: bool
    null_dimension: int
    """Dimension of the null space for this query's visible keys."""
    visible_keys: int
    missing: float = 0.0
    """What the query gives to an attention sink, an extra key without a value."""


@dataclass(frozen=True)
class Extent:
    """Least and largest visible value of a head's map that is finite; what the colours span.

    `sampled_rows` is the number of queries looked at, None if it was all of them.
    """

    low: float
    high: float
    sampled_rows: int | None = None


@dataclass(frozen=True)
class Overview:
    """A whole map pooled to fit the screen.

    `values` is float64, NaN where nothing is visible; `visible` has the same shape: a NaN there is
    a fault. `sampled_rows` is the number of queries looked at, None if it was all of them.
    """

    values: FloatArray
    visible: BoolArray
    sampled_rows: int | None = None


@dataclass(frozen=True)
class HeadSummary:
    """The statistics of one head on one text, over visible cells (method: effective attention)."""

    layer: int
    head: int
    rank: int
    """Numerical rank of the head's values (of [V, 1] for the variant sum-one)."""
    visible_keys: int
    """Keys that the query with the largest null space sees."""
    null_dimension: int
    """Largest dimension of the null space over queries."""
    identifiable: bool
    """Null dimension 0 for every query."""
    null_share: float
    """||A - A_eff||_F / ||A||_F."""
    correlation: float
    """Pearson correlation of raw and effective attention; NaN where either is constant."""
    entropy: float
    """Mean entropy of a raw row divided by the logarithm of its visible keys."""
    negative_share: float
    """Share of effective attention's cells below zero."""
    first_token_share: float
    """Mean raw attention to the first token."""
    row_sum_min: float
    """Least row sum of effective attention."""
    row_sum_max: float
    output_error: float
    """max |A_eff V - A V|, relative to the largest |A V|."""
    thumbnail: FloatArray
    """Raw attention pooled by maximum to at most 24 x 24 cells, NaN where nothing is visible."""
    sampled_rows: int | None = None
