"""Pictures of the main screens; look at the report before you accept a change."""

from __future__ import annotations

import pytest

from tests.fakes import FakeSession
from tests.tui.conftest import make_app, settle
from tui_attn.config import Settings

SMALL, LARGE = (80, 24), (200, 50)


@pytest.mark.parametrize(
    "size,keys",
    [
        (SMALL, ""),
        (LARGE, ""),
        (LARGE, "s,j,l,l"),
        (SMALL, "m"),
        (SMALL, "2,v,right"),
        (LARGE, "3,-"),
        (SMALL, "question_mark"),
        (SMALL, "e"),
        (SMALL, "4"),
        (LARGE, "4,V,j,l"),
        (SMALL, "4,V,m"),
        (SMALL, "4,i,j"),
        (SMALL, "5"),
        (LARGE, "5,}"),
        (SMALL, "5,m"),
        (SMALL, "5,j,s"),
    ],
    ids=[
        "main-80",
        "main-200",
        "split-200",
        "mosaic-80",
        "text-80",
        "blocks-200",
        "help",
        "export",
        "identity-80",
        "identity-200",
        "transfer",
        "choices",
        "attribution-80",
        "attribution-200",
        "own-shares",
        "compare",
    ],
)
def test_screens(snap_compare, size: tuple[int, int], keys: str) -> None:
    async def press(pilot) -> None:
        await settle(pilot)
        for key in filter(None, keys.split(",")):
            await pilot.press(key)
            await settle(pilot)

    assert snap_compare(make_app(FakeSession(6, 12)), terminal_size=size, run_before=press)


def test_without_colour(snap_compare) -> None:
    async def press(pilot) -> None:
        await settle(pilot)
        await pilot.press("2", "-")
        await settle(pilot)

    app = make_app(settings=Settings(colour="none"))
    assert snap_compare(app, terminal_size=SMALL, run_before=press)
