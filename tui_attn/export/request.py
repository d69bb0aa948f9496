"""What is exported, and the command that makes it again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from tui_attn.answers import Inspector, Variant
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import get
from tui_attn.selection import EVERYTHING, Selection

TABLES = ("csv", "tsv", "json", "npz", "md", "tex")
PICTURES = ("html", "svg")
FORMATS = TABLES + PICTURES
_MARKERS = {"markdown": "md", "htm": "html"}


@dataclass(frozen=True)
class ExportRequest:
    """One export: a map, which of its numbers, and a format of `FORMATS`.

    Raises:
        InspectError: There is no such map or format, or the map has no picture (exit code 2).
    """

    map: str
    selection: Selection = EVERYTHING
    format: str = "csv"
    variant: Variant = "output"

    def __post_init__(self) -> None:
        spec = get(self.map)
        if self.format not in FORMATS:
            near = get_close_matches(self.format, FORMATS, n=1)
            hint = f"the nearest is {near[0]!r}" if near else f"choose one of {', '.join(FORMATS)}"
            raise InspectError(f"there is no format {self.format!r}", hint, ExitCode.USAGE)
        if self.format in PICTURES and spec.window is None:
            raise InspectError(
                f"the map {self.map!r} is a table and has no picture",
                f"choose one of {', '.join(TABLES)}",
                ExitCode.USAGE,
            )


def format_of(path: Path, default: str = "csv") -> str:
    """The format that a file name asks for."""
    ending = path.suffix.removeprefix(".").lower()
    ending = _MARKERS.get(ending, ending)
    return ending if ending in FORMATS else default


def command_line(session: Inspector, request: ExportRequest, path: Path | None = None) -> str:
    """The command that makes this export again, quoted for a shell."""
    model, run = session.model, session.run
    words = ["attn-inspect", "export", model.name, run.text, "--map", request.map]
    if run.pair is not None:
        words += ["--pair", run.pair]
    if str(request.selection):
        words += ["--select", str(request.selection)]
    words += ["--variant", request.variant, "--dtype", model.dtype, "--device", model.device]
    if model.revision:
        words += ["--revision", model.revision]
    if run.truncated_from is not None:
        words += ["--max-tokens", str(len(run.tokens))]
    words += ["--format", request.format]
    if path is not None:
        words += ["-o", str(path)]
    return shlex.join(words)


def metadata(session: Inspector, request: ExportRequest) -> dict[str, object]:
    """What every export carries: how its numbers came about, and how to make them again."""
    spec = get(request.map)
    return {
        "map": request.map,
        "formula": spec.formula,
        "source": spec.source,
        "variant": request.variant if spec.has_variants else None,
        "selection": str(request.selection) or "everything",
        "command": command_line(session, request),
        **session.provenance(),
    }
