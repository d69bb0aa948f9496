"""Opening the screen: a terminal to draw on, keys to read, and a session behind it."""

from __future__ import annotations

import gc
import os
import sys

from tui_attn import logs
from tui_attn.answers import Inspector, ModelRequest
from tui_attn.config import Settings
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model.source import resolve
from tui_attn.places import Place
from tui_attn.progress import Job


def screen(
    request: ModelRequest,
    text: str | None,
    pair: str | None,
    settings: Settings,
    place: Place | None = None,
) -> int:
    """Open the screen, at `place` where there is one.

    Raises:
        InspectError: There is no terminal (exit code 2).
    """
    _need_terminal()
    log = logs.start(settings.debug)
    gc.disable()  # importing makes many objects and no garbage: a fifth of the time to a frame
    from tui_attn.tui.app import run_app

    gc.enable()

    def open_session(request: ModelRequest, job: Job) -> Inspector:
        resolve(request)  # a wrong name fails before torch is imported
        job.report("loading torch and transformers")
        from tui_attn.session import open_session as open_real_session

        return open_real_session(request, job, tolerance=settings.tolerance)

    return run_app(request, text, settings, open_session, pair=pair, log=log, place=place)


def _need_terminal() -> None:
    hint = "use `attn-inspect export` for tables without a screen, or ssh -t"
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise InspectError("this terminal cannot draw a screen (TERM)", hint, ExitCode.USAGE)
    # Textual draws on standard error; a table is what people want who redirect standard output.
    if not all(stream and stream.isatty() for stream in (sys.__stdout__, sys.__stderr__)):
        raise InspectError("there is no terminal to draw on", hint, ExitCode.USAGE)
    if not sys.stdin or not sys.stdin.isatty():
        # The text came through standard input: keys come from the terminal itself.
        try:
            terminal = os.open("/dev/tty", os.O_RDONLY)
        except OSError as error:
            raise InspectError(
                "there is no terminal to read keys from", hint, ExitCode.USAGE
            ) from error
        os.dup2(terminal, 0)
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
