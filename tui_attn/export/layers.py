"""Hidden states as exports name them: `emb`, then the numbers of the blocks."""

from __future__ import annotations

from collections.abc import Sequence

from tui_attn.selection import Span


def columns_of(names: Sequence[str], span: Span) -> list[int]:
    """Which of the hidden states a selection of layers means; `emb` is number 0.

    Raises:
        InspectError: There is no such layer (exit code 2).
    """
    if span.everything:
        return list(range(len(names)))
    blocks = span.without_emb if span.names_emb else span
    columns = [1 + layer for layer in blocks.resolve(len(names) - 1, "layer")] if blocks else []
    return [0, *columns] if span.names_emb else columns


def number(name: str) -> int | str:
    """The value of the column `layer`."""
    return name if name == "emb" else int(name)
