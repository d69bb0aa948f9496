"""Any text becomes visible, harmless and of exact width."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui_attn.render import cells

ANY_TEXT = st.text(st.characters(codec=None), max_size=30)
HOSTILE = ["\x1b[2J\x1b[H", "\x1b]0;title\x07", "\u009b31m", "a\tb\nc\rd\x00", "\u202eabc", "\x7f"]


def is_harmless(text: str) -> bool:
    return all(
        unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        for character in text
    )


@given(ANY_TEXT)
@example("".join(HOSTILE))
def test_nothing_dangerous_is_left(text: str) -> None:
    assert is_harmless(cells.visible(text))
    assert all(" " <= character <= "~" for character in cells.visible(text, ascii=True))


@given(ANY_TEXT, st.integers(0, 12), st.booleans(), st.booleans())
def test_fit_is_exactly_as_wide_as_asked(text: str, width: int, ascii: bool, right: bool) -> None:
    fitted = cells.fit(text, width, ascii=ascii, right=right)
    assert cells.width(fitted) == width
    assert is_harmless(fitted)


@given(ANY_TEXT, st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_wrap_fills_its_box(text: str, width: int, lines: int, ascii: bool) -> None:
    box = cells.wrap(text, width, lines, ascii=ascii)
    assert len(box) == lines
    assert [cells.width(line) for line in box] == [width] * lines


@pytest.mark.parametrize(
    "text,shown",
    [
        ("\x1b[31m", "␛[31m"),
        ("\x07\r\x00", "␇␍␀"),
        ("\u200b", "⟨ZWSP⟩"),
        ("\u2060\ufeff\u202e", "⟨WJ⟩⟨BOM⟩⟨RLO⟩"),
        ("\u009b", "⟨U+009B⟩"),
        ("[/INST]", "[/INST]"),
        ("[red]", "[red]"),
        ("日本", "日本"),
        ("👨‍👩‍👧‍👦", "👨"),
        ("⚠️", "⚠"),
        ("🤷🏽", "🤷"),
        ("🇳🇱", "NL"),
        ("e\u0301", "é"),
        ("\ud800", "⟨U+D800⟩"),
        ("בנ", "בנ"),
    ],
)
def test_known_texts(text: str, shown: str) -> None:
    assert cells.visible(text) == shown


def test_short_labels_sink_and_long_ones_are_cut() -> None:
    assert cells.wrap("the", 4, 2) == ["    ", "the "]
    assert cells.wrap("attention", 4, 2) == ["atte", "nti…"]
    assert cells.fit("attention", 5, ascii=True) == "atte~"
