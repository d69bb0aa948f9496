"""Strings -> terminal cells: the one place that makes text visible, harmless and of exact width."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len

_NAMED = {
    "\u200b": "ZWSP",
    "\u200c": "ZWNJ",
    "\u200d": "ZWJ",
    "\u2060": "WJ",
    "\ufeff": "BOM",
    "\u00ad": "SHY",
    "\u200e": "LRM",
    "\u200f": "RLM",
    "\u202a": "LRE",
    "\u202b": "RLE",
    "\u202c": "PDF",
    "\u202d": "LRO",
    "\u202e": "RLO",
    "\u2066": "LRI",
    "\u2067": "RLI",
    "\u2068": "FSI",
    "\u2069": "PDI",
    "\u115f": "HCF",
    "\u1160": "HJF",
    "\u3164": "HF",
    "\uffa0": "HHF",
    "\u2800": "U+2800",
    "\u2028": "LS",
    "\u2029": "PS",
}
_JOINER = "\u200d"
_MOST_MARKS = 3
_HARMLESS = "LNPS"
"""First letters of the Unicode categories that a terminal shows as they are."""


def visible(text: str, *, ascii: bool = False) -> str:
    r"""Text with everything invisible or dangerous spelled out.

    Control characters become their pictures (`␛`), bidirectional and zero-width characters their
    names (`⟨RLO⟩`), other unprintable ones their numbers (`⟨U+E000⟩`). A cluster of several code
    points that fills two cells becomes its first code point, since terminals disagree on its width.

    Args:
        text: Anything.
        ascii: Use printable ASCII only: `\x1b`, `\u65e5`.
    """
    if ascii:
        return "".join(_ascii(character) for character in text)
    shown: list[str] = []
    wide = False  # whether the last shown character fills two cells
    marks = 0  # combining marks on it
    skip = False  # whether a joiner hides the next character
    for character in text:
        if skip:
            skip = False
        elif shown and _only_varies(character):
            continue
        elif character == _JOINER and wide:
            skip = True
        elif unicodedata.category(character)[0] == "M" and shown:
            marks += 1
            if not wide and marks <= _MOST_MARKS:
                shown.append(character)
        else:
            shown.append(_show(character))
            wide, marks = cell_len(shown[-1]) == 2, 0
    return unicodedata.normalize("NFC", "".join(shown))


def width(text: str) -> int:
    """Number of terminal cells of text that went through `visible`."""
    return cell_len(text)


def fit(
    text: str,
    cells: int,
    *,
    ascii: bool = False,
    right: bool = False,
) -> str:
    """Text made visible, then cut (with `…`) or padded to exactly this many cells.

    Args:
        text: Anything.
        cells: The width wanted.
        ascii: See `visible`.
        right: Align to the right.
    """
    shown = visible(text, ascii=ascii)
    if width(shown) > cells:
        mark = "~" if ascii else "…"
        shown = _cut(shown, cells - 1) + mark if cells > 0 else ""
    padding = " " * (cells - width(shown))
    return padding + shown if right else shown + padding


def wrap(label: str, cells: int, lines: int, *, ascii: bool = False) -> list[str]:
    """A label over several lines of exactly `cells` cells, cut with `…` where it is longer.

    Args:
        label: Anything.
        cells: Width of each line.
        lines: Number of lines; short labels sink to the bottom, next to what they label.
        ascii: See `visible`.
    """
    rest = visible(label, ascii=ascii)
    parts: list[str] = []
    while rest and len(parts) < lines:
        piece = _cut(rest, cells) if len(parts) < lines - 1 else fit_visible(rest, cells, ascii)
        if not piece:  # a wide character in a column of one cell
            piece = "~" if ascii else "…"
            rest = rest[1:]
            parts.append(piece.ljust(cells))
            continue
        rest = rest[len(piece) :] if len(parts) < lines - 1 else ""
        parts.append(piece + " " * (cells - width(piece)))
    return [" " * cells] * (lines - len(parts)) + parts


def fit_visible(shown: str, cells: int, ascii: bool) -> str:
    """Cut text that is visible already, with a mark where something is missing."""
    if width(shown) <= cells:
        return shown
    return _cut(shown, cells - 1) + ("~" if ascii else "…")


def _cut(shown: str, cells: int) -> str:
    """The longest beginning that fits into so many cells."""
    end = 0
    while end < len(shown) and width(shown[: end + 1]) <= cells:
        end += 1
    return shown[:end]


def _show(character: str) -> str:
    code = ord(character)
    if character == "\x7f":
        return "␡"
    if code < 0x20:
        return chr(0x2400 + code)
    if character in _NAMED:
        return f"⟨{_NAMED[character]}⟩"
    if "\U0001f1e6" <= character <= "\U0001f1ff":  # halves of a flag: terminals disagree on them
        return chr(code - 0x1F1E6 + ord("A"))
    if character == " " or (
        unicodedata.category(character)[0] in _HARMLESS and cell_len(character)
    ):
        return character
    if unicodedata.category(character) == "Zs":
        return "·" if character == "\u00a0" else f"⟨U+{code:04X}⟩"
    return f"⟨U+{code:04X}⟩"


def _ascii(character: str) -> str:
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return character
    if character in "·⏎⇥…⟨⟩":  # the signs of this program itself
        return {"·": "_", "⏎": "\\n", "⇥": "\\t", "…": "~", "⟨": "<", "⟩": ">"}[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _only_varies(character: str) -> bool:
    """Whether the character only changes the look of the one before: variations, skin tones."""
    return "\ufe00" <= character <= "\ufe0f" or "\U0001f3fb" <= character <= "\U0001f3ff"
