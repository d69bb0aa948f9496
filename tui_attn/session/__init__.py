"""The narrow waist: a model held warm, one text run through it; plain arrays out."""

from __future__ import annotations

from tui_attn.session.core import Session, open_session

__all__ = ["Session", "open_session"]
