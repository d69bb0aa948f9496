"""Text -> ids -> tokens with readable names, whatever alphabet the vocabulary is written in."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeVar

from tui_attn.answers import Piece, Token
from tui_attn.answers.runs import TooLong
from tui_attn.errors import ExitCode, InspectError

_LOOSE = re.compile("[\udc80-\udcff]+")
"""Bytes that are part of no character, as `surrogateescape` decodes them."""
_BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "·"
T = TypeVar("T")
_READABLE = str.maketrans({" ": _SPACE, "\n": "⏎", "\t": "⇥"})


@dataclass(frozen=True)
class Encoded:
    """A tokenised text.

    Attributes:
        ids: Ids in order, special tokens included.
        segments: Segment of each token (0, or 1 for the second text of a pair).
        tokens: The same, named.
        truncated_from: Number of tokens before the text was cut, None if it was not.
        takes_segments: Whether the model wants segments as an input.
    """

    ids: list[int]
    segments: list[int]
    tokens: tuple[Token, ...]
    truncated_from: int | None
    takes_segments: bool


def encode(
    tokenizer: Any,  # noqa: ANN401
    text: str,
    *,
    pair: str | None = None,
    max_tokens: int | None = None,
    model_limit: int | None = None,
) -> Encoded:
    """Tokenise a text.

    Args:
        tokenizer: A transformers tokenizer, fast or slow.
        text: What to read.
        pair: A second text, for models that read two.
        max_tokens: Cut the text to this many tokens, special ones included.
        model_limit: The longest input that the model takes.

    Raises:
        TooLong: It has more tokens than the model takes (exit code 5).
        InspectError: It is empty, or cannot be cut that short (5).
    """
    for one, what in ((text, "the text"), (pair, "the second text")):
        if one is not None and not one.strip():
            raise InspectError(
                f"{what} is empty", "give a text with at least one word", ExitCode.INPUT
            )
    made = _call(tokenizer, text, pair)
    full_length = len(made.ids)
    if max_tokens is not None and full_length > max_tokens:
        made = _call(tokenizer, text, pair, max_tokens)
        if len(made.ids) > max_tokens:  # tokenizers cut nothing then
            raise InspectError(
                f"the text cannot be cut to {max_tokens} tokens",
                "give more --max-tokens: special tokens take some",
                ExitCode.INPUT,
            )
    if model_limit is not None and len(made.ids) > model_limit:
        raise TooLong(len(made.ids), model_limit)
    special = set(tokenizer.all_special_ids)
    if all(token_id in special for token_id in made.ids):
        raise InspectError(
            "the text has only special tokens",
            "give a text with at least one word, or more --max-tokens",
            ExitCode.INPUT,
        )
    return Encoded(
        made.ids,
        made.segments,
        _name(tokenizer, made),
        full_length if full_length != len(made.ids) else None,
        made.takes_segments,
    )


def target_ids(tokenizer: Any, text: str) -> list[int]:  # noqa: ANN401
    """The ids of a text that an encoder-decoder is to write.

    Raises:
        InspectError: The text is empty (exit code 5).
    """
    if not text.strip():
        raise InspectError(
            "the decoder's text is empty", "give one with at least one word", ExitCode.INPUT
        )
    encoding = tokenizer(text_target=_clean(text), padding=False)
    return [int(token_id) for token_id in encoding["input_ids"]]


def named(tokenizer: Any, ids: list[int]) -> tuple[Token, ...]:  # noqa: ANN401
    """Tokens of ids that no text was read for; words go by the marks of the vocabulary."""
    return _name(tokenizer, _Made(ids, [0] * len(ids), False, None, None))


def _clean(text: str) -> str:
    """Lone surrogates are no text in any encoding; tokenizers written in Rust refuse them."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True)
class _Made:
    """What a tokenizer made, without its padding; words and sequences where it counts them."""

    ids: list[int]
    segments: list[int]
    takes_segments: bool
    words: list[int | None] | None
    sequences: list[int | None] | None


def _call(tokenizer: Any, text: str, pair: str | None, most: int | None = None) -> _Made:  # noqa: ANN401
    second = None if pair is None else _clean(pair)
    cut = {} if most is None else {"truncation": True, "max_length": most}
    encoding = tokenizer(_clean(text), second, padding=False, **cut)
    ids = encoding["input_ids"]
    # Some tokenizers pad whatever they are told: a text alone needs none.
    there = [place for place, seen in enumerate(encoding.get("attention_mask") or ids) if seen]

    def kept(values: Sequence[T]) -> list[T]:
        return [values[place] for place in there]

    words: list[int | None] | None = None
    sequences: list[int | None] | None = None
    with suppress(ValueError):  # slow tokenizers number no words
        words, sequences = kept(encoding.word_ids()), kept(encoding.sequence_ids())
    segments = encoding.get("token_type_ids")
    return _Made(
        [int(token_id) for token_id in kept(ids)],
        [int(segment) for segment in kept(segments or [0] * len(ids))],
        "token_type_ids" in encoding,
        words,
        sequences,
    )


def _name(tokenizer: Any, made: _Made) -> tuple[Token, ...]:  # noqa: ANN401
    ids = made.ids
    raw_names = [
        f"⟨id {token_id}⟩" if name is None else str(name)  # embeddings beyond the vocabulary
        for token_id, name in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
    ]
    special = set(tokenizer.all_special_ids)
    byte_level = _is_byte_level(tokenizer)
    is_special = [token_id in special for token_id in ids]
    words = _words(made, raw_names, is_special)
    joined, pieces = _characters(raw_names, is_special, byte_level)
    segments = _named_segments(made)
    return tuple(
        Token(
            position=position,
            id=token_id,
            raw=raw,
            text=raw if token_id in special else readable(raw, byte_level=byte_level),
            special=token_id in special,
            word=words[position],
            segment=segments[position],
            joined=joined[position],
            pieces=pieces[position],
        )
        for position, (token_id, raw) in enumerate(zip(ids, raw_names, strict=True))
    )


def names(tokenizer: Any, ids: Sequence[int]) -> dict[int, str]:  # noqa: ANN401
    """Readable names of ids of the vocabulary, in any context."""
    special, byte_level = set(tokenizer.all_special_ids), _is_byte_level(tokenizer)
    found: dict[int, str] = {}
    for token_id, raw in zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True):
        name = f"⟨id {token_id}⟩" if raw is None else str(raw)  # embeddings beyond the vocabulary
        found[token_id] = name if token_id in special else readable(name, byte_level=byte_level)
    return found


def readable(raw: str, *, byte_level: bool) -> str:
    """A vocabulary name as people read it.

    `Ġthe` and `▁the` become `·the`, a newline `⏎`, bytes that are only part of a character
    `⟨f0 9f⟩`; names of word pieces (`##ing`) stay.
    """
    return _shown(_bytes_of(raw, byte_level))


def _bytes_of(raw: str, byte_level: bool) -> bytes:
    """What a vocabulary name stands for, in UTF-8."""
    if byte_level:
        table = _byte_alphabet()
        if all(character in table for character in raw):
            return bytes(table[character] for character in raw)
    else:
        byte = _BYTE_NAME.fullmatch(raw)
        if byte:
            return bytes([int(byte[1], 16)])
        raw = raw.replace("▁", " ")
    return raw.encode("utf-8", "replace")


def _shown(value: bytes) -> str:
    """Bytes as people read them; those that make no character as numbers."""
    return _LOOSE.sub(
        lambda loose: f"⟨{loose[0].encode('utf-8', 'surrogateescape').hex(' ')}⟩",
        value.decode("utf-8", "surrogateescape").translate(_READABLE),
    )


def _named_segments(made: _Made) -> list[int]:
    """The text of a pair that each token belongs to, also where the model is not told.

    A special token belongs where the tokenizer counts it, or to the text before it.
    """
    if made.sequences is None or any(made.segments):
        return made.segments
    found: list[int] = []
    for sequence in made.sequences:
        found.append(sequence if sequence is not None else found[-1] if found else 0)
    return found


def _characters(
    raw_names: list[str], special: list[bool], byte_level: bool
) -> tuple[list[str | None], list[tuple[Piece, ...]]]:
    """What each token adds to the text, and of which characters it has only a part."""
    joined: list[str | None] = [None] * len(raw_names)
    pieces: list[tuple[Piece, ...]] = [()] * len(raw_names)
    for is_special, run in groupby(range(len(raw_names)), key=special.__getitem__):
        if is_special:
            continue
        spelled = [(place, _bytes_of(raw_names[place], byte_level)) for place in run]
        owners = [place for place, value in spelled for _ in value]
        added: dict[int, list[bytes]] = {place: [] for place, _ in spelled}
        start = 0
        whole = b"".join(value for _, value in spelled)
        for character in whole.decode("utf-8", "surrogateescape"):
            value = character.encode("utf-8", "surrogateescape")
            added[owners[start]].append(value)
            sharing = list(dict.fromkeys(owners[start : start + len(value)]))
            for part, place in enumerate(sharing, 1):
                if len(sharing) > 1:
                    pieces[place] += (Piece(character, part, len(sharing)),)
            start += len(value)
        for place, values in added.items():
            joined[place] = _shown(b"".join(values))
    return joined, pieces


@lru_cache(maxsize=1)
def _byte_alphabet() -> dict[str, int]:
    """The printable alphabet in which byte-level vocabularies spell bytes: letter -> byte.

    Printable Latin-1 bytes stand for themselves; the others follow from U+0100 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    table.update({chr(0x100 + order): byte for order, byte in enumerate(others)})
    return table


def _is_byte_level(tokenizer: Any) -> bool:  # noqa: ANN401
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return hasattr(tokenizer, "byte_decoder")
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    kinds = [decoder, *decoder.get("decoders", [])]
    return any(kind.get("type") == "ByteLevel" for kind in kinds)


def _words(made: _Made, raw_names: list[str], special: list[bool]) -> list[int]:
    """A number for each token's word, counting from 0 in order of appearance."""
    if made.words is not None and made.sequences is not None:
        pairs = list(zip(made.words, made.sequences, strict=True))
        starts = [
            pair[0] is None or position == 0 or pair != pairs[position - 1]
            for position, pair in enumerate(pairs)
        ]
    else:  # go by the marks of the vocabulary
        marked = any(name.startswith(("▁", "Ġ")) for name in raw_names)
        starts = [
            name.startswith(("▁", "Ġ")) if marked else not name.startswith("##")
            for name in raw_names
        ]
    word = -1
    numbers = []
    for position, start in enumerate(starts):
        if start or position == 0 or special[position] or special[position - 1]:
            word += 1
        numbers.append(word)
    return numbers
