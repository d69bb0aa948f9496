"""The installed program in a real terminal, with the real demo model."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.terminal import Terminal
from tui_attn.model import demo

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.skipif(demo.folder() is None, reason="the extra `demo` is not installed"),
]


@pytest.fixture(params=[(80, 24), (200, 50)], ids=["80x24", "200x50"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path, *request.param)
    yield made
    made.close()


def test_first_use(terminal: Terminal, tmp_path: Path) -> None:
    """Open the demo, walk through heads, part raw and effective, write a CSV, quit."""
    terminal.run()
    terminal.wait_for("loading torch")
    terminal.press("?")  # keys are answered while the model loads
    terminal.wait_for("Raw attention is what the head gives")
    terminal.press("Escape")
    screen = terminal.wait_for("L0 heads")
    assert "all-MiniLM-L6-v2" in screen
    terminal.wait_for("raw 0.")
    terminal.press("]", "]", "]", "}")
    terminal.wait_for("Raw attention · L1 H3")
    terminal.press("j", "l", "l")
    terminal.wait_for("query 1 the → key 2 cat")
    terminal.press("Space")
    terminal.wait_for("Effective attention (output) · L1 H3")
    terminal.press("s")
    terminal.wait_for("Raw attention · L1 H3")
    terminal.press("s", ":")
    terminal.wait_for("Go to")
    terminal.type("L5H7 q=12")
    terminal.press("Enter")
    terminal.wait_for("L5 H7")
    terminal.wait_for("query 12 ##zle")
    terminal.press("e")
    terminal.wait_for("effective-L5H7.csv")
    terminal.press("Enter")
    terminal.wait_for("wrote")
    terminal.press("q")
    terminal.wait_for("code 0")
    with (tmp_path / "effective-L5H7.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 50 * 50
    assert np.isfinite([float(row["value"]) for row in rows]).all()


def test_hidden_states(terminal: Terminal, tmp_path: Path) -> None:
    """Identity and attribution, moving on while it is refined, and their tables."""
    terminal.run()
    terminal.wait_for("raw 0.")
    terminal.press("4")
    terminal.wait_for("Token identity")
    terminal.wait_for("naive by id")
    terminal.press("}", "}", "}", "}", "}")
    terminal.wait_for("at L5")
    terminal.press("i")
    terminal.wait_for("special tokens")
    terminal.press("i", "e")
    terminal.wait_for("identity-naive.csv")
    terminal.press("Enter")
    terminal.wait_for("wrote")
    terminal.press("5")
    terminal.wait_for("Hidden token attribution")
    terminal.press("j", "l")
    terminal.wait_for("query 1 the")
    terminal.wait_for("not main")
    terminal.press("m")
    terminal.wait_for("Own share of every token")
    terminal.press("s")
    terminal.wait_for("rank corr")
    terminal.press("q")
    terminal.wait_for("code 0")
    with (tmp_path / "identity-naive.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7 * 48
    assert {row["rank"] for row in rows if row["layer"] == "emb"} == {"1"}


def test_edit_the_text_and_resize(terminal: Terminal) -> None:
    terminal.run("all-MiniLM-L6-v2", "'[/INST] [red] 日本'")
    terminal.wait_for("raw 0.")
    for columns, lines in ((250, 70), (30, 10), (80, 24)):
        terminal.resize(columns, lines)
        terminal.press("j")
    terminal.wait_for("query 3")
    screen = terminal.wait_for("日")
    assert "L5 " in screen  # the panes are back
    terminal.press("t")
    terminal.wait_for("enter: run it")
    terminal.type(" and the cat")
    terminal.press("Enter")  # at once: no letter may be overtaken
    terminal.wait_for("15 tokens")
    terminal.wait_for("cat")
    terminal.press("q")
    terminal.wait_for("code 0")


def test_quitting_while_the_model_loads_is_quick(terminal: Terminal) -> None:
    terminal.run()
    terminal.wait_for("loading torch")
    terminal.press("q")
    terminal.wait_for("code 0", seconds=15)


def test_a_wrong_model_is_a_sentence_on_the_screen(terminal: Terminal) -> None:
    terminal.run("./nothing-here")
    screen = terminal.wait_for("there is no file or folder")
    assert "Traceback" not in screen
    terminal.press("q")
    terminal.wait_for("code")
