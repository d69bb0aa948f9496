"""The hidden states of a corpus in a file: what is in memory does not grow with the corpus."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from tui_attn.errors import ExitCode, InspectError
from tui_attn.files import whole_file
from tui_attn.maps.identity import vocabulary
from tui_attn.model import tokens
from tui_attn.model.forward import trace_of
from tui_attn.progress import Job

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tui_attn.model.loading import LoadedModel
    from tui_attn.model.trace import Trace

TRAIN, VALIDATION, TEST = 0, 1, 2
_SPLIT = (TRAIN,) * 14 + (VALIDATION,) * 3 + (TEST,) * 3
"""70/15/15, exact in every 20 sentences."""
_LONGEST, _SHORTEST = 512, 4
"""Tokens of a sentence: longer ones are cut, shorter ones have too few candidates to count."""
_BLOCK = 8192


@dataclass(frozen=True)
class Activations:
    """Hidden states of N tokens, sentence by sentence.

    Attributes:
        states: (L + 1, N, d) float32: `emb`, then every block; on the disk.
        targets: (N, d) float32: what the probes recover; on the disk.
        ids: (N,) int64.
        sentence: (N,) int64, number of the sentence.
        split: (N,) int8, `TRAIN`, `VALIDATION` or `TEST`; the same for a whole sentence.
        special: (N,) bool, special tokens: candidates, but neither trained on nor counted.
    """

    states: NDArray[np.float32]
    targets: NDArray[np.float32]
    ids: NDArray[np.int64]
    sentence: NDArray[np.int64]
    split: NDArray[np.int8]
    special: NDArray[np.bool_]

    def rows(self, split: int) -> NDArray[np.int64]:
        """The counted tokens of a split."""
        return np.flatnonzero((self.split == split) & ~self.special)

    def pairs(
        self, layer: int, split: int, device: torch.device | str = "cpu"
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """(states, targets) of a split in blocks, float64."""
        rows = self.rows(split)
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            yield (
                torch.from_numpy(self.states[layer, part]).to(device).double(),
                torch.from_numpy(self.targets[part]).to(device).double(),
            )

    def sentences(self, split: int) -> Iterator[NDArray[np.int64]]:
        """All tokens of each sentence of a split."""
        rows = np.flatnonzero(self.split == split)
        yield from np.split(rows, np.flatnonzero(np.diff(self.sentence[rows])) + 1)


def split_of(sentence: int, seed: int) -> int:
    """The split of a sentence: a seeded order within every 20."""
    block, place = divmod(sentence, len(_SPLIT))
    return _SPLIT[np.random.default_rng([seed, block]).permutation(len(_SPLIT))[place]]


def collect(
    loaded: LoadedModel,
    corpus: Iterator[str],
    folder: Path,
    *,
    target: str,
    most: int,
    seed: int,
    job: Job,
) -> Activations:
    """Run sentences through the model and keep their hidden states in `folder`.

    Args:
        loaded: The model.
        corpus: Its sentences; read only as far as they are needed.
        folder: Where the files go; what is in it from an earlier run is taken as it is.
        target: `embedding` or `word`.
        most: Stop after so many tokens.
        seed: Of the split.
        job: Told how many tokens there are; cancelling it leaves nothing to go on from.

    Raises:
        InspectError: The corpus is too small or cannot be read (exit code 2), the disk is full (6).
        Cancelled: The job was cancelled.
    """
    index, states = folder / "tokens.npz", folder / "states.f32"
    layers, width = len(loaded.layer_names), loaded.info.width
    if not index.is_file():
        _must_fit(folder, (layers + 1) * most * width * 4)
        try:
            _run(loaded, corpus, states, index, target, most, seed, job)
        except OSError as error:
            raise InspectError(
                f"cannot write {folder}: {(error.strerror or 'unknown reason').lower()}",
                "make room there, or use fewer tokens with --tokens",
                ExitCode.OUTPUT,
            ) from error
    found = np.load(index)
    everything = np.memmap(states, np.float32, "r", shape=(layers + 1, most, width))
    count = len(found["ids"])
    return Activations(
        everything[:layers, :count],
        everything[layers, :count],
        found["ids"],
        found["sentence"],
        found["split"],
        found["special"],
    )


def _run(
    loaded: LoadedModel,
    corpus: Iterator[str],
    states: Path,
    index: Path,
    target: str,
    most: int,
    seed: int,
    job: Job,
) -> None:
    layers, width = len(loaded.layer_names), loaded.info.width
    file = np.memmap(states, np.float32, "w+", shape=(layers + 1, most, width))
    ids, sentence = np.zeros(most, np.int64), np.zeros(most, np.int64)
    special = np.zeros(most, np.bool_)
    limit = min(loaded.info.max_tokens or _LONGEST, _LONGEST)
    done = number = 0
    for text in corpus:
        job.report("running the corpus through the model", done, most)
        encoded = tokens.encode(loaded.tokenizer, text, max_tokens=limit)
        if sum(not token.special for token in encoded.tokens) < _SHORTEST:
            continue
        if done + len(encoded.ids) > most:
            break
        trace = trace_of(loaded, encoded, Job())
        part = slice(done, done + len(encoded.ids))
        for layer, hidden in enumerate(trace.hidden):
            file[layer, part] = hidden.float().cpu().numpy()
        ids[part] = trace.ids.cpu().numpy()
        file[layers, part] = file[0, part] if target == "embedding" else _words(trace, ids[part])
        sentence[part] = number
        special[part] = [token.special for token in encoded.tokens]
        done, number = part.stop, number + 1
    if number < len(_SPLIT):
        raise InspectError(
            f"the corpus has {number} sentences" if number else "the corpus has no sentence",
            f"a split by sentence needs at least {len(_SPLIT)}; give a larger one with --corpus",
            ExitCode.USAGE,
        )
    splits = np.array([split_of(number, seed) for number in range(number)], np.int8)
    file.flush()
    with whole_file(index, force=True) as stream:
        np.savez(
            stream,
            ids=ids[:done],
            sentence=sentence[:done],
            split=splits[sentence[:done]],
            special=special[:done],
        )


def _words(trace: Trace, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    words = vocabulary(trace)
    rows: NDArray[np.float32] = words[torch.from_numpy(ids).to(words.device)].float().cpu().numpy()
    return rows


def _must_fit(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InspectError(
            f"the hidden states need {needed / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB",
            "use fewer tokens with --tokens, or set XDG_CACHE_HOME to a larger disk",
            ExitCode.OUTPUT,
        )
