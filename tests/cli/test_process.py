"""The installed program as a process: start-up, pipes, and what it imports."""

from __future__ import annotations

import subprocess
import sys

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
    assert done.stderr == ""


def test_public_names_are_lazy_and_there() -> None:
    code = "import tui_attn\nfor name in tui_attn.__all__: getattr(tui_attn, name)"
    assert "torch" in modules_after(code)


def test_a_screen_needs_a_terminal() -> None:
    done = attn_inspect()
    assert done.returncode == 2
    assert "export" in done.stderr
    assert done.stdout == ""


def test_import_directions_hold() -> None:
    from importlinter.cli import lint_imports

    assert lint_imports(no_cache=True) == 0
