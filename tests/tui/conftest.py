"""The app over a session with fixed numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.fakes import FakeSession
from tui_attn.answers import ModelRequest
from tui_attn.config import Settings
from tui_attn.tui.app import InspectApp
from tui_attn.tui.screens.main import MainScreen

TEXT = "the cat sat on the mat and then the other cat sat on another mat while it rained"

Start = Callable[..., "asynccontextmanager[AsyncIterator[Pilot[int]]]"]


def main(pilot: Pilot[int]) -> MainScreen:
    screen = pilot.app.get_default_screen()
    assert isinstance(screen, MainScreen)
    return screen


async def settle(pilot: Pilot[int]) -> None:
    """Until nothing computes and everything is drawn."""
    for _ in range(500):
        await pilot.pause()
        lanes = main(pilot).lanes
        if not any(lane.busy for lane in lanes):
            await pilot.pause()
            if not any(lane.busy for lane in lanes):
                return
        await pilot.pause(0.01)
    raise AssertionError("the app does not settle")


def make_app(
    session: FakeSession | None = None, text: str = TEXT, settings: Settings | None = None
) -> InspectApp:
    made = session or FakeSession()
    return InspectApp(
        ModelRequest(), text, settings or Settings(colour="256"), lambda request, job: made
    )


@pytest.fixture
def start() -> Start:
    """Start the app, wait until it is ready, and hand over the pilot."""

    @asynccontextmanager
    async def starting(
        session: FakeSession | None = None,
        size: tuple[int, int] = (80, 24),
        text: str = TEXT,
        settings: Settings | None = None,
    ) -> AsyncIterator[Pilot[int]]:
        async with make_app(session, text, settings).run_test(size=size) as pilot:
            await settle(pilot)
            yield pilot

    return starting


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Exports land in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
