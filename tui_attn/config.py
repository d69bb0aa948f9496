"""Settings of one start of the program, and the folders it may write to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tui_attn.answers import Stack, Variant
from tui_attn.answers.memory import Keep

Colour = Literal["auto", "truecolor", "256", "16", "none"]
COLOUR_MAPS = ("magma", "cividis", "viridis", "greys")
"""Names of `render.palette.COLOUR_MAPS`, which the command line does not import."""


@dataclass(frozen=True)
class Settings:
    """What the command line decided, apart from the model and the text."""

    variant: Variant = "output"
    max_tokens: int | None = None
    keep: Keep | None = None
    decoder_text: str | None = None
    stack: Stack | None = None
    tolerance: float | None = None
    colour: Colour = "auto"
    colour_map: str = COLOUR_MAPS[0]
    ascii: bool = False
    mouse: bool = True
    debug: bool = False


def state_folder() -> Path:
    """Folder of the log (XDG state folder), made on first use with mode 0700."""
    from platformdirs import user_state_path

    folder = user_state_path("attn-inspect")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def cache_folder() -> Path:
    """Folder of what can be made again (XDG cache folder); who writes into it makes it."""
    from platformdirs import user_cache_path

    return user_cache_path("attn-inspect")
