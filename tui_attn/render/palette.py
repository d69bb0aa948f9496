"""Colours: ramps chosen by hand from the 256 colours, so every terminal shows the same picture.

Each ramp rises (or falls) in lightness without a step back, avoids the greys that terminals'
colour reduction changes, and carries black or white text at a contrast of at least 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rich.color import Color, ColorType
from rich.color_triplet import ColorTriplet
from rich.style import Style

from tui_attn.render.scale import BROKEN, NO_LEVEL

_MAGMA = (16, 17, 18, 54, 90, 126, 161, 167, 209, 216, 222, 229)
_VIRIDIS = (53, 55, 57, 60, 30, 67, 36, 108, 41, 114, 184, 227)
_CIVIDIS = (17, 19, 60, 242, 245, 144, 185, 227)
_GREYS = (16, 235, 239, 242, 246, 181, 224, 231)
# Signed ramps with black in the middle: a cell near zero is quiet on a dark screen. Blue against
# orange and purple against green are told apart with every kind of colour-blindness.
_BLUE_ORANGE = (159, 117, 75, 32, 25, 17, 16, 52, 94, 130, 172, 214, 229)
_PURPLE_GREEN = (225, 183, 141, 133, 91, 53, 16, 22, 28, 34, 76, 118, 193)
_VIK = (18, 19, 24, 31, 74, 152, 231, 223, 180, 173, 130, 88, 52)

_BLACK, _WHITE = 16, 231

_SHADES = " ░▒▓█"
_ASCII_SHADES = " .:-=+*#%@"


def rgb(index: int) -> tuple[int, int, int]:
    """The colour of an index of the 256-colour table (16 and up): 0 … 255 each."""
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    steps = (0, 95, 135, 175, 215, 255)
    red, rest = divmod(index - 16, 36)
    return steps[red], steps[rest // 6], steps[rest % 6]


def indexed(index: int) -> Color:
    """The colour of an index, sent to the terminal as such: two thirds of the bytes of its parts.

    The triplet keeps Textual from spelling it out.
    """
    triplet = ColorTriplet(*rgb(index))
    return Color(f"color({index})", ColorType.EIGHT_BIT, number=index, triplet=triplet)


def contrast(first: tuple[int, int, int], second: tuple[int, int, int]) -> float:
    """Contrast ratio of two colours after WCAG 2: 1 … 21."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: tuple[int, int, int]) -> float:
    parts = [value / 255 for value in colour]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@dataclass(frozen=True)
class Ramp:
    """Colours from low to high, each with the text colour that can be read on it."""

    indices: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def colours(self) -> list[tuple[int, int, int]]:
        """Red, green and blue of each level."""
        return [rgb(index) for index in self.indices]

    @cached_property
    def inks(self) -> list[tuple[int, int, int]]:
        """Black or white for each level, whichever stands out more."""
        return [rgb(index) for index in self._ink_indices]

    @cached_property
    def _ink_indices(self) -> list[int]:
        return [
            max(_BLACK, _WHITE, key=lambda ink: contrast(rgb(ink), colour))
            for colour in self.colours
        ]

    @cached_property
    def styles(self) -> list[Style]:
        """Text on each level."""
        return [
            Style(color=indexed(ink), bgcolor=indexed(index))
            for ink, index in zip(self._ink_indices, self.indices, strict=True)
        ]

    def pair(self, upper: int, lower: int) -> Style:
        """The style of `▀` with one level above another; NO_LEVEL shows the background.

        BROKEN is the grey of `BROKEN_CELL`.
        """
        return self._pairs[upper, lower]

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], Style]:
        levels = [*range(len(self)), BROKEN, NO_LEVEL]
        paints: dict[int, Color | None] = {BROKEN: BROKEN_CELL.bgcolor, NO_LEVEL: None}
        paints |= {level: indexed(index) for level, index in enumerate(self.indices)}
        return {
            (upper, lower): Style(color=paints[upper], bgcolor=paints[lower])
            for upper in levels
            for lower in levels
        }


BROKEN_CELL = Style(color=indexed(_BLACK), bgcolor=indexed(244))
"""A cell that is there and is no number: a grey that no ramp has."""


@dataclass(frozen=True)
class ColourMap:
    """A pair of ramps under one name: for shares and for signed numbers."""

    name: str
    share: Ramp
    signed: Ramp

    def ramp(self, signed: bool) -> Ramp:
        """The ramp for a scale."""
        return self.signed if signed else self.share


COLOUR_MAPS = (
    ColourMap("magma", Ramp(_MAGMA), Ramp(_BLUE_ORANGE)),
    ColourMap("cividis", Ramp(_CIVIDIS), Ramp(_BLUE_ORANGE)),
    ColourMap("viridis", Ramp(_VIRIDIS), Ramp(_PURPLE_GREEN)),
    ColourMap("greys", Ramp(_GREYS), Ramp(_VIK)),
)
"""In the order of the key `c`; the first is the default."""


def shade(position: float, *, ascii: bool = False) -> str:
    """One character for a position 0 … 1 (its magnitude), for terminals without colour."""
    ramp = _ASCII_SHADES if ascii else _SHADES
    return ramp[min(int(abs(position) * len(ramp)), len(ramp) - 1)]
