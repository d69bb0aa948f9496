"""The command line: its options, the environment that libraries read, errors -> exit codes.

Nothing heavy is imported before it is known that a model or a screen is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from tui_attn.answers import VARIANTS, ModelRequest
from tui_attn.config import Colour, Settings
from tui_attn.errors import Cancelled, ExitCode, InspectError

_COMMANDS = ("export", "heads", "maps", "models", "doctor")
_USAGES = {
    None: "[MODEL] [TEXT] ",
    "export": "[MODEL] [TEXT] --map MAP ",
    "heads": "[MODEL] [TEXT] ",
}
_DESCRIPTION = "Look inside transformer attention from a terminal."
_EPILOG = """\
commands (attn-inspect COMMAND --help says more):
  export    write a map as a table or a picture
  heads     one line of statistics for every head
  maps      the maps, their formulas and sources
  models    models found on this machine
  doctor    versions, devices, colours: what a bug report needs

Without a command the screen opens. A model with the name of a command: write ./export.
Exit codes: 0 done, 1 unexpected error, 2 wrong usage, 3 no model, 4 model not supported,
5 input empty, too long or out of memory, 6 output cannot be written, 130 interrupted."""


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
    command = arguments[0] if arguments and arguments[0] in _COMMANDS else None
    options = _parse(_parser(command), arguments[1:] if command else arguments)
    if command is None and options.model in _COMMANDS:
        raise InspectError(
            f"the command {options.model} comes first",
            f"write attn-inspect {options.model} and the options after it",
            ExitCode.USAGE,
        )
    _set_environment(options)
    if command in ("maps", "models", "doctor"):
        return _report(command, options)
    from tui_attn.commands.texts import checked, read_text

    text = read_text(options.text, options.text_file)
    pair = None if options.pair is None else checked(options.pair)
    request = _model_request(options)
    if command is None:
        from tui_attn.commands.screen import screen

        return screen(request, text, pair, _settings(options))
    from tui_attn.commands import headless

    work = headless.Headless(request, text, pair, options.max_tokens, options.tolerance)
    to_screen = command == "heads" and options.output is None and options.format is None
    return headless.export(
        work,
        "heads" if command == "heads" else options.map,
        headless.selection(options.select, options.layer, options.head),
        "text" if to_screen else options.format,
        options.variant,
        options.output,
        options.force,
    )


def _report(command: str, options: argparse.Namespace) -> int:
    from tui_attn.commands import reports
    from tui_attn.commands.streams import standard_output

    with standard_output():
        if command == "maps":
            return reports.maps()
        return reports.models() if command == "models" else reports.doctor(options.device)


def _parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Read options and MODEL TEXT in any order; what follows `--` is never an option.

    `parse_args` refuses options between two optional words, and `parse_intermixed_args` words
    with a dash after `--`; so those are taken here.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_intermixed_args(arguments[:end])
    for word in arguments[end + 1 :]:
        free = [name for name in ("model", "text") if getattr(options, name, word) is None]
        if not free:
            parser.error(f"unrecognized arguments: {word}")
        setattr(options, free[0], word)
    return options


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"attn-inspect {command}" if command else "attn-inspect",
        usage=f"%(prog)s {_USAGES.get(command, '')}[options]",
        description=_DESCRIPTION,
        epilog=None if command else _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--debug", action="store_true", help="show tracebacks")
    if command in ("maps", "models"):
        parser.set_defaults(colour="auto", offline=True)
        return parser
    add("--device", default="auto", help="auto (a GPU where there is one), cpu, cuda, cuda:N, mps")
    if command == "doctor":
        parser.set_defaults(colour="auto", offline=True)
        return parser
    add(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a hub name, a folder or a GGUF file; none: the demo",
    )
    add(
        "text", nargs="?", metavar="TEXT", help="the text; - reads standard input; none: the demo's"
    )
    add("--text-file", metavar="F", help="read the text from a file (- for standard input)")
    add("--pair", metavar="TEXT", help="a second text, for models that read two")
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"))
    add("--revision", help="branch, tag or commit of a model on the hub")
    add("--offline", action="store_true", help="never open a socket")
    add("--trust-remote-code", action="store_true", help="run Python code that the model brings")
    add("--allow-pickle", action="store_true", help="read weights that can run code")
    add("--max-tokens", type=_positive, metavar="N", help="cut the text to N tokens")
    add("--variant", default="output", choices=VARIANTS, help="which effective attention")
    add(
        "--tolerance",
        type=_fraction,
        metavar="T",
        help="singular values below T x the largest are zero",
    )
    add(
        "--color",
        dest="colour",
        default="auto",
        choices=("auto", "truecolor", "256", "16", "none"),
        help="colour depth of the terminal",
    )
    add("--ascii", action="store_true", help="draw with ASCII only")
    add("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    if command is None:
        add("--version", action=_Version, nargs=0, help="print the version and leave")
        return parser
    if command == "export":
        add("--map", required=True, help="attention, effective, null or heads")
    add("--layer", default=None, metavar="N|all", help="which layer (from 0)")
    add("--head", default=None, metavar="N|all", help="which head (from 0)")
    add("--select", metavar="S", help="which numbers, for example 'L5H3 q=12 k=0:20'")
    add("-o", "--output", metavar="FILE", help="write to a file instead of standard output")
    add("--format", metavar="F", help="csv, tsv, json, npz, md, tex, html or svg")
    add("--force", action="store_true", help="replace a file that exists")
    return parser


class _Version(argparse.Action):
    """Prints the version; reading it costs more than parsing everything else."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        sys.stdout.write(f"attn-inspect {version('attn-inspect')}\n")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """Usage errors are errors like all others: a sentence and exit code 2."""
        raise InspectError(message, f"see {self.prog} --help", ExitCode.USAGE)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return value


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def _model_request(options: argparse.Namespace) -> ModelRequest:
    return ModelRequest(
        name=options.model,
        device=options.device,
        dtype=options.dtype,
        revision=options.revision,
        offline=options.offline or _is_true("HF_HUB_OFFLINE"),
        trust_remote_code=options.trust_remote_code,
        allow_pickle=options.allow_pickle,
    )


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        variant=options.variant,
        max_tokens=options.max_tokens,
        tolerance=options.tolerance,
        colour=_colour(options.colour),
        ascii=options.ascii,
        mouse=not options.no_mouse,
        debug=options.debug,
    )


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


def _set_environment(options: argparse.Namespace) -> None:
    """What libraries read when they are imported; so before any of them is."""
    if options.colour not in ("auto", "none"):
        os.environ.pop("NO_COLOR", None)  # what is typed wins over the environment
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    systems = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": "standard"}
    os.environ["TEXTUAL_COLOR_SYSTEM"] = systems[_colour(options.colour)]
    os.environ["TEXTUAL_ANIMATIONS"] = "none"


def _is_true(name: str) -> bool:
    """As the hub's own library reads its variables."""
    return os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")


def _say(sentence: str) -> None:
    from tui_attn.commands.streams import say  # costs rich, which --help does without

    say(sentence)
