"""The closed form: ridge regression from normal equations, lambda by the validation split.

The lambda that identifies most validation tokens, by cosine and by L2 together, is taken: the one
of least squared error is far stronger and identifies fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tui_attn.answers.identity import METRICS, choose
from tui_attn.probes.activations import TRAIN, VALIDATION, Activations
from tui_attn.probes.testing import identified
from tui_attn.progress import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STRENGTHS = tuple(10.0**power for power in range(-9, 2))
"""The lambdas tried, relative to the mean variance of the hidden state's components."""


@dataclass(frozen=True)
class _Moments:
    """Sums over tokens, float64: linear memory in nothing but the width."""

    n: int
    x: torch.Tensor
    y: torch.Tensor
    xx: torch.Tensor
    xy: torch.Tensor


def train(
    activations: Activations, device: torch.device, job: Job
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Fit h(e) = e W + b for every layer.

    Returns:
        `weight` (L + 1, d, d) and `bias` (L + 1, d), float32 on the CPU; each layer's lambda.

    Raises:
        Cancelled: The job was cancelled.
    """
    layers, _, width = activations.states.shape
    weight, bias = torch.empty(layers, width, width), torch.empty(layers, width)
    chosen = []
    for layer in range(layers):
        job.report("ridge: solving", layer, layers)
        most = -1
        for strength, slope, offset in _solutions(
            _moments(activations.pairs(layer, TRAIN, device))
        ):
            job.check()

            def states_of(
                rows: NDArray[np.int64],
                layer: int = layer,
                slope: torch.Tensor = slope,
                offset: torch.Tensor = offset,
            ) -> torch.Tensor:
                return torch.from_numpy(activations.states[layer, rows]).to(device) @ slope + offset

            found = sum(
                identified(activations, states_of, choose(metric=metric), VALIDATION)[0]
                for metric in METRICS
            )
            if found >= most:  # of equals the strongest: the smoother map
                most, best = found, strength
                weight[layer], bias[layer] = slope.cpu(), offset.cpu()
        chosen.append(best)
    return {"weight": weight, "bias": bias}, chosen


def _moments(pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> _Moments:
    total: _Moments | None = None
    for x, y in pairs:
        part = _Moments(len(x), x.sum(0), y.sum(0), x.T @ x, x.T @ y)
        total = part if total is None else _added(total, part)
    assert total is not None, "every split has sentences"
    return total


def _added(one: _Moments, other: _Moments) -> _Moments:
    return _Moments(
        one.n + other.n,
        one.x + other.x,
        one.y + other.y,
        one.xx + other.xx,
        one.xy + other.xy,
    )


def _solutions(fitted: _Moments) -> Iterator[tuple[float, torch.Tensor, torch.Tensor]]:
    """(lambda, W, b) for every strength, from one eigendecomposition."""
    mean_x, mean_y = fitted.x / fitted.n, fitted.y / fitted.n
    covariance = fitted.xx / fitted.n - mean_x[:, None] * mean_x
    cross = fitted.xy / fitted.n - mean_x[:, None] * mean_y
    values, vectors = torch.linalg.eigh(covariance)
    rotated = vectors.T @ cross
    scale = float(values.mean().clamp(min=torch.finfo(values.dtype).tiny))
    for strength in STRENGTHS:
        weight = vectors @ (rotated / (values.clamp(min=0) + strength * scale)[:, None])
        yield strength, weight.float(), (mean_y - mean_x @ weight).float()
