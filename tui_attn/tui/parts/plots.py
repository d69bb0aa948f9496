"""Small plots of what the layers mix, for the panes beside the map of attribution."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from tui_attn.answers.attribution import Mixing
from tui_attn.render.grid import Look, number
from tui_attn.tui.widgets.panes import Entry

_QUIET = Style(dim=True)
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int, *, ascii: bool = False) -> str:
    """A bar of at most `width` cells for a share from 0 to 1; blank for NaN."""
    if share != share:
        return " " * width
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if ascii:
        return ("#" * round(eighths / 8)).ljust(width)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def layer_entries(mixing: Sequence[Mixing], width: int, look: Look) -> list[Entry]:
    """One line a block: its number, and the median own share with a bar."""
    entries: list[Entry] = []
    for layer in mixing[1:]:
        median = layer.own.median
        plot = bar(median, max(width - 11, 1), ascii=look.ascii)
        entries.append(
            [[Segment(f"L{layer.own.layer:<3}{number(median)} "), Segment(plot, _QUIET)]]
        )
    return entries


def layer_plots(mixing: Mixing, width: int, look: Look) -> list[Entry]:
    """A page about one layer: own shares, sides, distances, kinds."""
    own = mixing.own
    lines: list[Entry] = []

    def heading(text: str) -> None:
        lines.append([[Segment(text, _QUIET)]])

    def line(name: str, value: float, reach: float = 1.0) -> None:
        plot = bar(value / reach if reach > 0 else 0.0, max(width - 20, 1), ascii=look.ascii)
        lines.append([[Segment(f"{name:<13.13}{number(value)} "), Segment(plot, _QUIET)]])

    heading("own share")
    for name, value in (
        ("max", own.maximum),
        ("q3", own.upper),
        ("median", own.median),
        ("q1", own.lower),
        ("min", own.minimum),
    ):
        line(f" {name}", value)
    line("not main", own.not_main)
    heading("from")
    line(" before", mixing.before)
    line(" after", mixing.after)
    heading("of others, by distance")
    largest = max((before + after for _, before, after in mixing.distances), default=0.0)
    for name, before, after in mixing.distances:
        line(f" {name}", before + after, largest)
    heading("given by kind")
    for kind in mixing.kinds:
        line(f" {kind.kind}", kind.given)
    return lines
