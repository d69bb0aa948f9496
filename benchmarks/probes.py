"""Time to train probes, against the loops that people write by hand with scikit-learn and torch."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import Ridge
from torch import nn

from benchmarks.measuring import Row, ratio, row, seconds
from tui_attn.probes import gradient, ridge
from tui_attn.probes.activations import TRAIN, VALIDATION, Activations, split_of
from tui_attn.probes.recipe import Recipe
from tui_attn.progress import Job

LAYERS, WIDTH, LENGTH, SENTENCES = 7, 384, 24, 400
EPOCHS = 2
CPU = torch.device("cpu")


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark: ours and the other in turn, so that drift hits both."""
    data = _hidden_states()
    recipe = Recipe(epochs=EPOCHS)
    rows = []
    for what, ours, other in (
        (
            "ridge, all layers and lambdas / scikit-learn Ridge in a loop",
            lambda: ridge.train(data, CPU, Job()),
            lambda: _scikit_learn(data),
        ),
        (
            "linear-cosine, all layers / one torch loop a layer",
            lambda: _ours(data, "linear-cosine", recipe),
            lambda: _plain_torch(data, nn.Linear(WIDTH, WIDTH), recipe),
        ),
        (
            "mlp-cosine, all layers / one torch loop a layer",
            lambda: _ours(data, "mlp-cosine", recipe),
            lambda: _plain_torch(
                data,
                nn.Sequential(nn.Linear(WIDTH, 1000), nn.GELU(), nn.Linear(1000, WIDTH)),
                recipe,
            ),
        ),
    ):
        pairs = [(seconds(ours), seconds(other)) for _ in range(runs)]
        ones, others = (list(side) for side in zip(*pairs, strict=True))
        rows.append(row(what, ratio(ones, others), "times", "at most 1"))
    return rows


def _hidden_states() -> Activations:
    generator = np.random.default_rng(0)
    count = SENTENCES * LENGTH
    targets = generator.standard_normal((count, WIDTH)).astype(np.float32)
    noise = generator.standard_normal((LAYERS, count, WIDTH)).astype(np.float32)
    states = targets + noise * np.linspace(0, 2, LAYERS, dtype=np.float32)[:, None, None]
    sentence = np.repeat(np.arange(SENTENCES), LENGTH)
    split = np.array([split_of(number, 0) for number in range(SENTENCES)], np.int8)
    nothing = np.zeros(count, np.bool_)
    return Activations(states, targets, np.arange(count), sentence, split[sentence], nothing)


def _ours(data: Activations, method: str, recipe: Recipe) -> None:
    start = gradient.start(method, recipe, LAYERS, WIDTH)
    gradient.train(data, method, recipe, CPU, start, lambda progress: None, Job())


def _scikit_learn(data: Activations) -> None:
    """One fit and one look at the validation sentences for each layer and lambda."""
    train, check = data.rows(TRAIN), data.rows(VALIDATION)
    for layer in range(LAYERS):
        states = data.states[layer].astype(np.float64)
        scale = len(train) * states[train].var(0).mean()
        for strength in ridge.STRENGTHS:
            model = Ridge(alpha=strength * scale).fit(states[train], data.targets[train])
            made = model.predict(states[check]).reshape(-1, LENGTH, WIDTH)
            target = data.targets[check].reshape(-1, LENGTH, WIDTH)
            for one, other in zip(made, target, strict=True):
                lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
                (one @ other.T / lengths).argmax(1)
                np.linalg.norm(one[:, None] - other, axis=-1).argmin(1)


def _plain_torch(data: Activations, module: nn.Module, recipe: Recipe) -> None:
    """One module, one optimiser and one loop over batches for each layer."""
    train, check = data.rows(TRAIN), data.rows(VALIDATION)
    targets = torch.from_numpy(data.targets)
    for layer in range(LAYERS):
        states = torch.from_numpy(data.states[layer])
        optimiser = torch.optim.Adam(module.parameters(), lr=1e-4)
        for _ in range(recipe.epochs):
            order = torch.from_numpy(np.random.permutation(train))  # noqa: NPY002
            for batch in order.split(recipe.batch):
                optimiser.zero_grad()
                made = module(states[batch])
                loss = (1 - torch.cosine_similarity(made, targets[batch])).mean()
                loss.backward()
                optimiser.step()
            with torch.no_grad():
                (1 - torch.cosine_similarity(module(states[check]), targets[check])).mean()
