"""A real terminal for the installed program: tmux on a socket of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest


class Terminal:
    """A tmux session of a fixed size in which the program runs."""

    def __init__(self, folder: Path, columns: int, lines: int) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        self._socket = str(folder / "tmux")
        self._environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        size = ("-x", str(columns), "-y", str(lines))
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-s", "a", *size, "-c", str(folder), "sh"
        )

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env=self._environment,
        )
        return done.stdout

    def run(self, *arguments: str) -> None:
        """Start the installed program."""
        program = Path(sys.executable).parent / "attn-inspect"
        words = " ".join([str(program), *arguments])
        self._tmux("send-keys", "-t", "a", "-l", f"{words}; echo code $?")
        self._tmux("send-keys", "-t", "a", "Enter")

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names."""
        self._tmux("send-keys", "-t", "a", *keys)

    def type(self, text: str) -> None:
        """Type text literally."""
        self._tmux("send-keys", "-t", "a", "-l", text)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal."""
        self._tmux("resize-window", "-t", "a", "-x", str(columns), "-y", str(lines))

    @property
    def screen(self) -> str:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p", "-t", "a")

    def wait_for(self, text: str, seconds: float = 60) -> str:
        """The screen as soon as this text stands on it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen = self.screen
            if text in screen:
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{text!r} does not appear:\n{self.screen}")

    def close(self) -> None:
        """End the terminal and what runs in it."""
        self._tmux("kill-server")
