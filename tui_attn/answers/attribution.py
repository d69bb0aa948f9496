"""Hidden token attribution: the choices that change its numbers, and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tui_attn.answers.arrays import FloatArray
from tui_attn.answers.heads import Variant
from tui_attn.errors import ExitCode, InspectError
from tui_attn.progress import Job

Norm = Literal["frobenius", "ones"]

NORMS: tuple[Norm, ...] = ("frobenius", "ones")
PROBES = 8
"""Random tangents of an estimate that is not asked for more closely."""


@dataclass(frozen=True)
class AttributionChoices:
    """How attribution is computed.

    Attributes:
        exact: All unit tangents of every input, not an estimate.
        probes: Random tangents for each input, where it is estimated.
        seed: Of the random tangents.
        norm: Frobenius's, or the 2-norm of the sum over output components (exact only), which is
            what public code often computes.

    Raises:
        InspectError: The choices contradict each other (exit code 2).
    """

    exact: bool = False
    probes: int = PROBES
    seed: int = 0
    norm: Norm = "frobenius"

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise InspectError(
                f"norm is {self.norm!r}", f"choose one of {', '.join(NORMS)}", ExitCode.USAGE
            )
        if self.norm == "ones" and not self.exact:
            raise InspectError("the norm ones cannot be estimated", "add --exact", ExitCode.USAGE)
        if self.probes < 1 or self.seed < 0:
            raise InspectError(
                f"there are no {self.probes} probes of seed {self.seed}",
                "give at least one probe, and a seed from 0",
                ExitCode.USAGE,
            )

    def __str__(self) -> str:
        if self.exact:
            return f"exact, norm {self.norm}"
        return f"{self.probes} probes, seed {self.seed}"


ESTIMATED = AttributionChoices()
"""The default: a few random tangents."""


@dataclass(frozen=True)
class AttributionState:
    """How far attribution of the text at hand has got.

    Attributes:
        probes: Random tangents that every input has had, of the seed asked about.
        exact_inputs: Inputs whose Jacobians are known exactly, of `inputs`.
        inputs: Number of input tokens.
        standard_error: Mean standard error of the estimated shares at the last layer; NaN below
            two probes.
        largest_error: The largest of them.
        halved: How often the batch of tangents was halved for lack of memory.
        kernel: The attention that made the numbers; the fast kernels have no derivatives.
    """

    probes: int
    exact_inputs: int
    inputs: int
    standard_error: float
    largest_error: float
    halved: int
    kernel: str


@dataclass(frozen=True)
class OwnShares:
    """The spread of own shares c_ii over the tokens of a text, after one layer (paper, figure 3).

    Attributes:
        layer: `emb` or the number of the block.
        minimum: Least own share.
        lower: First quartile.
        median: Median.
        upper: Third quartile.
        maximum: Largest own share.
        not_main: Part of the tokens that are not their own main contributor; ties go to the own
            token.
    """

    layer: str
    minimum: float
    lower: float
    median: float
    upper: float
    maximum: float
    not_main: float


@dataclass(frozen=True)
class KindShares:
    """What tokens of one kind keep and give.

    Attributes:
        kind: special, word start, continuation, punctuation or number.
        tokens: How many there are.
        own: Mean of c_ii over them.
        given: Mean over all tokens of what these contribute together.
    """

    kind: str
    tokens: int
    own: float
    given: float


@dataclass(frozen=True)
class Mixing:
    """What one layer mixes (paper, figures 3 and 4).

    Attributes:
        own: The spread of own shares.
        own_each: (s,) c_ii of every token.
        before: Mean over tokens of what comes from earlier tokens.
        after: Mean over tokens of what comes from later ones.
        distances: For each bin of distance its part of all that comes from other tokens, from
            before and from after: (bin, before, after).
        offsets: Total contribution by signed distance input - hidden token: (offset, total).
        kinds: By kind of token.
    """

    own: OwnShares
    own_each: FloatArray
    before: float
    after: float
    distances: tuple[tuple[str, float, float], ...]
    offsets: tuple[tuple[int, float], ...]
    kinds: tuple[KindShares, ...]


@dataclass(frozen=True)
class Comparison:
    """What one query of a head looks at, and what the hidden state there is made of.

    Attributes:
        keys: Positions the query sees.
        raw: (keys,) raw attention.
        effective: (keys,) effective attention.
        attribution: (keys,) shares after the layer.
        raw_correlation: Spearman's rank correlation of raw attention and attribution; NaN where
            either is constant.
        effective_correlation: Of effective attention and attribution.
    """

    keys: tuple[int, ...]
    raw: FloatArray
    effective: FloatArray
    attribution: FloatArray
    raw_correlation: float
    effective_correlation: float


class AttributionInspector(Protocol):
    """The part of an `Inspector` that answers for hidden token attribution.

    Layers are the numbers of blocks; -1 is the output of the embeddings.
    """

    def refine(self, choices: AttributionChoices, *, job: Job | None = None) -> AttributionState:
        """Compute until the choices hold; what was computed before is kept."""
        ...

    def state(self, choices: AttributionChoices) -> AttributionState:
        """How far it has got; computes nothing."""
        ...

    def mixing(self, layer: int, choices: AttributionChoices) -> Mixing:
        """Summaries of a layer, from what was computed."""
        ...

    def compare(
        self, layer: int, head: int, query: int, choices: AttributionChoices, variant: Variant
    ) -> Comparison:
        """Attention against attribution for one token."""
        ...

    @property
    def layers(self) -> Sequence[str]:
        """The names of the hidden states: `emb`, then the numbers of the blocks."""
        ...
