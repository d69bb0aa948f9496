"""What an export of token identity is made of: tokens by layers, rates, transfer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tui_attn.answers import FloatArray, Inspector
from tui_attn.answers.identity import (
    IdentityChoices,
    IdentityWindow,
    ProbeInfo,
    Rate,
    Transfer,
    at_hand,
)
from tui_attn.errors import ExitCode, InspectError
from tui_attn.export import layers
from tui_attn.export.pictures import Figure, must_be_drawable
from tui_attn.export.request import ExportRequest, stack_title
from tui_attn.export.tables import Row, Table
from tui_attn.maps import get
from tui_attn.progress import Job
from tui_attn.render import ranks
from tui_attn.render.cells import fit, visible
from tui_attn.selection import layer_name

IDENTITY_COLUMNS = ("layer", "token", "token_text", "rank", "cosine", "nearest", "nearest_text")
RATE_COLUMNS = (
    "layer",
    "method",
    "metric",
    "target",
    "candidates",
    "match",
    "special",
    "data",
    "n",
    "identified",
    "rate",
    "ci_low",
    "ci_high",
)
TRANSFER_COLUMNS = ("train_layer", "test_layer", "method", "target", "data", "n", "rate")
_BLOCK = 256
_NAME_WIDTH = 12


def table(session: Inspector, request: ExportRequest, job: Job) -> Table:
    """The rows of an export.

    Raises:
        InspectError: The selection or the choices name what is not there (exit code 2), at once.
    """
    if request.summary == "rates":
        rates = _rates(session, request, job)
        return Table(RATE_COLUMNS, iter([[_rate_row(rate) for rate in rates]]))
    if request.summary == "transfer":
        tables = _transfers(session, request.identity, job)
        return Table(TRANSFER_COLUMNS, iter([_transfer_rows(request, moved) for moved in tables]))
    picked = _pick(session, request)
    return Table(IDENTITY_COLUMNS, _rows(session, request, picked, job))


def figures(session: Inspector, request: ExportRequest, job: Job) -> Iterator[Figure]:
    """The figures of an export.

    Raises:
        InspectError: The selection names what is not there (2), or is too large to draw (5).
    """
    if request.summary == "rates":
        return iter([_rate_figure(session, request, _rates(session, request, job))])
    if request.summary == "transfer":
        moved = _transfers(session, request.identity, job)
        return iter([_transfer_figure(session, request, one) for one in moved])
    picked = _pick(session, request)
    must_be_drawable(len(picked.rows), len(picked.layers))
    return iter([_map_figure(session, request, picked, job)])


@dataclass(frozen=True)
class _Picked:
    """Columns of the map, and rows: numbers of counted tokens."""

    layers: list[int]
    rows: list[int]


def _pick(session: Inspector, request: ExportRequest) -> _Picked:
    session.identity.window((0, 1), request.identity)  # what cannot be had is said at once
    counted = session.identity.tokens(request.identity.special)
    columns = layers.columns_of(session.identity.layers, request.selection.layers)
    if request.selection.queries.everything:
        return _Picked(
            layers.columns_of(session.identity.layers, request.selection.layers),
            list(range(len(counted))),
        )
    segments = [token.segment for token in session.run.tokens]
    wanted = request.selection.queries.resolve(session.length(), "query", segments)
    rows = [counted.index(token) for token in wanted if token in counted]
    if not rows:
        raise InspectError(
            f"token {wanted[0]} is special, and special tokens are not counted",
            "select another, or count them with --special",
            ExitCode.USAGE,
        )
    return _Picked(columns, rows)


def _window(
    session: Inspector, request: ExportRequest, rows: list[int], job: Job
) -> IdentityWindow:
    """The chosen rows, computed in blocks."""
    first, stop = min(rows), max(rows) + 1
    parts = []
    for start in range(first, stop, _BLOCK):
        job.report("exporting identity", start - first, stop - first)
        span = (start, min(start + _BLOCK, stop))
        parts.append(session.identity.window(span, request.identity, job=job))
    index = [row - first for row in rows]
    tokens = [token for part in parts for token in part.tokens]
    return replace(
        parts[0],
        tokens=tuple(tokens[place] for place in index),
        names={number: name for part in parts for number, name in part.names.items()},
        rank=np.concatenate([part.rank for part in parts])[index],
        cosine=np.concatenate([part.cosine for part in parts])[index],
        nearest=np.concatenate([part.nearest for part in parts])[index],
        runner_up=np.concatenate([part.runner_up for part in parts])[index],
    )


def _rows(
    session: Inspector, request: ExportRequest, picked: _Picked, job: Job
) -> Iterator[list[Row]]:
    window = _window(session, request, picked.rows, job)
    labels = [visible(token.text) for token in session.run.tokens]
    names = {-1: "", **{number: visible(name) for number, name in window.names.items()}}
    for layer in picked.layers:
        if request.identity.target == "previous" and layer == 0:
            continue  # there is nothing below it
        name = layers.number(window.layers[layer])
        columns = (
            getattr(window, field)[:, layer].tolist() for field in ("rank", "cosine", "nearest")
        )
        yield [
            (name, token, labels[token], rank, cosine, nearest, names[nearest])
            for token, rank, cosine, nearest in zip(window.tokens, *columns, strict=True)
        ]


def _rates(session: Inspector, request: ExportRequest, job: Job) -> list[Rate]:
    """Of every method at hand on this text, then on the sentences that probes were tested on."""
    inspector = session.identity
    wanted = {
        inspector.layers[layer]
        for layer in layers.columns_of(session.identity.layers, request.selection.layers)
    }
    probes = inspector.probes()
    found = [
        rate
        for choices in at_hand(request.identity, probes)
        for rate in inspector.rates(choices, job=job)
    ]
    tested: set[object] = set()  # probes of one recipe share their test sentences
    for probe in _chosen(probes, request.identity):
        found += [
            rate
            for rate in probe.held_out
            if rate.choices.probe is not None or probe.recipe["key"] not in tested
        ]
        tested.add(probe.recipe["key"])
    return [rate for rate in found if rate.layer in wanted]


def _chosen(probes: Sequence[ProbeInfo], choices: IdentityChoices) -> list[ProbeInfo]:
    """The probes that the choices mean; all of the target where they name none."""
    return [
        probe
        for probe in probes
        if probe.target == choices.target and choices.probe in (None, probe.method, probe.path)
    ]


def _rate_row(rate: Rate) -> Row:
    choices = rate.choices
    return (
        layers.number(rate.layer),
        choices.method,
        choices.metric,
        choices.target,
        choices.candidates,
        choices.match,
        choices.special,
        rate.data,
        rate.n,
        rate.identified,
        rate.rate,
        *rate.interval,
    )


def _transfers(session: Inspector, choices: IdentityChoices, job: Job) -> list[Transfer]:
    """On this text, and on the sentences that the probe was tested on."""
    here = session.identity.transfer(choices, job=job)
    return [here, *(probe.transfer for probe in _chosen(session.identity.probes(), choices))]


def _transfer_rows(request: ExportRequest, moved: Transfer) -> list[Row]:
    choices = request.identity
    return [
        (
            layers.number(trained_at),
            layers.number(tested_at),
            choices.method,
            choices.target,
            moved.data,
            moved.n,
            rate,
        )
        for trained_at, rates in zip(moved.layers, moved.rates.tolist(), strict=True)
        for tested_at, rate in zip(moved.layers, rates, strict=True)
    ]


def _map_figure(session: Inspector, request: ExportRequest, picked: _Picked, job: Job) -> Figure:
    window = _window(session, request, picked.rows, job)
    labels = [visible(token.text) for token in session.run.tokens]
    texts = [
        [fit(ranks.cell(window, row, column), _NAME_WIDTH).strip() for column in picked.layers]
        for row in range(len(window.tokens))
    ]
    values = ranks.positions(window)[:, picked.layers]
    return Figure(
        _caption(session, request, "colour by rank, bright is identified"),
        [f"{token} {labels[token]}" for token in window.tokens],
        [layer_name(window.layers[layer]) for layer in picked.layers],
        values,
        ~np.isnan(values),
        ranks.SHARES,
        texts,
    )


def _rate_figure(session: Inspector, request: ExportRequest, rates: Sequence[Rate]) -> Figure:
    names = list(dict.fromkeys(rate.layer for rate in rates))
    rows: dict[str, FloatArray] = {}
    for rate in rates:
        choices = rate.choices
        name = f"{choices.method} {choices.metric} by {choices.match}, {rate.data} n={rate.n}"
        line = rows.setdefault(name, np.full(len(names), np.nan))
        line[names.index(rate.layer)] = rate.rate
    values = np.stack(list(rows.values()))
    return Figure(
        _caption(session, request, "share of tokens identified"),
        list(rows),
        [layer_name(layer) for layer in names],
        values,
        ~np.isnan(values),
        ranks.SHARES,
    )


def _transfer_figure(session: Inspector, request: ExportRequest, moved: Transfer) -> Figure:
    return Figure(
        _caption(session, request, f"rows trained at, columns tested at, {moved.data} n={moved.n}"),
        [layer_name(layer) for layer in moved.layers],
        [layer_name(layer) for layer in moved.layers],
        moved.rates,
        np.ones_like(moved.rates, dtype=bool),
        ranks.SHARES,
    )


def _caption(session: Inspector, request: ExportRequest, note: str) -> str:
    model, spec = session.model, get(request.map)
    return (
        f"{stack_title(session)}{spec.title} · {request.identity} · {note} · "
        f"{visible(model.name)}, {model.device} {model.dtype}, kernel {model.kernel}"
    )
