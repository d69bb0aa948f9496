"""`probe fit`: a corpus through the model once, then one method after the other, each saved."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors.torch import load_file

from tui_attn.answers.identity import (
    MATCHES,
    METRICS,
    IdentityChoices,
    Metric,
    ProbeInfo,
    Rate,
    Target,
    Transfer,
    choose,
)
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps.retrieval import search
from tui_attn.probes import gradient, ridge, store
from tui_attn.probes.activations import TEST, TRAIN, Activations, collect
from tui_attn.probes.corpus import description, sentences
from tui_attn.probes.gradient import Tensors
from tui_attn.probes.recipe import Recipe, key
from tui_attn.probes.store import ModelIdentity, Probe
from tui_attn.progress import Job

if TYPE_CHECKING:
    from tui_attn.model.loading import LoadedModel

_TRANSFER_TOKENS = 1000
"""Transfer between all pairs of layers is tested on the first so many test tokens."""


@dataclass(frozen=True)
class Corpus:
    """What to train on: a file, a folder, or None for Python's own prose."""

    path: Path | None = None
    field: str | None = None


def fit(
    loaded: LoadedModel,
    corpus: Corpus,
    recipe: Recipe,
    *,
    again: bool = False,
    job: Job | None = None,
    tell: Callable[[ProbeInfo, bool], None] = lambda info, fresh: None,
) -> list[ProbeInfo]:
    """Train probes and save them below the cache folder.

    A fit that was stopped is taken up where it was: by the same command, on the same model,
    corpus and recipe, and with the same result.

    Args:
        loaded: The model.
        corpus: The sentences.
        recipe: What to train, and how.
        again: Train anew what is there already.
        job: Told about the progress; cancelling it keeps what a later run needs.
        tell: Called with every probe, and whether it was trained by this call.

    Raises:
        InspectError: The corpus is too small or cannot be read (exit code 2), or the cache folder
            cannot be written (6).
        Cancelled: The job was cancelled.
    """
    job = job or Job()
    identity = store.identity_of(loaded.info, loaded.model)
    described = recipe.described({**description(corpus.path), "field": corpus.field})
    work = store.folder_of(identity) / f".work-{key(described)}"
    missing = [
        method
        for method in recipe.methods
        if again or not _is_there(store.place_of(identity, method, recipe.target), described)
    ]
    with _alone(work):
        made = []
        for method in recipe.methods:
            if method in missing:
                activations = _collected(loaded, corpus, recipe, work, job)
                layers = ("emb", *(str(site.layer) for site in loaded.sites))
                training = _Training(activations, method, recipe, loaded.model.device, layers)
                _save(training, identity, described, work, job)
            info, _ = store.read_info(store.place_of(identity, method, recipe.target))
            made.append(info)
            tell(info, method in missing)
        shutil.rmtree(work, ignore_errors=True)
    return made


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """The work folder, for one fit at a time."""
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(work.with_name(f"{work.name}.lock"), timeout=0):
            yield
    except Timeout as error:
        raise InspectError(
            "another fit of this model and recipe is running", "wait for it", ExitCode.OUTPUT
        ) from error
    except OSError as error:
        raise InspectError(
            f"cannot write {work.parent}: {(error.strerror or 'unknown reason').lower()}",
            "set XDG_CACHE_HOME to another folder",
            ExitCode.OUTPUT,
        ) from error


def _is_there(place: Path, described: dict[str, object]) -> bool:
    try:
        return store.read_info(place)[0].recipe.get("key") == key(described)
    except InspectError:
        return False


def _collected(
    loaded: LoadedModel, corpus: Corpus, recipe: Recipe, work: Path, job: Job
) -> Activations:
    return collect(
        loaded,
        sentences(corpus.path, corpus.field),
        work,
        target=recipe.target,
        most=recipe.tokens,
        seed=recipe.seed,
        job=job,
    )


@dataclass(frozen=True)
class _Training:
    """One method on one set of hidden states."""

    activations: Activations
    method: str
    recipe: Recipe
    device: torch.device
    layers: tuple[str, ...]


def _save(
    training: _Training,
    identity: ModelIdentity,
    described: dict[str, object],
    work: Path,
    job: Job,
) -> None:
    weights, found = _trained(training, work, job)
    recipe, target = training.recipe, training.recipe.target
    info = ProbeInfo(
        method=training.method,
        target=target,
        model=identity.name,
        revision=identity.revision,
        dtype=identity.dtype,
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tokens=len(training.activations.rows(TRAIN)),
        recipe={**described, **found, "key": key(described)},
        path=str(store.place_of(identity, training.method, target)),
        held_out=(),
        transfer=Transfer(training.layers, 0, np.zeros((0, 0)), data="held-out"),
    )
    probe = Probe(info, weights).to(training.device)
    held_out = evaluate(training.activations, training.layers, recipe.target, None, job)
    held_out += evaluate(training.activations, training.layers, recipe.target, probe, job)
    moved = transfer(training.activations, training.layers, probe, job)
    store.save(identity, Probe(replace(info, held_out=tuple(held_out), transfer=moved), weights))


def _trained(training: _Training, work: Path, job: Job) -> tuple[Tensors, dict[str, object]]:
    """The weights of every layer, and what the training found out about its own choices."""
    activations, method, recipe = training.activations, training.method, training.recipe
    if method == "ridge":
        weights, strengths = ridge.train(activations, training.device, job)
        return weights, {"lambda": strengths}
    state = work / f"{method}.safetensors"
    progress = gradient.start(method, recipe, *activations.states.shape[::2])
    if state.is_file():
        progress = _unpacked(load_file(state))
    progress = gradient.train(
        activations,
        method,
        recipe,
        training.device,
        progress,
        lambda now: store.write_tensors(state, _packed(now)),
        job,
    )
    return progress.best, {"rate": progress.rate.tolist(), "loss": progress.loss.tolist()}


def _packed(progress: gradient.Progress) -> Tensors:
    return {
        **{f"best.{name}": value for name, value in progress.best.items()},
        **{f"stack.{name}": value for name, value in progress.stack.items()},
        "loss": progress.loss,
        "rate": progress.rate,
        "place": progress.place,
    }


def _unpacked(tensors: Tensors) -> gradient.Progress:
    def part(prefix: str) -> Tensors:
        return {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }

    return gradient.Progress(
        part("best."), tensors["loss"], tensors["rate"], tensors["place"], part("stack.")
    )


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
            found, n = _identified(activations, layer, choices, probe, layer, None)
            rates.append(Rate(name, choices, found, n, "held-out"))
    return rates


def transfer(activations: Activations, layers: tuple[str, ...], probe: Probe, job: Job) -> Transfer:
    """Trained at one layer, tested at another, on the first test sentences (paper, figure 2b)."""
    choices = choose(target=probe.info.target, probe=probe.info.method)
    rates, n = np.zeros((len(layers), len(layers))), 0
    for trained_at, tested_at in product(range(len(layers)), repeat=2):
        job.report("testing between layers", trained_at * len(layers) + tested_at, rates.size)
        found, n = _identified(activations, tested_at, choices, probe, trained_at, _TRANSFER_TOKENS)
        rates[trained_at, tested_at] = found / n
    return Transfer(layers, n, rates, data="held-out")


def _identified(
    activations: Activations,
    tested_at: int,
    choices: IdentityChoices,
    probe: Probe | None,
    trained_at: int,
    most: int | None,
) -> tuple[int, int]:
    """How many of the test tokens are identified among those of their sentence, and of how many."""
    found = n = 0
    for rows in activations.sentences(TEST):
        states = torch.from_numpy(activations.states[tested_at, rows])
        if probe is not None:
            device = next(iter(probe.weights.values())).device
            states = probe(trained_at, states.to(device)).cpu()
        labels = torch.from_numpy(activations.ids[rows] if choices.match == "id" else rows)
        targets = torch.from_numpy(activations.targets[rows])
        found += int((search(states, labels, targets, labels, choices.metric).rank == 1).sum())
        n += len(rows)
        if most is not None and n >= most:
            break
    return found, n
