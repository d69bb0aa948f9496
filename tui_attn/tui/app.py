"""The application: theme, colour depth, and the main screen."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from tui_attn import demo
from tui_attn.answers import Inspector, ModelRequest
from tui_attn.config import Settings
from tui_attn.errors import ExitCode
from tui_attn.places import Place
from tui_attn.progress import Job
from tui_attn.render.grid import Look
from tui_attn.render.palette import COLOUR_MAPS
from tui_attn.tui.keys import ACTIONS
from tui_attn.tui.screens.main import MainScreen

OpenSession = Callable[[ModelRequest, Job], Inspector]


class InspectApp(App[int]):
    """attn-inspect on the screen.

    Args:
        request: The model to open.
        text: The text to run; None takes the demo's.
        settings: What the command line decided.
        open_session: Opens a model; slow, called on a worker's thread.
        pair: A second text.
        log: Where the log is written.
        place: Where to go as soon as the text is there.
    """

    TITLE = "attn-inspect"
    CSS_PATH = "styles/app.tcss"
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        request: ModelRequest,
        text: str | None,
        settings: Settings,
        open_session: OpenSession,
        *,
        pair: str | None = None,
        log: Path | None = None,
        place: Place | None = None,
    ) -> None:
        super().__init__(ansi_color=settings.colour in ("none", "16"))
        self.animation_level = "none"
        look = Look(
            colour=settings.colour not in ("none", "16"),
            ascii=settings.ascii,
            colours=next(one for one in COLOUR_MAPS if one.name == settings.colour_map),
        )
        self.theme = "textual-dark" if look.colour else "ansi-dark"
        self.main_screen = MainScreen(
            request,
            demo.TEXT if text is None else text,
            pair,
            settings,
            look,
            open_session,
            log,
            place,
        )

    def get_default_screen(self) -> MainScreen:
        """The one screen that everything else lies on."""
        return self.main_screen

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action of the registry."""
        for action in ACTIONS:
            if action.group == "Move" or action.call == "command_palette":
                continue
            call = f"app.{action.call}" if action.call == "quit" else action.call

            async def run(call: str = call) -> None:
                await self.run_action(call, self.main_screen)

            yield SystemCommand(action.help, f"key {action.shown}", run)


def run_app(
    request: ModelRequest,
    text: str | None,
    settings: Settings,
    open_session: OpenSession,
    *,
    pair: str | None = None,
    log: Path | None = None,
    place: Place | None = None,
) -> int:
    """Open the screen and stay until the person quits.

    Returns:
        The exit code.
    """
    app = InspectApp(request, text, settings, open_session, pair=pair, log=log, place=place)
    app.run(mouse=settings.mouse)
    code = app.return_code or ExitCode.DONE
    stopped = [lane.stop(seconds=1.0) for lane in app.main_screen.lanes]
    if not all(stopped):
        # Something that cannot be stopped (an import, a download). The terminal is itself again and
        # files are whole: leave without it.
        sys.stdout.flush()
        os._exit(code)
    return code
