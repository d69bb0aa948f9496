"""Token identity on the screen: every key, every choice, and what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import HOSTILE, FakeSession
from tests.tui.conftest import Start, main, settle
from tui_attn.answers.identity import choose
from tui_attn.config import Settings
from tui_attn.errors import ExitCode, InspectError
from tui_attn.tui.screens.choices import Choices
from tui_attn.tui.widgets.lines import Line


async def press(pilot, *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def lines(pilot) -> list[str]:
    grid = main(pilot).stage.main(main(pilot).state)
    return ["".join(part.text for part in grid.render_line(y)) for y in range(grid.size.height)]


def detail(pilot) -> str:
    return main(pilot).query_one("#detail", Line).text


async def test_the_map_and_the_rates_under_it(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4")
        screen = main(pilot)
        assert screen.state.view == "identity"
        assert not screen.query_one("#heads").display
        shown = lines(pilot)
        assert shown[0].split() == ["emb", "L0", "L1", "L2", "L3"]
        assert shown[1].lstrip().startswith("1 the")
        methods = [line.split("  ")[0] for line in shown if "1.00" in line][-3:]
        assert methods == ["naive", "naive by id", "ridge"]
        assert "naive · cosine · embedding · text · by position" in screen.stage.depth.title.text
        assert "rank" in detail(pilot) and "nearest" in detail(pilot)


async def test_the_cursor_starts_where_the_other_maps_were_and_moves(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "}", "}", "j", "j", "j", "4")
        identity = main(pilot).identity
        assert identity.grid.cursor == (2, 3)  # token 3 is the third that is counted
        assert "token 3 sat at L2" in detail(pilot)
        await press(pilot, "l", "j", "}")
        assert identity.grid.cursor == (3, 4)
        await press(pilot, "{", "g", "home")
        assert identity.grid.cursor == (0, 0)
        await press(pilot, "G", "end", "pageup")
        assert identity.grid.cursor[1] == 4
        await press(pilot, "]", "s", "w", "x")  # what hidden states do not have is said
        assert main(pilot).state.view == "identity"
        assert len(pilot.app._notifications) == 4


async def test_a_cell_says_what_its_token_is_taken_for(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4")
        window = main(pilot).identity.window
        assert window is not None
        row = next(row for row in range(4) if window.rank[row, 4] > 1)
        name = window.names[int(window.nearest[row, 4])]
        assert lines(pilot)[1 + row].rstrip().endswith(name)


async def test_methods_metrics_and_the_other_choices(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        identity = main(pilot).identity
        await press(pilot, "4", "V")
        assert identity.choices == choose(probe="ridge")
        await press(pilot, "V")
        assert identity.choices == choose()
        await press(pilot, "i")
        assert isinstance(pilot.app.screen, Choices)
        await press(pilot, "j", "right")  # target
        assert identity.choices == choose(target="word")
        await press(pilot, "j", "right")  # candidates: brings the match along
        assert identity.choices == choose(candidates="vocabulary")
        await press(pilot, "j", "right")  # match by position: leaves the vocabulary
        assert identity.choices == choose(target="word", match="position")
        await press(pilot, "j", "left", "j", "space")
        assert identity.choices == choose(target="word", metric="l2", special=True)
        assert identity.tokens[0] == 0
        await press(pilot, "j", "enter", "escape")
        assert not identity.by_rank
        title = main(pilot).stage.depth.title.text
        assert "l2 · word" in title and "specials counted" in title and "cosine" in title


async def test_probes_of_another_target_are_not_offered(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4", "V", "i", "j", "right", "escape")
        assert main(pilot).identity.choices == choose(target="word")
        await press(pilot, "V")
        assert main(pilot).identity.choices == choose(target="word")
        assert "probe fit" in list(pilot.app._notifications)[-1].message


async def test_transfer_between_layers(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4", "m")
        assert "attn-inspect probe fit makes one" in " ".join(" ".join(lines(pilot)).split())
        await press(pilot, "V")
        assert [line.split()[0] for line in lines(pilot)[1:6]] == ["emb", "L0", "L1", "L2", "L3"]
        await press(pilot, "j", "}", "}")
        assert "ridge trained at L0  tested at L1  identified 0.800" in detail(pilot)
        await press(pilot, "escape")
        assert main(pilot).state.view == "identity"


async def test_the_text_coloured_by_a_layer(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4", "v")
        screen = main(pilot)
        assert screen.state.view == "text" and screen.state.along == "layer"
        assert len(screen.stage.reading.body._values) == len(screen.identity.tokens)
        await press(pilot, "l", "l", "}")
        assert screen.identity.token == 3
        assert "at L1" in screen.stage.reading.title.text
        await press(pilot, "v")
        assert screen.state.view == "identity"
        await press(pilot, "v", "escape", "1", "v", "v", "v")
        assert screen.state.view == "grid" and screen.state.along == "key"


async def test_other_maps_are_as_they_were(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "2", "4", "1")
        assert main(pilot).state.view == "grid" and main(pilot).state.map == "attention"
        assert main(pilot).query_one("#heads").display
        await press(pilot, "4", "escape")
        assert main(pilot).state.view == "grid"


async def test_goto_find_copy_and_labels(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4", ":", "L", "1", "space", "q", "equals_sign", "4", "enter")
        screen = main(pilot)
        assert (screen.identity.token, screen.identity.grid.cursor[1]) == (4, 2)
        await press(pilot, ":", *"Lemb", "enter")
        assert screen.identity.grid.cursor[1] == 0
        await press(pilot, "/", *"mat", "enter")
        assert screen.token_labels[screen.identity.token] == "mat"
        await press(pilot, "n")
        assert screen.token_labels[screen.identity.token] == "mat"
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await press(pilot, "y")
        assert [line.split("\t")[0] for line in copied[0].splitlines()] == ["emb", *"0123"]
        await press(pilot, "r", "r")
        assert lines(pilot)[1].split()[1].isdigit()


@pytest.mark.parametrize("view,summary", [("identity", ""), ("transfer", "transfer")])
async def test_export(start: Start, here: Path, view: str, summary: str) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4", "V", *(["m"] if summary else []), "e", "enter")
        first = (here / f"identity-{summary or 'ridge'}.csv").read_text().splitlines()[0]
        expected = {
            "": "layer,token,token_text,rank,cosine,nearest,nearest_text",
            "transfer": "train_layer,test_layer,method,target,data,n,rate",
        }
        assert first == expected[summary]
        assert "--probe ridge" in list(pilot.app._notifications)[-1].message


async def test_what_cannot_be_had_stands_in_the_place_of_the_numbers(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        session.identity.error = InspectError(
            "the text has 1 token", "give a longer one", ExitCode.INPUT
        )
        await press(pilot, "4")
        assert pilot.app.screen is main(pilot)
        assert "the text has 1 token; give a longer one." in lines(pilot)[1]
        session.identity.error = None
        await press(pilot, "1", "4")
        await press(pilot, "i", "j", "j", "j", "right", "escape")
        assert lines(pilot)[1].lstrip().startswith("1 the")


async def test_a_text_of_special_tokens_only(start: Start) -> None:
    session = FakeSession(4, 6)
    session.identity.tokens = lambda special: (0, 1) if special else ()
    async with start(session) as pilot:
        await press(pilot, "4")
        assert "special tokens" in lines(pilot)[1]


async def test_another_text_while_identity_is_shown(start: Start) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "4", "G")
        main(pilot).ask_open(main(pilot).wanted.__class__(None, "two words", None, None))
        await settle(pilot)
        assert main(pilot).identity.grid.cursor[0] == 1
        assert lines(pilot)[2].lstrip().startswith("2 words")


async def test_identity_pressed_before_the_model_is_there(start: Start) -> None:
    session = FakeSession(4, 6)
    session.gate.clear()
    from tests.tui.conftest import make_app

    async with make_app(session).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("4", "i", "V", "m", "v", "4")
        session.gate.set()
        await settle(pilot)
        assert main(pilot).state.view == "identity"
        assert lines(pilot)[1].lstrip().startswith("1 ")


@pytest.mark.parametrize("settings", [Settings(colour="none"), Settings(colour="256", ascii=True)])
async def test_hostile_tokens_zooms_and_sizes(start: Start, settings: Settings) -> None:
    session = FakeSession(4, 6, words=HOSTILE * 3)
    async with start(session, settings=settings) as pilot:
        await press(pilot, "4")
        for size in ((80, 24), (200, 50), (30, 9), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            for keys in (("-",), ("-",), ("+", "+")):
                await press(pilot, *keys)
                for line in lines(pilot):
                    assert "\x1b" not in line and "\u202e" not in line and "\t" not in line


async def test_long_texts_ask_for_what_is_seen(start: Start) -> None:
    session = FakeSession(4, 6, length=700)
    async with start(session) as pilot:
        await press(pilot, "4", "G")
        window = main(pilot).identity.window
        assert window is not None and len(window.tokens) < 100
        assert any(line.startswith("700 ") for line in lines(pilot))
