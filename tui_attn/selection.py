"""The one language for "which numbers": `L5H3 q=12 k=0:20`.

A selection names layers (`L5`, `L0:3`, `L*`), heads (`H3`, `H0,2`), queries (`q=12`) and keys
(`k=0:20`), in any order, each at most once; what is not named is everything. Ranges are half-open
as in Python, counts start at 0, and a negative number counts from the end (`q=-1` is the last
token). Of a pair of texts, `q=A k=B` is the block of the first text against the second. Where
hidden states are selected, `Lemb` or `Lemb,0,3` names the output of the embeddings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tui_attn.errors import ExitCode, InspectError

_PAIRS_ONLY = "only the texts of a pair have these names"
_AXES = {"l": "layers", "h": "heads", "q": "queries", "k": "keys"}
SEGMENTS = ("A", "B")
"""Names of the texts of a pair."""
_HINT = "write for example L5H3 q=12 k=0:20"
_PART = re.compile(
    r"\s*(?:(?P<axis>[LHlh])=?|(?P<position>[qkQK])\s*=)\s*"
    r"(?P<range>\*|all|[ABab](?=\s|$)|emb(?:,-?\d+)*|-?\d*:-?\d*|-?\d+(?:,-?\d+)*)"
    r"(?=[\sLHlhqkQK]|$)"
)


@dataclass(frozen=True)
class Span:
    """Some of the numbers 0 … n-1, kept as written so that n need not be known yet."""

    text: str = "*"

    def resolve(self, count: int, what: str, segments: Sequence[int] = ()) -> list[int]:
        """The numbers meant, in increasing order for a range and as written for a list.

        Args:
            count: How many there are.
            what: What is counted, for the error: "layer".
            segments: The segment of each, where there are any.

        Raises:
            InspectError: A number does not exist, or the range is empty.
        """
        if self.names_emb:
            raise _no_such(what, "emb", count)
        if self.text in ("*", "all"):
            return list(range(count))
        if self.text in SEGMENTS:
            number = SEGMENTS.index(self.text)
            found = [place for place, segment in enumerate(segments) if segment == number]
            if not found or 1 not in segments:
                raise InspectError(
                    f"there is no {what} {self.text}: {_PAIRS_ONLY}", "add --pair", ExitCode.USAGE
                )
            return found
        if ":" in self.text:
            start, stop = (int(end) if end else None for end in self.text.split(":"))
            numbers = list(range(count))[start:stop]
            if not numbers:
                raise _no_such(what, self.text, count)
            return numbers
        numbers = [int(number) for number in self.text.split(",")]
        for number in numbers:
            if not -count <= number < count:
                raise _no_such(what, str(number), count)
        return [number % count for number in numbers]

    @property
    def names_emb(self) -> bool:
        """Whether the output of the embeddings is meant, alone or with layers."""
        return self.text.split(",")[0] == "emb"

    @property
    def without_emb(self) -> Span | None:
        """The layers named after `emb`; None where there are none."""
        rest = self.text.partition(",")[2]
        return Span(rest) if rest else None

    @property
    def everything(self) -> bool:
        """Whether nothing was left out."""
        return self.text in ("*", "all")


@dataclass(frozen=True)
class Selection:
    """Which layers, heads, queries and keys."""

    layers: Span = Span()
    heads: Span = Span()
    queries: Span = Span()
    keys: Span = Span()

    def __str__(self) -> str:
        model = "".join(
            f"{letter}{span.text}"
            for letter, span in (("L", self.layers), ("H", self.heads))
            if not span.everything
        )
        positions = (
            f"{letter}={span.text}"
            for letter, span in (("q", self.queries), ("k", self.keys))
            if not span.everything
        )
        return " ".join(part for part in (model, *positions) if part)


def layer_name(layer: str) -> str:
    """A hidden state as a selection writes it: `emb`, or `L5` for the block's number `5`."""
    return layer if layer == "emb" else f"L{layer}"


EVERYTHING = Selection()
"""All layers, heads, queries and keys."""


def parse(text: str) -> Selection:
    """Read a selection.

    Raises:
        InspectError: The text is not a selection (exit code 2).
    """
    found: dict[str, Span] = {}
    end = 0
    while text[end:].strip():
        match = _PART.match(text, end)
        if match is None:
            raise InspectError(
                f"cannot read {text[end:].strip()!r} in the selection", _HINT, ExitCode.USAGE
            )
        axis = _AXES[(match["axis"] or match["position"]).lower()]
        if axis in found:
            raise InspectError(f"the selection names {axis} twice", _HINT, ExitCode.USAGE)
        span = Span(match["range"])
        if span.text.upper() in SEGMENTS:
            span = Span(span.text.upper())
            if axis not in ("queries", "keys"):
                raise InspectError(f"{axis} have no segments", _HINT, ExitCode.USAGE)
        found[axis] = span
        end = match.end()
    return Selection(**found)


def _no_such(what: str, text: str, count: int) -> InspectError:
    plural = "queries" if what == "query" else f"{what}s"
    return InspectError(
        f"there is no {what} {text}",
        f"{plural} count from 0 to {count - 1}" if count else f"there are no {plural}",
        ExitCode.USAGE,
    )
