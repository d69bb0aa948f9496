"""What the lines say about attribution: plain functions from answers to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.text import Text

from tui_attn.answers.attribution import Comparison
from tui_attn.selection import layer_name
from tui_attn.tui.widgets.layers import Rows

_COMPARED = ("raw", "effective", "attribution")


def cell(
    cursor: tuple[int, int],
    row: Mapping[int, float],
    labels: Sequence[str],
    name: Callable[[str], str],
    notes: tuple[str, str] = ("", ""),
) -> tuple[Text, Text]:
    """One query and key, and the query's main contributor.

    Args:
        cursor: Query and key.
        row: What is here of the query's row.
        labels: Of all tokens or words.
        name: Trims a label.
        notes: What else is known of the query and the key.
    """
    if not labels:
        return Text(), Text()
    query, key = cursor
    line = _line(
        ("query", f"{query} {name(labels[query])} {notes[0]}".rstrip()),
        ("← key", f"{key} {name(labels[key])} {notes[1]}".rstrip()),
        ("share", f"{row[key]:.4f}" if key in row else "…"),
        ("own", f"{row[query]:.3f}" if query in row else "…"),
    )
    if len(row) < query + 1:
        return line, Text()
    largest = max(row, key=row.__getitem__)
    main = query if row.get(query) == row[largest] else largest
    return line, Text(f"main contributor {main} {name(labels[main])} {row[largest]:.3f} ", "dim")


def own(
    rows: Rows | None, cursor: tuple[int, int], labels: Sequence[str], layers: Sequence[str]
) -> tuple[Text, Text]:
    """A token's own share at one layer."""
    if rows is None:
        return Text(), Text()
    row, column = cursor
    return _line(
        ("token", f"{row} {labels[row]}"),
        ("at", layer_name(layers[column])),
        ("own share", f"{rows.values[row, column]:.4f}"),
    ), Text()


def compared(found: Comparison | None, key: int, label: str) -> tuple[Text, Text]:
    """What one key gets and gives."""
    if found is None or key not in found.keys:
        return _line(("key", f"{key} {label} is not seen")), Text()
    place = found.keys.index(key)
    line = _line(
        ("key", f"{key} {label}"),
        ("raw", f"{found.raw[place]:.3f}"),
        ("effective", f"{found.effective[place]:.3f}"),
        ("attribution", f"{found.attribution[place]:.3f}"),
    )
    told = (
        f"rank correlation with attribution: raw {found.raw_correlation:.2f}, "
        f"effective {found.effective_correlation:.2f} "
    )
    return line, Text(told, "dim")


def own_row(layers: Sequence[str], values: Sequence[float]) -> list[str]:
    """A token's own shares as lines of text: layer and share."""
    return [f"{layer}\t{value!r}" for layer, value in zip(layers, values, strict=True)]


def compared_row(found: Comparison | None, key: int) -> list[str]:
    """One key as lines of text: kind of map and number."""
    if found is None or key not in found.keys:
        return []
    place = found.keys.index(key)
    return [f"{name}\t{float(getattr(found, name)[place])!r}" for name in _COMPARED]


def _line(*parts: tuple[str, str]) -> Text:
    line = Text()
    for name, value in parts:
        line.append(f" {name} ", "dim")
        line.append(value, "bold")
        line.append(" ")
    return line
