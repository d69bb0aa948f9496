"""The packaged demo: its name and its text (longer than 32 tokens, where attention stops being
identifiable for a head width of 32)."""

from __future__ import annotations

MODEL_NAME = "all-MiniLM-L6-v2"
TEXT = (
    "The cat sat on the mat and watched the rain. When the rain stopped, the cat went out, "
    "but the mat stayed warm for the other cat, which had waited behind the door all morning."
)
