"""The protocol that the screen, the commands and the exports see of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tui_attn.answers.attribution import ESTIMATED, AttributionChoices, AttributionInspector
from tui_attn.answers.heads import Axis, Cell, Extent, HeadSummary, Overview, Unit, Variant, Window
from tui_attn.answers.identity import IdentityInspector
from tui_attn.answers.memory import Keep
from tui_attn.answers.runs import ModelInfo, Run, Stack
from tui_attn.progress import Job


class Inspector(Protocol):
    """A model held warm, and at most one text run through it.

    Methods that compute may be slow: call them off the UI thread. They raise `InspectError` with a
    sentence for people, and `Cancelled` when the job was told to stop. Positions count tokens, or
    words where `unit` is "word" (word rows are means over queries, word columns sums over keys).

    An encoder-decoder has one of these for each of its stacks, all over the same text.
    """

    @property
    def model(self) -> ModelInfo:
        """The model."""
        ...

    @property
    def run(self) -> Run:
        """The latest text that was analysed."""
        ...

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks of an encoder-decoder; none where the model is a single one."""
        ...

    def on(self, stack: Stack) -> Inspector:
        """The same model and text, seen at another stack; refused where there is none."""
        ...

    @property
    def identity(self) -> IdentityInspector:
        """Answers for token identity."""
        ...

    @property
    def attribution(self) -> AttributionInspector:
        """Answers for hidden token attribution."""
        ...

    def analyse(
        self,
        text: str,
        *,
        pair: str | None = None,
        decoder_text: str | None = None,
        max_tokens: int | None = None,
        keep: Keep | None = None,
        job: Job | None = None,
    ) -> Run:
        """Run a text through the model, all stacks of it; on failure the earlier run stays.

        `decoder_text` is what an encoder-decoder's decoder reads; without one it reads what the
        model itself writes to the text.

        Raises:
            TooLarge: It does not fit into memory as `keep` says, or, where that is None, in the
                quickest way.
        """
        ...

    def length(self, unit: Unit = "token", axis: Axis = "query") -> int:
        """Number of rows of a query x key map, or of its columns; cross attention has others."""
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
        attribution: AttributionChoices = ESTIMATED,
        job: Job | None = None,
    ) -> Window:
        """The cells of `rows` x `columns` (half-open) of a query x key map.

        A map that is not per head takes any head; attribution must have been refined as far as
        `attribution` says.
        """
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
        attribution: AttributionChoices = ESTIMATED,
        thorough: bool = True,
        job: Job | None = None,
    ) -> Overview:
        """The whole map pooled to at most `shape` cells, each the value of largest magnitude.

        Unless `thorough`, only some rows of a long text are looked at, and the answer says so.
        """
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
        attribution: AttributionChoices = ESTIMATED,
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
