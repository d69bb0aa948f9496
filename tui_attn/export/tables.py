"""Tidy tables: one row a visible cell, or one row a head; streamed block by block."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import BinaryIO

import numpy as np

from tui_attn.answers import Inspector
from tui_attn.export import plain_json
from tui_attn.export.request import ExportRequest, Picked, pick
from tui_attn.maps import get
from tui_attn.progress import Job
from tui_attn.render.cells import visible

CELL_COLUMNS = ("layer", "head", "query", "key", "query_token", "key_token", "value")
HEAD_COLUMNS = (
    "layer",
    "head",
    "rank",
    "null_dimension",
    "identifiable",
    "null_share",
    "correlation",
    "entropy",
    "negative_share",
    "first_token_share",
    "row_sum_min",
    "row_sum_max",
)
_BLOCK_CELLS = 1 << 18

Row = tuple[int | float | str | bool, ...]


@dataclass(frozen=True)
class Table:
    """Column names, and rows in blocks so that no whole map need be in memory."""

    columns: tuple[str, ...]
    blocks: Iterator[list[Row]]


def table(session: Inspector, request: ExportRequest, job: Job) -> Table:
    """The rows of an export.

    Raises:
        InspectError: The selection names what is not there (exit code 2), at once.
    """
    picked = pick(session, request.selection)
    if get(request.map).window is None:
        return Table(HEAD_COLUMNS, _head_rows(session, request, picked, job))
    return Table(CELL_COLUMNS, _cell_rows(session, request, picked, job))


def write(form: str, made: Table, metadata: dict[str, object], stream: BinaryIO) -> None:
    """Write a table to a binary stream in a format of `request.TABLES`."""
    if form == "npz":
        _write_npz(made, metadata, stream)
        return
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    try:
        if form in ("csv", "tsv"):
            _write_delimited(made, text, "," if form == "csv" else "\t")
        elif form == "json":
            _write_json(made, metadata, text)
        elif form == "md":
            _write_markdown(made, text)
        else:
            _write_latex(made, text)
    finally:
        text.flush()
        text.detach()


def _head_rows(
    session: Inspector, request: ExportRequest, picked: Picked, job: Job
) -> Iterator[list[Row]]:
    for layer in picked.layers:
        summaries = session.summaries(layer, variant=request.variant, job=job)
        yield [
            tuple(getattr(summaries[head], column) for column in HEAD_COLUMNS)
            for head in picked.heads
        ]


def _cell_rows(
    session: Inspector, request: ExportRequest, picked: Picked, job: Job
) -> Iterator[list[Row]]:
    labels = [visible(token.text) for token in session.run.tokens]
    keys, columns = picked.keys, picked.columns
    blocks = list(_blocks(picked.queries, max(1, _BLOCK_CELLS // (columns[1] - columns[0]))))
    heads = list(product(picked.layers, picked.heads))
    for number, (layer, head) in enumerate(heads):
        job.report(f"exporting {request.map}", number, len(heads))
        for wanted in blocks:
            job.check()
            rows = (min(wanted), max(wanted) + 1)
            window = session.window(
                request.map, layer, head, rows, columns, variant=request.variant
            )
            yield [
                (layer, head, query, key, labels[query], labels[key], float(value))
                for query in wanted
                for key, value, seen in _cells_of(window.values, window.visible, query, rows, keys)
                if seen
            ]


def _blocks(queries: list[int], rows: int) -> Iterator[list[int]]:
    """The queries in their order, in pieces that span at most this many rows."""
    piece: list[int] = []
    low = high = 0
    for query in queries:
        if piece and max(high, query) - min(low, query) >= rows:
            yield piece
            piece = []
        low, high = (min(low, query), max(high, query)) if piece else (query, query)
        piece.append(query)
    yield piece


def _cells_of(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    seen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    query: int,
    rows: tuple[int, int],
    keys: list[int],
) -> Iterable[tuple[int, float, bool]]:
    offset = min(keys)
    row = query - rows[0]
    picks = [key - offset for key in keys]
    return zip(keys, values[row, picks].tolist(), seen[row, picks].tolist(), strict=True)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _write_delimited(made: Table, text: io.TextIOWrapper, delimiter: str) -> None:
    # A token such as `=1+1` is a formula to a spreadsheet unless it is quoted, so all text is.
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(made.columns)
    writer = csv.writer(
        text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
    )
    for block in made.blocks:
        writer.writerows(
            [_text(value) if isinstance(value, bool) else value for value in row] for row in block
        )


def _write_json(made: Table, metadata: dict[str, object], text: io.TextIOWrapper) -> None:
    text.write(
        f'{{"metadata": {plain_json.dumps(metadata)},\n'
        f'"columns": {plain_json.dumps(made.columns)},\n"rows": ['
    )
    separator = "\n"
    for block in made.blocks:
        for row in block:
            text.write(separator + plain_json.dumps(row))
            separator = ",\n"
    text.write("\n]}\n")


def _write_npz(made: Table, metadata: dict[str, object], stream: BinaryIO) -> None:
    rows = [row for block in made.blocks for row in block]
    columns = zip(*rows, strict=True) if rows else [()] * len(made.columns)
    arrays = {
        name: np.array(list(column)) for name, column in zip(made.columns, columns, strict=True)
    }
    np.savez_compressed(stream, metadata=np.array(plain_json.dumps(metadata)), **arrays)  # type: ignore[arg-type]


_MARKDOWN = str.maketrans(
    {**{sign: f"\\{sign}" for sign in "\\|`*_[]~#"}, "&": "&amp;", "<": "&lt;", ">": "&gt;"}
)


def _write_markdown(made: Table, text: io.TextIOWrapper) -> None:
    text.write(f"| {' | '.join(made.columns)} |\n|{' --- |' * len(made.columns)}\n")
    for block in made.blocks:
        for row in block:
            cells = (_text(value).translate(_MARKDOWN) for value in row)
            text.write(f"| {' | '.join(cells)} |\n")


_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
        "|": "\\textbar{}",
    }
)


def _write_latex(made: Table, text: io.TextIOWrapper) -> None:
    text.write(f"\\begin{{tabular}}{{{'l' * len(made.columns)}}}\n\\hline\n")
    text.write(" & ".join(name.translate(_LATEX) for name in made.columns) + " \\\\\n\\hline\n")
    for block in made.blocks:
        for row in block:
            text.write(" & ".join(_text(value).translate(_LATEX) for value in row) + " \\\\\n")
    text.write("\\hline\n\\end{tabular}\n")
