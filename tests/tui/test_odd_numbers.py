"""What is no number, and queries without a key, on the screen."""

from __future__ import annotations

import math
from dataclasses import replace

from textual.pilot import Pilot

from tests.fakes import FakeSession
from tests.tui.conftest import Start, main, settle
from tui_attn.answers import Cell, Run, Window
from tui_attn.tui.widgets.lines import Line


class _Odd(FakeSession):
    """Query 2 sees no key; of query 3 the first cells are NaN and infinities."""

    def window(self, *args: object, **kwargs: object) -> Window:
        found = super().window(*args, **kwargs)
        values, visible = found.values.copy(), found.visible.copy()
        for row in range(*found.rows):
            if row == 2:
                values[row - found.rows[0]], visible[row - found.rows[0]] = math.nan, False
        if found.rows[0] <= 3 < found.rows[1] and found.columns == (0, self.length()):
            values[3 - found.rows[0], :3] = [math.nan, math.inf, -math.inf]
        blind = (2,) if found.rows[0] <= 2 < found.rows[1] else ()
        return replace(found, values=values, visible=visible, blind=blind)

    def cell(self, layer: int, head: int, query: int, key: int, **kwargs: object) -> Cell:
        found = super().cell(layer, head, query, key, **kwargs)
        return replace(found, visible_keys=0, visible=False) if query == 2 else found


def _lines(pilot: Pilot[int]) -> list[str]:
    grid = main(pilot).grid
    return [grid.render_line(y).text for y in range(grid.size.height)]


async def test_a_row_without_a_key_and_odd_numbers_are_marked_everywhere(start: Start) -> None:
    async with start(_Odd()) as pilot:
        blind, odd = _lines(pilot)[2 + 2], _lines(pilot)[2 + 3]
        assert blind.startswith("∅ ")
        assert "0" not in blind and "–" in blind
        assert odd[9:21] == " NaN inf-inf"
        assert main(pilot).grid.scale.high < 10
        await pilot.press("j", "j")
        await settle(pilot)
        detail = main(pilot).query_one("#detail", Line).text
        assert "sees no key" in detail and "0.000" not in detail and "id yes" not in detail
        await pilot.press("j")
        await settle(pilot)
        assert "sees no key" not in main(pilot).query_one("#detail", Line).text
        await pilot.press("-")
        await settle(pilot)
        assert _lines(pilot)[5 + 2].startswith("∅ ")
        assert "?" in _lines(pilot)[5 + 3]


async def test_what_is_no_number_is_counted_in_the_status_line(start: Start) -> None:
    session = FakeSession()
    analyse = session.analyse

    def with_nan(*args: object, **kwargs: object) -> Run:
        session.run = replace(analyse(*args, **kwargs), nan_count=12, inf_count=3)
        return session.run

    session.analyse = with_nan
    async with start(session) as pilot:
        assert main(pilot).query_one("#status", Line).text.startswith("attn-inspect  12 NaN  3 inf")
