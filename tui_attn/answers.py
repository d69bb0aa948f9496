"""What a session is asked and what it answers: plain data, and the protocol that the screen sees.

Nothing here knows torch, transformers or textual, so a fake session with fixed numbers can stand in
for a real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from tui_attn.progress import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    BoolArray = NDArray[np.bool_]
else:  # only annotations need numpy here, and it would slow down --help
    FloatArray = BoolArray = "numpy.ndarray"

Variant = Literal["output", "no-bias", "sum-one"]
Unit = Literal["token", "word"]

VARIANTS: tuple[Variant, ...] = ("output", "no-bias", "sum-one")


@dataclass(frozen=True)
class ModelRequest:
    """Which model to open, and how.

    `name` is a hub name, a folder, a GGUF file, or None for the packaged demo.
    """

    name: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None
    offline: bool = False
    trust_remote_code: bool = False
    allow_pickle: bool = False


@dataclass(frozen=True)
class ModelInfo:
    """What the status line and every export say about the model."""

    name: str
    """The name as it was asked for; the demo has its own."""
    family: str
    """transformers' `model_type`."""
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    """d_v, the width of a value."""
    width: int
    """d, the width of a hidden state."""
    device: str
    dtype: str
    kernel: str
    """The attention implementation that made the recorded outputs."""
    causal: bool
    max_tokens: int | None
    """The longest input the model takes, None if it does not say."""
    revision: str | None = None
    quantised: str | None = None


@dataclass(frozen=True)
class Token:
    """One token of the input, at `position`."""

    position: int
    id: int
    raw: str
    """The name in the vocabulary, e.g. `Ġthe` or `##ing`."""
    text: str
    """Readable: `·the`, `⏎`, `⟨f0 9f⟩`; not yet safe for a terminal (`render.cells` does that)."""
    special: bool
    word: int
    """Number of the word it belongs to; a special token is a word of its own."""
    segment: int = 0


@dataclass(frozen=True)
class Check:
    """One thing that must hold, and whether it did: `error` against `limit`."""

    name: str
    ok: bool
    error: float
    limit: float
    note: str = ""


@dataclass(frozen=True)
class Run:
    """One text that went through the model."""

    text: str
    tokens: tuple[Token, ...]
    checks: tuple[Check, ...]
    seconds: float
    pair: str | None = None
    truncated_from: int | None = None
    """Number of tokens before `--max-tokens` cut the text, None if it was not cut."""
    nan_count: int = 0


@dataclass(frozen=True)
class Window:
    """Cells of a query x key map: rows are queries, columns are keys.

    `values` is float64 (rows, columns), NaN where the query cannot see the key; `visible` has the
    same shape. `rows` and `columns` are half-open (start, stop) positions, of tokens or words.
    """

    map: str
    layer: int
    head: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    values: FloatArray
    visible: BoolArray


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


@dataclass(frozen=True)
class Extent:
    """Least and largest visible value of a head's map; what the colour scale spans.

    `sampled_rows` is the number of queries looked at, None if it was all of them.
    """

    low: float
    high: float
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


class Inspector(Protocol):
    """A model held warm, and at most one text run through it.

    Methods that compute may be slow: call them off the UI thread. They raise `InspectError` with a
    sentence for people, and `Cancelled` when the job was told to stop. Positions count tokens, or
    words where `unit` is "word" (word rows are means over queries, word columns sums over keys).
    """

    @property
    def model(self) -> ModelInfo:
        """The model."""
        ...

    @property
    def run(self) -> Run:
        """The latest text that was analysed."""
        ...

    def analyse(
        self,
        text: str,
        *,
        pair: str | None = None,
        max_tokens: int | None = None,
        job: Job | None = None,
    ) -> Run:
        """Run a text through the model; on failure the earlier run stays."""
        ...

    def length(self, unit: Unit = "token") -> int:
        """Number of rows and columns of a query x key map."""
        ...

    def window(
        self,
        map_name: str,
        layer: int,
        head: int,
        rows: tuple[int, int],
        columns: tuple[int, int],
        *,
        variant: Variant = "output",
        unit: Unit = "token",
        job: Job | None = None,
    ) -> Window:
        """The cells of `rows` x `columns` (half-open) of a map: attention, effective or null."""
        ...

    def overview(
        self,
        map_name: str,
        layer: int,
        head: int,
        shape: tuple[int, int],
        *,
        variant: Variant = "output",
        unit: Unit = "token",
        job: Job | None = None,
    ) -> FloatArray:
        """The whole map pooled to at most `shape` cells, each the value of largest magnitude."""
        ...

    def cell(
        self,
        layer: int,
        head: int,
        query: int,
        key: int,
        *,
        variant: Variant = "output",
        unit: Unit = "token",
    ) -> Cell:
        """Raw, effective and null attention of one cell."""
        ...

    def extent(
        self,
        map_name: str,
        layer: int,
        head: int,
        *,
        variant: Variant = "output",
        unit: Unit = "token",
        without_special: bool = False,
        job: Job | None = None,
    ) -> Extent:
        """The span of a head's map; `without_special` leaves special tokens and the sink out."""
        ...

    def summaries(
        self, layer: int, *, variant: Variant = "output", job: Job | None = None
    ) -> Sequence[HeadSummary]:
        """Statistics of every head of a layer; remembered for the run."""
        ...

    def provenance(self) -> dict[str, object]:
        """What is needed to make the numbers again: model, revision, text hash, versions, dtype."""
        ...
