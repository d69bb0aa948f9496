"""Ranks and identity rates as colours and cells: the screen and the pictures draw them alike."""

from __future__ import annotations

from tui_attn.answers import FloatArray
from tui_attn.answers.identity import IdentityWindow
from tui_attn.render.grid import number
from tui_attn.render.scale import Scale

SHARES = Scale(0.0, 1.0, root=False)
"""Ranks as positions, and rates: 0 is dark, 1 is bright."""


def positions(window: IdentityWindow) -> FloatArray:
    """Where ranks lie: 1 for an identified token, 0 for the last of the candidates, by logarithm.

    Returns:
        Of the window's shape; NaN where there is no rank.
    """
    import numpy as np

    ranks = np.where(window.rank > 0, window.rank, np.nan)
    last = np.log(max(window.candidates, 2))
    places: FloatArray = 1 - np.log(ranks) / last
    return places


def cosine_scale(window: IdentityWindow) -> Scale:
    """What the colours of similarities span: signed where some are negative."""
    import numpy as np

    known = window.cosine[np.isfinite(window.cosine)]
    low = float(known.min()) if known.size else 0.0
    return Scale(low, 1.0, signed=low < 0, root=False)


def cell(window: IdentityWindow, row: int, column: int) -> str:
    """What a cell says: the cosine where the token is identified, else what it is taken for."""
    rank = int(window.rank[row, column])
    if rank == 0:
        return "" if window.layers[column] == "emb" else "NaN"  # nothing lies below `emb`
    if rank == 1:
        return number(float(window.cosine[row, column]))
    return window.names.get(int(window.nearest[row, column]), "")
