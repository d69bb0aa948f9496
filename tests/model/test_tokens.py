"""Tokens as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model import tiny
from tui_attn.errors import InspectError
from tui_attn.model import tokens
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
