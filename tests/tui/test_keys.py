"""Every key of the design does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input, TextArea

from tests.fakes import HOSTILE, FakeSession
from tests.tui.conftest import main, settle
from tui_attn.export import ExportRequest, export_file
from tui_attn.selection import parse
from tui_attn.tui import keys
from tui_attn.tui.screens.forms import Form
from tui_attn.tui.screens.pages import ErrorPage, Help
from tui_attn.tui.widgets.grid import AttentionGrid
from tui_attn.tui.widgets.mosaic import Mosaic
from tui_attn.tui.widgets.panes import Pane

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "pressed,cursor",
    [
        ("right", (5, 6)),
        ("l", (5, 6)),
        ("left", (5, 4)),
        ("h", (5, 4)),
        ("down", (6, 5)),
        ("j", (6, 5)),
        ("up", (4, 5)),
        ("k", (4, 5)),
        ("home", (5, 0)),
        ("end", (5, 19)),
        ("g", (0, 5)),
        ("G", (19, 5)),
        ("pageup", (0, 5)),
        ("pagedown", (19, 5)),
    ],
)
async def test_moving(start, pressed: str, cursor: tuple[int, int]) -> None:
    async with start() as pilot:
        main(pilot).grid.move_to(5, 5)
        await settle(pilot)
        await pilot.press(pressed)
        await settle(pilot)
        assert main(pilot).grid.cursor == cursor
        detail = main(pilot).query_one("#detail").text
        assert detail.startswith(f"query {cursor[0]} ")
        expected = main(pilot).session.cell(0, 0, *cursor).raw
        assert f"raw {expected:.3f}" in detail


async def test_heads_and_layers(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        seen = []
        for key in ("]", "]", "}", "[", "{", "{"):
            await pilot.press(key)
            await settle(pilot)
            seen.append((screen.state.layer, screen.state.head))
            window = screen.grid.window
            assert (window.layer, window.head) == seen[-1]
            assert f"L{seen[-1][0]} H{seen[-1][1]}" in screen.stage.maps[0].title.text
        assert seen == [(0, 1), (0, 2), (1, 2), (1, 1), (0, 1), (0, 1)]


async def test_panes_have_the_focus_in_turn_and_change_the_map_at_once(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        assert isinstance(screen.focused, AttentionGrid)
        await pilot.press("tab")
        assert screen.focused.id == "layers"
        await pilot.press("j")
        await settle(pilot)
        assert (screen.state.layer, screen.grid.window.layer) == (1, 1)
        await pilot.press("tab", "down", "down")
        await settle(pilot)
        assert screen.focused.id == "heads"
        assert (screen.state.head, screen.grid.window.head) == (2, 2)
        await pilot.press("shift+tab", "k")
        await settle(pilot)
        assert screen.state.layer == 0


async def test_maps_by_number_and_flip(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        shown = []
        for key in ("2", "3", "1", "space", "space"):
            await pilot.press(key)
            await settle(pilot)
            shown.append(screen.grid.window.map)
            assert screen.grid.scale.signed == (shown[-1] != "attention")
        assert shown == ["effective", "null", "attention", "effective", "attention"]
        for key in "6789":
            await pilot.press(key)
        await settle(pilot)
        assert screen.grid.window.map == "attention"
        await pilot.press("5")
        await settle(pilot)
        assert screen.grid.window.map == "attribution"


async def test_split_shares_cursor_and_scale(start) -> None:
    async with start(size=(140, 40)) as pilot:
        screen = main(pilot)
        await pilot.press("s")
        await settle(pilot)
        first, second = (view.body for view in screen.stage.maps)
        assert (first.window.map, second.window.map) == ("attention", "effective")
        assert first.scale == second.scale
        assert second.display
        await pilot.press("j", "l", "l")
        await settle(pilot)
        assert first.cursor == second.cursor == (1, 2)
        second.focus()
        await pilot.press("j")
        await settle(pilot)
        assert first.cursor == second.cursor
        await pilot.press("space")
        await settle(pilot)
        assert (first.window.map, second.window.map) == ("effective", "attention")
        await pilot.press("s")
        assert not screen.stage.maps[1].display


async def test_mosaic_opens_a_head(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        await pilot.press("m")
        await settle(pilot)
        wall = screen.query_one(Mosaic)
        assert wall.display
        assert len(wall._tiles) == 24
        await pilot.press("down", "right", "l", "enter")
        await settle(pilot)
        assert (screen.state.layer, screen.state.head) == (1, 2)
        assert screen.state.view == "grid"
        assert screen.grid.window.head == 2
        await pilot.press("m", "m")
        assert screen.state.view == "grid"


async def test_zoom_walks_from_numbers_to_the_whole_map(start) -> None:
    async with start(FakeSession(length=200)) as pilot:
        screen = main(pilot)
        zooms = []
        for _ in range(4):
            await pilot.press("-")
            await settle(pilot)
            zooms.append(screen.grid.zoom)
        assert zooms == ["blocks", "half", "fit", "fit"]
        assert "pooled" in screen.stage.maps[0].title.text
        await pilot.press("+", "+", "+")
        await settle(pilot)
        assert screen.grid.zoom == "numbers"


async def test_text_view_by_row_then_by_column(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        await pilot.press("v")
        await settle(pilot)
        sentence = screen.stage.reading.body
        assert sentence.display
        await pilot.press("right", "right")
        await settle(pilot)
        assert screen.grid.cursor == (2, 0)
        window = screen.grid.window
        assert sentence._values[3] == window.values[2, 3]
        await pilot.press("v", "right")
        await settle(pilot)
        assert screen.grid.cursor == (2, 1)
        assert sentence._values[3] == window.values[3, 1]
        await pilot.press("v")
        assert screen.state.view == "grid"


async def test_goto(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        await pilot.press("colon", *"L2H3 q=12 k=-1", "enter")
        await settle(pilot)
        assert (screen.state.layer, screen.state.head, screen.grid.cursor) == (2, 3, (12, 19))


@pytest.mark.parametrize("wrong", ["L99", "q=1000", "nonsense", "H-9"])
async def test_goto_says_what_is_wrong_and_stays_open(start, wrong: str) -> None:
    async with start() as pilot:
        await pilot.press("colon", *wrong, "enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Form)
        assert len(str(pilot.app.screen.query_one("#form-error").render())) > 10
        await pilot.press("escape")
        assert pilot.app.screen is main(pilot)


async def test_find_and_find_again(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        await pilot.press("slash", *"CAT", "enter")
        await settle(pilot)
        hits = [screen.grid.cursor[0]]
        for key in ("n", "n", "N"):
            await pilot.press(key)
            await settle(pilot)
            hits.append(screen.grid.cursor[0])
        assert hits == [2, 11, 2, 11]
        await pilot.press("slash", *"zebra", "enter")
        assert isinstance(pilot.app.screen, Form)


async def test_edit_the_text_and_run_it_warm(start) -> None:
    opened = []
    session = FakeSession()
    async with start(session) as pilot:
        screen = main(pilot)
        screen._open_session = lambda request, job: opened.append(request)
        await pilot.press("t")
        field = pilot.app.screen.query_one(TextArea)
        field.text = "a short text"
        await pilot.press("enter")
        await settle(pilot)
        assert screen.session.run.text == "a short text"
        assert screen.grid.length == 5
        assert screen.grid.window.values.shape == (5, 5)
        assert not opened


async def test_a_text_that_fails_leaves_the_old_one(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        await pilot.press("t")
        pilot.app.screen.query_one(TextArea).text = "   "
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, ErrorPage)
        await pilot.press("escape")
        assert screen.grid.length == 20
        await pilot.press("j")
        await settle(pilot)
        assert screen.heads.cell is not None


async def test_open_another_model(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        asked = []

        def opener(request, job):
            asked.append(request.name)
            return FakeSession(2, 2, causal=True, name="other")

        screen._open_session = opener
        await pilot.press("o")
        pilot.app.screen.query_one(Input).value = "other"
        await pilot.press("enter")
        await settle(pilot)
        assert asked == ["other"]
        assert "other" in screen.query_one("#status").text
        assert screen.session.model.layers == 2


async def test_the_exported_file_is_that_of_the_command_line(start, here: Path) -> None:
    session = FakeSession(words=HOSTILE)
    async with start(session) as pilot:
        await pilot.press("2", "}", "e")
        pilot.app.screen.query_one("#field-file", Input).value = "from-screen.csv"
        await pilot.press("enter")
        await settle(pilot)
        request = ExportRequest("effective", parse("L1H0"))
        export_file(session, request, here / "from-code.csv")
        for ending in ("", ".meta.json"):
            one, other = (here / f"from-{name}.csv{ending}" for name in ("screen", "code"))
            assert one.read_bytes() == other.read_bytes()


async def test_export_asks_before_it_replaces(start, here: Path) -> None:
    (here / "kept.csv").write_text("precious")
    async with start() as pilot:
        await pilot.press("e")
        form = pilot.app.screen
        form.query_one("#field-file", Input).value = "kept.csv"
        await pilot.press("enter")
        assert (here / "kept.csv").read_text() == "precious"
        assert isinstance(pilot.app.screen, Form)
        form.query_one("#field-replace", Input).value = "yes"
        await pilot.press("enter")
        await settle(pilot)
        assert (here / "kept.csv").read_text().startswith("layer,head")


async def test_copy_the_row(start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start() as pilot:
        copied = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await pilot.press("j", "y")
        lines = copied[0].split("\n")
        assert len(lines) == 20
        key, token, value = lines[2].split("\t")
        assert (key, token) == ("2", "cat")
        assert float(value) == main(pilot).grid.window.values[1, 2]


async def test_special_tokens_out_of_the_scale_leave_the_numbers(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        before, values = screen.grid.scale, screen.grid.window.values.copy()
        await pilot.press("x")
        await settle(pilot)
        assert screen.grid.scale.high < before.high
        assert (screen.grid.window.values == values).all()
        await pilot.press("x")
        await settle(pilot)
        assert screen.grid.scale == before


async def test_words_and_labels(start) -> None:
    session = FakeSession(words=["pur", "##ring", "cat"])
    async with start(session) as pilot:
        screen = main(pilot)
        assert screen.labels == ["[CLS]", "pur", "##ring", "cat", "[SEP]"]
        screen.grid.move_to(3, 3)
        await pilot.press("w")
        await settle(pilot)
        assert screen.labels == ["[CLS]", "purring", "cat", "[SEP]"]
        assert screen.grid.cursor == (2, 2)
        assert screen.grid.window.values.shape == (4, 4)
        await pilot.press("w", "r")
        await settle(pilot)
        assert screen.grid.cursor == (3, 3)
        assert screen.labels[1] == "Ġpur"
        await pilot.press("r")
        assert screen.labels[1] == "101"
        await pilot.press("r")
        assert screen.labels[1] == "pur"


async def test_colour_maps_go_round(start) -> None:
    async with start() as pilot:
        names = []
        for _ in range(4):
            await pilot.press("c")
            names.append(main(pilot).grid.look.colours.name)
        assert names == ["cividis", "viridis", "greys", "magma"]


async def test_statistics_and_sorting(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        pane = screen.query_one("#heads", Pane)
        assert "null share" in pane.title
        await pilot.press(",")
        shares = [summary.null_share for summary in screen.heads.summaries[0]]
        assert [shares[head] for head in screen.state.head_order] == sorted(shares, reverse=True)
        assert screen.state.head == 0
        await pilot.press("[")
        await settle(pilot)
        place = screen.state.head_order.index(0)
        assert place > 0
        assert screen.state.head == screen.state.head_order[place - 1]
        await pilot.press(".")
        assert "correlation" in pane.title


async def test_variants_go_round(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        await pilot.press("2")
        seen = []
        for _ in range(3):
            await pilot.press("V")
            await settle(pilot)
            seen.append(screen.state.variant)
            assert f"({seen[-1]})" in screen.stage.maps[0].title.text
        assert seen == ["no-bias", "sum-one", "output"]


async def test_help_lists_every_key_and_palette_opens(start) -> None:
    async with start() as pilot:
        await pilot.press("?")
        assert isinstance(pilot.app.screen, Help)
        text = "".join(str(widget.render()) for widget in pilot.app.screen.query("Static"))
        for action in keys.ACTIONS:
            assert action.help in text
        await pilot.press("escape")
        assert pilot.app.screen is main(pilot)
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert "CommandPalette" in type(pilot.app.screen).__name__
        await pilot.press("escape")


async def test_quit(start) -> None:
    async with start() as pilot:
        await pilot.press("q")
        assert not pilot.app.is_running or pilot.app._exit


def test_the_documentation_lists_the_registry() -> None:
    assert (ROOT / "docs" / "keys.md").read_text(encoding="utf-8") == keys.markdown()


def test_no_key_is_given_twice_and_at_most_eight_stand_in_the_footer() -> None:
    names = [name for action in keys.ACTIONS for name in action.keys.split(",")]
    assert len(names) == len(set(names))
    assert sum(bool(action.footer) for action in keys.ACTIONS) <= 8
