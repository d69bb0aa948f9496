"""Attention on the screen: cells, their details, and the statistics of heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tui_attn.answers import Cell, HeadSummary
from tui_attn.answers.attribution import ESTIMATED
from tui_attn.errors import InspectError
from tui_attn.render.cells import visible
from tui_attn.tui import texts
from tui_attn.tui.jobs import Done, Lane
from tui_attn.tui.requests import (
    DetailRequest,
    HeadsRequest,
    MapAnswer,
    MapRequest,
    compute_detail,
    compute_heads,
    compute_map,
)
from tui_attn.tui.state import STATISTICS
from tui_attn.tui.widgets.panes import Pane

if TYPE_CHECKING:
    from tui_attn.tui.screens.main import MainScreen


class HeadsPart:
    """The maps of queries and keys, and the panes beside them.

    Args:
        screen: Its state, labels and lines are used.
        with_session: Hands a computation the session that is open.
        unexpected: Turns an error of ours into a sentence.
    """

    def __init__(
        self,
        screen: MainScreen,
        with_session: Callable[[Callable], Callable],  # type: ignore[type-arg]
        unexpected: Callable[[Exception], InspectError],
    ) -> None:
        self._screen = screen
        self.summaries: dict[int, list[HeadSummary]] = {}
        self.cell: Cell | None = None
        self._mapping = Lane(screen, "map", with_session(compute_map), unexpected)
        self._detailing = Lane(screen, "detail", with_session(compute_detail), unexpected)
        self._heading = Lane(screen, "heads", with_session(compute_heads), unexpected)

    @property
    def lanes(self) -> list[Lane[Any, Any]]:
        """Everything that may be running."""
        return [self._mapping, self._detailing, self._heading]

    # --- asking ----------------------------------------------------------------------------------

    def opened(self) -> None:
        """Another model or text: everything belongs to the old one."""
        self.forget()
        self.cell = None

    def forget(self) -> None:
        """Other statistics are wanted."""
        self.summaries.clear()

    def changed(self) -> None:
        """Another head, map or variant: ask for everything that shows it."""
        self.cell = None
        self.ask_map()
        self.ask_cell()  # at once, so that map and details come in one frame
        self._ask_heads()

    def ask_map(self) -> None:
        """Ask for the cells on the screen."""
        screen = self._screen
        waiting = screen.state.map == "attribution" and screen.attribution.shown is None
        if screen.ready and not waiting:
            self._mapping.ask(self._map_request(), supersede=True)

    def _map_request(self) -> MapRequest:
        screen, state, grid = self._screen, self._screen.state, self._screen.grid
        rows, columns = grid.wanted()
        return MapRequest(
            screen.run_number,
            state.maps,
            state.layer,
            state.head,
            rows,
            columns,
            grid.overview_shape if grid.zoom == "fit" else None,
            state.variant,
            state.unit,
            state.without_special,
            screen.attribution.shown or ESTIMATED,
        )

    def ask_cell(self) -> None:
        """Ask for what is under the cursor."""
        if self._screen.ready:
            self._detailing.ask(self._detail_request())

    def _detail_request(self) -> DetailRequest:
        screen, state = self._screen, self._screen.state
        return DetailRequest(
            screen.run_number,
            state.layer,
            state.head,
            *screen.grid.cursor,
            state.variant,
            state.unit,
        )

    def _ask_heads(self) -> None:
        """Statistics of the layer on the screen first, then of the others, one by one."""
        screen, state = self._screen, self._screen.state
        if screen.session is None or not screen.ready:
            return
        layers = [state.layer, *screen.session.model.attention_layers]
        missing = [layer for layer in layers if layer not in self.summaries]
        if missing:
            self._heading.ask(
                HeadsRequest(screen.run_number, missing[0], state.variant),
                supersede=missing[0] == state.layer,
            )

    def stop(self) -> bool:
        """Stop what runs; whether anything did."""
        running = [lane for lane in (self._mapping, self._heading) if lane.busy]
        for lane in running:
            lane.cancel()
        return bool(running)

    # --- answers ---------------------------------------------------------------------------------

    def done(self, message: Done) -> bool:
        """Take an answer of one of the lanes; whether it was one."""
        request, answer = message.request, message.answer
        if not isinstance(request, MapRequest | DetailRequest | HeadsRequest):
            return False
        if message.cancelled:
            return True
        if message.error is not None:
            self._screen.failed(request, message.error)
        elif not self._screen.is_about_now(request):
            return True
        elif isinstance(request, MapRequest):
            self._show_map(request, answer)  # type: ignore[arg-type]
        elif isinstance(request, DetailRequest):
            self._show_cell(request, answer)  # type: ignore[arg-type]
        else:
            self._show_heads(request, answer)  # type: ignore[arg-type]
        return True

    def _show_map(self, request: MapRequest, answer: MapAnswer) -> None:
        # Older rows and columns are cells all the same; anything else is about something else.
        now = replace(
            self._map_request(),
            rows=request.rows,
            columns=request.columns,
            thorough=request.thorough,
        )
        if now != request:
            return
        screen = self._screen
        if any(picture.sampled_rows is not None for picture in answer.pictures):
            self._mapping.ask(replace(request, thorough=True))
        screen.stage.show_map(answer, screen.state, screen.attribution.how())
        screen.show_sentence()
        if self.cell is None and not self._detailing.busy:
            self.ask_cell()

    def _show_cell(self, request: DetailRequest, cell: Cell) -> None:
        if request == self._detail_request():
            self.cell = cell
            self._screen.show_detail()

    def _show_heads(self, request: HeadsRequest, summaries: list[HeadSummary]) -> None:
        if request.variant == self._screen.state.variant:
            self.summaries[request.layer] = summaries
            self._screen.stage.wall.body.add(summaries)
            self._screen.show_panes()
            self._screen.show_lines()
        self._ask_heads()

    # --- showing ---------------------------------------------------------------------------------

    def output_error(self) -> float | None:
        """The largest error of A_eff V = A V in the layer on the screen."""
        found = self.summaries.get(self._screen.state.layer)
        return max((summary.output_error for summary in found), default=None) if found else None

    def detail(self) -> tuple[Text, Text]:
        """The detail line: one cell."""
        screen = self._screen
        told = texts.identifiability(self.cell, screen.size.width) if self.cell else ""
        query, key = screen.grid.cursor
        labels = (screen.labels, screen.key_labels)
        notes = screen.note(query), screen.note(key, "key")
        return texts.detail(labels, screen.grid.cursor, self.cell, told, notes)

    def show_panes(self, layers: Pane, heads: Pane) -> None:
        """Layers and heads with the statistic that is chosen."""
        screen, state = self._screen, self._screen.state
        statistic = STATISTICS[state.statistic]
        model = screen.session.model if screen.session else None
        entries = texts.layer_entries(
            model, self.summaries, statistic, layers.size.width, screen.look
        )
        layers.show("Layers", entries, state.layer)
        found = self.summaries.get(state.layer)
        if found is None:
            return
        order = list(range(len(found)))
        if state.sorted:
            order.sort(key=lambda head: -statistic.position(found[head]))
        state.head_order = order
        room = max(heads.size.height - 1, 1) // max(len(found), 1)
        listed = [found[head] for head in order]
        heads.show(
            f"L{state.layer} heads rank {statistic.title}",
            texts.head_entries(
                listed, statistic, heads.size.width, min(max(room, 1), 3), screen.look
            ),
            order.index(state.head),
        )

    def copied(self) -> list[str]:
        """The cursor's row as lines of text: key, token and value."""
        screen = self._screen
        return [
            f"{key}\t{visible(screen.key_labels[key])}\t{value!r}"
            for key, value in screen.grid.row_values()
        ]
