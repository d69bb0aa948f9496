"""The options of every command, and how a command line is read into them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tui_attn import defaults
from tui_attn.answers import DEVICE_MAPS, STACKS, VARIANTS
from tui_attn.answers.attribution import NORMS, PROBES
from tui_attn.answers.identity import CANDIDATES, MATCHES, METHODS, METRICS, TARGETS
from tui_attn.answers.memory import KEEPS
from tui_attn.config import COLOUR_MAPS
from tui_attn.errors import ExitCode, InspectError

COMMANDS = ("export", "heads", "probe fit", "probe list", "maps", "models", "doctor")
_WITHOUT_MODEL = ("probe list", "maps", "models", "doctor")
_USAGES = {
    "": "[MODEL] [TEXT] ",
    "export": "[MODEL] [TEXT] --map MAP ",
    "heads": "[MODEL] [TEXT] ",
    "probe fit": "[MODEL] ",
}
_DESCRIPTION = "Look inside transformer attention from a terminal."
_EPILOG = """\
commands (attn-inspect COMMAND --help says more):
  export      write a map as a table or a picture
  heads       one line of statistics for every head
  probe fit   train maps from hidden states back to their tokens
  probe list  the trained maps on this machine
  maps        the maps, their formulas and sources
  models      models found on this machine
  doctor      versions, devices, colours: what a bug report needs

Defaults: ATTN_INSPECT_COLOR=256, or color = "256" in attn-inspect/config.toml below the
XDG config folder; so for every option that is not about one model, text or export.
Without a command the screen opens. A model with the name of a command: write ./export.
Exit codes: 0 done, 1 unexpected error, 2 wrong usage, 3 no model, 4 model not supported,
5 input empty, too long or out of memory, 6 output cannot be written, 130 interrupted."""

_Add = Callable[..., argparse.Action]


def read(arguments: list[str]) -> tuple[str, argparse.Namespace]:
    """The command (empty for the screen) and its options.

    Raises:
        InspectError: Wrong usage (exit code 2).
    """
    command = _command(arguments)
    parser = _parser(command)
    parser.set_defaults(**_defaults())
    options = _parse(parser, arguments[len(command.split()) :])
    first_words = {name.split()[0] for name in COMMANDS}
    if not command and options.model in first_words:
        raise InspectError(
            f"the command {options.model} comes first",
            f"write attn-inspect {options.model} and the options after it",
            ExitCode.USAGE,
        )
    return command, options


def _defaults() -> dict[str, object]:
    """What the person's file and the environment say, by the names of `argparse.Namespace`.

    Raises:
        InspectError: Something there is wrong; the sentence says where (exit code 2).
    """
    found: dict[str, object] = {}
    for source, name, value in defaults.given():
        word = f"--{name}" if value is True else f"--{name}={value}"
        try:
            options = _parser("").parse_args([word])
        except InspectError as error:
            raise InspectError(f"{source}: {error.title}", "mend it there", error.code) from error
        where = "colour" if name == "color" else name.replace("-", "_")
        found[where] = getattr(options, where)
    return found


def _command(arguments: list[str]) -> str:
    for length in (2, 1):
        command = " ".join(arguments[:length])
        if command in COMMANDS:
            return command
    if arguments[:1] == ["probe"] and not {"-h", "--help"} & set(arguments):
        raise InspectError(
            "the command probe needs a second word", "write probe fit or probe list", ExitCode.USAGE
        )
    return ""


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


def _parser(command: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"attn-inspect {command}".rstrip(),
        usage=f"%(prog)s {_USAGES.get(command, '')}[options]",
        description=_DESCRIPTION,
        epilog=None if command else _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(colour="auto")
    add = parser.add_argument
    add("--debug", action="store_true", help="show tracebacks")
    if command in _WITHOUT_MODEL:
        parser.set_defaults(offline=True)
        if command == "doctor":
            _device(add)
            add("--families", action="store_true", help="list the supported model families")
        return parser
    _model(add)
    if command == "probe fit":
        _recipe(add)
        return parser
    _text(add)
    if not command:
        _screen(add)
        return parser
    if command == "export":
        add(
            "--map",
            required=True,
            help="attention, effective, null, identity, attribution or heads",
        )
        add("--summary", metavar="S", help="a table that sums the map up: rates, own, …")
        _identity(parser)
        _attribution(parser)
    _export(add)
    return parser


def _device(add: _Add) -> None:
    add("--device", default="auto", help="auto (a GPU where there is one), cpu, cuda, cuda:N, mps")


def _model(add: _Add) -> None:
    add(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a hub name, a folder or a GGUF file; none: the demo",
    )
    _device(add)
    add(
        "--device-map",
        choices=DEVICE_MAPS,
        help="spread the model over all GPUs, host memory and disk, as accelerate does",
    )
    add("--max-memory", metavar="M", help="limits for that, for example 0=20GiB,cpu=60GiB")
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"))
    add("--revision", help="branch, tag or commit of a model on the hub")
    add("--offline", action="store_true", help="never open a socket")
    add("--trust-remote-code", action="store_true", help="run Python code that the model brings")
    add("--allow-pickle", action="store_true", help="read weights that can run code")


def _text(add: _Add) -> None:
    add(
        "text", nargs="?", metavar="TEXT", help="the text; - reads standard input; none: the demo's"
    )
    add("--text-file", metavar="F", help="read the text from a file (- for standard input)")
    add("--pair", metavar="TEXT", help="a second text, for models that read two")
    add("--decoder-text", metavar="TEXT", help="what the decoder reads (what the model writes)")
    add("--stack", choices=STACKS, help="of an encoder-decoder (encoder)")
    add("--max-tokens", type=_positive, metavar="N", help="cut the text to N tokens")
    add(
        "--keep",
        default="auto",
        choices=("auto", *KEEPS),
        help="where layers stay: on the device, in host memory, or computed again when looked at",
    )
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


def _screen(add: _Add) -> None:
    add("--color-map", choices=COLOUR_MAPS, help="the first one of the key c")
    add("--resume", action="store_true", help="go on where the last screen was left")
    add("--version", action=_Version, nargs=0, help="print the version and leave")


def _export(add: _Add) -> None:
    add("--layer", default=None, metavar="N|all", help="which layer (from 0; emb where it counts)")
    add("--head", default=None, metavar="N|all", help="which head (from 0)")
    add("--select", metavar="S", help="which numbers, for example 'L5H3 q=12 k=0:20'")
    add("-o", "--output", metavar="FILE", help="write to a file instead of standard output")
    add("--format", metavar="F", help="csv, tsv, json, npz, md, tex, html or svg")
    add("--force", action="store_true", help="replace a file that exists")


def _identity(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("for --map identity").add_argument
    add("--target", choices=TARGETS, help="what hidden states are compared with (embedding)")
    add("--candidates", choices=CANDIDATES, help="what they could be taken for (text)")
    add("--match", choices=MATCHES, help="a token is found at its position, or by its id")
    add("--special", action="store_true", help="count special tokens too")
    add("--metric", choices=METRICS, help="which candidate is nearest (the probe's own, or cosine)")
    add("--probe", metavar="P", help=f"recover by a trained map: {', '.join(METHODS)} or its file")


def _attribution(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("for --map attribution").add_argument
    add("--exact", action="store_true", help="all tangents, not an estimate")
    add("--probes", type=_positive, metavar="K", help=f"random tangents an input ({PROBES})")
    add("--seed", type=_whole, metavar="S", help="of the random tangents (0)")
    add("--norm", choices=NORMS, help="of the Jacobians (frobenius); ones needs --exact")


def _recipe(add: _Add) -> None:
    add(
        "--corpus",
        metavar="FILE",
        help="a text file, a folder of them or a .jsonl file; none: English prose of Python itself",
    )
    add("--field", metavar="NAME", help="the field of a .jsonl line that holds its text")
    add("--method", metavar="M", help=f"some of {','.join(METHODS)} (all)")
    add("--target", default="embedding", choices=("embedding", "word"), help="what is recovered")
    add("--tokens", type=_positive, default=20_000, metavar="N", help="use N tokens (20000)")
    add("--seed", type=_whole, default=0, metavar="N", help="of the split and the training (0)")
    add(
        "--learning-rate",
        type=_rate,
        default=1e-4,
        metavar="R",
        help="Adam's (0.0001), or search: the best of seven by the validation sentences",
    )
    add("--epochs", type=_positive, default=1000, metavar="N", help="at most N epochs (1000)")
    add("--force", action="store_true", help="train anew what is there already")


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


def _whole(text: str) -> int:
    return 0 if text == "0" else _positive(text)


def _rate(text: str) -> float | None:
    return None if text == "search" else _fraction(text)
