"""A screen that went away comes back as it was."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from tests.fakes import FakeSession
from tests.tui.conftest import TEXT, main, make_app, settle
from tui_attn import places
from tui_attn.answers import ModelRequest
from tui_attn.config import Settings
from tui_attn.places import Place
from tui_attn.tui.app import InspectApp
from tui_attn.tui.screens import main as screens

pytestmark = pytest.mark.usefixtures("at_once")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "_REMEMBERING", 0.02)


def again(place: Place, session: FakeSession | None = None) -> InspectApp:
    made = session or FakeSession()
    return InspectApp(place.request, place.text, Settings(), lambda request, job: made, place=place)


async def saved(pilot, **wanted: object) -> Place:
    for _ in range(200):
        await pilot.pause(0.02)
        try:
            place = places.last()
        except places.InspectError:
            continue
        if all(getattr(place, name) == value for name, value in wanted.items()):
            return place
    raise AssertionError(f"nothing was saved with {wanted}")


@pytest.mark.parametrize(
    "keys,map_name,where",
    [
        ("} ] ] 2 j j l", "effective", "L1H2 q=2 k=1"),
        ("3 G end", "null", "L0H0 q=18 k=18"),
        ("} 4", "identity", "L1H0 q=0 k=0"),
    ],
)
async def test_where_a_person_was_is_where_the_next_screen_opens(
    keys: str, map_name: str, where: str
) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        last = str(main(pilot).grid.length - 1)
        await pilot.press(*keys.split())
        place = await saved(pilot, map=map_name, where=where.replace("18", last))
    assert place.text == TEXT
    async with again(place).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        screen = main(pilot)
        assert screen.identity.seen == (map_name == "identity")
        assert screen.identity.seen or screen.state.map == map_name
        assert f"L{screen.state.layer}H{screen.state.head}" == where[:4]
        assert screen.identity.seen or "q={} k={}".format(*screen.grid.cursor) in place.where


@pytest.mark.parametrize("where", ["L99H99 q=999 k=0", "", "rubbish", "L5"])
async def test_a_place_that_is_no_longer_there_is_left_out(where: str) -> None:
    place = Place(ModelRequest(), TEXT, map="no such map", where=where)
    async with again(place).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        screen = main(pilot)
        assert (screen.state.layer, screen.state.head, screen.grid.cursor) == (0, 0, (0, 0))
        assert len(pilot.app.screen_stack) == 1


async def test_another_text_is_remembered_and_models_are_offered() -> None:
    places.save(Place(ModelRequest("org/one"), "x"))
    async with make_app().run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("t", "Z", "enter")
        await settle(pilot)
        await saved(pilot, text=f"{TEXT}Z")
        await pilot.press("o", *"org")
        await pilot.pause(0.1)
        await pilot.press("right")
        assert pilot.app.screen.query_one(Input).value == "org/one"
