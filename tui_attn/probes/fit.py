"""`probe fit`: a corpus through the model once, then one method after the other, each saved."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors.torch import load_file

from tui_attn.answers.identity import ProbeInfo, Transfer
from tui_attn.errors import ExitCode, InspectError
from tui_attn.probes import gradient, ridge, store
from tui_attn.probes.activations import TRAIN, Activations, collect
from tui_attn.probes.corpus import description, sentences
from tui_attn.probes.gradient import Tensors
from tui_attn.probes.recipe import Recipe, key
from tui_attn.probes.store import ModelIdentity, Probe
from tui_attn.probes.testing import evaluate, transfer
from tui_attn.progress import Job

if TYPE_CHECKING:
    from tui_attn.model.loading import LoadedModel


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
                training = _Training(
                    activations, method, recipe, loaded.model.device, loaded.layer_names
                )
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
