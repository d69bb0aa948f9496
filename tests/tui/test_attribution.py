"""Attribution on the screen: refined while it is looked at, exact on demand, and its views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fakes import HOSTILE, FakeSession
from tests.tui.conftest import Start, main, make_app, settle
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.config import Settings
from tui_attn.errors import ExitCode, InspectError
from tui_attn.tui.parts.plots import bar
from tui_attn.tui.widgets.lines import Line
from tui_attn.tui.widgets.panes import Pane


async def press(pilot, *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def detail(pilot) -> str:
    return main(pilot).query_one("#detail", Line).text


def pane(pilot, name: str) -> list[str]:
    body = main(pilot).query_one(f"#{name}", Pane)
    return ["".join(part.text for part in body.render_line(y)) for y in range(body.size.height)]


def lines(pilot) -> list[str]:
    body = main(pilot).attribution.body
    return ["".join(part.text for part in body.render_line(y)) for y in range(body.size.height)]


async def test_the_estimate_is_refined_while_it_is_looked_at(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        await press(pilot, "5")
        asked = [choices.probes for choices in session.attribution.refined]
        assert asked == [2, 4, 8, 16, 32, 64, 128]
        screen = main(pilot)
        assert screen.attribution.shown == AttributionChoices(probes=128)
        title = screen.stage.maps[0].title.text
        assert "Hidden token attribution · L0 · 128 probes, seed 0, error" in title
        window = screen.grid.window
        assert window is not None and window.map == "attribution"
        expected = session.attribution.shares(0, AttributionChoices(probes=128))
        assert np.array_equal(window.values, expected)
        assert "share" in detail(pilot) and "main contributor" in detail(pilot)


async def test_refining_stops_when_the_map_is_left_and_goes_on(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        session.gate.clear()
        await pilot.press("5")
        await pilot.pause()
        assert main(pilot).attribution._refining.busy
        assert "computing derivatives" in main(pilot).stage.maps[0].title.text
        await pilot.press("1")
        session.gate.set()
        await settle(pilot)
        assert not session.attribution.refined
        await press(pilot, "5")
        assert main(pilot).attribution.shown == AttributionChoices(probes=128)


async def test_keys_are_answered_while_it_computes(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        session.gate.clear()
        await pilot.press("5", "down", "right", "question_mark")
        await pilot.pause()
        assert pilot.app.screen is not main(pilot)
        await pilot.press("escape")
        assert main(pilot).grid.cursor == (1, 1)
        session.gate.set()
        await settle(pilot)


async def test_exact_on_demand(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        await press(pilot, "E")
        assert main(pilot).state.map == "attention"  # a sentence says where it belongs
        await press(pilot, "5", "E")
        assert main(pilot).attribution.shown == AttributionChoices(exact=True)
        assert "exact, norm frobenius" in main(pilot).stage.maps[0].title.text
        await press(pilot, "i", "j", "right", "escape")
        assert main(pilot).attribution.shown == AttributionChoices(exact=True, norm="ones")
        await press(pilot, "i", "left", "j", "right", "escape")
        assert main(pilot).attribution.shown == AttributionChoices(probes=128, seed=1)


async def test_escape_stops_the_exact_sweep_and_keeps_the_estimate(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        await press(pilot, "5")
        session.gate.clear()
        await pilot.press("E")
        await pilot.pause()
        await pilot.press("escape")
        session.gate.set()
        await settle(pilot)
        part = main(pilot).attribution
        assert part.shown == AttributionChoices(probes=128)
        assert not session.attribution.refined[-1].exact
        await press(pilot, "E")
        assert part.shown == AttributionChoices(exact=True)


async def test_escape_stops_refining(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        session.gate.clear()
        await pilot.press("5")
        await pilot.pause()
        await pilot.press("escape")
        session.gate.set()
        await settle(pilot)
        assert not session.attribution.refined
        await press(pilot, "1", "5")
        assert main(pilot).attribution.shown is not None


async def test_the_panes_show_what_a_layer_mixes(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session, size=(100, 40)) as pilot:
        await press(pilot, "5", "}", "}")
        shown = pane(pilot, "heads")
        assert shown[0].strip() == "L2 mixing"
        names = [line[1:14].strip() for line in shown[1:20]]
        for name in ("own share", "median", "not main", "before", "after", "1", "special"):
            assert name in names
        own = session.attribution.shares(2, AttributionChoices(probes=128)).diagonal()
        assert f"{np.median(own):.2f}"[1:] in next(line for line in shown if "median" in line)
        assert pane(pilot, "layers")[3].startswith("▸L2")
        await press(pilot, "tab", "tab", "down", "down")  # the page has no heads to choose
        assert main(pilot).state.head == 0
        await press(pilot, "1")
        assert "heads" in pane(pilot, "heads")[0]


async def test_own_shares_of_every_token_and_layer(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        await press(pilot, "5", "m")
        assert main(pilot).state.view == "own"
        shown = lines(pilot)
        assert shown[0].split() == ["emb", "L0", "L1", "L2", "L3"]
        assert any(line.startswith("not main") for line in shown)
        await press(pilot, "j", "}", "}")
        own = session.attribution.shares(1, AttributionChoices(probes=128))[1, 1]
        assert f"own share {own:.4f}" in " ".join(detail(pilot).split())
        await press(pilot, "m")
        assert main(pilot).state.view == "grid" and main(pilot).state.map == "attribution"


async def test_attention_against_attribution(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        await press(pilot, "5", "j", "j", "j", "s")
        screen = main(pilot)
        assert screen.state.view == "compare"
        assert lines(pilot)[0].split() == ["raw", "eff", "attr"]
        assert "What 3 sat looks at, and is made of · L0 H0" in screen.stage.compare.title.text
        found = screen.attribution.comparison
        assert found is not None
        row = session.attribution.shares(0, AttributionChoices(probes=128))[3]
        assert np.array_equal(found.attribution, row)
        assert "raw 0.25, effective -0.50" in detail(pilot) or "…" in detail(pilot)
        await press(pilot, "]", "}")
        assert "L1 H1" in screen.stage.compare.title.text
        assert screen.attribution.comparison is not found
        await press(pilot, "escape")
        assert screen.state.view == "grid"


@pytest.mark.parametrize("view", ["m", "s"])
async def test_copy_zoom_labels_and_words_in_the_views(
    start: Start, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "5", "w", view)  # the views are of tokens
        assert main(pilot).state.unit == "token"
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await press(pilot, "y", "-", "-", "+", "r", "c", "w", "x")
        names = [line.split("\t")[0] for line in copied[0].splitlines()]
        assert names == (["emb", *"0123"] if view == "m" else ["raw", "effective", "attribution"])
        await press(pilot, "4")
        assert main(pilot).state.view == "identity"
        await press(pilot, "5")
        assert main(pilot).state.view == "grid" and main(pilot).state.map == "attribution"


async def test_words_and_text_view(start: Start) -> None:
    session = FakeSession(4, 6, words=["un", "##do", "it"])
    async with start(session, text="x") as pilot:
        await press(pilot, "5", "w")
        window = main(pilot).grid.window
        assert window is not None and window.values.shape == (4, 4)
        assert np.allclose(np.nansum(window.values, 1), 1)
        await press(pilot, "w", "v", "right")
        assert main(pilot).stage.reading.body._values
        assert "attribution" in main(pilot).stage.reading.title.text


async def test_export_is_what_is_shown(start: Start, here: Path) -> None:
    async with start(FakeSession(4, 6)) as pilot:
        await press(pilot, "5", "}", "e", "enter")
        text = (here / "attribution-L1.csv").read_text().splitlines()
        assert text[0] == "layer,query,key,query_token,key_token,value"
        assert len(text) == 1 + 20 * 20
        assert "--probes 128 --seed 0" in list(pilot.app._notifications)[-1].message
        await press(pilot, "m", "e", "enter")
        assert (here / "attribution-own.csv").read_text().startswith("layer,n,min,q1")


async def test_what_cannot_be_had_is_said_once(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        session.attribution.error = InspectError(
            "attribution over 20 tokens needs 9 GiB", "shorten the text", ExitCode.INPUT
        )
        await press(pilot, "5", "}", "}")
        assert pilot.app.screen is main(pilot)
        assert "needs 9 GiB; shorten the text" in main(pilot).stage.maps[0].title.text
        assert "needs 9 GiB" in detail(pilot)
        await press(pilot, "m")
        assert "needs 9 GiB" in " ".join(lines(pilot))
        session.attribution.error = None
        await press(pilot, "m", "i", "right", "right", "escape")
        assert main(pilot).attribution.shown == AttributionChoices(probes=128)


async def test_another_text_while_it_is_refined(start: Start) -> None:
    session = FakeSession(4, 6)
    async with start(session) as pilot:
        await press(pilot, "5", "s")
        main(pilot).ask_open(main(pilot).wanted.__class__(None, "two words", None, None))
        await settle(pilot)
        assert main(pilot).attribution.comparison is not None
        assert len(main(pilot).attribution.comparison.keys) == 4


async def test_attribution_pressed_before_the_model_is_there() -> None:
    session = FakeSession(4, 6)
    session.gate.clear()
    async with make_app(session).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("5", "m", "s", "i", "e")
        session.gate.set()
        await settle(pilot)
        assert main(pilot).attribution.shown is not None


@pytest.mark.parametrize("settings", [Settings(colour="none"), Settings(colour="256", ascii=True)])
async def test_hostile_tokens_and_sizes(start: Start, settings: Settings) -> None:
    session = FakeSession(3, 2, words=HOSTILE * 2, causal=True)
    async with start(session, settings=settings) as pilot:
        await press(pilot, "5")
        for view in ("m", "s"):
            await press(pilot, view)
            for size in ((200, 50), (30, 9), (1, 1), (80, 24)):
                await pilot.resize_terminal(*size)
                await settle(pilot)
                for line in lines(pilot):
                    assert "\x1b" not in line and "\u202e" not in line and "\t" not in line
            await press(pilot, view)


def test_bars() -> None:
    assert bar(0.5, 4) == "██  " and bar(1, 4) == "████" and bar(0, 4) == "    "
    assert bar(0.5, 4, ascii=True) == "##  "
    assert bar(float("nan"), 3) == "   " and bar(7.0, 3) == "███"
