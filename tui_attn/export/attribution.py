"""What an export of attribution is made of: cells as of any query x key map, or a summary."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tui_attn.answers import Inspector
from tui_attn.answers.attribution import Mixing
from tui_attn.export import attention, layers
from tui_attn.export.pictures import Figure
from tui_attn.export.request import ExportRequest
from tui_attn.export.tables import Row, Table
from tui_attn.maps import get
from tui_attn.progress import Job
from tui_attn.render.cells import visible
from tui_attn.render.scale import Scale
from tui_attn.selection import layer_name

SUMMARY_COLUMNS = {
    "own": ("layer", "n", "min", "q1", "median", "q3", "max", "not_main"),
    "distance": ("layer", "side", "distance", "relative"),
    "offset": ("layer", "offset", "pairs", "total"),
    "kind": ("layer", "kind", "tokens", "own", "given"),
}


def table(session: Inspector, request: ExportRequest, job: Job) -> Table:
    """The rows of an export; what they need is computed first.

    Raises:
        InspectError: The selection names what is not there (exit code 2), or attribution cannot be
            had (4, 5).
        Cancelled: The job was cancelled.
    """
    if request.summary is None:
        cells = attention.table(session, request, job)  # a wrong selection fails before the work
        session.attribution.refine(request.attribution, job=job)
        return cells
    summary = request.summary
    found = _mixings(session, request, job)
    return Table(SUMMARY_COLUMNS[summary], (_rows(summary, mixing) for mixing in found))


def figures(session: Inspector, request: ExportRequest, job: Job) -> Iterator[Figure]:
    """The figures of an export.

    Raises:
        InspectError: As for `table`, or it is too large to draw (exit code 5).
        Cancelled: The job was cancelled.
    """
    if request.summary is None:
        cells = attention.figures(session, request, job)
        session.attribution.refine(request.attribution, job=job)
        return cells
    return iter([_figure(session, request, _mixings(session, request, job))])


def _mixings(session: Inspector, request: ExportRequest, job: Job) -> list[Mixing]:
    wanted = layers.columns_of(session.attribution.layers, request.selection.layers)
    session.attribution.refine(request.attribution, job=job)
    return [session.attribution.mixing(column - 1, request.attribution) for column in wanted]


def _rows(summary: str, mixing: Mixing) -> list[Row]:
    own, length = mixing.own, len(mixing.own_each)
    layer = layers.number(own.layer)
    if summary == "own":
        spread = (own.minimum, own.lower, own.median, own.upper, own.maximum)
        return [(layer, length, *spread, own.not_main)]
    if summary == "distance":
        return [
            (layer, side, name, part)
            for name, before, after in mixing.distances
            for side, part in (("before", before), ("after", after))
        ]
    if summary == "offset":
        return [(layer, offset, length - abs(offset), total) for offset, total in mixing.offsets]
    return [(layer, kind.kind, kind.tokens, kind.own, kind.given) for kind in mixing.kinds]


def _lines(summary: str, mixing: Mixing) -> dict[str, float]:
    """The same numbers under the names of a picture's rows."""
    rows = _rows(summary, mixing)
    if summary == "own":
        names = SUMMARY_COLUMNS["own"][2:]
        return {name: float(value) for name, value in zip(names, rows[0][2:], strict=True)}
    if summary == "kind":
        return {
            f"{kind.kind}, {name}": value
            for kind in mixing.kinds
            for name, value in (("own", kind.own), ("given", kind.given))
        }
    if summary == "offset":
        return {str(offset): total for offset, total in mixing.offsets}
    return {
        f"{side} {name}": part
        for name, before, after in mixing.distances
        for side, part in (("before", before), ("after", after))
    }


def _figure(session: Inspector, request: ExportRequest, found: list[Mixing]) -> Figure:
    """A summary as a grid: its lines by layers."""
    lines = [_lines(str(request.summary), mixing) for mixing in found]
    values = np.array([list(line.values()) for line in lines]).T
    spec, model = get(request.map), session.model
    known = values[np.isfinite(values)]
    return Figure(
        f"{spec.title}: {request.summary} · {request.attribution} · "
        f"{visible(model.name)}, {model.device} {model.dtype}",
        list(lines[0]),
        [layer_name(mixing.own.layer) for mixing in found],
        values,
        ~np.isnan(values),
        Scale(0.0, float(known.max()) if known.size else 1.0),
    )
