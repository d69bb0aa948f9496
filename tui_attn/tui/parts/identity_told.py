"""What the lines say about token identity: plain functions from answers to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from tui_attn.answers.identity import IdentityChoices, IdentityWindow, Rate
from tui_attn.render.cells import visible
from tui_attn.selection import layer_name
from tui_attn.tui.widgets.layers import Rows

_QUIET, _STRONG = "dim", "bold"


def short(choices: IdentityChoices) -> str:
    """The choices in one line of a narrow screen."""
    special = "specials counted" if choices.special else "no specials"
    return (
        f"{choices.method} · {choices.metric} · {choices.target} · {choices.candidates} · "
        f"by {choices.match} · {special}"
    )


def share(rate: float) -> str:
    """A rate in four cells."""
    return "1.00" if rate == 1 else f"{rate:.3f}"[1:]


def token(
    window: IdentityWindow, place: int, layer: int, label: str, name: Callable[[str], str]
) -> Text:
    """One token at one layer.

    Args:
        window: The answer.
        place: Its row.
        layer: Its column.
        label: The token as it is written.
        name: Trims the names of other tokens.
    """
    line = Text()
    line.append(f" token {window.tokens[place]} ", _QUIET)
    line.append(label, _STRONG)
    line.append(f" at {layer_name(window.layers[layer])}", _QUIET)
    rank = int(window.rank[place, layer])
    if rank == 0:
        line.append("  no number here", _QUIET)
        return line
    line.append("  rank ", _QUIET)
    line.append(str(rank), _STRONG)
    line.append(f" of {window.candidates}  cosine ", _QUIET)
    line.append(f"{window.cosine[place, layer]:.3f}", _STRONG)
    for title, numbers in (("nearest", window.nearest), ("then", window.runner_up)):
        number = int(numbers[place, layer])
        if number >= 0:
            line.append(f"  {title} ", _QUIET)
            line.append(f"{number} {name(window.names[number])}", _STRONG)
    return line


def rate(rates: Sequence[Rate], layer: str) -> Text:
    """The share of tokens identified at a layer, with its interval."""
    for found in rates:
        if found.layer == layer:
            low, high = found.interval
            return Text(
                f"identified {found.identified} of {found.n} ({low:.2f} … {high:.2f}) ", _QUIET
            )
    return Text()


def transfer(
    choices: IdentityChoices, names: Sequence[str], rows: Rows | None, cursor: tuple[int, int]
) -> tuple[Text, Text]:
    """One map at another layer."""
    if rows is None:
        return Text(), Text()
    trained_at, tested_at = cursor
    line = Text(f" {choices.method} trained at ", _QUIET)
    line.append(names[trained_at], _STRONG)
    line.append("  tested at ", _QUIET)
    line.append(names[tested_at], _STRONG)
    line.append("  identified ", _QUIET)
    line.append(f"{rows.values[trained_at, tested_at]:.3f}", _STRONG)
    return line, Text()


def row(window: IdentityWindow, place: int) -> list[str]:
    """A token as lines of text: layer, rank, cosine, nearest."""
    return [
        f"{layer}\t{int(window.rank[place, number])}\t{float(window.cosine[place, number])!r}\t"
        f"{visible(window.names.get(int(window.nearest[place, number]), ''))}"
        for number, layer in enumerate(window.layers)
    ]
