"""Probes on sentences they were not trained on: rates per layer, and between layers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch

from tui_attn.answers.identity import (
    MATCHES,
    METRICS,
    IdentityChoices,
    Metric,
    Rate,
    Target,
    Transfer,
    choose,
)
from tui_attn.maps.retrieval import search
from tui_attn.probes.activations import TEST, Activations
from tui_attn.progress import Job

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tui_attn.probes.store import Probe

_TRANSFER_TOKENS = 1000
"""Transfer between all pairs of layers is tested on the first so many test tokens."""


def evaluate(
    activations: Activations,
    layers: tuple[str, ...],
    target: Target,
    probe: Probe | None,
    job: Job,
) -> list[Rate]:
    """The rates on the test sentences, each sentence its own candidates, by position and by id.

    A probe is looked up by the metric of its loss, the naive search and the closed form by both.
    """
    rates = []
    metrics: tuple[Metric, ...] = METRICS
    if probe is not None and probe.info.method != "ridge":
        metrics = (choose(probe=probe.info.method).metric,)
    for layer, name in enumerate(layers):
        job.report("testing on held-out sentences", layer, len(layers))
        for metric, match in product(metrics, MATCHES):
            choices = IdentityChoices(
                target, match=match, metric=metric, probe=probe.info.method if probe else None
            )
            found, n = identified(activations, _mapped(activations, layer, probe, layer), choices)
            rates.append(Rate(name, choices, found, n, "held-out"))
    return rates


def transfer(activations: Activations, layers: tuple[str, ...], probe: Probe, job: Job) -> Transfer:
    """Trained at one layer, tested at another, on the first test sentences (paper, figure 2b)."""
    choices = choose(target=probe.info.target, probe=probe.info.method)
    rates, n = np.zeros((len(layers), len(layers))), 0
    for trained_at, tested_at in product(range(len(layers)), repeat=2):
        job.report("testing between layers", trained_at * len(layers) + tested_at, rates.size)
        states_of = _mapped(activations, tested_at, probe, trained_at)
        found, n = identified(activations, states_of, choices, most=_TRANSFER_TOKENS)
        rates[trained_at, tested_at] = found / n
    return Transfer(layers, n, rates, data="held-out")


def identified(
    activations: Activations,
    states_of: Callable[[NDArray[np.int64]], torch.Tensor],
    choices: IdentityChoices,
    split: int = TEST,
    most: int | None = None,
) -> tuple[int, int]:
    """How many tokens of a split are identified among those of their sentence, and of how many.

    Args:
        activations: Where the tokens are.
        states_of: The vectors (n, d) that are looked up for some tokens.
        choices: The metric and the match.
        split: Which sentences.
        most: Stop after the sentence with so many tokens.
    """
    found = n = 0
    labels = activations.ids if choices.match == "id" else np.arange(len(activations.ids))
    for rows in activations.sentences(split):
        counted = rows[~activations.special[rows]]
        result = search(
            states_of(counted).cpu(),
            torch.from_numpy(labels[counted]),
            torch.from_numpy(activations.targets[rows]),
            torch.from_numpy(labels[rows]),
            choices.metric,
        )
        found += int((result.rank == 1).sum())
        n += len(counted)
        if most is not None and n >= most:
            break
    return found, n


def _mapped(
    activations: Activations, layer: int, probe: Probe | None, trained_at: int
) -> Callable[[NDArray[np.int64]], torch.Tensor]:
    """The hidden states of a layer, through the map of another."""

    def states_of(rows: NDArray[np.int64]) -> torch.Tensor:
        states = torch.from_numpy(activations.states[layer, rows])
        if probe is None:
            return states
        return probe(trained_at, states.to(next(iter(probe.weights.values())).device))

    return states_of
