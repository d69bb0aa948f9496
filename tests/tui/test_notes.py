"""What the detail line knows of a token beside its label, and labels of any characters."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from tests.fakes import FakeSession
from tests.model import tiny
from tests.tui.conftest import Start, main, settle
from tui_attn.model import tokens
from tui_attn.render.cells import width
from tui_attn.tui.widgets.lines import Line

BYTES = tiny.byte_level_tokenizer()


def reading(text: str, pair: str | None = None) -> FakeSession:
    """A session whose text is spelled in bytes, whatever it is asked for."""
    session = FakeSession()
    encoded = tokens.encode(BYTES, text, pair=pair)
    analyse = session.analyse

    def spelled(*args: object, **kwargs: object) -> object:
        session.run = replace(analyse(*args, **kwargs), tokens=encoded.tokens, pair=pair)
        return session.run

    session.analyse = spelled
    return session


def detail(pilot: Pilot[int]) -> str:
    return main(pilot).query_one("#detail", Line).text


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_a_part_of_a_character_says_which_of_what(start: Start, size) -> None:
    async with start(reading("a💩\x1b"), size=size) as pilot:
        await pilot.press("j", "j", "l")
        await settle(pilot)
        assert "query 2 ⟨9f⟩ 2/4 of 💩 → key 1 ⟨f0⟩ 1/4 of 💩" in detail(pilot)
        await pilot.press("home", "G")
        await settle(pilot)
        assert "query 5 ␛ → key 0 a  raw" in detail(pilot)
        await pilot.press("w")
        await settle(pilot)
        assert "💩" in main(pilot).labels[-2] + main(pilot).labels[-1]
        assert "/4" not in detail(pilot)


async def test_parts_are_told_in_every_map(start: Start) -> None:
    async with start(reading("a💩"), size=(120, 30)) as pilot:
        await pilot.press("j", "j", "4")
        await settle(pilot)
        main(pilot).identity.go_to_token(2)
        await settle(pilot)
        assert "⟨9f⟩ 2/4 of 💩 at" in detail(pilot)
        await pilot.press("5")
        await settle(pilot)
        assert "⟨9f⟩ 2/4 of 💩" in detail(pilot)


async def test_segments_are_named_and_gone_to(start: Start) -> None:
    async with start(reading("ab", "cd"), size=(120, 30)) as pilot:
        await settle(pilot)
        assert "query 0 a A → key 0 a A" in detail(pilot)
        await pilot.press(":", *"q=A k=B", "enter")
        await settle(pilot)
        assert "query 0 a A → key 2 c B" in detail(pilot)
    async with start(reading("ab"), size=(120, 30)) as pilot:
        await settle(pilot)
        assert "query 0 a → key" in detail(pilot)


async def test_labels_of_any_characters_keep_the_grid_aligned(start: Start) -> None:
    """One token for every 1009th character there is, and for the ones that terminals trip over."""
    characters = [chr(code) for code in range(0, 0x110000, 1009)]
    nasty = [
        "👨\u200d👩\u200d👧",
        "🇳🇱",
        "⚠\ufe0f",
        "中文字",
        "e\u0301\u0302\u0303\u0304",
        "\u202eabc",
    ]
    async with start(FakeSession(1, 1, words=[*nasty, *characters]), size=(100, 40)) as pilot:
        grid = main(pilot).grid
        for zoom in ("numbers", "blocks", "half", "fit"):
            grid.set_zoom(zoom)
            for query in range(0, grid.length, 30):
                grid.move_to(query, query)
                lines = [grid.render_line(y) for y in range(grid.size.height)]
                assert {line.cell_length for line in lines} == {grid.size.width}
                shown = "".join(line.text for line in lines)
                assert {unicodedata.category(sign)[0] for sign in shown} <= set("LMNPSZ")
                assert all(width(line.text) == grid.size.width for line in lines)
