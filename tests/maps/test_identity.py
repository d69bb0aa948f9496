"""Oracles T1 to T7 for token identity, on random toys."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_attn.answers.identity import DEFAULTS, METRICS, IdentityChoices, Metric, Rate, choose
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps.identity import identify
from tui_attn.maps.retrieval import search
from tui_attn.model.trace import Trace

S, D = 60, 16


def trace(ids: torch.Tensor | None = None, seed: int = 0, states: int = 3) -> Trace:
    """Hidden states that drift away from the embeddings; word embeddings for 100 ids."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(100, D, generator=generator, dtype=torch.float64)
    ids = torch.arange(S) if ids is None else ids
    hidden = [words[ids] + 0.1 * torch.randn(len(ids), D, generator=generator).double()]
    for _ in range(states):
        hidden.append(hidden[-1] + 0.8 * torch.randn(len(ids), D, generator=generator).double())
    return Trace({}, tuple(hidden), ids=ids, word_embeddings=words)


def accuracy(made: Trace, state: int, choices: IdentityChoices, **options) -> float:
    positions = torch.arange(len(made.ids))
    found = identify(made, state, positions, choices, **options)
    return float((found.rank == 1).double().mean())


REPEATED = torch.arange(S) % 20


@pytest.mark.parametrize("metric", METRICS)
def test_t1_the_embeddings_are_themselves(metric: Metric) -> None:
    assert accuracy(trace(), 0, choose(metric=metric)) == 1
    assert accuracy(trace(REPEATED), 0, choose(metric=metric)) == 1


@pytest.mark.parametrize("metric", METRICS)
def test_t2_random_vectors_are_found_by_chance(metric: Metric) -> None:
    hits = []
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        vectors, targets = torch.randn(2, 20, D, generator=generator).double()
        found = search(vectors, torch.arange(20), targets, torch.arange(20), metric)
        hits.append(float((found.rank == 1).double().mean()))
    mean = sum(hits) / len(hits)
    assert abs(mean - 1 / 20) < 4 * math.sqrt(0.05 * 0.95 / (200 * 20))


def test_t3_cosine_ignores_lengths_and_l2_does_not() -> None:
    made = trace()
    factors = torch.linspace(0.1, 8, S, dtype=torch.float64)[:, None]
    scaled = Trace({}, tuple(state * factors.flip(0) for state in made.hidden), ids=made.ids)
    positions = torch.arange(S)
    one = search(made.hidden[2], positions, made.hidden[0], positions, "cosine")
    other = search(scaled.hidden[2], positions, made.hidden[0] * factors, positions, "cosine")
    assert torch.equal(one.rank, other.rank) and torch.equal(one.nearest, other.nearest)
    by_l2 = search(made.hidden[2], positions, made.hidden[0] * factors, positions, "l2")
    assert not torch.equal(one.rank, by_l2.rank)


def test_t4_on_unit_vectors_both_metrics_rank_alike() -> None:
    made = trace()
    vectors, targets = (torch.nn.functional.normalize(made.hidden[k], dim=-1) for k in (3, 0))
    positions = torch.arange(S)
    one, other = (search(vectors, positions, targets, positions, metric) for metric in METRICS)
    assert torch.equal(one.rank, other.rank)
    assert torch.equal(one.nearest, other.nearest)
    assert torch.equal(one.runner_up, other.runner_up)


@pytest.mark.parametrize("metric", METRICS)
def test_t5_an_id_is_found_at_least_as_often_as_a_position(metric: Metric) -> None:
    repeated, unique = trace(REPEATED), trace()
    for state in range(4):
        by_position = choose(metric=metric)
        by_id = choose(metric=metric, match="id")
        assert accuracy(repeated, state, by_id) >= accuracy(repeated, state, by_position)
        assert accuracy(unique, state, by_id) == accuracy(unique, state, by_position)
    assert accuracy(repeated, 1, by_id) > accuracy(repeated, 1, by_position)


@pytest.mark.parametrize("metric", METRICS)
def test_t6_more_candidates_never_help(metric: Metric) -> None:
    made = trace(REPEATED)
    for state in range(4):
        in_text = choose(target="word", match="id", metric=metric)
        in_vocabulary = choose(candidates="vocabulary", metric=metric)
        assert accuracy(made, state, in_vocabulary) <= accuracy(made, state, in_text)


def test_equal_candidates_count_against_a_token() -> None:
    made = trace(torch.tensor([3, 5, 3, 7]))
    positions = torch.arange(4)
    found = identify(made, 0, positions, choose(target="word"))
    assert found.rank.tolist() == [2, 1, 2, 1]
    assert found.nearest.tolist() == [2, 1, 0, 3]  # taken for the twin
    found = identify(made, 0, positions, choose(target="word", match="id"))
    assert found.rank.tolist() == [1, 1, 1, 1]


def test_the_layer_below_has_nothing_below_it() -> None:
    positions = torch.arange(S)
    choices = choose(target="previous")
    found = identify(trace(), 0, positions, choices)
    assert found.rank.eq(0).all() and found.cosine.isnan().all() and found.nearest.eq(-1).all()
    assert accuracy(trace(), 2, choices) > accuracy(trace(), 2, DEFAULTS)


def test_nan_is_never_identified() -> None:
    made = trace()
    made.hidden[1][4] = torch.nan
    positions = torch.arange(S)
    found = identify(made, 1, positions, DEFAULTS)
    assert found.rank[4] == 0 and found.nearest[4] == -1 and found.cosine[4].isnan()
    assert found.rank[[i for i in range(S) if i != 4]].min() >= 1
    made.hidden[0][9] = torch.nan  # a candidate that is no number is never the nearest
    found = identify(made, 2, positions, DEFAULTS)
    assert found.rank[9] == 0
    assert 9 not in found.nearest.tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_blocks_of_candidates_change_nothing(metric: Metric, monkeypatch) -> None:
    made = trace(REPEATED)
    positions, ids = torch.arange(S), made.ids
    arguments = (made.hidden[3], ids, made.hidden[0], ids, metric)
    whole = search(*arguments)
    monkeypatch.setattr("tui_attn.maps.retrieval._BLOCK", 7)
    parts = search(*arguments)
    for name in ("rank", "nearest", "runner_up"):
        assert torch.equal(getattr(whole, name), getattr(parts, name))
    assert len(positions) == S


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.booleans(), st.sampled_from(METRICS))
def test_against_the_definition(seed: int, count: int, by_id: bool, metric: Metric) -> None:
    """Every pair by the textbook formula, one by one."""
    generator = torch.Generator().manual_seed(seed)
    vectors, targets = torch.randn(2, count, 4, generator=generator).double()
    labels = (
        torch.randint(0, count, (count,), generator=generator) if by_id else torch.arange(count)
    )
    found = search(vectors, labels, targets, labels, metric)
    for i in range(count):
        if metric == "cosine":
            near = [float(torch.cosine_similarity(vectors[i], x, dim=0)) for x in targets]
        else:
            near = [-float((vectors[i] - x).norm()) for x in targets]
        own = max(near[j] for j in range(count) if labels[j] == labels[i])
        ahead = [j for j in range(count) if labels[j] != labels[i] and near[j] >= own]
        assert found.rank[i] == 1 + len(ahead)
        order = sorted(range(count), key=lambda j: -near[j])
        assert found.nearest[i] == order[0]
        if not ahead:
            others = [j for j in order if labels[j] != labels[i]]
            assert found.runner_up[i] == (others[0] if others else -1)
        elif not by_id:
            assert found.runner_up[i] == order[1]


def test_the_interval_is_wilsons() -> None:
    low, high = Rate("0", DEFAULTS, 8, 10).interval
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)  # Agresti and Coull 1998
    assert Rate("0", DEFAULTS, 10, 10).interval[1] == 1
    assert Rate("0", DEFAULTS, 0, 10).interval[0] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidates": "vocabulary", "target": "embedding"},
        {"candidates": "vocabulary", "match": "position"},
        {"target": "previous", "probe": "ridge"},
        {"target": "sideways"},
        {"metric": "dot"},
        {"match": "name"},
        {"candidates": "all"},
    ],
)
def test_choices_that_contradict_each_other_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InspectError) as caught:
        choose(**wrong)
    assert caught.value.code == ExitCode.USAGE


def test_word_embeddings_of_another_width_are_refused() -> None:
    made = trace()
    narrow = Trace({}, made.hidden, ids=made.ids, word_embeddings=torch.zeros(100, D // 2))
    with pytest.raises(InspectError, match="width 8"):
        accuracy(narrow, 1, choose(target="word"))
    with pytest.raises(InspectError, match="cannot be read"):
        accuracy(Trace({}, made.hidden, ids=made.ids), 1, choose(target="word"))
