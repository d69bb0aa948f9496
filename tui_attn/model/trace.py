"""A Trace: what one forward pass leaves behind, linear in the length s of the text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

import torch

from tui_attn.model.bias import Bias

T = TypeVar("T")


@dataclass(frozen=True)
class Visibility:
    """Which keys each query may look at: the interval `first[i] … stop[i]-1` for query i.

    Full, causal and sliding-window attention are all intervals, so no s x s mask is ever kept. A
    query that sees no key has an empty one.

    Attributes:
        first: (s,) int64, first visible key of each query.
        stop: (s,) int64, one past the last visible key.
    """

    first: torch.Tensor
    stop: torch.Tensor

    @classmethod
    def full(
        cls, length: int, device: torch.device | str = "cpu", keys: int | None = None
    ) -> Visibility:
        """Every query sees every key; there are as many keys as queries unless told."""
        first = torch.zeros(length, dtype=torch.int64, device=device)
        return cls(first, torch.full_like(first, length if keys is None else keys))

    @classmethod
    def causal(cls, length: int, device: torch.device | str = "cpu") -> Visibility:
        """Query i sees keys 0 … i."""
        stop = torch.arange(1, length + 1, device=device)
        return cls(torch.zeros_like(stop), stop)

    @classmethod
    def from_mask(cls, mask: torch.Tensor) -> Visibility | None:
        """Read the intervals off a boolean mask (s, s), True where visible.

        Returns:
            None where a query's visible keys are not one interval.
        """
        mask = mask.bool()
        count = mask.sum(-1)
        first = mask.to(torch.uint8).argmax(-1)
        stop = mask.shape[-1] - mask.flip(-1).to(torch.uint8).argmax(-1)
        stop = torch.where(count > 0, stop, first)
        return None if bool((count != stop - first).any()) else cls(first, stop)

    @property
    def shared(self) -> bool:
        """Whether all queries see the same keys, so that one factor serves all rows."""
        return bool((self.first == self.first[0]).all() and (self.stop == self.stop[0]).all())

    @property
    def is_causal(self) -> bool:
        """Whether no query sees a key after itself."""
        return bool(
            (self.stop <= torch.arange(1, len(self.stop) + 1, device=self.stop.device)).all()
        )

    def blind(self, rows: tuple[int, int] | torch.Tensor) -> torch.Tensor:
        """Which of the queries, a half-open range or positions, see no key at all: (r,) bool."""
        index = slice(*rows) if isinstance(rows, tuple) else rows
        return self.stop[index] <= self.first[index]

    def mask(self, rows: tuple[int, int] | torch.Tensor, columns: tuple[int, int]) -> torch.Tensor:
        """Whether queries see keys.

        Args:
            rows: Half-open range of queries, or their positions (r,) int64.
            columns: Half-open range of keys.

        Returns:
            (r, columns) bool.
        """
        index = slice(*rows) if isinstance(rows, tuple) else rows
        keys = torch.arange(*columns, device=self.first.device)
        return (keys >= self.first[index, None]) & (keys < self.stop[index, None])


@dataclass(frozen=True)
class LayerTrace:
    """What one attention layer multiplied, with its batch dimension of one removed.

    Attributes:
        layer: The model's own number of the layer.
        q: (H, s, d_k) queries, after rotary embedding and any normalisation.
        k: (H_kv, keys, d_k) keys, likewise; grouped keys are not expanded. There are as many as
            queries, but for cross attention.
        v: (H_kv, keys, d_v) values.
        o: (H, s, d_v) outputs of the heads before the output projection, from the kernel.
        scaling: What q k^T is multiplied by before the softmax.
        visibility: Which keys each query sees.
        value_bias: (H_kv, d_v) bias inside v, None where the projection has none.
        value_bias_known: False where the family's layout of fused projections is not known here.
        softcap: Logits x become softcap tanh(x / softcap); None: they stay.
        bias: What is added to the logits for where tokens stand.
        sinks: (H,) logits of an extra key without a value: rows of attention sum to less than one.
    """

    layer: int
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor
    scaling: float
    visibility: Visibility
    value_bias: torch.Tensor | None = None
    value_bias_known: bool = True
    softcap: float | None = None
    bias: Bias | None = None
    sinks: torch.Tensor | None = None

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.q.shape[0]

    @property
    def length(self) -> int:
        """Number of tokens that look, s."""
        return self.q.shape[1]

    @property
    def keys(self) -> int:
        """Number of tokens that are looked at."""
        return self.k.shape[1]

    def kv_head(self, head: int) -> int:
        """The key/value head that a query head uses (grouped queries: several share one)."""
        return head // (self.heads // self.k.shape[0])


@dataclass(frozen=True)
class Trace:
    """One forward pass over one text.

    Attributes:
        layers: Attention layers by the model's own numbers.
        hidden: (s, d) each: the output of the embeddings, then of every block.
        ids: (s,) int64, the tokens' ids.
        inputs: What the model's forward was given, a batch of one.
        word_embeddings: (V, d_e), the model's own table of word embeddings, not a copy.
        tolerance: Relative bound below which a singular value counts as zero; None: the rule of
            `maps.factors.relative_tolerance`.
        exact_outputs: Whether o is precise enough to start from; False in half precision, where
            rows of A V are computed again from q, k and v.
    """

    layers: Mapping[int, LayerTrace]
    hidden: tuple[torch.Tensor, ...] = ()
    ids: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)
    word_embeddings: torch.Tensor | None = None
    tolerance: float | None = None
    exact_outputs: bool = True
    _derived: dict[Hashable, object] = field(default_factory=dict, repr=False, compare=False)

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """A value derived from this trace, made once and dropped with it."""
        if key not in self._derived:
            self._derived[key] = make()
        return cast("T", self._derived[key])

    def recent(self, kind: str, key: Hashable, make: Callable[[], T], most: int) -> T:
        """Like `remember`, but only the latest `most` of a kind are kept."""
        kept = self.remember(("recent", kind), lambda: dict[Hashable, object]())
        kept[key] = kept.pop(key) if key in kept else make()
        while len(kept) > most:
            del kept[next(iter(kept))]
        return cast("T", kept[key])

    def remembered(self, key: Hashable, kind: type[T]) -> T | None:
        """What `remember` made, None if it has made nothing yet."""
        found = self._derived.get(key)
        return found if isinstance(found, kind) else None
