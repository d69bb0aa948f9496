"""What the main screen shows: one small record, changed only by key presses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tui_attn.answers import HeadSummary, Token, Unit, Variant
from tui_attn.render.cells import visible

LabelMode = Literal["readable", "raw", "ids"]
View = Literal["grid", "mosaic", "text", "identity", "transfer", "own", "compare"]

LABEL_MODES: tuple[LabelMode, ...] = ("readable", "raw", "ids")


@dataclass(frozen=True)
class Statistic:
    """A number that the panes show for each head: its value, and where that lies from 0 to 1."""

    title: str
    value: Callable[[HeadSummary], float]
    position: Callable[[HeadSummary], float]

    def text(self, summary: HeadSummary) -> str:
        """The value in at most five cells."""
        value = self.value(summary)
        return "  n/a" if value != value else f"{value:5.2f}"


STATISTICS = (
    Statistic("null share", lambda s: s.null_share, lambda s: s.null_share),
    Statistic("correlation", lambda s: s.correlation, lambda s: (s.correlation + 1) / 2),
    Statistic("entropy", lambda s: s.entropy, lambda s: s.entropy),
    Statistic("sink share", lambda s: s.first_token_share, lambda s: s.first_token_share),
    Statistic("negative", lambda s: s.negative_share, lambda s: s.negative_share),
)


@dataclass
class ViewState:
    """The choices of the person at the keyboard."""

    layer: int = 0
    head: int = 0
    map: str = "attention"
    beside: str = "effective"
    split: bool = False
    view: View = "grid"
    along: Literal["query", "key", "layer"] = "query"
    variant: Variant = "output"
    unit: Unit = "token"
    labels: LabelMode = "readable"
    without_special: bool = False
    statistic: int = 0
    sorted: bool = False
    needle: str = ""
    head_order: list[int] = field(default_factory=list)

    @property
    def maps(self) -> tuple[str, ...]:
        """The maps on the screen, left to right."""
        return (self.map, self.beside) if self.split else (self.map,)


def attention_layer(wanted: int, now: int, layers: Sequence[int]) -> int:
    """The layer to go to: the wanted one, or the next in that direction among `layers`."""
    if wanted in layers:
        return wanted
    if wanted == now:
        return min(layers, key=lambda layer: abs(layer - wanted))
    beyond = [layer for layer in layers if (layer > wanted) == (wanted > now)]
    return min(beyond, key=lambda layer: abs(layer - wanted), default=now)


def token_label(token: Token, mode: LabelMode) -> str:
    """How a token is written at the edge of the grid."""
    if mode == "ids":
        return str(token.id)
    return token.raw if mode == "raw" else token.text


def unit_labels(tokens: tuple[Token, ...], unit: Unit, mode: LabelMode) -> list[str]:
    """Labels of all rows and columns, for tokens or words."""
    if unit == "token":
        return [token_label(token, mode) for token in tokens]
    words: list[str] = []
    for position, token in enumerate(tokens):
        label = token_label(token, mode)
        if mode == "readable" and token.joined is not None:
            label = token.joined  # a word has whole characters
        if position and token.word == tokens[position - 1].word:
            glue = "+" if mode == "ids" else ""
            words[-1] += glue + (label.removeprefix("##") if mode == "readable" else label)
        else:
            words.append(label)
    return words


def numbered(labels: Sequence[str], positions: Sequence[int]) -> list[str]:
    """Labels of some tokens behind their positions, which are aligned."""
    digits = len(str(len(labels)))
    return [f"{position:>{digits}} {labels[position]}" for position in positions]


def find(labels: list[str], needle: str, start: int, step: int) -> int | None:
    """The next position whose label contains the needle, going round; None if there is none."""
    wanted = needle.casefold()
    for distance in range(1, len(labels) + 1):
        position = (start + step * distance) % len(labels)
        if wanted in visible(labels[position]).casefold():
            return position
    return None
