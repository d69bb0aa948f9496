"""The installed program as a process: start-up, pipes, and what it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def attn_inspect(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tui_attn", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        **options,
    )


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code,absent",
    [
        ("import tui_attn", {"torch", "transformers", "textual", "numpy", "rich"}),
        ("import tui_attn.cli", {"torch", "transformers", "textual", "numpy", "rich"}),
        ("import tui_attn.maps", {"torch", "transformers", "textual"}),
        ("import tui_attn.export", {"torch", "transformers", "textual"}),
        ("import tui_attn.commands.headless", {"torch", "transformers", "textual"}),
        ("import tui_attn.render.grid", {"torch", "transformers", "textual"}),
        ("import tui_attn.tui.app", {"torch", "transformers", "tui_attn.session", "numpy"}),
        ("import tui_attn.session", {"textual"}),
        ("from tui_attn.cli import main; main(['maps'])", {"torch", "transformers", "textual"}),
    ],
)
def test_heavy_imports_come_late(code: str, absent: set[str]) -> None:
    assert not modules_after(code) & absent


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["export", "--help"]])
def test_help_is_help(arguments: list[str]) -> None:
    done = attn_inspect(*arguments)
    assert done.returncode == 0
    assert "attn-inspect" in done.stdout
    assert ("MODEL" in done.stdout) == (arguments != ["--version"])
    assert done.stderr == ""


def test_public_names_are_lazy_and_there() -> None:
    code = "import tui_attn\nfor name in tui_attn.__all__: getattr(tui_attn, name)"
    assert "torch" in modules_after(code)


def test_a_screen_needs_a_terminal() -> None:
    done = attn_inspect()
    assert done.returncode == 2
    assert "export" in done.stderr
    assert done.stdout == ""


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line.replace("attn-inspect", f"{sys.executable} -m tui_attn")],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "line,reason",
    [
        ("attn-inspect maps > /dev/full", "no space left"),
        ("attn-inspect maps >&-", "closed"),
        ("attn-inspect export --map heads >&-", "closed"),
    ],
)
def test_an_output_that_takes_nothing_is_a_sentence_and_code_6(line: str, reason: str) -> None:
    done = shell(line)
    assert done.returncode == 6
    assert done.stderr.startswith("attn-inspect: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_closed_input_is_a_sentence() -> None:
    done = shell("attn-inspect export m - --map heads <&-")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_reader_that_leaves_is_no_failure() -> None:
    # The pipe is closed before anything is written: its only reader has ended.
    done = shell("set -o pipefail; { attn-inspect maps; } | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_killed_export_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    script = """
import sys, threading
from tests.fakes import FakeSession
from tui_attn import cli, session
fake = FakeSession(1, 1)
def held(*_, **__):
    print("writing", file=sys.stderr, flush=True)
    threading.Event().wait(60)
fake.window = held
session.open_session = lambda *_, **__: fake
sys.exit(cli.main(["export", "--map", "attention", "-o", sys.argv[1]]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "a.csv")],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "writing\n"
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_screen_whose_output_goes_elsewhere_names_export() -> None:
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tui_attn"],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=30,
            env=os.environ | {"TERM": "xterm-256color"},
        )
        said = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "attn-inspect export" in said


def test_import_directions_hold() -> None:
    from importlinter.cli import lint_imports

    assert lint_imports(no_cache=True) == 0
