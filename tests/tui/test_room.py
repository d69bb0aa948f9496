"""A text that does not fit into memory: a question with cheaper ways, never a crash."""

from __future__ import annotations

import pytest
from textual.widgets import TextArea

from tests.fakes import FakeSession
from tests.tui.conftest import TEXT, Start, main, settle
from tui_attn.answers import ModelRequest
from tui_attn.answers.memory import MemoryPlan, Need
from tui_attn.config import Settings
from tui_attn.tui.app import InspectApp
from tui_attn.tui.screens.menu import Menu

GIB = 2**30
PLAN = MemoryPlan(
    12,
    "cuda:0",
    {"device": Need(20 * GIB), "host": Need(3 * GIB, 4 * GIB), "recompute": Need(5 * GIB)},
    Need(6 * GIB, 10 * GIB),
)


def text_of(menu: Menu) -> str:
    return "\n".join(str(part.render()) for part in menu.query("Static"))


@pytest.mark.parametrize(
    "keys,keep,status",
    [
        (("enter",), "host", "layers on the host"),
        (("2",), "recompute", "layers recomputed"),
        (("j", "enter"), "recompute", "layers recomputed"),
        (("k", "enter"), "device", "sdpa"),
    ],
)
async def test_one_key_takes_a_cheaper_way(
    start: Start, keys: tuple[str, ...], keep: str, status: str
) -> None:
    session = FakeSession()
    async with start(session, size=(120, 30)) as pilot:
        session.short_of_memory = (PLAN, ("device", "host", "recompute"))
        await pilot.press("t", "!", "enter")
        await settle(pilot)
        menu = pilot.app.screen
        assert isinstance(menu, Menu)
        told = text_of(menu)
        assert "12 tokens need about 20 GiB on cuda:0, and 6 GiB are free." in told
        assert "about 3 GiB, 4 GiB of host memory" in told
        await pilot.press(*keys)
        await settle(pilot)
        assert session.run.keep == keep
        assert status in str(main(pilot).query_one("#status").render())


async def test_escape_keeps_the_old_text(start: Start) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        session.short_of_memory = (PLAN, ())
        await pilot.press("t", "!", "enter")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert session.run.text == TEXT
        await pilot.press("]")
        await settle(pilot)
        assert main(pilot).state.head == 1


async def test_a_way_that_runs_out_too_is_not_offered_again(start: Start) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        session.short_of_memory = (PLAN, ())
        await pilot.press("t", "!", "enter")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        menu = pilot.app.screen
        assert isinstance(menu, Menu)
        told = text_of(menu)
        assert "ran out of memory on cuda:0" in told
        assert "move layers to host memory" not in told
        assert "cut the text to 6 tokens" in told


async def test_a_model_whose_first_text_does_not_fit_is_not_loaded_twice() -> None:
    session, loads = FakeSession(), []
    session.short_of_memory = (PLAN, ("recompute",))

    def load(request, job):
        loads.append(request)
        return session

    app = InspectApp(ModelRequest(), TEXT, Settings(colour="256"), load)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, Menu)
        await pilot.press("2")
        await settle(pilot)
        assert main(pilot).session is session
        assert len(loads) == 1
        session.short_of_memory = None
        await pilot.press("o", "enter")  # who opens a model again gets it read again
        await settle(pilot)
        assert len(loads) == 2


async def test_a_text_that_the_model_does_not_take_is_cut_by_one_key(start: Start) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        session.limit = 10
        await pilot.press("t", "!", "enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Menu)
        told = text_of(pilot.app.screen)
        assert "the text has 20 tokens and the model takes 10." in told
        assert "cut it to 10 tokens" in told and "the last 10 are left out" in told
        assert session.run.text == TEXT
        await pilot.press("1")
        await settle(pilot)
        assert len(session.run.tokens) == 10
        assert "10 tokens of 20" in str(main(pilot).query_one("#status").render())


async def test_a_text_that_is_too_long_can_be_edited_instead(start: Start) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        session.limit = 10
        await pilot.press("t", "!", "enter")
        await settle(pilot)
        await pilot.press("2")
        await settle(pilot)
        field = pilot.app.screen.query_one(TextArea)
        assert field.text == f"{TEXT}!"
        field.text = "the cat"
        await pilot.press("enter")
        await settle(pilot)
        assert session.run.text == "the cat"


async def test_the_first_text_may_be_too_long() -> None:
    session = FakeSession()
    session.limit = 10
    app = InspectApp(ModelRequest(), TEXT, Settings(colour="256"), lambda request, job: session)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, Menu)
        await pilot.press("enter")
        await settle(pilot)
        assert main(pilot).grid.length == 10
