"""The paper's linear map and MLP, trained with Adam on the cosine or the L2 loss.

The maps of many layers are trained side by side, as one stack: a batch is then one large product
and not many small ones. Layers do not influence each other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from tui_attn.probes.activations import TRAIN, VALIDATION, Activations
from tui_attn.probes.recipe import Recipe
from tui_attn.progress import Job

Tensors = dict[str, torch.Tensor]

_STACK_BYTES = {"cpu": 1 << 25, "cuda": 1 << 30}
"""Weights, gradients, two moments and the best copy of a stack: in a cache, or in device memory."""
_SAVE_SECONDS = 10.0


@dataclass
class Progress:
    """Where the training is: everything that a later run needs to go on as if it never stopped.

    Attributes:
        best: Weights of least validation loss of every layer, (L + 1, …) each.
        loss: (L + 1,) that loss; infinite where there is none yet.
        rate: (L + 1,) the learning rate it was reached with.
        place: (3,) the learning rate and the stack that are being trained, and the next epoch.
        stack: Weights, Adam's moments and counters of the stack in training; empty between stacks.
    """

    best: Tensors
    loss: torch.Tensor
    rate: torch.Tensor
    place: torch.Tensor
    stack: Tensors


class _Stack:
    """The maps of some layers in training.

    Attributes:
        layers: Their numbers.
        waited: (G,) epochs without a better validation loss.
        least: (G,) least validation loss with this learning rate.
    """

    def __init__(self, layers: list[int], weights: Tensors, rate: float) -> None:
        self.layers = layers
        self.waited = torch.zeros(len(layers), dtype=torch.int64)
        self.least = torch.full((len(layers),), torch.inf)
        self._rate = rate
        self._adopt(weights)

    def _adopt(self, weights: Tensors) -> None:
        self.weights = {name: value.requires_grad_() for name, value in weights.items()}
        self.optimiser = torch.optim.Adam(self.weights.values(), lr=self._rate)

    def keep(self, stays: torch.Tensor) -> None:
        """Go on with some of the layers only."""
        index = stays.nonzero().flatten()
        state = {
            name: value[index] if value.ndim else value for name, value in self.tensors().items()
        }
        self.load(state)

    def tensors(self) -> Tensors:
        """Everything, as tensors under names."""
        found: Tensors = {
            "layers": torch.tensor(self.layers),
            "waited": self.waited,
            "least": self.least,
        }
        for name, weight in self.weights.items():
            found[f"weight.{name}"] = weight.detach()
            for part, value in self.optimiser.state.get(weight, {}).items():
                found[f"adam.{name}.{part}"] = value
        return found

    def load(self, tensors: Tensors) -> None:
        """Take up what `tensors` gave."""
        self.layers = tensors["layers"].tolist()
        self.waited, self.least = tensors["waited"].clone(), tensors["least"].clone()
        device = next(iter(self.weights.values())).device
        self._adopt({name: tensors[f"weight.{name}"].clone().to(device) for name in self.weights})
        for name, weight in self.weights.items():
            prefix = f"adam.{name}."
            self.optimiser.state[weight] = {
                key.removeprefix(prefix): value.clone().to(device if value.ndim else "cpu")
                for key, value in tensors.items()
                if key.startswith(prefix)
            }


def apply(weights: Tensors, states: torch.Tensor) -> torch.Tensor:
    """The map of one layer (…, d) -> (…, d), or of a stack of them (G, n, d) -> (G, n, d)."""

    def affine(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return x @ weight + (bias[:, None] if weight.ndim == 3 else bias)

    if "weight" in weights:
        return affine(states, weights["weight"], weights["bias"])
    inner = functional.gelu(affine(states, weights["weight_in"], weights["bias_in"]))
    return affine(inner, weights["weight_out"], weights["bias_out"])


def start(method: str, recipe: Recipe, layers: int, width: int) -> Progress:
    """The beginning of a training."""
    shapes = _shapes(method, recipe, width)
    return Progress(
        {name: torch.zeros(layers, *shape) for name, shape in shapes.items()},
        torch.full((layers,), torch.inf),
        torch.zeros(layers, dtype=torch.float64),
        torch.zeros(3, dtype=torch.int64),
        {},
    )


def train(
    activations: Activations,
    method: str,
    recipe: Recipe,
    device: torch.device,
    progress: Progress,
    save: Callable[[Progress], None],
    job: Job,
) -> Progress:
    """Train one method for every layer, from wherever `progress` is.

    Args:
        activations: What to train on.
        method: `linear-cosine`, `linear-l2`, `mlp-cosine` or `mlp-l2`.
        recipe: How.
        device: Where.
        progress: `start`, or what an earlier run saved; changed in place.
        save: Called every few seconds, between epochs.
        job: Told about every epoch.

    Returns:
        `progress`, with the best weights of every layer.

    Raises:
        Cancelled: The job was cancelled; what was saved can be taken up again.
    """
    layers, _, width = activations.states.shape
    rates = recipe.learning_rates()
    stacks = _stacks(method, recipe, layers, width, device)
    saved = time.monotonic()
    while int(progress.place[0]) < len(rates):
        rate_index, stack_index, epoch = progress.place.tolist()
        rate, members = rates[rate_index], stacks[stack_index]
        stack = _Stack(members, _initial(method, recipe, members, width, device), rate)
        if progress.stack:
            stack.load(progress.stack)
        while stack.layers and epoch < recipe.epochs:
            job.report(_phase(method, rate, rates, stack.layers), epoch, recipe.epochs)
            _epoch(activations, stack, method, recipe, epoch, device, job)
            _validate(activations, stack, method, recipe, progress, device)
            epoch += 1
            if time.monotonic() - saved > _SAVE_SECONDS:
                progress.place[2], progress.stack = epoch, stack.tensors()
                save(progress)
                saved = time.monotonic()
        following = stack_index + 1
        progress.place[:] = torch.tensor(
            [rate_index, following, 0] if following < len(stacks) else [rate_index + 1, 0, 0]
        )
        progress.stack = {}
        save(progress)
    return progress


def _phase(method: str, rate: float, rates: tuple[float, ...], layers: list[int]) -> str:
    tried = f" at {rate:g}" if len(rates) > 1 else ""
    return f"{method}{tried}: epoch, {len(layers)} layers left"


def _shapes(method: str, recipe: Recipe, width: int) -> dict[str, tuple[int, ...]]:
    if method.startswith("linear"):
        return {"weight": (width, width), "bias": (width,)}
    return {
        "weight_in": (width, recipe.hidden),
        "bias_in": (recipe.hidden,),
        "weight_out": (recipe.hidden, width),
        "bias_out": (width,),
    }


def _stacks(
    method: str, recipe: Recipe, layers: int, width: int, device: torch.device
) -> list[list[int]]:
    size = sum(math.prod(shape) for shape in _shapes(method, recipe, width).values()) * 4 * 5
    most = max(_STACK_BYTES.get(device.type, _STACK_BYTES["cpu"]) // size, 1)
    return [list(range(first, min(first + most, layers))) for first in range(0, layers, most)]


def _initial(
    method: str, recipe: Recipe, layers: list[int], width: int, device: torch.device
) -> Tensors:
    """Glorot's uniform weights, seeded layer by layer: a stack's size changes nothing."""
    weights: dict[str, list[torch.Tensor]] = {}
    for layer in layers:
        generator = torch.Generator().manual_seed(recipe.seed * 100_003 + layer)
        for name, shape in _shapes(method, recipe, width).items():
            value = torch.zeros(shape)
            if len(shape) == 2:
                torch.nn.init.xavier_uniform_(value, generator=generator)
            weights.setdefault(name, []).append(value)
    return {name: torch.stack(values).to(device) for name, values in weights.items()}


def _losses(weights: Tensors, x: torch.Tensor, y: torch.Tensor, method: str) -> torch.Tensor:
    """(G,) mean loss of each layer of a stack."""
    made = apply(weights, x)
    if method.endswith("cosine"):
        return (1 - functional.cosine_similarity(made, y[None], dim=-1)).mean(-1)
    return (made - y[None]).square().mean((-1, -2))


def _epoch(
    activations: Activations,
    stack: _Stack,
    method: str,
    recipe: Recipe,
    epoch: int,
    device: torch.device,
    job: Job,
) -> None:
    rows = activations.rows(TRAIN)
    order = np.random.default_rng([recipe.seed, epoch]).permutation(rows)
    for x, y in _batches(activations, stack.layers, order, recipe.batch, device):
        job.check()
        stack.optimiser.zero_grad()
        _losses(stack.weights, x, y, method).sum().backward()  # type: ignore[no-untyped-call]
        stack.optimiser.step()


def _validate(
    activations: Activations,
    stack: _Stack,
    method: str,
    recipe: Recipe,
    progress: Progress,
    device: torch.device,
) -> None:
    """Keep what got better, and stop the layers that have waited long enough."""
    rows = activations.rows(VALIDATION)
    total = torch.zeros(len(stack.layers), dtype=torch.float64)
    with torch.no_grad():
        for x, y in _batches(activations, stack.layers, rows, 4096, device):
            total += _losses(stack.weights, x, y, method).double().cpu() * x.shape[1]
    losses = (total / len(rows)).float()
    better = losses < stack.least
    stack.least = torch.where(better, losses, stack.least)
    stack.waited = torch.where(better, 0, stack.waited + 1)
    for place, layer in enumerate(stack.layers):
        if losses[place] < progress.loss[layer]:
            progress.loss[layer] = losses[place]
            progress.rate[layer] = stack.optimiser.param_groups[0]["lr"]
            for name, weight in stack.weights.items():
                progress.best[name][layer] = weight.detach()[place].cpu()
    stays = stack.waited < recipe.patience
    if not bool(stays.all()):
        stack.keep(stays)


def _batches(
    activations: Activations,
    layers: list[int],
    rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    size: int,
    device: torch.device,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(G, size, d) states and (size, d) targets, read off the disk as they are needed."""
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        states = activations.states[np.ix_(np.array(layers), part)]
        yield (
            torch.from_numpy(states).to(device),
            torch.from_numpy(activations.targets[part]).to(device),
        )
