"""What a session is asked and what it answers: plain data, and the protocol that the screen sees.

Nothing here knows torch, transformers or textual, so a fake session with fixed numbers can stand in
for a real one.
"""

from __future__ import annotations

from tui_attn.answers.arrays import BoolArray, FloatArray, IntArray
from tui_attn.answers.heads import (
    VARIANTS,
    Cell,
    Extent,
    HeadSummary,
    Overview,
    Unit,
    Variant,
    Window,
)
from tui_attn.answers.inspector import Inspector
from tui_attn.answers.runs import DEVICE_MAPS, Check, ModelInfo, ModelRequest, Piece, Run, Token

__all__ = [
    "DEVICE_MAPS",
    "VARIANTS",
    "BoolArray",
    "Cell",
    "Check",
    "Extent",
    "FloatArray",
    "HeadSummary",
    "Inspector",
    "IntArray",
    "ModelInfo",
    "ModelRequest",
    "Overview",
    "Piece",
    "Run",
    "Token",
    "Unit",
    "Variant",
    "Window",
]
