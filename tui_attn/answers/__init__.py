"""What a session is asked and what it answers: plain data, and the protocol that the screen sees.

Nothing here knows torch, transformers or textual, so a fake session with fixed numbers can stand in
for a real one.
"""

from __future__ import annotations

from tui_attn.answers.arrays import BoolArray, FloatArray, IntArray
from tui_attn.answers.heads import (
    VARIANTS,
    Axis,
    Cell,
    Extent,
    HeadSummary,
    Overview,
    Unit,
    Variant,
    Window,
)
from tui_attn.answers.inspector import Inspector
from tui_attn.answers.runs import (
    DEVICE_MAPS,
    STACKS,
    Check,
    DecoderSource,
    ModelInfo,
    ModelRequest,
    Piece,
    Run,
    Stack,
    Token,
)

__all__ = [
    "DEVICE_MAPS",
    "STACKS",
    "VARIANTS",
    "Axis",
    "BoolArray",
    "Cell",
    "Check",
    "DecoderSource",
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
    "Stack",
    "Token",
    "Unit",
    "Variant",
    "Window",
]
