"""`export` and `heads`: data to standard output or a file, words to standard error."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tui_attn import demo
from tui_attn.answers import DecoderSource, Inspector, ModelRequest, Run, Stack
from tui_attn.answers.memory import Keep, TooLarge
from tui_attn.commands.reporter import Reporter
from tui_attn.commands.streams import say, standard_output, tidy_end
from tui_attn.errors import ExitCode, InspectError
from tui_attn.export import ExportRequest, check_places, export_file, export_stream, format_of
from tui_attn.export.attention import table
from tui_attn.maps.sampling import STATISTICS, sampled_rows
from tui_attn.model.source import resolve
from tui_attn.progress import Job
from tui_attn.selection import Selection, Span, parse


@dataclass(frozen=True)
class Headless:
    """A model and a text for a command without a screen."""

    request: ModelRequest
    text: str | None
    pair: str | None
    max_tokens: int | None
    tolerance: float | None
    keep: Keep | None = None
    decoder_text: str | None = None
    stack: Stack | None = None


def selection(select: str | None, layer: str | None, head: str | None) -> Selection:
    """One selection from `--select`, `--layer` and `--head`.

    Raises:
        InspectError: It cannot be read, or the options contradict each other (exit code 2).
    """
    chosen = parse(select or "")
    for option, name, letter in ((layer, "layers", "L"), (head, "heads", "H")):
        if option is None:
            continue
        if not getattr(chosen, name).everything:
            raise InspectError(
                f"both --select and an option name {name}", "give one of them", ExitCode.USAGE
            )
        chosen = replace(chosen, **{name: _span(option, name, letter)})
    return chosen


def _span(option: str, name: str, letter: str) -> Span:
    """The value of `--layer` or `--head`: which of one axis, and nothing of another."""
    try:
        found = parse(f"{letter}{option}")
    except InspectError:
        found = None
    span: Span = getattr(found, name, Span())
    if found != replace(Selection(), **{name: span}):
        raise InspectError(
            f"cannot read --{name[:-1]} {option!r}",
            "give a number, a range 0:3, a list 0,2 or all; --select says the rest",
            ExitCode.USAGE,
        )
    return span


def export(
    headless: Headless,
    request: ExportRequest,
    form: str | None,
    output: str | None,
    force: bool,
) -> int:
    """Write one export.

    Args:
        headless: The model and the text.
        request: What is exported; its format is the one below.
        form: The format; None: as the file's name says; `text`: heads for people.
        output: The file; None: standard output.
        force: Replace a file that exists.

    Raises:
        InspectError: With the exit code of whatever cannot be had.
    """
    path = None if output is None or output == "-" else Path(output).expanduser()
    as_text = form == "text" and request.map == "heads" and path is None
    if form is None or as_text:
        form = "csv" if path is None else format_of(path)
    request = replace(request, format=form)
    resolve(headless.request)  # a wrong name fails before torch is imported
    _refuse_before_the_work(path, form, force)
    with tidy_end(), Reporter() as job:
        session = _open(headless, job)
        if path is not None:
            export_file(session, request, path, force=force, job=job)
        else:
            with standard_output() as stream:
                if as_text:
                    stream.write(_aligned(session, request, job).encode())
                else:
                    export_stream(session, request, stream, job=job)
    shape = (session.length(), session.length(axis="key"))
    rows = sampled_rows(shape[0], STATISTICS, shape[1]) if request.map == "heads" else None
    if rows is not None:
        say(f"the statistics look at {rows} of {shape[0]:,} queries, evenly spread.")
    if request.map == "attribution":
        halved = session.attribution.state(request.attribution).halved
        if halved:
            say(f"memory ran short: the batch of tangents was halved {halved} times.")
    return ExitCode.DONE


def _refuse_before_the_work(path: Path | None, form: str, force: bool) -> None:
    """What is sure to fail fails before a model is loaded."""
    if path is not None:
        check_places(path, form, force=force)
    elif sys.stdout is None:
        raise InspectError("standard output is closed", "add -o FILE", ExitCode.OUTPUT)
    elif form == "npz" and sys.stdout.isatty():
        raise InspectError("npz is not for a terminal", "add -o FILE", ExitCode.USAGE)


def _open(headless: Headless, job: Job) -> Inspector:
    job.report("loading torch and transformers")
    from tui_attn.session import open_session

    session: Inspector = open_session(headless.request, job, tolerance=headless.tolerance)
    if headless.stack is not None:
        session = session.on(headless.stack)
    text = demo.TEXT if headless.text is None else headless.text
    run = _analyse(session, headless, text, job)
    if run.truncated_from is not None:
        say(f"the text was cut from {run.truncated_from} to {run.cut_to} tokens.")
    if session.model.stack in ("decoder", "cross") and run.decoder_source != "given":
        say(
            f"the decoder reads {_DECODER_READS[run.decoder_source]}; --decoder-text gives another."
        )
    for check in run.checks:
        if not check.ok:
            say(f"check failed: {check.name}, {check.error:.1e} {check.note}".rstrip() + ".")
    made = [(run.nan_count, "NaN"), (run.inf_count, "infinities")]
    if any(count for count, _ in made):
        named = " and ".join(f"{count:,} {name}" for count, name in made if count)
        say(f"the model made {named}, which are kept in the export{_remedy(session)}.")
    return session


_DECODER_READS: dict[DecoderSource, str] = {
    "greedy": "what the model itself writes, the likeliest token at every step",
    "copied": "the text itself, since the model cannot write",
}


def _remedy(session: Inspector) -> str:
    half = session.model.dtype == "float16"
    return "; float16 ends at 65,504, try --dtype bfloat16 or float32" if half else ""


def _analyse(session: Inspector, headless: Headless, text: str, job: Job) -> Run:
    """Run the text; where it does not fit, in the quickest way that does."""

    def run(keep: Keep | None) -> Run:
        return session.analyse(
            text,
            pair=headless.pair,
            decoder_text=headless.decoder_text,
            max_tokens=headless.max_tokens,
            keep=keep,
            job=job,
        )

    try:
        return run(headless.keep)
    except TooLarge as error:
        if headless.keep is not None or error.tried is not None or error.plan.best is None:
            raise
        say(f"{error.title}; going on with --keep {error.plan.best}.")
        return run(error.plan.best)


def _aligned(session: Inspector, request: ExportRequest, job: Job) -> str:
    """The head statistics as a text table for people."""
    made = table(session, request, job)
    rows = [list(made.columns)]
    rows += [[_short(value) for value in row] for block in made.blocks for row in block]
    widths = [max(len(row[column]) for row in rows) for column in range(len(made.columns))]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
