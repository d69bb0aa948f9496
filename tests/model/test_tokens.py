"""Tokens as people read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from tests.model import tiny
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import capture, forward, loading, tokens
from tui_attn.progress import Job
from tui_attn.tui.state import unit_labels

BYTES = tiny.byte_level_tokenizer()
WORDS = tiny.word_tokenizer("the cat sat")


@pytest.mark.parametrize(
    "raw,byte_level,text",
    [
        ("ĠMurray", True, "·Murray"),
        ("Ċ", True, "⏎"),
        ("ĉ", True, "⇥"),
        ("Ã¡n", True, "án"),
        ("ðŁ", True, "⟨f0 9f⟩"),
        ("æĹ¥", True, "日"),
        ("▁the", False, "·the"),
        ("<0xF0>", False, "⟨f0⟩"),
        ("<0x0A>", False, "⏎"),
        ("##ing", False, "##ing"),
        ("[/INST]", False, "[/INST]"),
        ("<|endoftext|>", True, "<|endoftext|>"),
    ],
)
def test_names_are_read(raw: str, byte_level: bool, text: str) -> None:
    assert tokens.readable(raw, byte_level=byte_level) == text


@given(st.text(st.characters(codec=None), min_size=1, max_size=40))
def test_any_text_becomes_tokens_or_a_sentence(text: str) -> None:
    for tokenizer in (BYTES, WORDS):
        try:
            encoded = tokens.encode(tokenizer, text)
        except InspectError:
            continue
        assert [token.id for token in encoded.tokens] == encoded.ids
        assert [token.position for token in encoded.tokens] == list(range(len(encoded.ids)))
        words = [token.word for token in encoded.tokens]
        assert words[0] == 0
        assert all(step in (0, 1) for step in map(int.__sub__, words[1:], words))


def test_equal_tokens_stay_apart() -> None:
    encoded = tokens.encode(WORDS, "the cat the")
    assert [token.text for token in encoded.tokens] == ["[CLS]", "the", "cat", "the", "[SEP]"]
    assert len({token.position for token in encoded.tokens}) == 5


def test_words_join_their_pieces() -> None:
    encoded = tokens.encode(BYTES, "ab cd")
    labels = unit_labels(encoded.tokens, "word", "readable")
    assert "".join(labels) == "ab·cd"
    assert len(labels) < 5


class _Padding:
    """A tokenizer that pads whatever it is told, as some that models bring do."""

    def __init__(self, inner: object, side: str, width: int) -> None:
        self._inner, self._side, self._width = inner, side, width

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def __call__(self, *texts: str | None, **options: object) -> object:
        self._inner.padding_side = self._side
        fixed = {"padding": "max_length", "max_length": self._width}
        return self._inner(*texts, **{**options, **fixed})


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("pair", [None, "sat"])
def test_padding_never_becomes_a_token(side: str, pair: str | None) -> None:
    plain = tokens.encode(WORDS, "the cat", pair=pair)
    padding = _Padding(tiny.word_tokenizer("the cat sat"), side, 32)
    padded = tokens.encode(padding, "the cat", pair=pair)
    assert padded == plain
    assert 0 not in padded.ids
    assert [token.position for token in padded.tokens] == list(range(len(plain.ids)))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_in_the_tokenizers_own_file_is_not_used(side: str, tmp_path: Path) -> None:
    made = tiny.word_tokenizer("the cat sat")
    made.backend_tokenizer.enable_padding(direction=side, pad_id=0, pad_token="[PAD]", length=64)
    made.backend_tokenizer.enable_truncation(3)
    made.save_pretrained(tmp_path)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path, padding_side=side)
    assert tokens.encode(read, "the cat sat").ids == tokens.encode(WORDS, "the cat sat").ids


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_padded_inputs_give_the_numbers_of_the_unpadded_text(family: str) -> None:
    """Positions start at the first token, wherever a tokenizer put it."""
    model = tiny.model(family)
    sites, call = capture.verify(model, tiny.VOCABULARY)
    found = []
    for tokenizer in (WORDS, _Padding(tiny.word_tokenizer("the cat sat"), "left", 20)):
        encoded = tokens.encode(tokenizer, "the cat sat the")
        footprint = loading.Footprint.of(model, len(sites), call)
        info = SimpleNamespace(stack=None)
        loaded = loading.LoadedModel(model, tokenizer, info, sites, {}, footprint)
        if family == "gpt2":
            encoded = replace(encoded, takes_segments=False)
        found.append(forward.trace_of(loaded, encoded, Job()))
    plain, padded = found
    assert len(padded.ids) == 6
    for one, other in zip(plain.layers.values(), padded.layers.values(), strict=True):
        assert torch.equal(one.q, other.q) and torch.equal(one.o, other.o)


@pytest.mark.parametrize(
    "text,pair,limits,words",
    [
        ("", None, {}, "the text is empty"),
        (" \n", None, {}, "the text is empty"),
        ("the", " ", {}, "the second text is empty"),
        ("[CLS]", None, {}, "only special tokens"),
        ("[SEP] [PAD]", None, {}, "only special tokens"),
        ("the", None, {"max_tokens": 2}, "only special tokens"),
        ("the", None, {"max_tokens": 1}, "cannot be cut to 1 tokens"),
        ("the", "cat", {"max_tokens": 2}, "cannot be cut to 2 tokens"),
        ("the cat", None, {"model_limit": 3}, "has 4 tokens and the model takes 3"),
        ("the cat", None, {"model_limit": 2, "max_tokens": 3}, "--max-tokens 2"),
    ],
)
def test_texts_that_cannot_be_run_are_told_by_kind(
    text: str, pair: str | None, limits: dict[str, int], words: str
) -> None:
    with pytest.raises(InspectError) as caught:
        tokens.encode(WORDS, text, pair=pair, **limits)
    assert words in str(caught.value)
    assert caught.value.code == ExitCode.INPUT


def test_a_text_of_one_token_is_a_text() -> None:
    encoded = tokens.encode(BYTES, "a")
    assert len(encoded.ids) == 1
    assert tokens.encode(BYTES, "abc", max_tokens=1).truncated_from == 3


def test_texts_of_a_pair_are_told_apart_also_where_the_model_is_not_told() -> None:
    made = tiny.word_tokenizer("the cat sat")
    assert [t.segment for t in tokens.encode(made, "the cat", pair="sat").tokens] == [0] * 4 + [
        1
    ] * 2
    made.model_input_names = ["input_ids", "attention_mask"]
    encoded = tokens.encode(made, "the cat", pair="sat")
    assert [token.segment for token in encoded.tokens] == [0] * 4 + [1] * 2
    assert not any(encoded.segments) and not encoded.takes_segments
    plain = tokens.encode(BYTES, "ab", pair="c")
    assert [token.segment for token in plain.tokens] == [0, 0, 1]
