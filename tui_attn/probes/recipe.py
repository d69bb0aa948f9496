"""How a probe is trained: every choice that changes its numbers, with the paper's values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from tui_attn.answers.identity import METHODS, TARGETS, Target
from tui_attn.errors import ExitCode, InspectError

LEARNING_RATES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
"""The paper's search (section 4 and appendix)."""


@dataclass(frozen=True)
class Recipe:
    """One way to train probes (paper, section 4 and appendix).

    Attributes:
        methods: Of `answers.identity.METHODS`, in the order in which they are trained.
        target: What is recovered: the output of the embeddings, or the word embeddings.
        tokens: At most so many tokens of the corpus are used.
        seed: Of the split, the initial weights and the order of the batches.
        learning_rate: Adam's; None tries `LEARNING_RATES` and keeps each layer's best.
        batch: Tokens in a batch.
        patience: Epochs without a better validation loss after which a layer stops.
        epochs: A layer stops after so many at the latest.
        hidden: Width of the MLP's one hidden layer (GELU).
    """

    methods: tuple[str, ...] = METHODS
    target: Target = "embedding"
    tokens: int = 20_000
    seed: int = 0
    learning_rate: float | None = 1e-4
    batch: int = 256
    patience: int = 20
    epochs: int = 1000
    hidden: int = 1000

    def __post_init__(self) -> None:
        for method in self.methods:
            if method not in METHODS:
                raise InspectError(
                    f"there is no method {method!r}",
                    f"choose from {', '.join(METHODS)}",
                    ExitCode.USAGE,
                )
        if self.target not in TARGETS or self.target == "previous":
            raise InspectError(
                f"probes are not trained for the target {self.target}",
                "choose embedding or word",
                ExitCode.USAGE,
            )

    def learning_rates(self) -> tuple[float, ...]:
        """The rates that are tried."""
        return LEARNING_RATES if self.learning_rate is None else (self.learning_rate,)

    def described(self, corpus: dict[str, object]) -> dict[str, object]:
        """What is saved with a probe; the methods are trained independently of each other."""
        made = {name: value for name, value in asdict(self).items() if name != "methods"}
        return {**made, "learning_rates": self.learning_rates(), "split": "70/15/15", **corpus}


def key(described: dict[str, object]) -> str:
    """A short name for a recipe on a corpus: equal only if everything is."""
    text = json.dumps(described, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
