"""Token identity on the screen: what it asks for, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tui_attn.answers import FloatArray
from tui_attn.answers.identity import (
    CANDIDATES,
    MATCHES,
    METRICS,
    TARGETS,
    IdentityChoices,
    IdentityWindow,
    ProbeInfo,
    Rate,
    Transfer,
    at_hand,
    choose,
)
from tui_attn.errors import InspectError
from tui_attn.maps import get
from tui_attn.render import cells, ranks
from tui_attn.render.scale import Scale
from tui_attn.selection import layer_name
from tui_attn.tui.jobs import Done, Lane
from tui_attn.tui.parts import identity_told as told
from tui_attn.tui.parts.identity_requests import (
    RatesRequest,
    RowsRequest,
    TransferRequest,
    compute_rates,
    compute_rows,
    compute_transfer,
)
from tui_attn.tui.state import numbered
from tui_attn.tui.widgets.layers import LayerGrid, Rows

if TYPE_CHECKING:
    from tui_attn.tui.screens.choices import Choice
    from tui_attn.tui.screens.main import MainScreen


class IdentityPart:
    """The views `identity` and `transfer` of the main screen.

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
        self.choices = choose()
        self.by_rank = True
        self.window: IdentityWindow | None = None
        self.tokens: tuple[int, ...] = ()
        self.probes: tuple[ProbeInfo, ...] | None = None
        self.rates: dict[IdentityChoices, tuple[Rate, ...]] = {}
        self._rows = Lane(screen, "identity", with_session(compute_rows), unexpected)
        self._rates = Lane(screen, "rates", with_session(compute_rates), unexpected)
        self._transfer = Lane(screen, "transfer", with_session(compute_transfer), unexpected)

    @property
    def lanes(self) -> list[Lane[Any, Any]]:
        """Everything that may be running."""
        return [self._rows, self._rates, self._transfer]

    @property
    def grid(self) -> LayerGrid:
        """Tokens by layers."""
        return self._screen.stage.depth.body

    @property
    def matrix(self) -> LayerGrid:
        """Layers by layers."""
        return self._screen.stage.transfer.body

    @property
    def token(self) -> int:
        """Position of the cursor's token."""
        return self.tokens[self.grid.cursor[0]] if self.tokens else 0

    @property
    def seen(self) -> bool:
        """Whether one of the two views is on the screen."""
        view, along = self._screen.state.view, self._screen.state.along
        return view in ("identity", "transfer") or (view == "text" and along == "layer")

    # --- asking ----------------------------------------------------------------------------------

    def opened(self) -> None:
        """Another model or text: everything belongs to the old one."""
        self.window, self.probes = None, None
        self.rates.clear()

    def relabel(self) -> None:
        """Other labels, or other tokens that are counted."""
        session = self._screen.session
        if session is None:
            return
        names = [layer_name(layer) for layer in session.identity.layers]
        self.tokens = session.identity.tokens(self.choices.special)
        labels = self._screen.token_labels
        self.window = None
        self.grid.set_axes(numbered(labels, self.tokens), names)
        self.matrix.set_axes(names, names)

    def enter(self) -> None:
        """The view comes on the screen; a probe that was made meanwhile is found."""
        if not self._rates.busy:
            self.probes = None
        self.go_to_token(self._screen.grid.cursor[0])
        self.grid.move_to(self.grid.cursor[0], self._screen.state.layer + 1)
        self.ask()

    def ask(self) -> None:
        """Ask for whatever the views still lack."""
        screen = self._screen
        if not self.seen or not screen.ready:
            return
        self._show_titles()
        if not self.tokens:
            self.grid.say("the text has only special tokens; i counts them too.")
            return
        if screen.state.view == "transfer":
            self._ask_transfer()
        else:
            self.ask_rows()
        self._ask_rates()

    def ask_rows(self) -> None:
        """Ask for the rows on the screen."""
        if self.seen and self._screen.ready and self.tokens:
            rows = self.grid.wanted()
            if self._screen.state.view == "text":
                rows = (0, len(self.tokens))
            self._rows.ask(RowsRequest(self._screen.run_number, rows, self.choices), supersede=True)

    def _ask_rates(self) -> None:
        run = self._screen.run_number
        if self.probes is None:
            self._rates.ask(RatesRequest(run, None))
            return
        missing = [choices for choices in self._methods() if choices not in self.rates]
        if missing:
            self._rates.ask(RatesRequest(run, missing[0]))

    def _ask_transfer(self) -> None:
        if self.choices.probe is None:
            self.matrix.say(
                "transfer between layers needs a trained map: V chooses one, and "
                "attn-inspect probe fit makes one."
            )
            return
        self._transfer.ask(TransferRequest(self._screen.run_number, self.choices), supersede=True)

    def _methods(self) -> list[IdentityChoices]:
        """The methods under the grid: the one above first, each by the metric of its loss."""
        known = [
            choices
            for choices in at_hand(replace(self.choices, probe=None), self.probes or ())
            if choices.metric == choose(probe=choices.probe).metric
            and (choices.match == self.choices.match or choices.probe is None)
        ]
        return list(dict.fromkeys([self.choices, *known]))

    # --- answers ---------------------------------------------------------------------------------

    def done(self, message: Done) -> bool:
        """Take an answer of one of the lanes; whether it was one."""
        request, answer = message.request, message.answer
        if not isinstance(request, RowsRequest | RatesRequest | TransferRequest):
            return False
        if message.cancelled or getattr(request, "run", None) != self._screen.run_number:
            return True
        if message.error is not None:
            self._failed(request, message.error)
        elif isinstance(request, RowsRequest):
            if request.choices == self.choices:
                self.window = answer  # type: ignore[assignment]
                self._show_rows(request.rows[0])
        elif isinstance(request, TransferRequest):
            if request.choices == self.choices:
                self._show_transfer(answer)  # type: ignore[arg-type]
        else:
            if request.choices is None:
                self.probes = answer  # type: ignore[assignment]
            else:
                self.rates[request.choices] = answer  # type: ignore[assignment]
                self._show_rates()
            if self.seen:
                self._ask_rates()
        return True

    def _failed(self, request: object, error: InspectError) -> None:
        """In the place of the numbers: a choice away from being mended."""
        if isinstance(request, RatesRequest) and request.choices != self.choices:
            if request.choices is not None:  # a method that this text does not allow
                self.rates[request.choices] = ()
                self._ask_rates()
            return
        view = self.matrix if isinstance(request, TransferRequest) else self.grid
        view.say(str(error))
        self._screen.show_detail()

    # --- showing ---------------------------------------------------------------------------------

    def _show_titles(self) -> None:
        stage, title = self._screen.stage, f" {get('identity').title}"
        colour = f"colour {'rank' if self.by_rank else 'cosine'} "
        made = f"{title} · {told.short(self.choices)}"
        stage.depth.title.show(made, colour)
        stage.transfer.title.show(made, "down trained at, across tested at ")
        if self._screen.state.view == "text":
            where = f"{title} at {self._column_name()} · {told.short(self.choices)}"
            stage.reading.title.show(where, colour)

    def _values(self, window: IdentityWindow) -> tuple[FloatArray, Scale]:
        if self.by_rank:
            return ranks.positions(window), ranks.SHARES
        return window.cosine, ranks.cosine_scale(window)

    def _show_rows(self, first: int) -> None:
        window = self.window
        if window is None:
            return
        values, scale = self._values(window)
        texts = [
            [ranks.cell(window, row, column) for column in range(len(window.layers))]
            for row in range(len(window.tokens))
        ]
        self.grid.show(Rows(first, values, texts, scale))
        self.show_sentence()
        self._screen.show_detail()

    def show_sentence(self) -> None:
        """Colour the text by the column of one layer."""
        state, window = self._screen.state, self.window
        if state.view != "text" or state.along != "layer" or window is None:
            return
        values, scale = self._values(window)
        column = dict(zip(window.tokens, values[:, self.grid.cursor[1]].tolist(), strict=True))
        self._screen.stage.reading.body.show(column, scale, self.tokens[self.grid.cursor[0]])

    def _show_rates(self) -> None:
        lines: list[tuple[str, list[str]]] = []
        layers = self._screen.session.identity.layers if self._screen.session else ()
        for choices in self._methods():
            found = {rate.layer: rate.rate for rate in self.rates.get(choices, ())}
            if found:
                texts = [told.share(found[layer]) if layer in found else "" for layer in layers]
                by_id = " by id" if choices.match == "id" else ""
                l2 = " l2" if choices.metric == "l2" and not choices.method.endswith("l2") else ""
                lines.append((f"{choices.method}{l2}{by_id}", texts))
        self.grid.show_under(lines)

    def _show_transfer(self, moved: Transfer) -> None:
        texts = [[told.share(rate) for rate in row] for row in moved.rates.tolist()]
        self.matrix.show(Rows(0, moved.rates, texts, ranks.SHARES))
        self._screen.show_detail()

    def detail(self) -> tuple[Text, Text]:
        """The detail line: one token at one layer, or one map at another layer."""
        if self._screen.state.view == "transfer":
            names = [layer_name(layer) for layer in self._layers()]
            return told.transfer(self.choices, names, self.matrix.rows, self.matrix.cursor)
        place = self._place()
        if self.window is None or place is None:
            return Text(), Text()
        label = self._name(self._screen.token_labels[self.token])
        label = f"{label} {self._screen.note(self.token, unit='token')}".rstrip()
        line = told.token(self.window, place, self.grid.cursor[1], label, self._name)
        return line, told.rate(self.rates.get(self.choices, ()), self._layer())

    def _place(self) -> int | None:
        """The row of the cursor's token in the window that is here."""
        window = self.window
        if not self.tokens or window is None or self.token not in window.tokens:
            return None
        return window.tokens.index(self.token)

    def copied(self) -> list[str]:
        """The cursor's row as lines of text: layer, rank, cosine, nearest."""
        place = self._place()
        return [] if self.window is None or place is None else told.row(self.window, place)

    # --- choosing --------------------------------------------------------------------------------

    def options(self) -> list[Choice]:
        """What the dialog of the key `i` offers."""
        from tui_attn.tui.screens.choices import Choice

        now = self.choices
        return [
            Choice("method", now.method, self._method_names(), self.choose_method),
            Choice("target", now.target, TARGETS, lambda value: self._choose(target=value)),
            Choice("candidates", now.candidates, CANDIDATES, self._choose_candidates),
            Choice("match", now.match, MATCHES, lambda value: self._choose(match=value)),
            Choice("metric", now.metric, METRICS, lambda value: self._choose(metric=value)),
            Choice(
                "special tokens",
                "counted" if now.special else "not counted",
                ("not counted", "counted"),
                lambda value: self._choose(special=value == "counted"),
            ),
            Choice(
                "colour",
                "rank" if self.by_rank else "cosine",
                ("rank", "cosine"),
                lambda value: self.flip(),
            ),
        ]

    def _method_names(self) -> tuple[str, ...]:
        """`naive`, and the probes for the target."""
        known = [probe for probe in self.probes or () if probe.target == self.choices.target]
        return ("naive", *(probe.method for probe in known))

    def choose_method(self, name: str) -> None:
        """Search naively, or through a probe and by the metric of its loss."""
        probe = None if name == "naive" else name
        self._choose(probe=probe, metric=choose(probe=probe).metric)

    def next_method(self) -> None:
        """The next of the methods at hand."""
        names = self._method_names()
        if len(names) == 1:
            self._screen.notify(
                "no probe for this model and target; attn-inspect probe fit makes them",
                markup=False,
            )
            return
        now = self.choices.method
        place = names.index(now) if now in names else 0
        self.choose_method(names[(place + 1) % len(names)])

    def flip(self) -> None:
        """Colour by rank, or by similarity."""
        self.by_rank = not self.by_rank
        self._show_titles()
        if self.grid.rows is not None:
            self._show_rows(self.grid.rows.first)

    def _choose_candidates(self, value: str) -> None:
        if value == "vocabulary":  # it has words and ids, but no positions
            self._choose(candidates=value, target="word", match="id")
        else:
            self._choose(candidates=value)

    def _choose(self, **changes: Any) -> None:  # noqa: ANN401 - fields of the choices
        """Other choices; what contradicts them gives way."""
        wanted = {**vars(self.choices), **changes}
        if "candidates" not in changes and (wanted["target"], wanted["match"]) != ("word", "id"):
            wanted["candidates"] = "text"
        if changes.get("target", wanted["target"]) != self.choices.target:
            wanted["probe"] = None  # it was trained for the other target
        self.choices = IdentityChoices(**wanted)
        if "special" in changes:
            self.relabel()
        self.window = None
        self.grid.rows, self.grid.message = None, ""
        self._show_rates()
        self._screen.show_detail()
        self.ask()

    # --- moving ----------------------------------------------------------------------------------

    def go_to_token(self, token: int) -> None:
        """Put the cursor on a token, or on the nearest one that is counted."""
        if self.tokens:
            row = min(range(len(self.tokens)), key=lambda row: abs(self.tokens[row] - token))
            self.grid.move_to(row, self.grid.cursor[1])

    def move_layer(self, step: int) -> None:
        """Previous or next layer."""
        view = self.matrix if self._screen.state.view == "transfer" else self.grid
        view.move(0, step)
        self._show_titles()

    def zoom(self, step: int) -> None:
        """Nearer or farther."""
        for view in (self.grid, self.matrix):
            view.set_zoom(step)

    # --- names -----------------------------------------------------------------------------------

    def _layers(self) -> tuple[str, ...]:
        return self._screen.session.identity.layers if self._screen.session else ()

    def _layer(self) -> str:
        return self._layers()[self.grid.cursor[1]]

    def _column_name(self) -> str:
        return layer_name(self._layer())

    def _name(self, label: str) -> str:
        return cells.fit(label, 12, ascii=self._screen.look.ascii).rstrip()
