"""Text -> ids -> tokens with readable names, whatever alphabet the vocabulary is written in."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tui_attn.answers import Token
from tui_attn.errors import ExitCode, InspectError

_BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "·"
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
        InspectError: The text is empty or too long (exit code 5).
    """
    if not text.strip() or (pair is not None and not pair.strip()):
        raise InspectError(
            "the text is empty", "give a text with at least one word", ExitCode.INPUT
        )
    encoding = _call(tokenizer, text, pair)
    full_length = len(encoding["input_ids"])
    if max_tokens is not None and full_length > max_tokens:
        encoding = _call(tokenizer, text, pair, truncation=True, max_length=max_tokens)
    ids = [int(token_id) for token_id in encoding["input_ids"]]
    if model_limit is not None and len(ids) > model_limit:
        raise InspectError(
            f"the text has {len(ids)} tokens and the model takes {model_limit}",
            f"shorten it, or cut it with --max-tokens {model_limit}",
            ExitCode.INPUT,
        )
    special = set(tokenizer.all_special_ids)
    if all(token_id in special for token_id in ids):
        raise InspectError(
            "the text has no token that this model can read",
            "give a text with at least one word",
            ExitCode.INPUT,
        )
    segments = [int(segment) for segment in encoding.get("token_type_ids") or [0] * len(ids)]
    return Encoded(
        ids,
        segments,
        _name(tokenizer, encoding, ids, segments),
        full_length if full_length != len(ids) else None,
        "token_type_ids" in encoding,
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
    return [int(token_id) for token_id in tokenizer(text_target=_clean(text))["input_ids"]]


def _call(tokenizer: Any, text: str, pair: str | None, **options: object) -> Any:  # noqa: ANN401
    return tokenizer(_clean(text), None if pair is None else _clean(pair), **options)


def _clean(text: str) -> str:
    """Lone surrogates are no text in any encoding; tokenizers written in Rust refuse them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def named(tokenizer: Any, ids: list[int]) -> tuple[Token, ...]:  # noqa: ANN401
    """Tokens of ids that no text was read for; words go by the marks of the vocabulary."""
    return _name(tokenizer, None, ids, [0] * len(ids))


def _name(
    tokenizer: Any,  # noqa: ANN401
    encoding: Any,  # noqa: ANN401
    ids: list[int],
    segments: list[int],
) -> tuple[Token, ...]:
    raw_names = [
        f"⟨id {token_id}⟩" if name is None else str(name)  # embeddings beyond the vocabulary
        for token_id, name in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
    ]
    special = set(tokenizer.all_special_ids)
    byte_level = _is_byte_level(tokenizer)
    starts = _marked_starts(raw_names) if encoding is None else _word_starts(encoding, raw_names)
    words = _words(starts, [token_id in special for token_id in ids])
    return tuple(
        Token(
            position=position,
            id=token_id,
            raw=raw,
            text=raw if token_id in special else readable(raw, byte_level=byte_level),
            special=token_id in special,
            word=words[position],
            segment=segments[position],
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
    if byte_level:
        table = _byte_alphabet()
        if all(character in table for character in raw):
            return _from_bytes(bytes(table[character] for character in raw))
        return raw.translate(_READABLE)
    byte = _BYTE_NAME.fullmatch(raw)
    if byte:
        return _from_bytes(bytes([int(byte[1], 16)]))
    return raw.replace("▁", _SPACE).translate(_READABLE)


def _from_bytes(value: bytes) -> str:
    try:
        return value.decode("utf-8").translate(_READABLE)
    except UnicodeDecodeError:
        return f"⟨{value.hex(' ')}⟩"


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


def _word_starts(encoding: Any, raw_names: list[str]) -> list[bool]:  # noqa: ANN401
    """Which tokens begin a word."""
    try:
        given: list[int | None] = encoding.word_ids()
        starts = [
            word is None or position == 0 or word != given[position - 1]
            for position, word in enumerate(given)
        ]
        sequence_ids = encoding.sequence_ids()
        for position in range(1, len(starts)):
            starts[position] |= sequence_ids[position] != sequence_ids[position - 1]
    except ValueError:  # slow tokenizers number no words
        return _marked_starts(raw_names)
    return starts


def _marked_starts(raw_names: list[str]) -> list[bool]:
    """Which tokens begin a word, by the marks of the vocabulary."""
    marked = any(name.startswith(("▁", "Ġ")) for name in raw_names)
    return [
        name.startswith(("▁", "Ġ")) if marked else not name.startswith("##") for name in raw_names
    ]


def _words(starts: list[bool], special: list[bool]) -> list[int]:
    """A number for each token's word, counting from 0 in order of appearance."""
    word = -1
    numbers = []
    for position, start in enumerate(starts):
        if start or position == 0 or special[position] or special[position - 1]:
            word += 1
        numbers.append(word)
    return numbers
