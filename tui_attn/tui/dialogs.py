"""What the main screen asks a person: where to go, what to find, which text, model and file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tui_attn.answers import VARIANTS, Inspector, ModelRequest, Variant
from tui_attn.answers.memory import Keep, MemoryPlan, TooLarge, size
from tui_attn.answers.runs import TooLong
from tui_attn.errors import ExitCode, InspectError
from tui_attn.export import (
    FORMATS,
    ExportRequest,
    attention_layers,
    check_places,
    format_of,
)
from tui_attn.maps import MAPS, get
from tui_attn.places import recent_models
from tui_attn.render.cells import visible
from tui_attn.selection import Selection, Span, parse
from tui_attn.tui import state
from tui_attn.tui.requests import ExportRequested, OpenRequest
from tui_attn.tui.screens.choices import Choice, Choices
from tui_attn.tui.screens.forms import EditText, Field, Form
from tui_attn.tui.screens.menu import Answer, Menu
from tui_attn.tui.screens.pages import ErrorPage, Help

if TYPE_CHECKING:
    from tui_attn.tui.screens.main import MainScreen


def goto(screen: MainScreen) -> None:
    """Ask where to go."""

    def submit(values: dict[str, str]) -> None:
        wanted, model, grid = parse(values["where"]), _session(screen).model, screen.grid
        if screen.identity.seen:
            _goto_layer(screen, wanted)
            return
        now = screen.state
        layer = now.layer
        if not wanted.layers.everything:
            layer = attention_layers(model, wanted.layers)[0]
        head = _first(wanted.heads, model.heads, "head", now.head)
        query = _first(
            wanted.queries, grid.length, "query", grid.cursor[0], screen.segments("query")
        )
        key = _first(wanted.keys, grid.width, "key", grid.cursor[1], screen.segments("key"))
        screen.go(layer, head)
        grid.move_to(query, key)

    screen.app.push_screen(Form("Go to", [Field("where", "", "L5H3 q=12 k=3")], submit))


def _goto_layer(screen: MainScreen, wanted: Selection) -> None:
    layers = len(_session(screen).identity.layers) - 1
    row, column = screen.identity.grid.cursor
    if wanted.layers.names_emb:
        column = 0
    else:
        column = 1 + _first(wanted.layers, layers, "layer", column - 1)
    screen.identity.grid.move_to(row, column)
    if not wanted.queries.everything:
        segments = [token.segment for token in _session(screen).run.tokens]
        chosen = wanted.queries.resolve(len(segments), "query", segments)
        screen.identity.go_to_token(chosen[0])


def choices(screen: MainScreen) -> None:
    """Choose what changes the numbers of what is shown."""
    if screen.session is None:
        screen.notify("no model is open", markup=False)
        return
    if screen.identity.seen:
        screen.app.push_screen(Choices("Token identity", screen.identity.options))
        return
    if screen.attribution.seen:
        screen.app.push_screen(Choices("Hidden token attribution", screen.attribution.options))
        return

    def lines() -> list[Choice]:
        def take(value: str) -> None:
            screen.choose_variant(cast("Variant", value))

        return [Choice("variant", screen.state.variant, VARIANTS, take)]

    screen.app.push_screen(Choices("Effective and null attention", lines))


def _first(span: Span, count: int, what: str, now: int, segments: Sequence[int] = ()) -> int:
    return now if span.everything else span.resolve(count, what, segments)[0]


def find(screen: MainScreen) -> None:
    """Ask for a token and go to the next one."""

    def submit(values: dict[str, str]) -> None:
        screen.state.needle = values["token"]
        _find_from(screen, 1)

    screen.app.push_screen(Form("Find a token", [Field("token", screen.state.needle)], submit))


def find_again(screen: MainScreen, step: int) -> None:
    """Next or previous hit."""
    try:
        _find_from(screen, step)
    except InspectError as error:
        screen.notify(str(error), markup=False)


def _find_from(screen: MainScreen, step: int) -> None:
    needle, (query, key) = screen.state.needle, screen.grid.cursor
    labels = screen.labels
    if screen.identity.seen:
        labels, query = screen.token_labels, screen.identity.token
    if not needle:
        raise InspectError("there is nothing to find", "give a part of a token", ExitCode.USAGE)
    hit = state.find(labels, needle, query, step)
    other = None if screen.identity.seen or hit is not None else screen.key_labels
    found = None if other is None else state.find(other, needle, key, step)
    if found is not None:  # cross attention: only the text that is looked at has it
        screen.grid.move_to(query, found)
        return
    if hit is None:
        raise InspectError(f"no token contains {visible(needle)}", "find another", ExitCode.USAGE)
    if screen.identity.seen:
        screen.identity.go_to_token(hit)
    else:
        screen.grid.move_to(hit, key)


def edit_text(screen: MainScreen, text: str | None = None) -> None:
    """Edit the text and run it; a model that is open stays warm.

    Args:
        screen: Where it is shown.
        text: What there is to edit; None: the text on the screen.
    """

    def submit(text: str) -> None:
        _run(screen, replace(screen.wanted, text=text))

    if text is None:
        text = screen.wanted.text if screen.session is None else screen.session.run.text
    screen.app.push_screen(EditText("Text", text, submit))


def edit_decoder_text(screen: MainScreen) -> None:
    """Edit what an encoder-decoder's decoder reads; the model writes it where it is empty."""
    if screen.session is None or screen.session.run.decoder_text is None:
        screen.notify("this model has no decoder that reads a text of its own", markup=False)
        return

    def submit(text: str) -> None:
        _run(screen, replace(screen.wanted, decoder_text=text if text.strip() else None))

    title = "What the decoder reads; empty: what the model itself writes"
    screen.app.push_screen(EditText(title, screen.session.run.decoder_text, submit))


def _run(screen: MainScreen, wanted: OpenRequest) -> None:
    """Run a text through the model, which stays warm."""
    screen.wanted = wanted
    screen.ask_open(wanted if screen.session is None else replace(wanted, model=None))


def open_model(screen: MainScreen) -> None:
    """Ask for another model."""
    old = screen.wanted.model or ModelRequest()

    def submit(values: dict[str, str]) -> None:
        model = replace(old, name=values["model"].strip() or None, revision=None)
        screen.wanted = replace(screen.wanted, model=model, decoder_text=None, stack=None)
        screen.ask_open(screen.wanted)

    hint = "a hub name, a folder or a GGUF file; empty: the demo"
    field = Field("model", old.name or "", hint, recent_models())
    screen.app.push_screen(Form("Open a model", [field], submit))


def export(screen: MainScreen) -> None:
    """Ask what to export, and where to."""
    if screen.session is None:
        screen.notify("no model is open", markup=False)
        return
    if screen.identity.seen:
        _export_identity(screen)
        return
    if screen.attribution.seen:
        _export_attribution(screen)
        return
    now = screen.state
    if now.view == "mosaic":
        shown, selection, name = "heads", Selection(), "heads.svg"
    else:
        shown = now.map
        selection = Selection(Span(str(now.layer)), Span(str(now.head)))
        name = f"{now.map}-L{now.layer}H{now.head}.csv"
    fields = [
        Field("map", shown, ", ".join(MAPS)),
        Field("select", str(selection), "L5H3 q=12 k=0:20; empty: everything"),
        Field("variant", now.variant, ", ".join(VARIANTS)),
        *_file_fields(name),
    ]

    def submit(values: dict[str, str]) -> None:
        if values["variant"] not in VARIANTS:
            raise InspectError(
                "there is no such variant", f"choose one of {', '.join(VARIANTS)}", ExitCode.USAGE
            )
        request = ExportRequest(
            values["map"].strip(), parse(values["select"]), variant=values["variant"]
        )
        screen.ask_export(_export_of(values, request))

    screen.app.push_screen(Form("Export", fields, submit))


def _export_identity(screen: MainScreen) -> None:
    now = screen.identity.choices
    summaries = get("identity").summaries
    shown = "transfer" if screen.state.view == "transfer" else ""
    fields = [
        Field("summary", shown, f"{' or '.join(summaries)}; empty: the map"),
        Field("select", "", "L5 q=0:20; empty: everything"),
        *_file_fields(f"identity-{shown or now.method.rpartition('/')[2]}.csv"),
    ]

    def submit(values: dict[str, str]) -> None:
        request = ExportRequest(
            "identity",
            parse(values["select"]),
            summary=values["summary"].strip() or None,
            identity=now,
        )
        screen.ask_export(_export_of(values, request))

    screen.app.push_screen(Form(f"Export token identity: {now}", fields, submit))


def _export_attribution(screen: MainScreen) -> None:
    now = screen.attribution.shown
    if now is None:
        screen.notify("there are no numbers yet", markup=False)
        return
    shown = "own" if screen.state.view == "own" else ""
    fields = [
        Field("summary", shown, f"{', '.join(get('attribution').summaries)}; empty: the map"),
        Field("select", "" if shown else f"L{screen.state.layer}", "L5 q=0:20; empty: everything"),
        *_file_fields(f"attribution-{shown or f'L{screen.state.layer}'}.csv"),
    ]

    def submit(values: dict[str, str]) -> None:
        request = ExportRequest(
            "attribution",
            parse(values["select"]),
            summary=values["summary"].strip() or None,
            attribution=now,
        )
        screen.ask_export(_export_of(values, request))

    screen.app.push_screen(Form(f"Export attribution: {now}", fields, submit))


def _file_fields(name: str) -> list[Field]:
    return [
        Field("file", name, " ".join(FORMATS)),
        Field("replace", "no", "yes replaces a file that exists"),
    ]


def _export_of(values: dict[str, str], request: ExportRequest) -> ExportRequested:
    path = Path(values["file"]).expanduser()
    form, force = format_of(path), values["replace"].strip().lower() in ("y", "yes")
    try:
        check_places(path, form, force=force)
    except InspectError as error:
        hint = "write yes under replace to replace it, or give another file"
        raise InspectError(error.title, hint, error.code) from error
    return ExportRequested(replace(request, format=form), path, force)


def show_help(screen: MainScreen) -> None:
    """Show every key."""
    screen.app.push_screen(Help())


def show_error(
    screen: MainScreen, error: InspectError, log: Path | None, retry: Callable[[], None] | None
) -> None:
    """Show what went wrong and what to do."""
    screen.app.push_screen(ErrorPage(error, log, retry))


def ask_for_room(screen: MainScreen, request: OpenRequest, error: TooLarge) -> None:
    """Ask how a text that does not fit shall be run."""
    plan, tried = error.plan, error.tried

    def take(**changes: object) -> Callable[[], None]:
        return lambda: screen.ask_open(replace(request, **changes))  # type: ignore[arg-type]

    answers = [
        Answer(_WAYS[keep], _needs(plan, keep), take(keep=keep))
        for keep in plan.needs
        if keep not in ("device", tried) and plan.fits(keep)
    ]
    shorter = min(plan.longest, plan.tokens // 2 if tried else plan.tokens)
    if 0 < shorter < plan.tokens:
        meaning = f"of {plan.tokens:,}, the rest is left out"
        cut = take(max_tokens=shorter, keep="recompute")
        answers.append(Answer(f"cut the text to {shorter:,} tokens", meaning, cut))
    answers.append(
        Answer("try it all the same", _needs(plan, tried or "device"), take(keep=tried or "device"))
    )
    screen.app.push_screen(Menu(f"{error.title}.", answers))


def ask_to_cut(screen: MainScreen, request: OpenRequest, error: TooLong) -> None:
    """Ask whether a text that the model does not take shall be cut."""

    def cut() -> None:
        screen.ask_open(replace(request, max_tokens=error.limit))

    left_out = f"the last {error.tokens - error.limit:,} are left out"
    answers = [
        Answer(f"cut it to {error.limit:,} tokens", left_out, cut),
        Answer("edit the text", "and run it again", lambda: edit_text(screen, request.text)),
    ]
    screen.app.push_screen(Menu(f"{error.title}.", answers))


_WAYS: dict[Keep, str] = {
    "host": "move layers to host memory",
    "recompute": "compute a layer again when it is looked at",
}


def _needs(plan: MemoryPlan, keep: Keep) -> str:
    need = plan.needs[keep]
    on_host = f", {size(need.host)} of host memory" if need.host else ""
    return f"about {size(need.device)}{on_host}"


def _session(screen: MainScreen) -> Inspector:
    if screen.session is None:
        raise InspectError("no model is open", "open one with o", ExitCode.NO_MODEL)
    return screen.session
