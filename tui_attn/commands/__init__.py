"""What each command does, after the command line was read."""

from __future__ import annotations

from tui_attn.commands.headless import Headless, export, read_text, selection
from tui_attn.commands.reports import doctor, maps, models
from tui_attn.commands.screen import screen

__all__ = [
    "Headless",
    "doctor",
    "export",
    "maps",
    "models",
    "read_text",
    "screen",
    "selection",
]
