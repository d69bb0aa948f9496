"""Three stacks of one model: a key goes round, and cross attention is a rectangle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from textual.widgets import Input, TextArea

from tests.fakes import FakeSession, encoder_decoder
from tests.tui.conftest import TEXT, main, settle
from tui_attn import places
from tui_attn.answers import ModelRequest
from tui_attn.config import Settings
from tui_attn.export import ExportRequest, export_file
from tui_attn.selection import parse
from tui_attn.tui.app import InspectApp
from tui_attn.tui.screens.pages import ErrorPage
from tui_attn.tui.widgets.mosaic import Mosaic
from tui_attn.tui.widgets.panes import Pane

READ, WRITTEN = 20, 5
"""Tokens of the text, and of what the fake writes."""


async def to_cross(pilot) -> None:
    await pilot.press("S", "S")
    await settle(pilot)


async def test_the_key_goes_round_and_everything_shown_is_of_the_stack(start) -> None:
    async with start(encoder_decoder(), size=(100, 30)) as pilot:
        screen = main(pilot)
        seen = []
        for _ in range(4):
            shape = screen.grid.window.values.shape
            title = screen.stage.maps[0].title.text
            layers, heads = (
                screen.query_one(f"#{name}", Pane)._entries for name in ("layers", "heads")
            )
            seen.append((title.split()[0], shape, len(layers), len(heads)))
            await pilot.press("S")
            await settle(pilot)
        assert seen == [
            ("Encoder", (READ, READ), 4, 6),
            ("Decoder", (WRITTEN, WRITTEN), 3, 5),
            ("Cross", (WRITTEN, READ), 3, 5),
            ("Encoder", (READ, READ), 4, 6),
        ]


async def test_layer_and_head_stay_as_far_as_the_stack_has_them(start) -> None:
    async with start(encoder_decoder()) as pilot:
        screen = main(pilot)
        screen.go(3, 5)
        await pilot.press("S")
        await settle(pilot)
        assert (screen.state.layer, screen.state.head) == (2, 4)
        assert (screen.grid.window.layer, screen.grid.window.head) == (2, 4)


async def test_a_model_of_one_stack_says_so(start) -> None:
    async with start() as pilot:
        screen = main(pilot)
        before = screen.run_number
        await pilot.press("S", "T")
        await settle(pilot)
        assert screen.run_number == before
        assert "stack" not in screen.stage.maps[0].title.text.lower()
        assert [notice.message.split(";")[0] for notice in pilot.app._notifications] == [
            "this model is one stack",
            "this model has no decoder that reads a text of its own",
        ]


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_a_rectangle_at_every_zoom_and_at_its_edges(start, size: tuple[int, int]) -> None:
    async with start(encoder_decoder(), size=size) as pilot:
        screen = main(pilot)
        await to_cross(pilot)
        for _ in range(4):
            for keys in (("g", "home"), ("G", "end")):
                await pilot.press(*keys)
                await settle(pilot)
            assert screen.grid.cursor == (WRITTEN - 1, READ - 1)
            detail = screen.query_one("#detail").text
            assert detail.startswith("query 4 dort → key 19 [SEP]")
            raw = screen.session.cell(0, 0, WRITTEN - 1, READ - 1).raw
            assert f"raw {raw:.3f}" in detail
            await pilot.press("-")
            await settle(pilot)
        assert screen.grid.zoom == "fit"
        assert screen.grid.overview.values.shape == (WRITTEN, READ)


async def test_a_long_rectangle_is_asked_for_in_windows_and_pooled_honestly(start) -> None:
    session = encoder_decoder(length=400)
    async with start(session) as pilot:
        screen = main(pilot)
        await to_cross(pilot)
        await pilot.press("end")
        await settle(pilot)
        window = screen.grid.window
        assert window.rows == (0, WRITTEN)
        assert window.columns[1] == 402
        assert window.columns[0] > 0
        await pilot.press("-", "-", "-")
        await settle(pilot)
        title = screen.stage.maps[0].title.text
        assert f"pooled 1 x {402 / screen.grid.overview.values.shape[1]:.3g}" in title


async def test_goto_and_find_know_both_sides(start) -> None:
    async with start(encoder_decoder()) as pilot:
        screen = main(pilot)
        await to_cross(pilot)
        await pilot.press("colon", *"L2H4 q=-1 k=-1", "enter")
        await settle(pilot)
        assert (screen.state.layer, screen.state.head) == (2, 4)
        assert screen.grid.cursor == (WRITTEN - 1, READ - 1)
        await pilot.press("slash", *"chat", "enter")
        await settle(pilot)
        assert screen.grid.cursor == (2, READ - 1)
        keys = []
        await pilot.press("slash", *["backspace"] * 4, *"cat", "enter")
        for _ in range(2):
            await settle(pilot)
            keys.append(screen.grid.cursor)
            await pilot.press("n")
        assert keys == [(2, 2), (2, 11)]
        await pilot.press("colon", *"k=20", "enter")
        await settle(pilot)
        assert "no key 20" in str(pilot.app.screen.query_one("#form-error").render())


async def test_text_view_has_both_texts(start) -> None:
    async with start(encoder_decoder()) as pilot:
        screen = main(pilot)
        await to_cross(pilot)
        await pilot.press("v")
        await settle(pilot)
        sentence = screen.stage.reading.body
        shown = [sentence.render_line(y).text.rstrip() for y in range(4)]
        assert shown[0].split() == ["[BOS]", "le", "chat", "##on", "dort"]
        assert shown[1] == ""
        assert shown[2].split()[:3] == ["[CLS]", "the", "cat"]
        await pilot.press("right", "right", *["right"] * 9)
        await settle(pilot)
        assert screen.grid.cursor == (WRITTEN - 1, 0)
        np.testing.assert_allclose(
            [sentence._values[key] for key in range(READ)], screen.grid.window.values[-1]
        )
        await pilot.press("v", "end")
        await settle(pilot)
        assert screen.grid.cursor == (WRITTEN - 1, READ - 1)
        assert sentence.render_line(0).text.split()[:2] == ["[CLS]", "the"]
        np.testing.assert_allclose(
            [sentence._values[row] for row in range(WRITTEN)], screen.grid.window.values[:, -1]
        )


async def test_a_long_text_below_a_short_one_can_be_read_to_its_end(start) -> None:
    async with start(encoder_decoder(length=600)) as pilot:
        screen = main(pilot)
        await to_cross(pilot)
        await pilot.press("v", *["pagedown"] * 12)
        await settle(pilot)
        sentence = screen.stage.reading.body
        lines = [sentence.render_line(y).text for y in range(sentence.size.height)]
        assert any("[SEP]" in line for line in lines)
        assert screen.grid.cursor == (0, 0)
        await pilot.press("right")
        await settle(pilot)
        assert "[BOS]" in sentence.render_line(0).text


async def test_split_mosaic_words_and_labels(start) -> None:
    async with start(encoder_decoder(), size=(140, 40)) as pilot:
        screen = main(pilot)
        await to_cross(pilot)
        await pilot.press("s", "down", "end")
        await settle(pilot)
        first, second = (view.body for view in screen.stage.maps)
        assert first.cursor == second.cursor == (1, READ - 1)
        assert second.window.values.shape == (WRITTEN, READ)
        await pilot.press("s", "m")
        await settle(pilot)
        wall = screen.query_one(Mosaic)
        assert len(wall._tiles) == 3 * 5
        assert screen.stage.wall.title.text.startswith("Cross")
        await pilot.press("m", "G", "w")
        await settle(pilot)
        assert screen.labels == ["[BOS]", "le", "chaton", "dort"]
        assert screen.key_labels[-1] == "[SEP]"
        assert screen.grid.cursor == (3, READ - 1)
        assert screen.grid.window.values.shape == (4, READ)
        await pilot.press("w", "r")
        await settle(pilot)
        assert (screen.labels[1], screen.key_labels[1]) == ("Ġle", "Ġthe")
        assert screen.grid.cursor == (WRITTEN - 1, READ - 1)


async def test_the_row_and_the_export_have_the_tokens_of_both_sides(
    start, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = encoder_decoder()
    async with start(session) as pilot:
        copied = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await to_cross(pilot)
        await pilot.press("2", "j")
        await settle(pilot)
        await pilot.press("y", "e")
        assert len(copied[0].split("\n")) == READ
        assert copied[0].split("\n")[2].startswith("2\tcat\t")
        pilot.app.screen.query_one("#field-file", Input).value = "from-screen.csv"
        await pilot.press("enter")
        await settle(pilot)
        export_file(
            session.on("cross"), ExportRequest("effective", parse("L0H0")), here / "code.csv"
        )
        for ending in ("", ".meta.json"):
            one, other = (here / f"{name}.csv{ending}" for name in ("from-screen", "code"))
            assert one.read_bytes() == other.read_bytes()


async def test_a_decoder_text_is_given_and_taken_back(start) -> None:
    async with start(encoder_decoder()) as pilot:
        screen = main(pilot)
        await to_cross(pilot)
        assert "5 x 20 tokens, decoder greedy" in screen.query_one("#status").text
        await pilot.press("T")
        field = pilot.app.screen.query_one(TextArea)
        assert field.text == "le chaton dort"
        field.text = "un deux"
        await pilot.press("enter")
        await settle(pilot)
        assert screen.session.model.stack == "cross"
        assert screen.labels == ["[BOS]", "un", "deux"]
        assert screen.grid.window.values.shape == (3, READ)
        assert "greedy" not in screen.query_one("#status").text
        await pilot.press("t")
        pilot.app.screen.query_one(TextArea).text = "the cat"
        await pilot.press("enter")
        await settle(pilot)
        assert screen.grid.window.values.shape == (3, 4)
        await pilot.press("T")
        pilot.app.screen.query_one(TextArea).text = ""
        await pilot.press("enter")
        await settle(pilot)
        assert screen.grid.window.values.shape == (WRITTEN, 4)


@pytest.mark.parametrize("key", ["4", "5"])
async def test_maps_that_a_stack_has_not_say_so_in_their_place(start, key: str) -> None:
    async with start(encoder_decoder()) as pilot:
        screen = main(pilot)
        await pilot.press(key)
        await settle(pilot)
        await to_cross(pilot)
        body, title = screen.stage.depth.body, screen.stage.maps[0].title
        shown = [body.render_line(y).text for y in range(9)] if key == "4" else [title.text]
        assert "look at the encoder" in "".join(shown)
        await pilot.press("1")
        await settle(pilot)
        assert screen.grid.window.values.shape == (WRITTEN, READ)
        assert not isinstance(pilot.app.screen, ErrorPage)


async def test_the_command_line_opens_a_stack_and_resume_comes_back_to_it(start) -> None:
    settings = Settings(colour="256", stack="cross", decoder_text="un deux")
    async with start(encoder_decoder(), settings=settings) as pilot:
        screen = main(pilot)
        assert screen.session.model.stack == "cross"
        assert screen.labels == ["[BOS]", "un", "deux"]
        await pilot.press("j", "end")
        await settle(pilot)
        screen._remember()
        await settle(pilot)
        await pilot.app.workers.wait_for_complete()
    place = places.last()
    assert (place.stack, place.decoder_text, place.where) == ("cross", "un deux", "L0H0 q=1 k=19")
    app = InspectApp(
        ModelRequest("m"),
        TEXT,
        Settings(colour="256", stack=place.stack, decoder_text=place.decoder_text),
        lambda request, job: encoder_decoder(),
        place=place,
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert main(pilot).session.model.stack == "cross"
        assert main(pilot).grid.cursor == (1, READ - 1)


async def test_a_stack_that_the_model_has_not_is_an_error_and_another_model_opens(start) -> None:
    async with start(FakeSession(), settings=Settings(colour="256", stack="cross")) as pilot:
        assert isinstance(pilot.app.screen, ErrorPage)
        await pilot.press("escape", "o", "enter")
        await settle(pilot)
        assert main(pilot).session is not None
