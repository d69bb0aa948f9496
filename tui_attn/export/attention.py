"""What an export of queries and keys, or of heads, is made of: tidy rows, or one figure a head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from tui_attn.answers import BoolArray, FloatArray, Inspector
from tui_attn.export.pictures import Figure, must_be_drawable
from tui_attn.export.request import ExportRequest, Picked, pick, stack_title
from tui_attn.export.tables import Row, Table
from tui_attn.maps import get
from tui_attn.progress import Job
from tui_attn.render.cells import visible
from tui_attn.render.scale import Scale

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


def table(session: Inspector, request: ExportRequest, job: Job) -> Table:
    """The rows of an export.

    Raises:
        InspectError: The selection names what is not there (exit code 2), at once.
    """
    picked = pick(session, request.selection, attention=get(request.map).per_head)
    spec = get(request.map)
    if spec.scale == "table":
        return Table(HEAD_COLUMNS, _head_rows(session, request, picked, job))
    columns = tuple(name for name in CELL_COLUMNS if spec.per_head or name != "head")
    return Table(columns, _cell_rows(session, request, picked, job))


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
    labels, key_labels = _labels(session)
    keys, columns = picked.keys, picked.columns
    blocks = list(_blocks(picked.queries, max(1, _BLOCK_CELLS // (columns[1] - columns[0]))))
    spec = get(request.map)
    heads = list(product(picked.layers, picked.heads if spec.per_head else [None]))
    for number, (layer, head) in enumerate(heads):
        where = (layer,) if head is None else (layer, head)
        job.report(f"exporting {request.map}", number, len(heads))
        for wanted in blocks:
            job.check()
            rows = (min(wanted), max(wanted) + 1)
            window = session.window(
                request.map,
                layer,
                head or 0,
                rows,
                columns,
                variant=request.variant,
                attribution=request.attribution,
            )
            yield [
                (*where, query, key, labels[query], key_labels[key], float(value))
                for query in wanted
                for key, value, seen in _cells_of(window.values, window.visible, query, rows, keys)
                if seen
            ]


def _labels(session: Inspector) -> tuple[list[str], list[str]]:
    """The names of rows and columns."""
    run = session.run
    rows, columns = (
        [visible(token.text) for token in tokens] for tokens in (run.tokens, run.key_tokens)
    )
    return rows, columns


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
    values: FloatArray,
    seen: BoolArray,
    query: int,
    rows: tuple[int, int],
    keys: list[int],
) -> Iterable[tuple[int, float, bool]]:
    offset = min(keys)
    row = query - rows[0]
    picks = [key - offset for key in keys]
    return zip(keys, values[row, picks].tolist(), seen[row, picks].tolist(), strict=True)


def figures(session: Inspector, request: ExportRequest, job: Job) -> Iterator[Figure]:
    """The figures of an export.

    Raises:
        InspectError: The selection names what is not there (2), or is too large to draw (5).
    """
    picked = pick(session, request.selection, attention=get(request.map).per_head)
    must_be_drawable(len(picked.queries), len(picked.keys))
    labels = _labels(session)
    return (
        _figure(session, request, layer, head, picked, labels, job)
        for layer, head in product(
            picked.layers, picked.heads if get(request.map).per_head else [None]
        )
    )


def _figure(
    session: Inspector,
    request: ExportRequest,
    layer: int,
    head: int | None,
    picked: Picked,
    labels: tuple[list[str], list[str]],
    job: Job,
) -> Figure:
    job.check()
    spec, model = get(request.map), session.model
    window = session.window(
        request.map,
        layer,
        head or 0,
        picked.rows,
        picked.columns,
        variant=request.variant,
        attribution=request.attribution,
    )
    rows = [[query - picked.rows[0]] for query in picked.queries]
    columns = [key - picked.columns[0] for key in picked.keys]
    extent = session.extent(
        request.map,
        layer,
        head or 0,
        variant=request.variant,
        attribution=request.attribution,
        job=job,
    )
    scale = Scale(extent.low, extent.high, spec.scale == "signed")
    if extent.sampled_rows is not None:  # the sample may have missed what is drawn
        scale = scale.covering(window.values)
    variant = f" ({request.variant})" if spec.has_variants else ""
    where = f" · {request.attribution}" if head is None else f" H{head}"
    caption = (
        f"{stack_title(session)}{spec.title}{variant} · L{layer}{where} · scale {scale.legend()} · "
        f"{visible(model.name)}, {model.device} {model.dtype}, kernel {model.kernel}"
    )
    return Figure(
        caption,
        [
            f"∅ {labels[0][query]}" if query in window.blind else labels[0][query]
            for query in picked.queries
        ],
        [labels[1][key] for key in picked.keys],
        window.values[rows, columns],
        window.visible[rows, columns],
        scale,
    )
