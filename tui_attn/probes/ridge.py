"""The closed form: ridge regression from normal equations, lambda by the validation split."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from tui_attn.probes.activations import TRAIN, VALIDATION, Activations
from tui_attn.progress import Job

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
        fitted = _moments(activations.pairs(layer, TRAIN, device))
        checked = _moments(activations.pairs(layer, VALIDATION, device))
        solution, offset, strength = _solve(fitted, checked)
        weight[layer], bias[layer] = solution.cpu(), offset.cpu()
        chosen.append(strength)
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


def _solve(fitted: _Moments, checked: _Moments) -> tuple[torch.Tensor, torch.Tensor, float]:
    """(W, b, lambda) of least squared error on the validation split, all from moments."""
    mean_x, mean_y = fitted.x / fitted.n, fitted.y / fitted.n
    covariance = fitted.xx / fitted.n - mean_x[:, None] * mean_x
    cross = fitted.xy / fitted.n - mean_x[:, None] * mean_y
    values, vectors = torch.linalg.eigh(covariance)
    rotated = vectors.T @ cross
    scale = float(values.mean().clamp(min=torch.finfo(values.dtype).tiny))
    best: tuple[float, torch.Tensor, torch.Tensor, float] | None = None
    for strength in STRENGTHS:
        weight = vectors @ (rotated / (values.clamp(min=0) + strength * scale)[:, None])
        bias = mean_y - mean_x @ weight
        error = _squared_error(checked, weight, bias)
        if best is None or error < best[0]:
            best = error, weight, bias, strength
    assert best is not None
    return best[1:]


def _squared_error(checked: _Moments, weight: torch.Tensor, bias: torch.Tensor) -> float:
    """Mean of |x W + b - y|^2 less the constant |y|^2, from moments."""
    n, x, y = checked.n, checked.x / checked.n, checked.y / checked.n
    quadratic = ((checked.xx / n) @ weight * weight).sum()
    linear = 2 * ((x @ weight) @ bias - (checked.xy / n * weight).sum() - y @ bias)
    return float(quadratic + linear + bias @ bias)
