"""The main screen: panes, map, lines, and what the keys do to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from tui_attn import places
from tui_attn.answers import VARIANTS, Axis, Inspector, ModelRequest, Stack, Token, Unit, Variant
from tui_attn.answers.memory import TooLarge
from tui_attn.answers.runs import TooLong
from tui_attn.config import Settings
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import MAPS, get
from tui_attn.places import Place
from tui_attn.progress import Job
from tui_attn.render.cells import visible
from tui_attn.render.grid import Look
from tui_attn.render.palette import COLOUR_MAPS
from tui_attn.selection import SEGMENTS
from tui_attn.tui import returning, texts
from tui_attn.tui.jobs import Done, Lane, Progressed
from tui_attn.tui.keys import bindings
from tui_attn.tui.parts.attribution import AttributionPart
from tui_attn.tui.parts.heads import HeadsPart
from tui_attn.tui.parts.identity import IdentityPart
from tui_attn.tui.requests import ExportRequested, OpenRequest, compute_export
from tui_attn.tui.stage import Stage
from tui_attn.tui.state import (
    LABEL_MODES,
    STATISTICS,
    View,
    ViewState,
    attention_layer,
    unit_labels,
)
from tui_attn.tui.widgets.grid import AttentionGrid
from tui_attn.tui.widgets.layers import LayerGrid
from tui_attn.tui.widgets.lines import Line
from tui_attn.tui.widgets.loading import Loading
from tui_attn.tui.widgets.mosaic import Mosaic
from tui_attn.tui.widgets.panes import Pane
from tui_attn.tui.widgets.sentence import Sentence

_MAPS = [name for name, spec in MAPS.items() if spec.scale != "table"]
_CLIPBOARD_LIMIT = 70_000
_REMEMBERING = 2.0
"""Seconds between two looks at where the person is."""


class MainScreen(Screen[None]):
    """Everything that is not a dialog. See `app.InspectApp` for the arguments."""

    AUTO_FOCUS = ""  # the map takes the focus when it is there
    BINDINGS = bindings()  # type: ignore[assignment]

    def __init__(
        self,
        request: ModelRequest,
        text: str,
        pair: str | None,
        settings: Settings,
        look: Look,
        open_session: Callable[[ModelRequest, Job], Inspector],
        log: Path | None,
        place: Place | None = None,
    ) -> None:
        super().__init__()
        self._place = place
        self.wanted = OpenRequest(
            request,
            text,
            pair,
            settings.max_tokens,
            settings.keep,
            settings.decoder_text,
            settings.stack,
        )
        self._open_session = open_session
        self._log_path = log
        self.look = look
        self.state = ViewState(variant=settings.variant)
        self.session: Inspector | None = None
        self._loaded: tuple[ModelRequest, Inspector] | None = None
        self.run_number = 0
        self.labels: list[str] = []
        self.key_labels: list[str] = []
        self.stage = Stage(look)
        self._opening = Lane(self, "open", self._open, self._unexpected)
        self._exporting = Lane(self, "export", self._with_session(compute_export), self._unexpected)
        self.heads = HeadsPart(self, self._with_session, self._unexpected)
        self.identity = IdentityPart(self, self._with_session, self._unexpected)
        self.attribution = AttributionPart(self, self._with_session, self._unexpected)
        self._started = time.monotonic()

    def compose(self) -> ComposeResult:
        """Status above; panes and map; detail and footer below."""
        yield Line(id="status")
        with Horizontal(id="body"):
            yield Pane(id="layers")
            yield Pane(id="heads")
            yield Loading(id="loading", ascii=self.look.ascii)
            yield self.stage
        yield Static("", id="too-small", markup=False)
        yield Line(id="detail")
        yield Line(id="footer")

    def on_mount(self) -> None:
        """Draw the frame at once, then load behind it."""
        self.query_one("#layers", Pane).show("Layers", [], 0)
        self.query_one("#heads", Pane).show("Heads", [], 0)
        self.query_one(Loading).begin()
        self._show_view()
        self.show_lines()
        self.set_interval(_REMEMBERING, self._remember)
        # Importing torch on a thread holds the interpreter's lock: not before the first frame.
        self.call_after_refresh(self.ask_open, self.wanted)

    # --- parts -----------------------------------------------------------------------------------

    @property
    def grid(self) -> AttentionGrid:
        """The first grid; the second follows its cursor."""
        return self.stage.grid

    @property
    def looking(self) -> int:
        """The token (or word) that looks."""
        return self.grid.cursor[0]

    @property
    def in_layers(self) -> bool:
        """Whether the view has columns for layers, and no panes."""
        return self.identity.seen or self.attribution.in_layers

    @property
    def part(self) -> HeadsPart | IdentityPart | AttributionPart:
        """The part that the view belongs to."""
        if self.identity.seen:
            return self.identity
        return self.attribution if self.attribution.seen else self.heads

    @property
    def _subject(self) -> Literal["footer", "identity", "attribution"]:
        if self.identity.seen:
            return "identity"
        return "attribution" if self.attribution.seen else "footer"

    @property
    def token_labels(self) -> list[str]:
        """The tokens' names, whatever the unit of the grid is."""
        tokens = self.session.run.tokens if self.session else ()
        return unit_labels(tokens, "token", self.state.labels)

    def segments(self, axis: Axis) -> list[int]:
        """The segment of each row of the grid, or of each column."""
        tokens = self._tokens(axis)
        if self.state.unit == "token":
            return [token.segment for token in tokens]
        return list({token.word: token.segment for token in reversed(tokens)}.values())[::-1]

    def _tokens(self, axis: Axis) -> tuple[Token, ...]:
        if self.session is None:
            return ()
        run = self.session.run
        return run.tokens if axis == "query" else run.key_tokens

    def note(self, position: int, axis: Axis = "query", unit: Unit | None = None) -> str:
        """What the label of a token, or of the first token of a word, does not say.

        Args:
            position: Of a token or word.
            axis: Whether it looks or is looked at.
            unit: What is counted; None: as the grid does.
        """
        if self.session is None:
            return ""
        names = SEGMENTS if self.session.run.pair is not None else ()
        tokens = self._tokens(axis)
        if (unit or self.state.unit) == "token":
            tokens = tokens[position : position + 1]
        else:
            tokens = tuple(
                replace(one, pieces=()) for one in self._tokens(axis) if one.word == position
            )
        return texts.note(tokens[0], names) if tokens else ""

    @property
    def lanes(self) -> list[Lane[Any, Any]]:
        """Everything that may be running."""
        parts = (self.heads, self.identity, self.attribution)
        return [self._opening, self._exporting, *(lane for part in parts for lane in part.lanes)]

    # --- the session -----------------------------------------------------------------------------

    def _unexpected(self, error: Exception) -> InspectError:
        where = (
            f"the log {self._log_path} has the details" if self._log_path else "run with --debug"
        )
        made = InspectError(f"unexpected error: {type(error).__name__}: {error}", where)
        made.__cause__ = error
        return made

    def _with_session(self, compute: Callable) -> Callable:  # type: ignore[type-arg]
        def work(request: object, job: Job) -> object:
            if self.session is None:
                raise InspectError("no model is open", "open one with o", ExitCode.NO_MODEL)
            return compute(self.session, request, job)

        return work

    def _open(self, request: OpenRequest, job: Job) -> Inspector:
        session = self.session if request.model is None else self._model(request.model, job)
        if session is None:
            raise InspectError("no model is open", "open one with o", ExitCode.NO_MODEL)
        if request.model is not None and request.stack is not None:
            session = session.on(request.stack)
        session.analyse(
            request.text,
            pair=request.pair,
            decoder_text=request.decoder_text,
            max_tokens=request.max_tokens,
            keep=request.keep,
            job=job,
        )
        return session

    def _model(self, request: ModelRequest, job: Job) -> Inspector:
        """Open a model; one whose text did not fit is still there for another try."""
        if self._loaded is not None and self._loaded[0] == request:
            return self._loaded[1]
        session = self._open_session(request, job)
        self._loaded = (request, session)
        return session

    def ask_open(self, request: OpenRequest) -> None:
        """Open a model or run a text, on a thread."""
        self._started = time.monotonic()
        if self.session is None:
            self.query_one(Loading).begin()
        self._opening.ask(request, supersede=True)

    def _opened(self, session: Inspector) -> None:
        """Another model, stack or text: everything on the screen belongs to the old one."""
        self.session, self._loaded = session, None
        self.run_number += 1
        state, model = self.state, session.model
        state.layer = attention_layer(state.layer, state.layer, model.attention_layers)
        state.head = min(state.head, model.heads - 1)
        state.head_order = list(range(model.heads))
        self.query_one(Loading).end()
        self.stage.start(model, state)
        self.heads.opened()
        self.identity.opened()
        self.attribution.opened()
        self._relabel()
        self._show_view()
        self.show_panes()
        self.show_lines()
        if self.focused is None:
            self.stage.main(state).focus()
        if self._place is not None and self.run_number == 1:
            returning.go_back(self, self._place)

    def _remember(self) -> None:
        """Keep where the person is, off this thread: the connection may go at any time."""
        place = returning.place_of(self)
        if place is not None and place != self._place:
            self._place = place
            self.run_worker(partial(places.save, place), thread=True, exclusive=True)

    # --- answers ---------------------------------------------------------------------------------

    @on(Progressed)
    def _progressed(self, message: Progressed) -> None:
        if self.attribution.progressed(message):
            return
        elapsed = time.monotonic() - self._started
        if message.lane is self._opening:
            self.query_one(Loading).report(message.progress)
        if message.lane is self._opening or message.lane is self._exporting:
            self.query_one("#detail", Line).show(f" {texts.progress(message.progress, elapsed)}")

    @on(Done)
    def _done(self, message: Done) -> None:
        lane, request, answer = message.lane, message.request, message.answer
        lane.finished()
        if any(part.done(message) for part in (self.heads, self.identity, self.attribution)):
            return
        if message.cancelled:
            if lane is self._opening and not lane.busy:
                self._stopped()
            return
        if message.error is not None:
            self.failed(request, message.error)
        elif lane is self._opening:
            self._opened(answer)  # type: ignore[arg-type]
        elif lane is self._exporting:
            self._exported(request, answer)  # type: ignore[arg-type]

    def is_about_now(self, request: object) -> bool:
        """Whether a request is about the text on the screen, and no other one is on its way."""
        return getattr(request, "run", None) == self.run_number and not self._opening.busy

    def failed(self, request: object, error: InspectError) -> None:
        """Say in a dialog what went wrong and what to do."""
        retry = None
        if isinstance(request, OpenRequest):
            retry = lambda: self.ask_open(request)  # noqa: E731
            self._not_opened()
            if isinstance(error, TooLarge):
                self._dialogs.ask_for_room(self, request, error)
                return
            if isinstance(error, TooLong):
                self._dialogs.ask_to_cut(self, request, error)
                return
        elif isinstance(request, ExportRequested):
            self.show_detail()
        elif not self.is_about_now(request):
            return
        self._dialogs.show_error(self, error, self._log_path, retry)

    def _not_opened(self) -> None:
        """The old text stays, under whatever was pressed meanwhile."""
        self.query_one(Loading).end()
        self._show_view()
        self.show_lines()
        self._changed()

    def _stopped(self) -> None:
        self._not_opened()
        hint = "t runs a text" if self.session is not None else "o opens a model"
        self.notify(f"stopped; {hint}", markup=False)

    # --- asking ----------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether there is a text, and not another one on its way."""
        return self.session is not None and not self._opening.busy and self.grid.length > 0

    # --- showing ---------------------------------------------------------------------------------

    def show_panes(self) -> None:
        """Draw what the panes show now."""
        if self.session is not None:
            part = self.attribution if self.attribution.seen else self.heads
            part.show_panes(self.query_one("#layers", Pane), self.query_one("#heads", Pane))

    def show_lines(self) -> None:
        """Write the lines above and below: what made the numbers, and the keys."""
        session = self.session
        status = texts.status(
            session.model if session else None,
            session.run if session else None,
            self.heads.output_error(),
        )
        self.query_one("#status", Line).show(*status)
        self.query_one("#footer", Line).show(texts.footer(self.size.width, self._subject))
        self.show_detail()

    def show_detail(self) -> None:
        """Say what is under the cursor."""
        line = self.query_one("#detail", Line)
        if self.session is None:
            line.show("")
            return
        line.show(*self.part.detail())

    def show_sentence(self) -> None:
        """Colour the text view, where it is seen."""
        self.stage.show_sentence(self.state)
        self.identity.show_sentence()

    def _relabel(self) -> None:
        """Other labels or units: the same map under other names."""
        if self.session is None:
            return
        run, state = self.session.run, self.state
        self.labels = unit_labels(run.tokens, state.unit, state.labels)
        self.key_labels = unit_labels(run.key_tokens, state.unit, state.labels)
        self.stage.set_labels((self.labels, self.key_labels), state)
        self.identity.relabel()
        self.attribution.relabel()
        self._changed()

    def _changed(self) -> None:
        """Another head, map or variant: ask for everything that shows it."""
        self.heads.changed()
        self.identity.ask()
        self.attribution.changed()
        self.show_panes()
        self.show_detail()

    def _show_view(self) -> None:
        """Show the widgets of the current view, as far as there is room for them."""
        wide, high = self.size
        loading = self.query_one(Loading).display and self.session is None
        ready, view = self.session is not None, self.state.view
        tiny = wide < 24 or high < 8
        message = self.query_one("#too-small", Static)
        message.display = tiny
        message.update(f"{wide}x{high} is too small: 80x24 shows everything")
        self.query_one("#body").display = not tiny
        crowded = (self.state.split and view == "grid" and wide < 110) or self.in_layers
        self.query_one("#layers").display = wide >= 64 and not crowded
        self.query_one("#heads").display = wide >= 52 and not crowded
        self.query_one(Loading).display = loading
        self.stage.show(self.state, ready)
        self.query_one("#detail").display = high >= 10
        self.query_one("#footer").display = high >= 12

    @on(AttentionGrid.NeedWindow)
    def _need_window(self) -> None:
        self.heads.ask_map()

    @on(AttentionGrid.Resized)
    def _align(self) -> None:
        """Maps side by side show the same cells."""
        self.stage.align(self.state)

    def on_resize(self) -> None:
        """Panes drop away where there is no room for them."""
        self._show_view()
        self.show_lines()
        self.call_after_refresh(self.show_panes)

    # --- moving ----------------------------------------------------------------------------------

    def action_move(self, down: int, right: int) -> None:
        """Move in whatever has the focus."""
        focused = self.focused
        if isinstance(focused, Pane):
            focused.move(down or right)
        elif isinstance(focused, Mosaic | Sentence | LayerGrid):
            focused.move(down, right)
        else:
            self.grid.move(down, right)

    def action_page(self, screens: int) -> None:
        """Move by a screen."""
        focused = self.focused
        if isinstance(focused, Pane):
            focused.move(screens * focused.page_size)
        elif isinstance(focused, Mosaic | Sentence | LayerGrid):
            focused.move(screens * focused.page_size, 0)
        else:
            self.grid.page(screens, 0)

    def action_edge(self, edge: str) -> None:
        """Move as far as it goes."""
        far = 1 << 30
        down, right = {
            "left": (0, -far),
            "right": (0, far),
            "top": (-far, 0),
            "bottom": (far, 0),
        }[edge]
        self.action_move(down, right)

    @on(AttentionGrid.CursorMoved)
    def _cursor_moved(self, message: AttentionGrid.CursorMoved) -> None:
        self.stage.follow(message.sender, self.state)
        self.show_detail()
        self.show_sentence()
        self.heads.ask_cell()

    @on(Sentence.Moved)
    def _sentence_moved(self) -> None:
        query, key = self.grid.cursor
        token = self.stage.reading.body.cursor
        if self.state.along == "layer":
            self.identity.go_to_token(token)
        else:
            self.grid.move_to(*((token, key) if self.state.along == "query" else (query, token)))

    @on(LayerGrid.NeedRows)
    def _need_rows(self) -> None:
        self.identity.ask_rows()

    @on(LayerGrid.CursorMoved)
    def _layers_moved(self) -> None:
        """A cell of a view by layers was chosen."""
        self.show_detail()
        self.identity.show_sentence()

    @on(Pane.Chosen)
    def _pane_chosen(self, message: Pane.Chosen) -> None:
        if message.pane.id == "layers":
            self.go(message.index, self.state.head)
        elif self.attribution.seen:
            pass  # the pane shows what a layer mixes
        elif message.index < len(self.state.head_order):
            self.go(self.state.layer, self.state.head_order[message.index])

    def go(self, layer: int, head: int) -> None:
        """Show another head; over layers without attention it goes on to the next that has some."""
        if self.session is None:
            return
        layer = attention_layer(layer, self.state.layer, self.session.model.attention_layers)
        if (layer, head) == (self.state.layer, self.state.head):
            self.show_panes()  # whose mark may stand on a layer that was passed over
            return
        self.state.layer, self.state.head = layer, head
        self.show_lines()
        self._changed()

    def action_head(self, step: int) -> None:
        """Previous or next head, in the order of the pane."""
        if self.identity.seen:
            self.notify("hidden states have no heads; 1 shows attention", markup=False)
            return
        order = self.state.head_order
        if order:
            place = order.index(self.state.head) + step
            self.go(self.state.layer, order[min(max(place, 0), len(order) - 1)])

    def action_layer(self, step: int) -> None:
        """Previous or next layer."""
        if self.identity.seen:
            self.identity.move_layer(step)
        elif self.state.view == "own":
            self.stage.own.body.move(0, step)
        elif self.session is not None:
            last = self.session.model.layers - 1
            self.go(min(max(self.state.layer + step, 0), last), self.state.head)

    # --- maps and looks --------------------------------------------------------------------------

    def action_map(self, number: int) -> None:
        """Choose a map by its number."""
        if number > len(_MAPS):
            self.notify(f"there are {len(_MAPS)} maps", markup=False)
            return
        name = _MAPS[number - 1]
        if get(name).axes == "token x layer":
            self._switch("identity")
            self.identity.enter()
        else:
            leaves = self.in_layers
            self.state.map = name
            if not get(name).per_head:
                self.state.split = False
            if leaves:
                self.state.along = "query"
                self._switch("grid")
            self._show_view()
            self.show_lines()
        self._changed()

    def action_stack(self) -> None:
        """Next stack of an encoder-decoder."""
        if not self.ready or self.session is None:
            return
        stacks, now = self.session.stacks, self.session.model.stack
        if now is None:
            self.notify("this model is one stack; encoder-decoders have three", markup=False)
            return
        self.to_stack(stacks[(stacks.index(now) + 1) % len(stacks)])

    def to_stack(self, stack: Stack) -> None:
        """Look at another stack of the model that is open."""
        if self.session is None:
            return
        self.wanted = replace(self.wanted, stack=stack)
        self._opened(self.session.on(stack))
        if stack != "encoder" and self.session.run.decoder_source != "given":
            self.notify(
                f"the decoder reads {texts.DECODER_READS[self.session.run.decoder_source]}; "
                "T gives it another text",
                markup=False,
            )

    def action_flip(self) -> None:
        """Raw to effective and back; where hidden states are shown, rank to similarity."""
        if self.identity.seen:
            self.identity.flip()
            return
        self.state.map = "attention" if self.state.map == "effective" else "effective"
        if self.state.split:
            self.state.beside = "attention" if self.state.map == "effective" else "effective"
        self._changed()

    def action_split(self) -> None:
        """A second map beside the first; for attribution, attention beside it."""
        if self.identity.seen:
            self.notify("token identity stands alone; 1 shows attention", markup=False)
            return
        state = self.state
        if self.attribution.seen:
            self._to_attribution("compare")
            return
        state.split = not state.split
        state.beside = "attention" if state.map == "effective" else "effective"
        state.view = "grid"
        self._show_view()
        self.stage.start_split()
        self._changed()

    def _to_attribution(self, view: View) -> None:
        """To a view of attribution, and back to its grid."""
        if self.session is None:
            return
        if self.state.unit == "word":
            self.action_words()
        self._switch("grid" if self.state.view == view else view)
        self.attribution.changed()
        self.show_detail()

    def action_exact(self) -> None:
        """The exact sweep of attribution."""
        if self.attribution.seen:
            self.attribution.choose_exact(True)
        else:
            self.notify("5 shows attribution; E makes it exact", markup=False)

    def action_variant(self) -> None:
        """Next variant of effective attention, or next method of token identity."""
        if self.identity.seen:
            self.identity.next_method()
            return
        place = VARIANTS.index(self.state.variant) + 1
        self.choose_variant(VARIANTS[place % len(VARIANTS)])

    def choose_variant(self, variant: Variant) -> None:
        """Another variant of effective attention."""
        self.state.variant = variant
        self.heads.forget()
        self.notify(f"variant {variant}", markup=False)
        self._changed()

    def action_zoom(self, step: int) -> None:
        """Nearer or farther."""
        if self.identity.seen:
            self.identity.zoom(step)
            return
        if self.attribution.in_layers:
            self.attribution.body.set_zoom(step)
            return
        self.stage.zoom(step)
        self._align()
        self.heads.ask_map()

    def action_statistic(self) -> None:
        """Next statistic of the panes."""
        self.state.statistic = (self.state.statistic + 1) % len(STATISTICS)
        self.show_panes()

    def action_sort(self) -> None:
        """Sort the heads by the statistic, or by number."""
        self.state.sorted = not self.state.sorted
        order = f"by {STATISTICS[self.state.statistic].title}" if self.state.sorted else "by number"
        self.notify(f"heads {order}", markup=False)
        self.show_panes()

    def _switch(self, view: View) -> None:
        self.state.view = view
        self._show_view()
        self.show_lines()
        self.stage.main(self.state).focus()

    def action_mosaic(self) -> None:
        """All heads at once, and back; of token identity, all layers against all."""
        if self.session is None:
            return
        if self.identity.seen:
            self._switch("identity" if self.state.view == "transfer" else "transfer")
            self.identity.ask()
            self.show_detail()
            return
        if self.attribution.seen:
            self._to_attribution("own")
            return
        if self.state.view == "mosaic":
            self._switch("grid")
            return
        self.stage.wall.body.stand_on(self.state.layer, self.state.head)
        self._switch("mosaic")

    def action_open_here(self) -> None:
        """Open the head under the mosaic's cursor."""
        if self.state.view == "mosaic":
            layer, head = self.stage.wall.body.cursor
            self._switch("grid")
            self.go(layer, head)

    def action_text_view(self) -> None:
        """The text by row, then by column, then the grid again."""
        if self.session is None:
            return
        state = self.state
        if self.identity.seen:
            state.along = "query" if state.view == "text" else "layer"
            self._switch("identity" if state.view == "text" else "text")
            self.stage.reading.body.set_labels(self.token_labels, 0)
            self.identity.ask()
        elif state.view != "text":
            state.along = "query"
            self._switch("text")
            self.stage.set_labels_of_text(state)
        elif state.along == "query":
            state.along = "key"
            self.stage.set_labels_of_text(state)
        else:
            self._switch("grid")
        self.show_sentence()

    def action_words(self) -> None:
        """Words or tokens; the cursor stays on its word."""
        if self.session is None:
            return
        if self.in_layers:
            self.notify("hidden states belong to tokens, not to words", markup=False)
            return
        run, state = self.session.run, self.state
        to_words = state.unit == "token"
        state.unit = "word" if to_words else "token"
        cursor = []
        for place, tokens in zip(self.grid.cursor, (run.tokens, run.key_tokens), strict=True):
            numbers = [token.word for token in tokens]
            cursor.append(numbers[place] if to_words else numbers.index(place))
        self._relabel()
        self.grid.move_to(cursor[0], cursor[1], notify=False)
        self._align()
        self.show_detail()

    def action_labels(self) -> None:
        """Readable, raw or ids."""
        place = LABEL_MODES.index(self.state.labels) + 1
        self.state.labels = LABEL_MODES[place % len(LABEL_MODES)]
        self.notify(f"labels: {self.state.labels}", markup=False)
        self._relabel()

    def action_without_special(self) -> None:
        """Leave special tokens and the sink out of the colour scale; the numbers stay."""
        if self.in_layers:
            self.notify("i chooses whether special tokens are counted", markup=False)
            return
        self.state.without_special = not self.state.without_special
        self._changed()

    def action_colours(self) -> None:
        """Next colour map."""
        place = COLOUR_MAPS.index(self.look.colours) + 1
        self.look = replace(self.look, colours=COLOUR_MAPS[place % len(COLOUR_MAPS)])
        self.notify(f"colours: {self.look.colours.name}", markup=False)
        self.stage.recolour(self.look, self.heads.summaries)
        self.show_panes()

    # --- asking the person -----------------------------------------------------------------------

    @property
    def _dialogs(self) -> ModuleType:
        """The dialogs, imported when the first one opens: the first frame does without them."""
        from tui_attn.tui import dialogs

        return dialogs

    def action_ask(self, what: str) -> None:
        """Open a dialog by the name of its function."""
        getattr(self._dialogs, what)(self)

    def action_find_again(self, step: int) -> None:
        """Next or previous hit."""
        self._dialogs.find_again(self, step)

    def ask_export(self, request: ExportRequested) -> None:
        """Write a file on a thread."""
        self._started = time.monotonic()
        self._exporting.ask(request)

    def _exported(self, request: ExportRequested, command: str) -> None:
        self.show_detail()
        path = visible(str(request.path))
        self.notify(visible(command), title=f"wrote {path}", timeout=8, markup=False)

    # --- doing -----------------------------------------------------------------------------------

    def action_copy_row(self) -> None:
        """Send the cursor's row to the terminal's clipboard, as key, token and value."""
        lines = self.part.copied() if self.in_layers else self.heads.copied()
        text = "\n".join(lines)
        if not lines or len(text.encode()) > _CLIPBOARD_LIMIT:
            self.notify("the row is too long for a clipboard: export it with e", markup=False)
            return
        self.app.copy_to_clipboard(text)
        self.notify(f"{len(lines)} cells sent to the terminal's clipboard", markup=False)

    def action_cancel(self) -> None:
        """Stop what runs, or go back to the grid; never quit."""
        running = [lane for lane in (self._opening, self._exporting) if lane.busy]
        if running:
            for lane in running:
                lane.cancel()
        elif self.attribution.stop():
            self.attribution.show_title()
        elif self.state.view == "transfer" or self.state.along == "layer":
            self.state.along = "query"
            self._switch("identity")
        elif self.state.view != "grid":
            self._switch("grid")
            self._changed()
        elif self.heads.stop():
            self.notify("stopped", markup=False)
