"""Attribution on the screen: an estimate that gets better while it is looked at, and its views."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.text import Text

from tui_attn.answers import FloatArray
from tui_attn.answers.attribution import (
    NORMS,
    AttributionChoices,
    AttributionState,
    Comparison,
    Mixing,
    Norm,
)
from tui_attn.errors import InspectError
from tui_attn.maps import get
from tui_attn.progress import Progress
from tui_attn.render import cells
from tui_attn.render.grid import number
from tui_attn.render.scale import Scale
from tui_attn.selection import layer_name
from tui_attn.tui import texts
from tui_attn.tui.jobs import Done, Lane, Progressed
from tui_attn.tui.parts import attribution_told as told
from tui_attn.tui.parts import plots
from tui_attn.tui.parts.attribution_requests import (
    CompareRequest,
    MixingRequest,
    RefineRequest,
    compute_comparison,
    compute_mixing,
    compute_refine,
)
from tui_attn.tui.state import numbered
from tui_attn.tui.widgets.layers import LayerGrid, Rows
from tui_attn.tui.widgets.panes import Pane

if TYPE_CHECKING:
    from tui_attn.tui.screens.choices import Choice
    from tui_attn.tui.screens.main import MainScreen

_FIRST, _MOST = 2, 128
"""Probes of the first estimate, and of the last one that is made unasked."""
_SEEDS = ("0", "1", "2", "3")


class AttributionPart:
    """The map `attribution` of the main screen, and the views `own` and `compare`.

    Args:
        screen: Its lanes, labels and lines are used.
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
        self._exact = False
        self._norm: Norm = "frobenius"
        self._seed = 0
        self._paused = False
        self._failed = ""
        self._progress = ""
        self._began = 0.0
        self.shown: AttributionChoices | None = None
        """What the numbers on the screen are made by; None before there are any."""
        self.state: AttributionState | None = None
        self.mixing: list[Mixing] | None = None
        self.comparison: Comparison | None = None
        self._refining = Lane(screen, "attribution", with_session(compute_refine), unexpected)
        self._mixing = Lane(screen, "mixing", with_session(compute_mixing), unexpected)
        self._comparing = Lane(screen, "compare", with_session(compute_comparison), unexpected)

    @property
    def lanes(self) -> list[Lane[Any, Any]]:
        """Everything that may be running."""
        return [self._refining, self._mixing, self._comparing]

    @property
    def seen(self) -> bool:
        """Whether the map or one of its views is on the screen."""
        state = self._screen.state
        on_grid = state.view in ("grid", "text") and state.along != "layer"
        return state.map == "attribution" and (on_grid or self.in_layers)

    @property
    def in_layers(self) -> bool:
        """Whether a view with rows by layers, or by kinds of map, is on the screen."""
        return self._screen.state.view in ("own", "compare")

    @property
    def body(self) -> LayerGrid:
        """The grid of the view that is on the screen."""
        stage = self._screen.stage
        return stage.own.body if self._screen.state.view == "own" else stage.compare.body

    # --- asking ----------------------------------------------------------------------------------

    def opened(self) -> None:
        """Another model or text."""
        self.shown = self.state = self.mixing = self.comparison = None
        self._failed, self._paused = "", False
        self._exact, self._norm = False, "frobenius"

    def relabel(self) -> None:
        """Other labels."""
        session, stage = self._screen.session, self._screen.stage
        if session is None:
            return
        labels = self._screen.token_labels
        rows = numbered(labels, range(len(labels)))
        names = [layer_name(layer) for layer in session.attribution.layers]
        stage.own.body.set_axes(rows, names)
        stage.compare.body.set_axes(rows, ("raw", "eff", "attr"))
        self._show_own()
        self._show_comparison()

    def changed(self) -> None:
        """Another map, layer, head or view: go on refining, or leave it."""
        if not self.seen:
            self._refining.cancel()
            self._paused = False
            return
        if not self._screen.ready:
            return
        self._refine_further()
        if self.shown is None:
            self._tell_waiting()
            return
        if self._screen.state.view == "compare":
            self._ask_comparison()
        self.show_title()

    def _refine_further(self) -> None:
        if self._refining.busy or self._paused or self._failed:
            return
        wanted = self._next()
        if wanted is not None:
            self._began = time.monotonic()
            self._refining.ask(RefineRequest(self._screen.run_number, wanted))

    def _next(self) -> AttributionChoices | None:
        """What to compute after what is shown."""
        if self._exact:
            wanted = AttributionChoices(exact=True, norm=self._norm)
            return None if self.shown == wanted else wanted
        now = self.shown
        if now is None or now.exact or now.seed != self._seed:
            return AttributionChoices(probes=_FIRST, seed=self._seed)
        return replace(now, probes=2 * now.probes) if now.probes < _MOST else None

    def _ask_comparison(self) -> None:
        if self.shown is not None:
            self._comparing.ask(self._compare_request())

    def _compare_request(self) -> CompareRequest | None:
        screen, state = self._screen, self._screen.state
        if self.shown is None:
            return None
        return CompareRequest(
            screen.run_number, state.layer, state.head, screen.looking, self.shown, state.variant
        )

    # --- answers ---------------------------------------------------------------------------------

    def progressed(self, message: Progressed) -> bool:
        """Take a report of the sweep; whether it was one."""
        if message.lane is not self._refining:
            return False
        self._progress = self._told(message.progress)
        if self.seen:
            if self.shown is None:
                self._tell_waiting()
            self.show_title()
        return True

    def _told(self, progress: Progress) -> str:
        steps = f"{progress.done}/{progress.total}" if progress.total else "…"
        elapsed = time.monotonic() - self._began
        left = ""
        if progress.done and elapsed > 2:
            seconds = elapsed / progress.done * (progress.total - progress.done)
            left = f", {texts.duration(seconds)} left"
        what = "exact" if self._exact else "refining"
        return f"{what} {steps}{left}"

    def done(self, message: Done) -> bool:
        """Take an answer of one of the lanes; whether it was one."""
        request, answer = message.request, message.answer
        if not isinstance(request, RefineRequest | MixingRequest | CompareRequest):
            return False
        if isinstance(request, RefineRequest):
            self._progress = ""
        if message.cancelled or request.run != self._screen.run_number:
            if isinstance(request, RefineRequest):
                self.changed()
            return True
        if message.error is not None:
            self._fail(message.error)
        elif isinstance(request, RefineRequest):
            self._refined(request.choices, answer)  # type: ignore[arg-type]
        elif isinstance(request, MixingRequest):
            if request.choices == self.shown:
                self.mixing = answer  # type: ignore[assignment]
                self._show_own()
                self._screen.show_panes()
        elif request == self._compare_request():
            self.comparison = answer  # type: ignore[assignment]
            self._show_comparison()
        return True

    def _refined(self, choices: AttributionChoices, state: AttributionState) -> None:
        wanted = self._next()
        if wanted is None or (wanted.exact, wanted.seed) != (choices.exact, choices.seed):
            self.changed()  # chosen otherwise meanwhile
            return
        self.shown, self.state = choices, state
        if state.halved:
            self._screen.notify(
                f"memory ran short: the batch was halved {state.halved} times", markup=False
            )
        self._mixing.ask(MixingRequest(self._screen.run_number, choices))
        self._screen.heads.ask_map()
        self.changed()

    def _fail(self, error: InspectError) -> None:
        self._failed = str(error)
        if self.seen:
            self._tell_waiting()
            self._screen.show_detail()
            if self.shown is not None:
                self._screen.notify(str(error), markup=False, severity="error", timeout=10)

    # --- showing ---------------------------------------------------------------------------------

    def how(self) -> str:
        """What made the numbers, for titles."""
        if self._failed and self.shown is None:
            return self._failed
        parts = [str(self.shown)] if self.shown else []
        if self.state is not None and self.shown is not None and not self.shown.exact:
            error = self.state.standard_error
            parts[0] += f", error {error:.3f}" if error == error else ""
        if self._progress:
            parts.append(self._progress)
        elif self._paused:
            parts.append("stopped")
        return " · ".join(parts)

    def show_title(self) -> None:
        """Say what made the numbers, and how far the next ones have got."""
        stage, state = self._screen.stage, self._screen.state
        title, kernel = f" {get('attribution').title}", "plain softmax, float32 "
        where = f"{title} · L{state.layer} · {self.how()}"
        stage.maps[0].title.retitle(where)
        stage.reading.title.retitle(where)
        stage.own.title.show(f" Own share of every token · {self.how()}", kernel)
        label = cells.visible(self._screen.token_labels[self._screen.looking])
        stage.compare.title.show(
            f" What {self._screen.looking} {label} looks at, and is made of · "
            f"L{state.layer} H{state.head} ({state.variant}) · {self.how()}",
            kernel,
        )

    def show_panes(self, layers: Pane, page: Pane) -> None:
        """What each layer mixes, in the place of the heads."""
        look, layer = self._screen.look, self._screen.state.layer
        if self.mixing is None:
            blank = [[[Segment(f"L{number}")]] for number in range(self._blocks())]
            layers.show("Layers", blank, layer)
            page.show(f"L{layer} mixing", [], -1)
            return
        layers.show("Own share", plots.layer_entries(self.mixing, layers.size.width, look), layer)
        entries = plots.layer_plots(self.mixing[layer + 1], page.size.width, look)
        line = min(page.chosen, len(entries) - 1) if page.has_focus else -1  # only to scroll
        page.show(f"L{layer} mixing", entries, line)

    def _blocks(self) -> int:
        session = self._screen.session
        return len(session.attribution.layers) - 1 if session else 0

    def _tell_waiting(self) -> None:
        message = self._failed or f"computing derivatives: {self._progress or 'starting'}"
        stage = self._screen.stage
        if self.shown is None:
            stage.own.body.say(message)
            stage.compare.body.say(message)
        stage.maps[0].title.show(f" {get('attribution').title} · {message}")

    def _show_own(self) -> None:
        if self.mixing is None:
            return
        import numpy as np

        values = np.stack([layer.own_each for layer in self.mixing], 1)
        shown = [[number(value) for value in row] for row in values.tolist()]
        body = self._screen.stage.own.body
        body.show(Rows(0, values, shown, Scale(0.0, 1.0)))
        spreads = (
            ("not main", "not_main"),
            ("median", "median"),
            ("min", "minimum"),
            ("q1", "lower"),
            ("q3", "upper"),
            ("max", "maximum"),
        )
        body.show_under(
            [
                (title, [number(getattr(layer.own, name)) for layer in self.mixing])
                for title, name in spreads
            ]
        )

    def _show_comparison(self) -> None:
        found, body = self.comparison, self._screen.stage.compare.body
        if found is None:
            return
        import numpy as np

        columns = (found.raw, found.effective, found.attribution)
        values = np.full((body.length, 3), np.nan)
        values[list(found.keys)] = np.stack(columns, 1)
        texts_of = [[number(v) if v == v else "" for v in row] for row in values.tolist()]
        signed = bool((found.effective < 0).any())
        body.show(Rows(0, _each_column(values), texts_of, Scale(-1.0, 1.0, signed)))
        correlations = [number(found.raw_correlation), number(found.effective_correlation), ""]
        body.show_under([("rank corr", correlations)])
        self._screen.show_detail()

    def detail(self) -> tuple[Text, Text]:
        """The detail line."""
        if self._failed and self.shown is None:
            return Text(f" {self._failed}"), Text()
        screen, view, grid = self._screen, self._screen.state.view, self._screen.grid
        if view == "own":
            labels = [self._name(label) for label in screen.token_labels]
            return told.own(self.body.rows, self.body.cursor, labels, self._names())
        if view == "compare":
            token = self.body.cursor[0]
            label = f"{self._name(screen.token_labels[token])} {screen.note(token, unit='token')}"
            return told.compared(self.comparison, self.body.cursor[0], label.rstrip())
        notes = screen.note(grid.cursor[0]), screen.note(grid.cursor[1])
        row = dict(grid.row_values())
        return told.cell(grid.cursor, row, screen.labels, self._name, notes)

    def copied(self) -> list[str]:
        """The cursor's row of a view by layers, as lines of text."""
        rows, row = self.body.rows, self.body.cursor[0]
        if rows is None:
            return []
        if self._screen.state.view == "own":
            return told.own_row(self._names(), rows.values[row].tolist())
        return told.compared_row(self.comparison, row)

    def _names(self) -> list[str]:
        session = self._screen.session
        return list(session.attribution.layers) if session else []

    # --- choosing --------------------------------------------------------------------------------

    def options(self) -> list[Choice]:
        """What the dialog of the key `i` offers."""
        from tui_attn.tui.screens.choices import Choice

        method = "exact" if self._exact else "estimate"
        lines = [
            Choice(
                "method",
                method,
                ("estimate", "exact"),
                lambda value: self.choose_exact(value == "exact"),
            ),
        ]
        if self._exact:
            lines.append(Choice("norm", self._norm, NORMS, self._choose_norm))
        else:
            lines.append(Choice("seed", str(self._seed), _SEEDS, self._choose_seed))
        return lines

    def choose_exact(self, exact: bool) -> None:
        """The exact sweep, or an estimate."""
        self._exact, self._norm = exact, "frobenius"
        self._restart()

    def _choose_norm(self, value: str) -> None:
        self._norm = "ones" if value == "ones" else "frobenius"
        self._restart()

    def _choose_seed(self, value: str) -> None:
        self._seed = int(value)
        self._restart()

    def _restart(self) -> None:
        self._paused, self._failed = False, ""
        if not self._refining.cancel():
            self.changed()

    def stop(self) -> bool:
        """Stop refining; whether anything was. An exact sweep gives way to the estimate."""
        if not (self.seen and self._refining.busy):
            return False
        self._paused = not self._exact or self.shown is not None
        self._exact = self.shown is not None and self.shown.exact
        self._refining.cancel()
        return True

    def _name(self, label: str) -> str:
        return cells.fit(label, 12, ascii=self._screen.look.ascii).rstrip()


def _each_column(values: FloatArray) -> FloatArray:
    """Every column over its largest magnitude: three kinds of number, one picture."""
    import numpy as np

    reach = np.nanmax(np.abs(values), axis=0)
    scaled: FloatArray = values / np.where(reach > 0, reach, 1.0)
    return scaled
