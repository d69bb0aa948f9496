"""The command line: its options, the environment that libraries read, errors -> exit codes.

Nothing heavy is imported before it is known that a model or a screen is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tui_attn import options
from tui_attn.answers import ModelRequest
from tui_attn.answers.attribution import PROBES, AttributionChoices
from tui_attn.answers.identity import DEFAULTS, METHODS, choose
from tui_attn.answers.memory import Keep
from tui_attn.config import COLOUR_MAPS, Colour, Settings
from tui_attn.errors import Cancelled, ExitCode, InspectError

if TYPE_CHECKING:
    from tui_attn.export import ExportRequest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: Without the program's name; None reads them from the process.

    Returns:
        The exit code (`errors.ExitCode`).
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in arguments
    try:
        return _run(arguments)
    except InspectError as error:
        if debug:
            traceback.print_exc()
        _say(str(error))
        return error.code
    except (KeyboardInterrupt, Cancelled):
        _say("interrupted.")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.DONE  # the reader went away (`| head`): nobody is left to tell
    except MemoryError:
        if debug:
            traceback.print_exc()
        _say("there is not enough memory; shorten the text with --max-tokens, or select less.")
        return ExitCode.INPUT
    except Exception as error:
        if debug:
            traceback.print_exc()
        _say(
            f"unexpected error: {type(error).__name__}: {error}; "
            "run again with --debug and report what it prints."
        )
        return ExitCode.UNEXPECTED


def _run(arguments: list[str]) -> int:
    command, chosen = options.read(arguments)
    _set_environment(chosen)
    if command in ("maps", "models", "doctor", "probe list"):
        return _report(command, chosen)
    if command == "probe fit":
        return _fit(chosen)
    if not command and chosen.resume:
        return _resume(chosen)
    from tui_attn.commands.texts import checked, read_text

    text = read_text(chosen.text, chosen.text_file)
    pair = None if chosen.pair is None else checked(chosen.pair)
    request = _model_request(chosen)
    if not command:
        from tui_attn.commands.screen import screen

        return screen(request, text, pair, _settings(chosen))
    from tui_attn.commands import headless

    work = headless.Headless(
        request,
        text,
        pair,
        chosen.max_tokens,
        chosen.tolerance,
        _keep(chosen),
        _decoder_text(chosen),
        chosen.stack,
    )
    to_screen = command == "heads" and chosen.output is None and chosen.format is None
    return headless.export(
        work,
        _export_request(command, chosen),
        "text" if to_screen else chosen.format,
        chosen.output,
        chosen.force,
    )


def _resume(chosen: argparse.Namespace) -> int:
    """The screen as it was left, under the options of this start."""
    from tui_attn import places
    from tui_attn.commands.screen import screen

    given = (chosen.model, chosen.text, chosen.text_file, chosen.pair, chosen.decoder_text)
    if any(word is not None for word in given):
        raise InspectError(
            "--resume brings its own model and text",
            "leave them out, or leave out --resume",
            ExitCode.USAGE,
        )
    place = places.last()
    request = replace(
        place.request,
        offline=place.request.offline or chosen.offline,
        trust_remote_code=chosen.trust_remote_code,
        allow_pickle=chosen.allow_pickle,
    )
    settings = _settings(chosen)
    settings = replace(
        settings,
        max_tokens=settings.max_tokens or place.max_tokens,
        keep=settings.keep or place.keep,
        decoder_text=place.decoder_text,
        stack=settings.stack or place.stack,
    )
    return screen(request, place.text, place.pair, settings, place)


def _export_request(command: str, chosen: argparse.Namespace) -> ExportRequest:
    """What is exported, in a format that is settled later."""
    from tui_attn.commands.headless import selection
    from tui_attn.export import ExportRequest

    picked = selection(chosen.select, chosen.layer, chosen.head)
    if command == "heads":
        return ExportRequest("heads", picked, variant=chosen.variant)
    identity = choose(
        chosen.target,
        chosen.candidates,
        chosen.match,
        chosen.special,
        chosen.metric,
        chosen.probe,
    )
    if chosen.map != "identity" and identity != DEFAULTS:
        raise InspectError(
            f"the map {chosen.map!r} has none of the choices of token identity",
            "use them with --map identity",
            ExitCode.USAGE,
        )
    return ExportRequest(
        chosen.map,
        picked,
        variant=chosen.variant,
        summary=chosen.summary,
        identity=identity,
        attribution=_attribution(chosen),
    )


def _attribution(chosen: argparse.Namespace) -> AttributionChoices:
    if chosen.exact and (chosen.probes is not None or chosen.seed is not None):
        raise InspectError(
            "an exact computation has no probes and no seed",
            "leave out --exact, or --probes and --seed",
            ExitCode.USAGE,
        )
    made = AttributionChoices(
        chosen.exact, chosen.probes or PROBES, chosen.seed or 0, chosen.norm or "frobenius"
    )
    given = (chosen.exact, chosen.probes, chosen.seed, chosen.norm) != (False, None, None, None)
    if chosen.map != "attribution" and given:
        raise InspectError(
            f"the map {chosen.map!r} has none of the choices of attribution",
            "use them with --map attribution",
            ExitCode.USAGE,
        )
    return made


def _fit(chosen: argparse.Namespace) -> int:
    from tui_attn.commands import probe
    from tui_attn.probes.recipe import Recipe

    methods = METHODS if chosen.method in (None, "all") else tuple(chosen.method.split(","))
    recipe = Recipe(
        methods=methods,
        target=chosen.target,
        tokens=chosen.tokens,
        seed=chosen.seed,
        learning_rate=chosen.learning_rate,
        epochs=chosen.epochs,
    )
    return probe.fit(_model_request(chosen), chosen.corpus, chosen.field, recipe, chosen.force)


def _report(command: str, chosen: argparse.Namespace) -> int:
    from tui_attn.commands import reports
    from tui_attn.commands.streams import standard_output

    with standard_output():
        if command == "maps":
            return reports.maps()
        if command == "probe list":
            from tui_attn.commands import probe

            return probe.listing()
        if command == "models":
            return reports.models()
        return reports.families() if chosen.families else reports.doctor(chosen.device)


def _model_request(chosen: argparse.Namespace) -> ModelRequest:
    return ModelRequest(
        name=chosen.model,
        device=chosen.device,
        dtype=chosen.dtype,
        revision=chosen.revision,
        offline=chosen.offline or _is_true("HF_HUB_OFFLINE"),
        trust_remote_code=chosen.trust_remote_code,
        allow_pickle=chosen.allow_pickle,
        device_map=chosen.device_map,
        max_memory=chosen.max_memory,
    )


def _settings(chosen: argparse.Namespace) -> Settings:
    return Settings(
        variant=chosen.variant,
        max_tokens=chosen.max_tokens,
        keep=_keep(chosen),
        decoder_text=_decoder_text(chosen),
        stack=chosen.stack,
        tolerance=chosen.tolerance,
        colour=_colour(chosen.colour),
        colour_map=chosen.color_map or COLOUR_MAPS[0],
        ascii=chosen.ascii,
        mouse=not chosen.no_mouse,
        debug=chosen.debug,
    )


def _decoder_text(chosen: argparse.Namespace) -> str | None:
    from tui_attn.commands.texts import checked

    return None if chosen.decoder_text is None else checked(chosen.decoder_text)


def _keep(chosen: argparse.Namespace) -> Keep | None:
    return None if chosen.keep == "auto" else chosen.keep


def _colour(choice: Colour) -> Colour:
    """`auto` as the environment says: SSH forwards no COLORTERM, so 256 is the usual case."""
    if choice != "auto":
        return choice
    if os.environ.get("NO_COLOR"):  # any value at all (no-color.org)
        return "none"
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    term = os.environ.get("TERM", "")
    known = ("256color", "kitty", "alacritty", "foot", "wezterm", "ghostty", "direct")
    return "256" if any(name in term for name in known) else "16"


def _set_environment(chosen: argparse.Namespace) -> None:
    """What libraries read when they are imported; so before any of them is."""
    if chosen.colour not in ("auto", "none"):
        os.environ.pop("NO_COLOR", None)  # what is typed wins over the environment
    if chosen.offline:
        os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    systems = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": "standard"}
    os.environ["TEXTUAL_COLOR_SYSTEM"] = systems[_colour(chosen.colour)]
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    os.environ["TEXTUAL_FPS"] = "240"  # half the wait between a key and its frame


def _is_true(name: str) -> bool:
    """As the hub's own library reads its variables."""
    return os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")


def _say(sentence: str) -> None:
    from tui_attn.commands.streams import say  # costs rich, which --help does without

    say(sentence)
