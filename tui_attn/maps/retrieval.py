"""Nearest neighbours: which candidate a vector would be taken for, and the rank of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tui_attn.answers.identity import Metric

_BLOCK = 4096
"""Candidates looked at together: a vocabulary is never copied to float64 as a whole."""
_SLACK = 1e-12
"""Scores this close, relative to the own one, are a tie: equal rows may differ by rounding."""


@dataclass(frozen=True)
class Found:
    """The search's result for n vectors.

    Attributes:
        rank: (n,) int64, place of the own candidate from 1; ties count against it; 0 for NaN.
        cosine: (n,) float64, cosine to the own candidate (the nearest of them).
        nearest: (n,) int64, index of the candidate it is taken for; an own one where rank is 1;
            -1 for NaN.
        runner_up: (n,) int64, the next one; -1 where there is none.
    """

    rank: torch.Tensor
    cosine: torch.Tensor
    nearest: torch.Tensor
    runner_up: torch.Tensor


def no_numbers(like: torch.Tensor) -> Found:
    """What is found where there is nothing to look for: for n = len(like) vectors."""
    nowhere = torch.full_like(like, -1)
    return Found(torch.zeros_like(like), like.double().fill_(torch.nan), nowhere, nowhere.clone())


def search(
    vectors: torch.Tensor,
    labels: torch.Tensor,
    candidates: torch.Tensor,
    candidate_labels: torch.Tensor,
    metric: Metric,
) -> Found:
    """Find each vector's nearest candidates (paper, section 4: 1-NN look-up).

    A candidate is a vector's own where their labels are equal: positions for a match by position,
    ids for a match by id.

    Args:
        vectors: (n, d).
        labels: (n,) int64.
        candidates: (m, d), of any floating dtype.
        candidate_labels: (m,) int64; every label of `labels` occurs.
        metric: Cosine, or Euclidean distance.
    """
    queries = vectors.double()
    if metric == "cosine":
        queries = _unit(queries)
    own, own_index = _best_own(queries, labels, candidates, candidate_labels, metric)
    bar = own - _SLACK * (1 + own.abs())
    ahead = torch.zeros_like(labels)
    best = torch.full((len(labels), 2), -torch.inf, dtype=torch.float64, device=queries.device)
    places = torch.full((len(labels), 2), -1, dtype=torch.int64, device=queries.device)
    for start in range(0, len(candidates), _BLOCK):
        scores = _scores(queries, candidates[start : start + _BLOCK], metric)
        mine = candidate_labels[None, start : start + _BLOCK] == labels[:, None]
        scores = scores.nan_to_num(nan=-torch.inf).masked_fill(mine, -torch.inf)
        ahead += (scores >= bar[:, None]).sum(-1)
        top, index = scores.topk(min(2, scores.shape[1]))
        merged = torch.cat([best, top], 1)
        best, order = merged.topk(2)
        places = torch.cat([places, index + start], 1).gather(1, order)
    places = places.masked_fill(best.isinf(), -1)
    identified = ahead == 0
    nearest = torch.where(identified, own_index, places[:, 0])
    second_is_own = own > best[:, 1]
    runner_up = torch.where(
        identified, places[:, 0], torch.where(second_is_own, own_index, places[:, 1])
    )
    no_number = own.isnan()
    cosine = torch.linalg.vecdot(
        _unit(vectors.double()), _unit(candidates[own_index.clamp(min=0)].double())
    )
    return Found(
        (ahead + 1).masked_fill(no_number, 0),
        cosine.masked_fill(no_number, torch.nan),
        nearest.masked_fill(no_number, -1),
        runner_up.masked_fill(no_number, -1),
    )


def _best_own(
    queries: torch.Tensor,
    labels: torch.Tensor,
    candidates: torch.Tensor,
    candidate_labels: torch.Tensor,
    metric: Metric,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Score (n,) and index (n,) of the best of each vector's own candidates."""
    best = torch.full((len(labels),), -torch.inf, dtype=torch.float64, device=queries.device)
    where = torch.zeros_like(labels)
    rows = torch.isin(candidate_labels, labels).nonzero().flatten()
    for part in torch.split(rows, _BLOCK):
        scores = _scores(queries, candidates[part], metric)
        mine = candidate_labels[None, part] == labels[:, None]
        top, index = scores.masked_fill(~mine, -torch.inf).max(-1)
        better = (top > best) | top.isnan()
        best = torch.where(better, top, best)
        where = torch.where(better, part[index], where)
    return best, where


def _scores(queries: torch.Tensor, candidates: torch.Tensor, metric: Metric) -> torch.Tensor:
    """(n, m) similarity, larger is nearer; L2 leaves out the queries' own norm."""
    others = candidates.double()
    if metric == "cosine":
        return queries @ _unit(others).T
    return 2 * queries @ others.T - others.square().sum(-1)


def _unit(rows: torch.Tensor) -> torch.Tensor:
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    unit: torch.Tensor = rows / norms.clamp(min=torch.finfo(torch.float64).tiny)
    return unit
