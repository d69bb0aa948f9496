"""A corpus -> sentences, one at a time: text files, a folder, JSON lines, or Python's own prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from tui_attn.errors import ExitCode, InspectError

OWN_PROSE = "pydoc_data.topics"
"""The help texts of the language reference, which ship with Python itself: English, offline."""
_TEXT_FILES = (".txt", ".md", ".rst", ".jsonl")
_FIELDS = ("text", "sentence", "content")
_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+(?=[\"'(\[]?[^\Wa-z_])|(?<=[。！？])")
"""Where a sentence ends: its mark, and what follows does not go on in lower case."""
_MARKUP = re.compile(r"[*\"=~^+|-]{4,}|``|\s::\s")
_CHUNK = 1 << 20
_SHORTEST = 20
"""Bytes of letters in a piece that counts as a sentence: headings and list marks are none."""


def sentences(corpus: Path | None, field: str | None = None) -> Iterator[str]:
    """The sentences of a corpus, each once, read as they are asked for.

    Args:
        corpus: A text file, a folder of them, or JSON lines (`.jsonl`); None: Python's own prose.
        field: The field of a JSON line that holds its text; None: `text`, `sentence` or `content`.

    Raises:
        InspectError: It cannot be read (exit code 2), at the place where reading fails.
    """
    documents = _own_prose() if corpus is None else _documents(corpus, field)
    seen: set[int] = set()  # the same sentence in two splits would be a leak
    for document in documents:
        for sentence in split(document):
            if hash(sentence) not in seen:
                seen.add(hash(sentence))
                yield sentence


def split(document: str) -> Iterator[str]:
    """The sentences of a document; a blank line ends one too."""
    for paragraph in re.split(r"\n\s*\n", document):
        for sentence in _END.split(" ".join(paragraph.split())):
            letters = "".join(filter(str.isalpha, sentence))
            if len(letters.encode("utf-8", "replace")) >= _SHORTEST:
                yield sentence.strip()


def description(corpus: Path | None) -> dict[str, object]:
    """What tells one corpus from another without reading it: its files, their sizes and times."""
    if corpus is None:
        import platform

        return {"corpus": OWN_PROSE, "python": platform.python_version()}
    try:
        stats = [(file, file.stat()) for file in _files(corpus)]
    except OSError as error:
        raise _unreadable(corpus, error) from error
    return {
        "corpus": str(corpus.resolve()),
        "files": [[str(file), stat.st_size, stat.st_mtime_ns] for file, stat in stats],
    }


def _own_prose() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InspectError(
            f"this Python comes without {OWN_PROSE}", "give --corpus FILE", ExitCode.USAGE
        ) from error
    for name in sorted(topics):
        prose = [part for part in topics[name].split("\n\n") if not _MARKUP.search(part)]
        yield "\n\n".join(part for part in prose if not part.startswith("    "))


def _files(corpus: Path) -> list[Path]:
    if not corpus.is_dir():
        return [corpus]
    files = sorted(file for file in corpus.rglob("*") if file.suffix.lower() in _TEXT_FILES)
    if not files:
        raise InspectError(
            f"the folder {corpus} holds no text",
            f"its files must end in one of {', '.join(_TEXT_FILES)}",
            ExitCode.USAGE,
        )
    return files


def _documents(corpus: Path, field: str | None) -> Iterator[str]:
    for file in _files(corpus):
        try:
            with file.open(encoding="utf-8-sig") as lines:
                if file.suffix.lower() == ".jsonl":
                    yield from _json_lines(file, lines, field)
                else:
                    yield from _pieces(lines)
        except UnicodeDecodeError as error:
            raise InspectError(
                f"{file} is not UTF-8",
                "convert it first, for example with iconv -t utf-8",
                ExitCode.USAGE,
            ) from error
        except OSError as error:
            raise _unreadable(file, error) from error


def _pieces(file: TextIO) -> Iterator[str]:
    """A file piece by piece, cut where a paragraph or a sentence ends: never the whole of it."""
    rest = ""
    while chunk := file.read(_CHUNK):
        rest += chunk
        ends = (match.end() for match in _END.finditer(rest))
        cut = max(rest.rfind("\n\n"), *ends, 0)
        if cut > 0:
            yield rest[:cut]
            rest = rest[cut:]
    yield rest


def _json_lines(file: Path, lines: Iterable[str], field: str | None) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InspectError(
                f"line {number} of {file} is not JSON",
                "a .jsonl file has one JSON object on each line",
                ExitCode.USAGE,
            ) from error
        names = (field,) if field is not None else _FIELDS
        found = record if isinstance(record, dict) else {}
        texts = [found[name] for name in names if isinstance(found.get(name), str)]
        if not texts:
            raise InspectError(
                f"line {number} of {file} has no text under {' or '.join(names)}",
                "name the field with --field",
                ExitCode.USAGE,
            )
        yield texts[0]


def _unreadable(path: Path, error: OSError) -> InspectError:
    reason = (error.strerror or "unknown reason").lower()
    return InspectError(f"cannot read {path}: {reason}", "check --corpus", ExitCode.USAGE)
