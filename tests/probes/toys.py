"""Hidden states made in code, and a tiny model that is loaded like a real one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch

from tests.model import tiny
from tui_attn.answers import ModelRequest
from tui_attn.model.loading import LoadedModel, load
from tui_attn.probes.activations import Activations, split_of
from tui_attn.progress import Job

WORDS = "the cat sat on a mat while it rained and dogs ran far over green hills to see old friends"


def rotated(
    sentences: int = 200,
    length: int = 12,
    width: int = 24,
    *,
    shuffled: bool = False,
    seed: int = 0,
) -> Activations:
    """Two hidden states: the targets themselves, and the targets turned by a rotation."""
    generator = np.random.default_rng(seed)
    count = sentences * length
    targets = generator.standard_normal((count, width)).astype(np.float32)
    turn, _ = np.linalg.qr(generator.standard_normal((width, width)))
    states = np.stack([targets, targets @ turn.astype(np.float32)])
    if shuffled:
        targets = targets[generator.permutation(count)]
    sentence = np.repeat(np.arange(sentences), length)
    split = np.array([split_of(number, seed) for number in range(sentences)], np.int8)
    return Activations(
        states, targets, np.arange(count), sentence, split[sentence], np.zeros(count, bool)
    )


@cache
def _folder(root: str) -> Path:
    folder = Path(root) / "tiny-bert"
    torch.manual_seed(0)
    tiny.model("bert").save_pretrained(folder)
    tiny.word_tokenizer(WORDS).save_pretrained(folder)
    return folder


def loaded(root: Path) -> LoadedModel:
    return load(ModelRequest(name=str(_folder(str(root)))), Job())


def corpus(sentences: int = 60, seed: int = 1) -> str:
    """Sentences of the tiny tokenizer's words, a line each with a blank line between."""
    generator, words = np.random.default_rng(seed), WORDS.split()
    lines = [" ".join(generator.choice(words, 9)).capitalize() + "." for _ in range(sentences)]
    return "\n\n".join(lines)
