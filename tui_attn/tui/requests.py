"""What the screen asks of a session, computed on a worker's thread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tui_attn.answers import (
    Cell,
    HeadSummary,
    Inspector,
    ModelRequest,
    Overview,
    Stack,
    Unit,
    Variant,
    Window,
)
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.answers.memory import Keep
from tui_attn.maps import get
from tui_attn.progress import Job
from tui_attn.render.scale import Scale, shared

if TYPE_CHECKING:
    from tui_attn.export import ExportRequest


@dataclass(frozen=True)
class OpenRequest:
    """A model to open (None: keep the one that is warm) and a text to run."""

    model: ModelRequest | None
    text: str
    pair: str | None
    max_tokens: int | None
    keep: Keep | None = None
    """Where the layers stay; None: as ever, and asked about where that does not fit."""
    decoder_text: str | None = None
    """What an encoder-decoder's decoder reads; None: what the model itself writes."""
    stack: Stack | None = None
    """Which stack of another model is looked at first."""


@dataclass(frozen=True)
class MapRequest:
    """Cells, or a pooled picture, of one or two maps of a head, and one scale for them."""

    run: int
    maps: tuple[str, ...]
    layer: int
    head: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    shape: tuple[int, int] | None
    """Size of the pooled picture, None for cells."""
    variant: Variant
    unit: Unit
    without_special: bool
    attribution: AttributionChoices
    thorough: bool = False
    """Whether a pooled picture looks at every row, however long the text is."""


@dataclass(frozen=True)
class MapAnswer:
    """Windows or pictures in the order of the request's maps, with the scale they share."""

    windows: list[Window]
    pictures: list[Overview]
    scale: Scale
    sampled_rows: int | None


@dataclass(frozen=True)
class DetailRequest:
    """One cell of a head."""

    run: int
    layer: int
    head: int
    query: int
    key: int
    variant: Variant
    unit: Unit


@dataclass(frozen=True)
class ExportRequested:
    """A file to write."""

    export: ExportRequest
    path: Path
    force: bool


@dataclass(frozen=True)
class HeadsRequest:
    """The statistics of a layer."""

    run: int
    layer: int
    variant: Variant


def compute_map(session: Inspector, request: MapRequest, job: Job) -> MapAnswer:
    """Cells and scale of a map request."""
    where = (request.layer, request.head)
    windows: list[Window] = []
    pictures: list[Overview] = []
    scales: list[Scale] = []
    sampled = None
    for name in request.maps:
        extent = session.extent(
            name,
            *where,
            variant=request.variant,
            unit=request.unit,
            without_special=request.without_special,
            attribution=request.attribution,
            job=job,
        )
        sampled = extent.sampled_rows
        scales.append(Scale(extent.low, extent.high, get(name).scale == "signed"))
        if request.shape is None:
            windows.append(
                session.window(
                    name,
                    *where,
                    request.rows,
                    request.columns,
                    variant=request.variant,
                    unit=request.unit,
                    attribution=request.attribution,
                    job=job,
                )
            )
        else:
            pictures.append(
                session.overview(
                    name,
                    *where,
                    request.shape,
                    variant=request.variant,
                    unit=request.unit,
                    attribution=request.attribution,
                    thorough=request.thorough,
                    job=job,
                )
            )
    scale = shared(scales)
    if sampled is not None and not request.without_special:
        # The sample may have missed what is on the screen.
        for values in [part.values for part in windows] + [part.values for part in pictures]:
            scale = scale.covering(values)
    return MapAnswer(windows, pictures, scale, sampled)


def compute_detail(session: Inspector, request: DetailRequest, job: Job) -> Cell:
    """Raw, effective and null attention of a cell."""
    job.check()
    return session.cell(
        request.layer,
        request.head,
        request.query,
        request.key,
        variant=request.variant,
        unit=request.unit,
    )


def compute_heads(session: Inspector, request: HeadsRequest, job: Job) -> list[HeadSummary]:
    """Statistics of a layer."""
    return list(session.summaries(request.layer, variant=request.variant, job=job))


def compute_export(session: Inspector, request: ExportRequested, job: Job) -> str:
    """Write a file; the command that makes it again."""
    from tui_attn.export import command_line, export_file

    export_file(session, request.export, request.path, force=request.force, job=job)
    return command_line(session, request.export, request.path)
