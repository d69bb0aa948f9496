"""Logging to a file only: anything written to the terminal would tear the screen."""

from __future__ import annotations

import logging
from pathlib import Path

from tui_attn.config import state_folder


def start(debug: bool) -> Path | None:
    """Send the package's log to a file.

    Args:
        debug: Log everything instead of warnings.

    Returns:
        The file, or None where it cannot be written (a read-only home is no reason to stop).
    """
    logger = logging.getLogger("tui_attn")
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    logger.propagate = False
    try:
        path = state_folder() / "attn-inspect.log"
        handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    except OSError:
        logger.addHandler(logging.NullHandler())
        return None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger.addHandler(handler)
    return path
