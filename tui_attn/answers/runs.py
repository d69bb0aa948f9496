"""A model, a text that went through it, and what was checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui_attn.answers.memory import Keep
from tui_attn.errors import ExitCode, InspectError

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""The names that accelerate has for ways to spread a model."""

Stack = Literal["encoder", "decoder", "cross"]
STACKS: tuple[Stack, ...] = ("encoder", "decoder", "cross")
"""What an encoder-decoder is made of: the text looks at itself, what is written looks at itself,
what is written looks at the text."""

DecoderSource = Literal["given", "greedy", "copied"]
"""Where a decoder's text is from: a person, the model's own greedy output, or, where the model
cannot write, the text itself."""


@dataclass(frozen=True)
class ModelRequest:
    """Which model to open, and how.

    `name` is a hub name, a folder, a GGUF file, or None for the packaged demo.
    """

    name: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None
    offline: bool = False
    trust_remote_code: bool = False
    allow_pickle: bool = False
    device_map: str | None = None
    """How the model is spread over devices, host memory and disk; None: all on `device`."""
    max_memory: str | None = None
    """Limits for that: `0=20GiB,cpu=60GiB`."""


@dataclass(frozen=True)
class ModelInfo:
    """What the status line and every export say about the model."""

    name: str
    """The name as it was asked for; the demo has its own."""
    family: str
    """transformers' `model_type`."""
    layers: int
    """Number of blocks; they count from 0, also those of a hybrid that have no attention."""
    heads: int
    kv_heads: int
    head_width: int
    """d_v, the width of a value."""
    width: int
    """d, the width of a hidden state."""
    device: str
    dtype: str
    kernel: str
    """The attention implementation that made the recorded outputs."""
    causal: bool
    max_tokens: int | None
    """The longest input the model takes, None if it does not say."""
    revision: str | None = None
    quantised: str | None = None
    device_map: str | None = None
    """How it was spread, None where `device` holds all of it."""
    max_memory: str | None = None
    without_attention: tuple[int, ...] = ()
    """Layers of a hybrid that have no attention."""
    stack: Stack | None = None
    """Of an encoder-decoder the stack that the layers and heads are of, None of other models."""

    @property
    def attention_layers(self) -> tuple[int, ...]:
        """The numbers of the layers that have attention."""
        return tuple(layer for layer in range(self.layers) if layer not in self.without_attention)


@dataclass(frozen=True)
class Piece:
    """What a token has of a character that several tokens share: part 1 … of."""

    character: str
    part: int
    of: int


@dataclass(frozen=True)
class Token:
    """One token of the input, at `position`."""

    position: int
    id: int
    raw: str
    """The name in the vocabulary, e.g. `Ġthe` or `##ing`."""
    text: str
    """Readable: `·the`, `⏎`, `⟨f0 9f⟩`; not yet safe for a terminal (`render.cells` does that)."""
    special: bool
    word: int
    """Number of the word it belongs to; a special token is a word of its own."""
    segment: int = 0
    joined: str | None = None
    """What it adds to the readable text: a character of several tokens stands at the first of them.
    None: its own text."""
    pieces: tuple[Piece, ...] = ()
    """The characters that it has only a part of."""


@dataclass(frozen=True)
class Check:
    """One thing that must hold, and whether it did: `error` against `limit`."""

    name: str
    ok: bool
    error: float
    limit: float
    note: str = ""


@dataclass(frozen=True)
class Run:
    """One text that went through the model."""

    text: str
    tokens: tuple[Token, ...]
    """Those that look: the rows."""
    checks: tuple[Check, ...]
    seconds: float
    pair: str | None = None
    truncated_from: int | None = None
    """Number of tokens before `--max-tokens` cut the text, None if it was not cut."""
    cut_to: int | None = None
    """Number of tokens after that."""
    nan_count: int = 0
    inf_count: int = 0
    """Among the outputs of heads and the hidden states, like NaN."""
    keep: Keep = "device"
    """Where the layers stay."""
    looked_at: tuple[Token, ...] | None = None
    """The tokens that are looked at, where they are others: the columns of cross attention."""
    decoder_text: str | None = None
    """What an encoder-decoder's decoder read, None of other models."""
    decoder_source: DecoderSource = "given"
    """Where that is from."""

    @property
    def key_tokens(self) -> tuple[Token, ...]:
        """The tokens that are looked at: the columns."""
        return self.tokens if self.looked_at is None else self.looked_at


class TooLong(InspectError):
    """A text of more tokens than the model takes; it can be cut."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"the text has {tokens:,} tokens and the model takes {limit:,}",
            f"shorten it, or cut it with --max-tokens {limit}",
            ExitCode.INPUT,
        )
        self.tokens = tokens
        self.limit = limit
