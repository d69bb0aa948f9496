"""Token identity: the choices that change its numbers, and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from tui_attn.answers.arrays import FloatArray, IntArray
from tui_attn.errors import ExitCode, InspectError
from tui_attn.progress import Job

Target = Literal["embedding", "word", "previous"]
Candidates = Literal["text", "vocabulary"]
Match = Literal["position", "id"]
Metric = Literal["cosine", "l2"]

TARGETS: tuple[Target, ...] = ("embedding", "word", "previous")
CANDIDATES: tuple[Candidates, ...] = ("text", "vocabulary")
MATCHES: tuple[Match, ...] = ("position", "id")
METRICS: tuple[Metric, ...] = ("cosine", "l2")
METHODS = ("ridge", "linear-cosine", "linear-l2", "mlp-cosine", "mlp-l2")
"""The trained maps of `attn-inspect probe fit`; a probe may also be named by its file."""


@dataclass(frozen=True)
class IdentityChoices:
    """What the paper leaves open about token identity, and what changes the number.

    Attributes:
        target: What a hidden state is compared with: the output of the embeddings, the word
            embeddings, or the hidden state one layer below.
        candidates: The tokens of this text, or the whole vocabulary (word embeddings only).
        match: Whether a token must be found at its own position, or any token of its id will do.
        special: Whether special tokens are counted; candidates they always are, like every token.
        metric: The similarity by which the nearest candidate is found.
        probe: A trained map (a method, or the file of a probe) applied to the hidden state first;
            None: the naive search.

    Raises:
        InspectError: The choices contradict each other (exit code 2).
    """

    target: Target = "embedding"
    candidates: Candidates = "text"
    match: Match = "position"
    special: bool = False
    metric: Metric = "cosine"
    probe: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("target", TARGETS),
            ("candidates", CANDIDATES),
            ("match", MATCHES),
            ("metric", METRICS),
        ):
            if getattr(self, name) not in allowed:
                raise InspectError(
                    f"{name} is {getattr(self, name)!r}",
                    f"choose one of {', '.join(allowed)}",
                    ExitCode.USAGE,
                )
        if self.candidates == "vocabulary" and (self.target, self.match) != ("word", "id"):
            raise InspectError(
                "the vocabulary has word embeddings and ids, but no positions",
                "use it with the target word and the match id",
                ExitCode.USAGE,
            )
        if self.probe is not None and self.target == "previous":
            raise InspectError(
                "no probe is trained for the target previous", "leave out the probe", ExitCode.USAGE
            )

    @property
    def method(self) -> str:
        """`naive`, or the probe."""
        return self.probe or "naive"

    def __str__(self) -> str:
        special = "special tokens counted" if self.special else "special tokens not counted"
        return (
            f"{self.method}, {self.metric}, target {self.target}, candidates {self.candidates}, "
            f"match by {self.match}, {special}"
        )


DEFAULTS = IdentityChoices()
"""The paper's search, as far as it says: naive, cosine, embeddings, this text, by position."""


def choose(
    target: Target | None = None,
    candidates: Candidates | None = None,
    match: Match | None = None,
    special: bool = False,
    metric: Metric | None = None,
    probe: str | None = None,
) -> IdentityChoices:
    """Choices of which some are left open: what is given decides the rest.

    The vocabulary brings target and match along, and a probe trained for a loss its metric.
    """
    if candidates == "vocabulary":
        target, match = target or "word", match or "id"
    if metric is None:
        metric = "l2" if probe is not None and probe.endswith("-l2") else "cosine"
    return IdentityChoices(
        target or "embedding", candidates or "text", match or "position", special, metric, probe
    )


def at_hand(choices: IdentityChoices, probes: Sequence[ProbeInfo]) -> list[IdentityChoices]:
    """The same question by every method there is: naive and probes, metrics, matches.

    A probe is looked up by the metric of its loss, the naive search and the closed form by both.
    Where the choices name a probe, the others are left out.
    """
    methods: list[str | None] = [None]
    if choices.probe is not None:
        methods.append(choices.probe)
    else:
        methods += [probe.method for probe in probes if probe.target == choices.target]
    matches = MATCHES if choices.candidates == "text" else (choices.match,)
    return [
        replace(choices, probe=method, metric=metric, match=match)
        for method in methods
        for metric in METRICS
        if method in (None, "ridge") or metric == choose(probe=method).metric
        for match in matches
    ]


@dataclass(frozen=True)
class IdentityWindow:
    """Which token each hidden state would be taken for.

    Rows are the counted tokens of `tokens`; columns are the layers of `layers`.

    Attributes:
        tokens: Position of each row's token.
        layers: `emb` or the number of the block, for each column.
        candidates: How many candidates there were: the rank of a hidden state is at most that.
        rank: (rows, columns) place of the own token, 1 where it is identified (ties count
            against it), 0 where there is no number: NaN, or `emb` with the target `previous`.
        cosine: (rows, columns) cosine to the own token's vector.
        nearest: (rows, columns) the candidate it would be taken for: a position, or an id where
            the candidates are the vocabulary; -1 where there is no number.
        runner_up: (rows, columns) the second candidate, likewise; the best that is not its own
            where the token is identified.
        names: The readable text of every candidate that occurs.
    """

    tokens: tuple[int, ...]
    layers: tuple[str, ...]
    candidates: int
    rank: IntArray
    cosine: FloatArray
    nearest: IntArray
    runner_up: IntArray
    names: dict[int, str]


@dataclass(frozen=True)
class Rate:
    """The share of tokens that are identified at a layer, with its 95 % interval (Wilson).

    Attributes:
        layer: `emb` or the number of the block.
        identified: How many tokens are.
        n: Of how many; a long text is sampled.
        data: `text` for the text at hand, `held-out` for the sentences a probe was tested on.
    """

    layer: str
    choices: IdentityChoices
    identified: int
    n: int
    data: Literal["text", "held-out"] = "text"

    @property
    def rate(self) -> float:
        """The share."""
        return self.identified / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval (1927)."""
        z, n = 1.959963984540054, self.n
        centre = (self.rate + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * (self.rate * (1 - self.rate) / n + (z / (2 * n)) ** 2) ** 0.5
        low = 0.0 if self.identified == 0 else max(centre - half, 0.0)
        return low, 1.0 if self.identified == n else min(centre + half, 1.0)


@dataclass(frozen=True)
class Transfer:
    """Share identified when the map trained at one layer is applied at another.

    Attributes:
        layers: `emb` or the number of the block, for rows and columns.
        n: Number of tokens.
        rates: (trained at, tested at).
        data: As in `Rate`.
    """

    layers: tuple[str, ...]
    n: int
    rates: FloatArray
    data: Literal["text", "held-out"] = "text"


@dataclass(frozen=True)
class ProbeInfo:
    """A trained map that was saved.

    Attributes:
        method: One of `METHODS`.
        target: What it was trained to recover.
        model: Name of the model it was made for.
        revision: Its revision, where there is one.
        dtype: The model's dtype.
        made: Date and time, ISO 8601 in UTC.
        tokens: Number of tokens it was trained on.
        recipe: How it was made: corpus, seed, split, learning rate and so on.
        path: Its file.
        held_out: Rates on the test sentences, of the naive search too.
        transfer: Between layers, on the test sentences.
    """

    method: str
    target: Target
    model: str
    revision: str | None
    dtype: str
    made: str
    tokens: int
    recipe: dict[str, object]
    path: str
    held_out: tuple[Rate, ...]
    transfer: Transfer


class IdentityInspector(Protocol):
    """The part of an `Inspector` that answers for token identity.

    Methods raise `InspectError` where the choices cannot be had for this model and text.
    """

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the hidden states: `emb`, then the numbers of the blocks."""
        ...

    def tokens(self, special: bool) -> tuple[int, ...]:
        """Positions of the tokens that are counted."""
        ...

    def window(
        self, rows: tuple[int, int], choices: IdentityChoices, *, job: Job | None = None
    ) -> IdentityWindow:
        """Every layer of some of the counted tokens (half-open)."""
        ...

    def rates(self, choices: IdentityChoices, *, job: Job | None = None) -> Sequence[Rate]:
        """The rate at each layer by one method; remembered for the run."""
        ...

    def transfer(self, choices: IdentityChoices, *, job: Job | None = None) -> Transfer:
        """The rates of a probe between layers; remembered for the run."""
        ...

    def probes(self) -> Sequence[ProbeInfo]:
        """The probes that were made for exactly this model."""
        ...
