"""What is exported, and the command that makes it again."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path

from tui_attn.answers import Inspector, ModelInfo, Run, Variant
from tui_attn.answers.attribution import ESTIMATED, AttributionChoices
from tui_attn.answers.identity import DEFAULTS, IdentityChoices
from tui_attn.errors import ExitCode, InspectError
from tui_attn.files import is_stream
from tui_attn.maps import MapSpec, get
from tui_attn.maps.sampling import STATISTICS, sampled_rows
from tui_attn.selection import EVERYTHING, SEGMENTS, Selection, Span

TABLES = ("csv", "tsv", "json", "npz", "md", "tex")
PICTURES = ("html", "svg")
FORMATS = TABLES + PICTURES
_MARKERS = {"markdown": "md", "htm": "html"}


@dataclass(frozen=True)
class ExportRequest:
    """One export: a map or a summary of it, which of its numbers, and a format of `FORMATS`.

    Attributes:
        map: A name of `maps.MAPS`.
        selection: Which numbers; heads and keys only where the map has them.
        format: Of `FORMATS`.
        variant: Of effective attention.
        summary: One of the map's summaries; None: the map itself.
        identity: The choices of the map `identity`.
        attribution: The choices of the map `attribution`.

    Raises:
        InspectError: There is no such map, summary or format, or the selection names what the
            map does not have (exit code 2).
    """

    map: str
    selection: Selection = EVERYTHING
    format: str = "csv"
    variant: Variant = "output"
    summary: str | None = None
    identity: IdentityChoices = DEFAULTS
    attribution: AttributionChoices = ESTIMATED

    def __post_init__(self) -> None:
        spec = get(self.map)
        if self.format not in FORMATS:
            near = get_close_matches(self.format, FORMATS, n=1)
            hint = f"the nearest is {near[0]!r}" if near else f"choose one of {', '.join(FORMATS)}"
            raise InspectError(f"there is no format {self.format!r}", hint, ExitCode.USAGE)
        if self.summary is not None and self.summary not in spec.summaries:
            raise InspectError(
                f"the map {self.map!r} has no summary {self.summary!r}",
                f"choose one of {', '.join(spec.summaries)}" if spec.summaries else "leave it out",
                ExitCode.USAGE,
            )
        self._refuse_what_is_not_there(spec)

    def _refuse_what_is_not_there(self, spec: MapSpec) -> None:
        chosen = self.selection
        named = {
            "heads": chosen.heads,
            "queries": chosen.queries,
            "keys": chosen.keys,
        }
        there = _AXES_TO_SELECT[spec.axes] if self.summary is None else ()
        if not spec.per_head:
            there = tuple(axis for axis in there if axis != "heads")
        for axis, span in named.items():
            if axis not in there and not span.everything:
                raise InspectError(
                    f"the {'summary' if self.summary else 'map'} {self.summary or self.map!r} "
                    f"has no {axis} to select",
                    f"select {' and '.join(('layers', *there))} only",
                    ExitCode.USAGE,
                )


_AXES_TO_SELECT: dict[str, tuple[str, ...]] = {
    "query x key": ("heads", "queries", "keys"),
    "layer x head": ("heads",),
    "token x layer": ("queries",),
}


@dataclass(frozen=True)
class Picked:
    """The numbers that a selection means for one session."""

    layers: list[int]
    heads: list[int]
    queries: list[int]
    keys: list[int]

    @property
    def rows(self) -> tuple[int, int]:
        """Half-open range that holds all queries."""
        return min(self.queries), max(self.queries) + 1

    @property
    def columns(self) -> tuple[int, int]:
        """Half-open range that holds all keys."""
        return min(self.keys), max(self.keys) + 1


def pick(session: Inspector, selection: Selection, *, attention: bool = True) -> Picked:
    """Read a selection against what there is.

    Args:
        session: The model and its text.
        selection: What somebody wants.
        attention: Whether layers without attention are none.

    Raises:
        InspectError: It names what is not there (exit code 2).
    """
    looking, looked_at = (
        [token.segment for token in tokens]
        for tokens in (session.run.tokens, session.run.key_tokens)
    )
    return Picked(
        attention_layers(session.model, selection.layers)
        if attention
        else selection.layers.resolve(session.model.layers, "layer"),
        selection.heads.resolve(session.model.heads, "head"),
        selection.queries.resolve(session.length(), "query", looking),
        selection.keys.resolve(session.length(axis="key"), "key", looked_at),
    )


def attention_layers(model: ModelInfo, span: Span) -> list[int]:
    """The layers that a selection of attention means; all are those that have some.

    Raises:
        InspectError: It names one that is not there, or that has no attention (exit code 2).
    """
    if span.everything:
        return list(model.attention_layers)
    layers = span.resolve(model.layers, "layer")
    without = [layer for layer in layers if layer in model.without_attention]
    if without:
        raise InspectError(
            f"layer {without[0]} has no attention",
            f"the layers with attention are {', '.join(map(str, model.attention_layers))}",
            ExitCode.USAGE,
        )
    return layers


def format_of(path: Path) -> str:
    """The format that a file name asks for; csv where it asks for none.

    Raises:
        InspectError: It asks for one that cannot be made (exit code 2).
    """
    if not path.suffix or is_stream(path):
        return "csv"
    ending = path.suffix.removeprefix(".").lower()
    ending = _MARKERS.get(ending, ending)
    if ending not in FORMATS:
        raise InspectError(
            f"{path.name} names no format of exports",
            f"end it in one of {', '.join(FORMATS)}, or add --format",
            ExitCode.USAGE,
        )
    return ending


def command_line(session: Inspector, request: ExportRequest, path: Path | None = None) -> str:
    """The command that makes this export again, quoted for a shell."""
    model, run = session.model, session.run
    options: list[tuple[str, object]] = [
        ("--map", request.map),
        ("--pair", run.pair),
        ("--decoder-text", run.decoder_text if run.decoder_source == "given" else None),
        ("--stack", model.stack),
        ("--select", str(request.selection) or None),
        *_options_of_the_map(request),
        ("--tolerance", _chosen_tolerance(session)),
        ("--dtype", model.dtype),
        ("--device", None if model.device_map else model.device),
        ("--device-map", model.device_map),
        ("--max-memory", model.max_memory),
        ("--keep", None if run.keep == "device" else run.keep),
        ("--revision", model.revision),
        ("--max-tokens", run.cut_to),
        ("--format", request.format),
        ("-o", path),
    ]
    words = [
        word
        for name, value in options
        if value is not None and value is not False
        for word in ([name] if value is True else _option(name, str(value)))
    ]
    what = [model.name, run.text]
    if any(word.startswith("-") for word in what):
        return shlex.join(["attn-inspect", "export", *words, "--", *what])
    return shlex.join(["attn-inspect", "export", *what, *words])


def _options_of_the_map(request: ExportRequest) -> list[tuple[str, object]]:
    summary: list[tuple[str, object]] = [("--summary", request.summary)]
    if request.map == "identity":
        choices = request.identity
        return [
            *summary,
            ("--target", choices.target),
            ("--candidates", choices.candidates),
            ("--match", choices.match),
            ("--special", choices.special),
            ("--metric", choices.metric),
            ("--probe", choices.probe),
        ]
    if request.map == "attribution":
        how = request.attribution
        estimate = [("--probes", how.probes), ("--seed", how.seed)]
        exact: list[tuple[str, object]] = [("--exact", True), ("--norm", how.norm)]
        return [*summary, *(exact if how.exact else estimate)]
    return [("--variant", request.variant)]


def _option(name: str, value: str) -> list[str]:
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _chosen_tolerance(session: Inspector) -> float | None:
    """The tolerance that somebody asked for; the usual one is described by a formula."""
    tolerance = session.provenance().get("tolerance")
    return tolerance if isinstance(tolerance, float) else None


def stack_title(session: Inspector) -> str:
    """What a caption says first: the stack of an encoder-decoder."""
    stack = session.model.stack
    return "" if stack is None else f"{stack.capitalize()} · "


def metadata(session: Inspector, request: ExportRequest) -> dict[str, object]:
    """What every export carries: how its numbers came about, and how to make them again."""
    spec = get(request.map)
    return {
        "map": request.map,
        "formula": spec.formula,
        "source": spec.source,
        "summary": request.summary,
        "variant": request.variant if spec.has_variants else None,
        **_choices(session, request),
        "selection": str(request.selection) or "everything",
        **_spans(session.run),
        "command": command_line(session, request),
        **session.provenance(),
    }


def _spans(run: Run) -> dict[str, object]:
    """Where the texts of a pair stand, as half-open ranges of positions."""
    if run.pair is None:
        return {}
    of = [token.segment for token in run.tokens]
    return {
        "segments": {
            name: [of.index(number), len(of) - of[::-1].index(number)]
            for number, name in enumerate(SEGMENTS)
            if number in of
        }
    }


def _choices(session: Inspector, request: ExportRequest) -> dict[str, object]:
    """The choices that change the numbers of a map that has some."""
    if request.map == "heads":
        keys = session.length(axis="key")
        return {"sampled_rows": sampled_rows(session.length(), STATISTICS, keys)}
    if request.map == "identity":
        return _described(session, request.identity)
    if request.map == "attribution":
        state = session.attribution.state(request.attribution)
        return {"attribution": asdict(request.attribution), "computed": asdict(state)}
    return {}


def _described(session: Inspector, choices: IdentityChoices) -> dict[str, object]:
    """The choices that change the numbers of the map `identity`, and the probe's recipe."""
    known = [probe for probe in session.identity.probes() if probe.target == choices.target]
    return {
        "identity": asdict(choices),
        "probes": {
            probe.method: {"made": probe.made, "recipe": probe.recipe}
            for probe in known
            if choices.probe in (None, probe.method, probe.path)
        },
        "nearest": "a position in the text"
        if choices.candidates == "text"
        else "an id of the vocabulary",
    }
