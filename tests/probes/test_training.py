"""The solvers on toys: oracles T7 and T8, early stopping, and a training that is taken up again."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from tests.probes.toys import rotated
from tui_attn.answers.identity import METHODS, ProbeInfo, Transfer
from tui_attn.errors import Cancelled
from tui_attn.probes import gradient, ridge
from tui_attn.probes.activations import TEST, TRAIN, VALIDATION, Activations, split_of
from tui_attn.probes.recipe import Recipe
from tui_attn.probes.store import Probe
from tui_attn.probes.testing import evaluate
from tui_attn.progress import Job

CPU = torch.device("cpu")
FAST = Recipe(learning_rate=1e-2, epochs=60, patience=10, hidden=128, batch=64)
LAYERS = ("emb", "0")


def trained(data: Activations, method: str, recipe: Recipe = FAST) -> Probe:
    if method == "ridge":
        weights, _ = ridge.train(data, CPU, Job())
    else:
        start = gradient.start(method, recipe, *data.states.shape[::2])
        save = lambda progress: None  # noqa: E731
        weights = gradient.train(data, method, recipe, CPU, start, save, Job()).best
    nothing = Transfer(LAYERS, 0, np.zeros((0, 0)))
    info = ProbeInfo(method, "embedding", "toy", None, "float32", "", 0, {}, "", (), nothing)
    return Probe(info, weights)


def by_position(data: Activations, probe: Probe | None) -> dict[str, float]:
    rates = evaluate(data, LAYERS, "embedding", probe, Job())
    return {rate.layer: rate.rate for rate in rates if rate.choices.match == "position"}


@pytest.mark.parametrize("method", METHODS)
def test_t7_a_rotation_is_undone_by_training_and_not_by_searching(method: str) -> None:
    data = rotated()
    assert by_position(data, None)["0"] < 0.25  # chance is 1/12
    least = 0.99 if not method.startswith("mlp") else 0.95
    assert by_position(data, trained(data, method))["0"] >= least


def test_t7_the_closed_form_is_exact() -> None:
    data = rotated()
    assert by_position(data, trained(data, "ridge"))["0"] == 1.0


@pytest.mark.parametrize("method", ["ridge", "linear-cosine", "mlp-l2"])
def test_t8_shuffled_targets_fall_to_chance(method: str) -> None:
    data = rotated(shuffled=True)
    tokens = len(data.rows(TEST))
    bound = 1 / 12 + 4 * (1 / 12 * 11 / 12 / tokens) ** 0.5
    assert by_position(data, trained(data, method))["0"] < bound


def test_t8_no_sentence_is_in_two_splits_and_the_shares_are_exact() -> None:
    data = rotated(sentences=200)
    found = [set(data.sentence[data.rows(split)].tolist()) for split in (TRAIN, VALIDATION, TEST)]
    assert [len(part) for part in found] == [140, 30, 30]
    assert set.union(*found) == set(range(200))
    orders = [[split_of(number, seed) for number in range(20)] for seed in range(5)]
    assert len({tuple(order) for order in orders}) > 1


def test_ridge_is_the_textbook_solution() -> None:
    data = rotated()
    x, y = data.states[1][data.rows(TRAIN)], data.targets[data.rows(TRAIN)]
    weights, strengths = ridge.train(data, CPU, Job())
    centred = (x - x.mean(0)).astype(np.float64)
    strength = strengths[1] * np.linalg.eigvalsh(centred.T @ centred / len(x)).mean()
    gram = centred.T @ centred / len(x) + strength * np.eye(x.shape[1])
    expected = np.linalg.solve(gram, centred.T @ (y - y.mean(0)) / len(x))
    np.testing.assert_allclose(weights["weight"][1], expected, atol=1e-6)


def test_ridge_chooses_its_strength_on_the_validation_split() -> None:
    """With fewer training tokens than dimensions the unregularised solution is not the best."""
    data = rotated(sentences=20, length=3, width=64, seed=3)
    noisy = data.states + np.random.default_rng(0).standard_normal(data.states.shape) * 0.5
    data = replace(data, states=noisy.astype(np.float32))
    _, strengths = ridge.train(data, CPU, Job())
    assert strengths[1] > min(ridge.STRENGTHS)


@pytest.mark.parametrize("method", ["linear-cosine", "mlp-l2"])
def test_layers_do_not_influence_each_other(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = rotated(sentences=60)
    recipe = Recipe(learning_rate=1e-2, epochs=8, hidden=32)
    together = trained(data, method, recipe)
    monkeypatch.setattr(gradient, "_STACK_BYTES", {"cpu": 1})
    apart = trained(data, method, recipe)
    for name, value in together.weights.items():
        torch.testing.assert_close(value, apart.weights[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("method,stop", product(["linear-l2", "mlp-cosine"], [1, 3, 7, 12]))
def test_a_training_taken_up_again_ends_the_same(
    method: str, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the start of an epoch, in the first or the second learning rate."""
    monkeypatch.setattr(gradient, "_SAVE_SECONDS", -1.0)
    monkeypatch.setattr("tui_attn.probes.recipe.LEARNING_RATES", (1e-2, 3e-3))
    data = rotated(sentences=40)
    recipe = Recipe(learning_rate=None, epochs=8, patience=3, hidden=32)
    start = lambda: gradient.start(method, recipe, *data.states.shape[::2])  # noqa: E731
    whole = gradient.train(data, method, recipe, CPU, start(), lambda progress: None, Job())

    saved: list[gradient.Progress] = []
    reports = 0

    def interrupt(_: object) -> None:
        nonlocal reports
        reports += 1
        if reports > stop:
            raise Cancelled

    def keep(progress: gradient.Progress) -> None:
        copies = [
            {name: value.clone() for name, value in part.items()}
            for part in (progress.best, progress.stack)
        ]
        saved.append(
            gradient.Progress(
                copies[0],
                progress.loss.clone(),
                progress.rate.clone(),
                progress.place.clone(),
                copies[1],
            )
        )

    with pytest.raises(Cancelled):
        gradient.train(data, method, recipe, CPU, start(), keep, Job(interrupt))
    resumed = gradient.train(
        data, method, recipe, CPU, saved[-1] if saved else start(), lambda progress: None, Job()
    )
    assert torch.equal(resumed.loss, whole.loss)
    assert torch.equal(resumed.rate, whole.rate)
    assert all(torch.equal(resumed.best[name], value) for name, value in whole.best.items())


def test_a_layer_stops_when_it_has_waited_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rotated(sentences=40)
    epochs = []
    job = Job(lambda progress: epochs.append(progress.done))
    recipe = Recipe(learning_rate=1e-2, epochs=500, patience=2)
    start = gradient.start("linear-l2", recipe, *data.states.shape[::2])
    gradient.train(data, "linear-l2", recipe, CPU, start, lambda progress: None, job)
    assert max(epochs) < 499


def test_the_rate_search_keeps_each_layers_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_attn.probes.recipe.LEARNING_RATES", (1e-7, 1e-2))
    data = rotated(sentences=40)
    recipe = Recipe(learning_rate=None, epochs=5)
    start = gradient.start("linear-l2", recipe, *data.states.shape[::2])
    made = gradient.train(data, "linear-l2", recipe, CPU, start, lambda progress: None, Job())
    assert made.rate.tolist() == [1e-2, 1e-2]
