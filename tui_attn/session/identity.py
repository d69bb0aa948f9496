"""Token identity of the text at hand (the protocol `answers.IdentityInspector`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from tui_attn.answers.identity import (
    IdentityChoices,
    IdentityWindow,
    ProbeInfo,
    Rate,
    Transfer,
)
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps.identity import identify, number_of_candidates, sampled
from tui_attn.model import tokens
from tui_attn.probes import store
from tui_attn.progress import Job

if TYPE_CHECKING:
    from tui_attn.answers import Run
    from tui_attn.model.loading import LoadedModel
    from tui_attn.model.trace import Trace
    from tui_attn.probes.store import ModelIdentity, Probe
    from tui_attn.session.turn import Turn


class TokenIdentity:
    """Answers for token identity, one computation at a time.

    Args:
        loaded: The model.
        turn: Held by whoever computes.
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
        self._analysed = analysed
        self._model_identity: ModelIdentity | None = None
        self._probe: tuple[str, Probe] | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the hidden states: `emb`, then the numbers of the blocks."""
        return self._loaded.layer_names

    def tokens(self, special: bool) -> tuple[int, ...]:
        """Positions of the tokens that are counted."""
        run, _ = self._analysed()
        return tuple(token.position for token in run.tokens if special or not token.special)

    def window(
        self, rows: tuple[int, int], choices: IdentityChoices, *, job: Job | None = None
    ) -> IdentityWindow:
        """Every layer of some of the counted tokens.

        Args:
            rows: Half-open range of the counted tokens, not of all tokens.
            choices: What is compared with what.
            job: Checked at every layer.

        Raises:
            InspectError: The text has too few tokens (exit code 5), there are no such rows or no
                such probe (2), or the model's word embeddings cannot be compared (4).
            Cancelled: The job was cancelled.
        """
        with self._turn, torch.inference_mode():
            run, trace = self._analysed()
            counted = self._counted(choices)
            if not 0 <= rows[0] < rows[1] <= len(counted):
                raise InspectError(
                    f"there are no tokens {rows[0]}:{rows[1]}",
                    f"{len(counted)} tokens are counted",
                    ExitCode.USAGE,
                )
            wanted = counted[rows[0] : rows[1]]
            probe = self._probe_of(choices)
            found = []
            for state in range(len(trace.hidden)):
                _check(job)
                found.append(identify(trace, state, wanted, choices, probe))
            rank, cosine, nearest, runner_up = (
                torch.stack([getattr(layer, name) for layer in found], 1).cpu()
                for name in ("rank", "cosine", "nearest", "runner_up")
            )
            mentioned = sorted({*nearest.flatten().tolist(), *runner_up.flatten().tolist()} - {-1})
            return IdentityWindow(
                tokens=tuple(wanted.tolist()),
                layers=self.layers,
                candidates=number_of_candidates(trace, choices),
                rank=rank.numpy(),
                cosine=cosine.numpy(),
                nearest=nearest.numpy(),
                runner_up=runner_up.numpy(),
                names={number: run.tokens[number].text for number in mentioned}
                if choices.candidates == "text"
                else tokens.names(self._loaded.tokenizer, mentioned),
            )

    def rates(self, choices: IdentityChoices, *, job: Job | None = None) -> Sequence[Rate]:
        """The rate at each layer by one method; remembered for the run.

        Of a text of more than 2,048 counted tokens so many are looked at, evenly spread.

        Raises:
            InspectError: As for `window`.
            Cancelled: The job was cancelled.
        """
        job = job or Job()
        trace = self._analysed()[1]
        found = []
        for state, name in enumerate(self.layers):
            job.report(f"identity by {choices.method}", state, len(self.layers))
            if choices.target == "previous" and state == 0:
                continue  # there is nothing below it
            with self._turn, torch.inference_mode():
                identified, n = trace.remember(
                    ("rate", state, choices),
                    lambda state=state: self._count(trace, choices, state, state, job),  # type: ignore[misc]
                )
            found.append(Rate(name, choices, identified, n))
        return found

    def transfer(self, choices: IdentityChoices, *, job: Job | None = None) -> Transfer:
        """The rates of a probe between layers (paper, figure 2b); remembered for the run.

        Raises:
            InspectError: As for `window`, or there is no probe among the choices (exit code 2).
            Cancelled: The job was cancelled.
        """
        if choices.probe is None:
            raise InspectError(
                "transfer between layers needs a trained map",
                "choose a probe, or make one with attn-inspect probe fit",
                ExitCode.USAGE,
            )
        job = job or Job()
        trace = self._analysed()[1]
        layers = range(len(self.layers))
        rates, n = np.zeros((len(layers), len(layers))), 0
        for trained_at in layers:
            job.report("testing between layers", trained_at, len(layers))
            for tested_at in layers:
                with self._turn, torch.inference_mode():
                    identified, n = trace.remember(
                        ("transfer", trained_at, tested_at, choices),
                        lambda a=trained_at, b=tested_at: self._count(trace, choices, b, a, job),  # type: ignore[misc]
                    )
                rates[trained_at, tested_at] = identified / n
        return Transfer(self.layers, n, rates)

    def probes(self) -> Sequence[ProbeInfo]:
        """The probes that were made for exactly this model; of three stacks, for its encoder."""
        if self._loaded.info.stack in ("decoder", "cross"):
            return ()
        return store.of_model(self._identity())

    def _count(
        self, trace: Trace, choices: IdentityChoices, state: int, trained_at: int, job: Job
    ) -> tuple[int, int]:
        """How many tokens are identified, and of how many."""
        counted, probe = self._counted(choices), self._probe_of(choices)
        pause = self._turn.between_blocks(job)
        identified = n = 0
        for rows in sampled(counted):
            pause()
            found = identify(trace, state, rows, choices, probe, trained_at)
            identified += int((found.rank == 1).sum())
            n += len(rows)
        return identified, n

    def _counted(self, choices: IdentityChoices) -> torch.Tensor:
        """(m,) positions of the counted tokens.

        Raises:
            InspectError: There are not two of them to tell apart (exit code 5), or cross attention
                is asked, which has no hidden states of its own (2).
        """
        if self._loaded.info.stack == "cross":
            raise InspectError(
                "cross attention has no hidden states of its own to identify",
                "look at the stack encoder or decoder",
                ExitCode.USAGE,
            )
        _, trace = self._analysed()
        positions = self.tokens(choices.special)
        least = 1 if choices.candidates == "vocabulary" else 2
        if len(positions) < least:
            raise InspectError(
                f"the text has {len(positions)} token to tell from others"
                if positions
                else "the text has only special tokens",
                "give a longer text, or look for it in the vocabulary"
                if least == 2
                else "give a text with at least one word",
                ExitCode.INPUT,
            )
        return torch.tensor(positions, device=trace.hidden[0].device)

    def _identity(self) -> ModelIdentity:
        if self._model_identity is None:
            self._model_identity = store.identity_of(self._loaded.info, self._loaded.model)
        return self._model_identity

    def _probe_of(self, choices: IdentityChoices) -> Probe | None:
        """The probe of the choices; the latest one is kept, its weights on the model's device."""
        if choices.probe is None:
            return None
        if self._loaded.info.stack == "decoder":
            raise InspectError(
                "trained maps are those of the encoder",
                "leave out the probe, or look at the stack encoder",
                ExitCode.USAGE,
            )
        key = f"{choices.target} {choices.probe}"
        if self._probe is None or self._probe[0] != key:
            probe = store.find(choices.probe, choices.target, self._identity())
            self._probe = (key, probe.to(self._analysed()[1].hidden[0].device))
        return self._probe[1]


def _check(job: Job | None) -> None:
    if job is not None:
        job.check()
