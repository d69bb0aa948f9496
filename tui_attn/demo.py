"""The packaged demo: its name and its text.

The text has more than 32 tokens, where attention stops being identifiable for a head width of 32.
"""

from __future__ import annotations

MODEL_NAME = "all-MiniLM-L6-v2"
TEXT = (
    "The cat sat on the mat and watched the drizzle. When the drizzle stopped, the cat tiptoed "
    "out, but the mat stayed warm for the other cat, which had been purring behind the door all "
    "morning."
)
