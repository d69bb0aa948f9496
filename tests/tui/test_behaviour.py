"""Loading, cancelling, failing, resizing: what happens around the keys."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import TextArea

from tests.fakes import HOSTILE, FakeSession
from tests.tui.conftest import TEXT, main, make_app, settle
from tui_attn.answers import ModelRequest
from tui_attn.config import Settings
from tui_attn.errors import ExitCode, InspectError
from tui_attn.render.cells import width
from tui_attn.tui.app import InspectApp
from tui_attn.tui.screens.pages import ErrorPage, Help
from tui_attn.tui.widgets.grid import AttentionGrid
from tui_attn.tui.widgets.loading import Loading


async def test_keys_work_while_the_model_loads_and_escape_stops_it() -> None:
    gate = threading.Event()

    def slow(request, job):
        job.report("reading the weights", 1, 2)
        while not gate.wait(0.01):
            job.check()
        return FakeSession()

    app = InspectApp(ModelRequest(), TEXT, Settings(colour="256"), slow)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.05)
        screen = main(pilot)
        assert screen.query_one(Loading).display
        assert "reading the weights" in str(screen.query_one(Loading).render())
        for key in ("]", "m", "2", "j", "w", "x", "s", "s", "y", "e", "n", "v"):
            await pilot.press(key)
        await pilot.press("?")
        assert isinstance(app.screen, Help)
        await pilot.press("escape", "escape")
        await settle(pilot)
        assert not screen.query_one(Loading).display
        assert screen.session is None
        gate.set()
        await pilot.press("t", "enter")
        await settle(pilot)
        assert screen.session is not None
        assert screen.query_one(Loading)._timer is None  # nothing moves on an idle screen


@pytest.mark.parametrize(
    "error,words",
    [
        (InspectError("there is no model x", "check it", ExitCode.NO_MODEL), "there is no model x"),
        (ValueError("boom \x1b[2J"), "unexpected error: ValueError"),
    ],
)
async def test_a_model_that_fails_is_a_sentence_and_can_be_tried_again(error, words) -> None:
    attempts = []

    def failing(request, job):
        attempts.append(request)
        if len(attempts) == 1:
            raise error
        return FakeSession()

    log = Path("attn-inspect.log")
    app = InspectApp(ModelRequest(), TEXT, Settings(colour="256"), failing, log=log)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, ErrorPage)
        shown = "".join(str(widget.render()) for widget in app.screen.query("Static"))
        assert words in shown
        assert "\x1b" not in shown
        await pilot.press("d")
        assert "attn-inspect.log" in str(app.screen.query_one("#error-details").render())
        await pilot.press("r")
        await settle(pilot)
        assert main(pilot).session is not None


async def test_answers_about_an_older_text_are_dropped(start) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        screen = main(pilot)
        session.gate.clear()
        await pilot.press("]")
        await pilot.pause()
        assert screen.heads._mapping.busy
        screen.run_number += 1  # another text has been opened meanwhile
        before = screen.grid.window
        session.gate.set()
        await settle(pilot)
        assert screen.grid.window is before


async def test_held_down_keys_cost_one_computation_at_a_time(start) -> None:
    session = FakeSession(heads=40)
    async with start(session) as pilot:
        screen = main(pilot)
        session.gate.clear()
        before = session.windows
        for _ in range(30):
            await pilot.press("]")
        session.gate.set()
        await settle(pilot)
        assert screen.grid.window.head == 30
        assert session.windows - before < 20


async def test_a_cursor_move_repaints_cells_and_labels_only(start) -> None:
    async with start(size=(120, 40)) as pilot:
        grid = main(pilot).grid
        painted = []
        original = grid.refresh

        def watch(*regions, **options):
            painted.append(regions)
            return original(*regions, **options)

        grid.refresh = watch
        await pilot.press("j", "l")
        await settle(pilot)
        assert painted
        assert all(regions for regions in painted), "the whole grid was repainted"
        assert sum(region.area for regions in painted for region in regions) < 150


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "settings",
    [Settings(colour="256"), Settings(colour="none"), Settings(colour="16", ascii=True)],
    ids=["256", "none", "ascii"],
)
async def test_every_line_has_the_width_of_the_screen_whatever_the_tokens(
    start, causal: bool, settings: Settings
) -> None:
    session = FakeSession(words=HOSTILE * 3, causal=causal)
    async with start(session, (90, 30), settings=settings) as pilot:
        screen = main(pilot)
        for key in ("2", "-", "-", "-", "+", "+", "+", "r", "r"):
            await pilot.press(key)
            await settle(pilot)
            grid = screen.grid
            for y in range(grid.size.height):
                strip = grid.render_line(y)
                text = "".join(segment.text for segment in strip)
                assert width(text) == grid.size.width
                assert all(sign not in text for sign in "\x1b\t\n\u200b\u202e\u200d")
                if settings.ascii:
                    assert all(" " <= sign <= "~" for sign in text)


async def test_hidden_cells_are_blank_and_the_sign_needs_no_colour(start) -> None:
    session = FakeSession(causal=True)
    async with start(session, settings=Settings(colour="none")) as pilot:
        grid = main(pilot).grid
        await pilot.press("2")
        await settle(pilot)
        row = "".join(segment.text for segment in grid.render_line(grid.header_lines))
        assert row[grid.label_width + 4 :].strip() == ""
        await pilot.press("-")
        await settle(pilot)
        drawn = "".join(
            segment.text for y in range(18) for segment in grid.render_line(y + grid.header_lines)
        )
        assert "-" in drawn


@pytest.mark.parametrize("keys", ["", "s", "m", "v", "-,-,-"])
async def test_any_size_and_back(start, keys: str) -> None:
    async with start(FakeSession(length=60), (200, 50)) as pilot:
        for key in filter(None, keys.split(",")):
            await pilot.press(key)
        for size in ((250, 70), (79, 23), (40, 12), (20, 5), (3, 2), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("j", "l")
            await settle(pilot)
        screen = main(pilot)
        assert screen.query_one("#layers").display == (keys != "s")
        await pilot.press("escape", "G", "end")
        await settle(pilot)


async def test_a_screen_that_is_too_small_says_so(start) -> None:
    async with start(size=(20, 6)) as pilot:
        text = str(main(pilot).query_one("#too-small").render())
        assert "80x24" in text


async def test_a_long_text_asks_for_what_is_seen_only(start) -> None:
    session = FakeSession(length=900)
    async with start(session, (100, 30)) as pilot:
        grid = main(pilot).grid
        assert grid.window.values.size < 100 * 100
        await pilot.press("G", "end")
        await settle(pilot)
        assert grid.cursor == (901, 901)
        assert grid.window.rows[1] == 902
        text = "".join(segment.text for segment in grid.render_line(grid.size.height - 1))
        assert "·" not in text
        assert "[SEP]" in text


async def test_failed_checks_are_never_cut_away(start) -> None:
    from tui_attn.answers import Check

    session = FakeSession(name="a-very-long-name-of-a-model-that-takes-all-the-room")
    analyse = session.analyse

    def failing(*args, **kwargs):
        checks = (Check("A V = o", False, 0.5, 1e-4),)
        session.run = replace(analyse(*args, **kwargs), checks=checks)
        return session.run

    session.analyse = failing
    async with start(session, (80, 24)) as pilot:
        shown = str(main(pilot).query_one("#status").render())
        assert "FAILED A V = o" in shown


async def test_the_status_line_says_what_made_the_numbers(start) -> None:
    async with start(size=(200, 50)) as pilot:
        text = main(pilot).query_one("#status").text
        for part in ("fake-model", "cpu float32 sdpa", "20 tokens", "row sums", "A V = o 3e-07"):
            assert part in text
        assert "A_eff V = o 1e-07" in text


@pytest.mark.parametrize("name", ["no/such/folder/file.csv", ".", "file.xlsx", "old.csv"])
async def test_a_place_that_cannot_be_written_is_a_sentence_in_the_form(
    start, here: Path, name: str
) -> None:
    (here / "old.csv.meta.json").write_text("precious")  # beside a table that is gone
    async with start() as pilot:
        await pilot.press("e")
        form = pilot.app.screen
        form.query_one("#field-file").value = name
        await pilot.press("enter")
        await settle(pilot)
        assert pilot.app.screen is form
        assert len(str(form.query_one("#form-error").render())) > 20
        assert [path.name for path in here.iterdir()] == ["old.csv.meta.json"]
        assert (here / "old.csv.meta.json").read_text() == "precious"


async def test_a_failure_while_writing_is_a_sentence(start, here: Path) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        await pilot.press("e")
        pilot.app.screen.query_one("#field-file").value = "new.csv"

        def full(*_, **__):
            raise InspectError("cannot write: no space", "free some", ExitCode.OUTPUT)

        session.provenance = full
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, ErrorPage)
        assert list(here.iterdir()) == []


def test_the_grid_is_not_a_data_table() -> None:
    from textual.scroll_view import ScrollView
    from textual.widgets import DataTable

    assert issubclass(AttentionGrid, ScrollView)
    assert not issubclass(AttentionGrid, DataTable)
    assert make_app() is not None


@pytest.mark.parametrize("key", ["}", "]", "V", "w", "j"])
async def test_a_detail_about_something_else_is_never_shown(start, key: str) -> None:
    session = FakeSession(words=["pur", "##ring", "cat"])
    async with start(session) as pilot:
        screen = main(pilot)
        old = screen.heads._detail_request()
        await pilot.press(key)
        await settle(pilot)
        wrong = replace(screen.heads.cell, raw=0.123456)
        screen.heads._show_cell(old, wrong)
        assert screen.heads.cell != wrong
        screen.heads._show_cell(screen.heads._detail_request(), wrong)
        assert screen.heads.cell == wrong


async def test_stopping_too_late_never_leaves_numbers_under_other_labels(start) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        screen = main(pilot)
        analyse = session.analyse

        def unstoppable(text, *, pair=None, max_tokens=None, job=None):
            return analyse(text, pair=pair, max_tokens=max_tokens)

        session.analyse = unstoppable
        session.gate.clear()
        await pilot.press("t")
        pilot.app.screen.query_one(TextArea).text = "three other words"
        await pilot.press("enter", "escape")
        session.gate.set()
        await settle(pilot)
        assert screen.labels == [token.text for token in session.run.tokens]
        assert screen.grid.window.values.shape == (len(screen.labels),) * 2


async def test_a_text_that_is_stopped_leaves_the_old_map_alive(start) -> None:
    session = FakeSession()
    async with start(session) as pilot:
        screen = main(pilot)
        session.gate.clear()
        await pilot.press("t", "enter", "}")
        await pilot.pause()
        await pilot.press("escape")
        session.gate.set()
        await settle(pilot)
        assert screen.state.layer == screen.grid.window.layer == 1
        assert screen.heads.cell is not None


@pytest.mark.parametrize("moves", ["j,l", "G,end", "G,end,k,k,k,h,h", ""])
async def test_maps_side_by_side_show_the_same_cells(start, moves: str) -> None:
    async with start(FakeSession(length=90), (200, 50)) as pilot:
        screen = main(pilot)
        first, second = (view.body for view in screen.stage.maps)
        for key in filter(None, moves.split(",")):
            await pilot.press(key)
        await pilot.press("s")
        await settle(pilot)
        assert second.scroll_offset == first.scroll_offset
        for key in ("j", "pagedown", "end", "up", "left", "-", "g", "home", "+"):
            await pilot.press(key)
            await settle(pilot)
            assert second.scroll_offset == first.scroll_offset, key
            assert second.cursor == first.cursor
        await pilot.resize_terminal(150, 30)
        await settle(pilot)
        assert second.scroll_offset == first.scroll_offset


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_the_ends_of_the_scale_are_always_in_sight(start, size: tuple[int, int]) -> None:
    async with start(size=size) as pilot:
        grid = main(pilot).grid
        for key in ("1", "2", "3"):
            await pilot.press(key)
            await settle(pilot)
            corner = "".join(
                grid.render_line(y).crop(0, grid.label_width).text for y in range(grid.header_lines)
            )
            assert f"{grid.scale.low:.2g} " in corner
            assert f"to {grid.scale.high:.2g} " in corner
