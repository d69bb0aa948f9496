"""Hidden token attribution of the text at hand (the protocol `answers.AttributionInspector`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from tui_attn.answers.attribution import (
    AttributionChoices,
    AttributionState,
    Comparison,
    Mixing,
)
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import contributions, softmax
from tui_attn.maps.jacobians import Estimate, Exact
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model.tangents import Pushed, Tangents
from tui_attn.progress import Job

if TYPE_CHECKING:
    from tui_attn.answers import Run, Variant
    from tui_attn.model.loading import LoadedModel
    from tui_attn.model.trace import Trace
    from tui_attn.session.turn import Turn

KERNEL = "plain softmax in float32"
"""The fast kernels have no forward derivatives, and half precision too few digits."""
_MOST_BYTES = 4 * 2**30
_KEPT = 2
"""Estimates that are kept: the one on the screen, and the one before it."""


class TokenAttribution:
    """Answers for attribution; what was computed is kept as long as the text.

    Args:
        loaded: The model.
        turn: Held by whoever computes on the trace.
        analysed: The latest text and its trace.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        turn: Turn,
        analysed: Callable[[], tuple[Run, Trace]],
    ) -> None:
        self._loaded = loaded
        self._turn = turn
        self._running = loaded.running
        self._analysed = analysed
        self._refining = threading.Lock()

    @property
    def layers(self) -> Sequence[str]:
        """The names of the hidden states: `emb`, then the numbers of the blocks."""
        return self._loaded.layer_names

    def refine(self, choices: AttributionChoices, *, job: Job | None = None) -> AttributionState:
        """Compute until the choices hold; what was computed before is kept.

        Raises:
            InspectError: The text is too long (exit code 5), or the model has no forward
                derivatives (4).
            Cancelled: The job was cancelled; a later call goes on from there.
        """
        job = job or Job()
        while not self._refining.acquire(timeout=0.05):  # another thread is at it
            job.check()
        try:
            work = self._work(job)
            if choices.exact:
                work.exact.sweep(job)
            else:
                work.estimate(choices.seed, choices.probes).refine(choices.probes, job)
        finally:
            self._refining.release()
        return self.state(choices)

    def state(self, choices: AttributionChoices) -> AttributionState:
        """How far it has got; computes nothing."""
        run, trace = self._analysed()
        work = trace.remembered("attribution", _Work)
        probes, error, largest = 0, float("nan"), float("nan")
        done = 0
        if work is not None:
            done = int(work.exact.done.sum())
            found = work.best(choices.seed, choices.probes)
            if found is not None:
                probes = found.probes
                errors = found.standard_error(len(self.layers) - 1)
                error, largest = float(errors.mean()), float(errors.max())
        return AttributionState(
            probes=probes,
            exact_inputs=done,
            inputs=len(run.tokens),
            standard_error=error,
            largest_error=largest,
            halved=work.pusher.halved if work is not None else 0,
            kernel=KERNEL,
        )

    def shares(self, layer: int, choices: AttributionChoices) -> torch.Tensor:
        """Shares of a layer: (s, s) float64, query x key.

        Args:
            layer: Number of the block; -1 is the output of the embeddings.
            choices: What must have been computed.

        Raises:
            InspectError: It was not computed yet (exit code 5), or there is no such layer (2).
        """
        _, trace = self._analysed()
        if not -1 <= layer < len(self.layers) - 1:
            raise InspectError(
                f"there is no layer {layer}",
                f"layers count from 0 to {len(self.layers) - 2}",
                ExitCode.USAGE,
            )
        work = trace.remembered("attribution", _Work)
        if work is not None and choices.exact:
            return work.exact.shares(layer + 1, choices.norm)
        found = None if work is None else work.best(choices.seed, choices.probes)
        if found is None or found.probes != choices.probes:
            raise InspectError(
                f"attribution with {choices} was not computed yet",
                "call attribution.refine first",
                ExitCode.INPUT,
            )
        return found.shares(layer + 1)

    def mixing(self, layer: int, choices: AttributionChoices) -> Mixing:
        """Summaries of a layer (paper, figures 3 and 4), from what was computed.

        Raises:
            InspectError: As for `shares`.
        """
        run, _ = self._analysed()
        shares = self.shares(layer, choices)
        return contributions.mixing(shares, self.layers[layer + 1], contributions.kinds(run.tokens))

    def compare(
        self, layer: int, head: int, query: int, choices: AttributionChoices, variant: Variant
    ) -> Comparison:
        """Attention against attribution for one token, over the keys that it sees.

        Raises:
            InspectError: As for `shares`.
        """
        _, trace = self._analysed()
        row = self.shares(layer, choices)[query]
        with self._turn, torch.inference_mode():
            record = trace.layers[layer]
            first, stop = (
                int(bound[query]) for bound in (record.visibility.first, record.visibility.stop)
            )
            span, seen = (query, query + 1), (first, stop)
            raw = softmax.attention_rows(record, head, span)[0, first:stop].cpu()
            effective = effective_rows(trace, layer, head, span, seen, variant)[0].cpu()
        attribution = row[first:stop]
        return Comparison(
            keys=tuple(range(first, stop)),
            raw=raw.numpy(),
            effective=effective.numpy(),
            attribution=attribution.numpy(),
            raw_correlation=contributions.rank_correlation(raw, attribution),
            effective_correlation=contributions.rank_correlation(effective, attribution),
        )

    def _work(self, job: Job) -> _Work:
        run, trace = self._analysed()
        states, length = len(trace.hidden), len(run.tokens)
        if self._loaded.info.stack in ("decoder", "cross"):
            raise InspectError(
                "what a decoder writes is made of its own tokens and of the text's, "
                "and attribution does not tell these apart",
                "look at the stack encoder",
                ExitCode.USAGE,
            )
        if not self._loaded.whole:
            raise InspectError(
                "attribution needs all weights on one device",
                "leave out --device-map",
                ExitCode.UNSUPPORTED,
            )
        needed = (_KEPT + 2) * 16 * states * length**2  # estimates, and the exact sweep
        if needed > _MOST_BYTES:
            raise InspectError(
                f"attribution over {length} tokens and {states - 1} layers needs "
                f"{needed / 2**30:.0f} GiB",
                f"shorten the text to {int(length * (_MOST_BYTES / needed) ** 0.5)} tokens "
                "with --max-tokens",
                ExitCode.INPUT,
            )

        def make() -> _Work:
            with self._running:
                made = Tangents(self._loaded.model, trace.inputs, self._loaded.sites, job)
            return _Work(_InTurn(made, self._running))

        return trace.remember("attribution", make)


class _Work:
    """What was computed for one text."""

    def __init__(self, pusher: _InTurn) -> None:
        self.pusher = pusher
        self.exact = Exact(pusher)
        self._estimates: dict[tuple[int, int], Estimate] = {}

    def estimate(self, seed: int, probes: int) -> Estimate:
        """The estimate with so many probes, begun from the best that is there.

        One that is on the screen is never changed under its readers: more probes go into a copy.
        """
        key = (seed, probes)
        if key not in self._estimates:
            base = self.best(seed, probes)
            made = Estimate(self.pusher, seed) if base is None else base.copy()
            while len(self._estimates) >= _KEPT:
                self._estimates.pop(next(iter(self._estimates)))
            self._estimates[key] = made
        return self._estimates[key]

    def best(self, seed: int, probes: int) -> Estimate | None:
        """The finished estimate with most probes, at most so many."""
        found = [
            estimate
            for (other, wanted), estimate in list(self._estimates.items())
            if other == seed and estimate.probes == wanted <= probes
        ]
        return max(found, key=lambda estimate: estimate.probes, default=None)


class _InTurn:
    """Tangents that are pushed batch by batch, each in its turn: another text comes between."""

    def __init__(self, tangents: Tangents, turn: threading.RLock) -> None:
        self._tangents = tangents
        self._turn = turn
        self.length, self.width = tangents.length, tangents.width
        self.layers = tangents.layers

    @property
    def batch(self) -> int:
        return self._tangents.batch

    @property
    def halved(self) -> int:
        return self._tangents.halved

    def prepare(self, count: int, job: Job | None = None) -> None:
        with self._turn:
            self._tangents.prepare(count, job)

    def push(
        self, positions: torch.Tensor, vectors: torch.Tensor, job: Job | None = None
    ) -> Pushed:
        with self._turn:
            return self._tangents.push(positions, vectors, job)
