"""Tables in the formats of `request.TABLES`, streamed block by block."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from tui_attn.export import npz, plain_json

Row = tuple[int | float | str | bool, ...]


@dataclass(frozen=True)
class Table:
    """Column names, and rows in blocks so that no whole map need be in memory."""

    columns: tuple[str, ...]
    blocks: Iterator[list[Row]]


def write(form: str, made: Table, metadata: dict[str, object], stream: BinaryIO) -> None:
    """Write a table to a binary stream in a format of `request.TABLES`."""
    if form == "npz":
        npz.write(made.columns, made.blocks, metadata, stream)
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
