"""Tables of attribution: what the figures 3 and 4 of the paper draw (arXiv 1908.04211)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tui_attn.answers import Token
from tui_attn.answers.attribution import KindShares, Mixing, OwnShares

DISTANCES: tuple[tuple[str, int, int | None], ...] = (
    ("1", 1, 1),
    ("2", 2, 2),
    ("3", 3, 3),
    ("4", 4, 4),
    ("5", 5, 5),
    ("6-10", 6, 10),
    ("11+", 11, None),
)
"""Bins of distance between a token and its neighbours: name, first and last distance."""


def mixing(shares: torch.Tensor, layer: str, kinds: Sequence[str]) -> Mixing:
    """The summaries of one layer.

    Args:
        shares: (s, s), query x input.
        layer: Its name.
        kinds: The kind of each token.
    """
    length = len(shares)
    return Mixing(
        own=own_shares(shares, layer),
        own_each=shares.diagonal().cpu().numpy(),
        before=float(shares.tril(-1).sum()) / length,
        after=float(shares.triu(1).sum()) / length,
        distances=by_distance(shares),
        offsets=tuple(by_offset(shares).items()),
        kinds=tuple(by_kind(shares, kinds)),
    )


def own_shares(shares: torch.Tensor, layer: str) -> OwnShares:
    """Own shares of a layer from its shares (s, s), query x input."""
    own = shares.diagonal()
    marks = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=shares.dtype, device=shares.device)
    minimum, lower, median, upper, maximum = own.quantile(marks).tolist()
    not_main = float((own < shares.amax(-1)).double().mean())
    return OwnShares(layer, minimum, lower, median, upper, maximum, not_main)


def by_offset(shares: torch.Tensor) -> dict[int, float]:
    """Total contribution by signed distance j - i of input j to token i (figure 4b).

    Args:
        shares: (s, s), query x input.

    Returns:
        Totals for -(s - 1) … s - 1; they sum to s. Distance o occurs s - |o| times.
    """
    length = len(shares)
    return {offset: float(shares.diagonal(offset).sum()) for offset in range(1 - length, length)}


def by_distance(shares: torch.Tensor) -> tuple[tuple[str, float, float], ...]:
    """Relative contribution of neighbours by distance and side (figure 4a).

    Args:
        shares: (s, s), query x input.

    Returns:
        For each of `DISTANCES` its part of all that comes from other tokens, from before and from
        after; all parts together are 1. NaN where nothing comes from others.
    """
    totals = by_offset(shares)
    others = sum(total for offset, total in totals.items() if offset)

    def part(first: int, last: int | None, sign: int) -> float:
        end = len(shares) - 1 if last is None else last
        inside = (totals.get(sign * distance, 0.0) for distance in range(first, end + 1))
        return sum(inside) / others if others else float("nan")

    return tuple(
        (name, part(first, last, -1), part(first, last, 1)) for name, first, last in DISTANCES
    )


def by_kind(shares: torch.Tensor, kinds: Sequence[str]) -> list[KindShares]:
    """Contribution by kind of token, in order of first appearance.

    Args:
        shares: (s, s), query x input.
        kinds: The kind of each token, e.g. special, word start, continuation, punctuation, number.
    """
    found = []
    for kind in dict.fromkeys(kinds):
        where = torch.tensor([other == kind for other in kinds], device=shares.device)
        found.append(
            KindShares(
                kind=kind,
                tokens=int(where.sum()),
                own=float(shares.diagonal()[where].mean()),
                given=float(shares[:, where].sum(-1).mean()),
            )
        )
    return found


def kind(token: Token, before: Token | None) -> str:
    """The kind of a token: special, punctuation, number, word start or continuation."""
    if token.special:
        return "special"
    letters = token.text.removeprefix("##").strip("·⏎⇥ ")
    if letters and not any(letter.isalnum() for letter in letters):
        return "punctuation"
    if any(letter.isdigit() for letter in letters) and not any(map(str.isalpha, letters)):
        return "number"
    starts = before is None or before.word != token.word
    return "word start" if starts else "continuation"


def kinds(tokens: Sequence[Token]) -> list[str]:
    """The kind of every token of a text."""
    return [kind(token, before) for token, before in zip(tokens, (None, *tokens), strict=False)]


def rank_correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    """Spearman's correlation of two vectors (n,); equal values share their mean rank."""
    ranks = [_ranks(values.double()) for values in (one, other)]
    centred = [values - values.mean() for values in ranks]
    norms = centred[0].norm() * centred[1].norm()
    return float(centred[0] @ centred[1] / norms) if float(norms) > 0 else float("nan")


def _ranks(values: torch.Tensor) -> torch.Tensor:
    _, groups, counts = torch.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    means: torch.Tensor = last - (counts - 1) / 2
    return means[groups]
