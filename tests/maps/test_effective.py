"""Oracles E1 to E23 for effective attention, on random toys in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests import toys
from tui_attn.answers import VARIANTS, Variant
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import nullspace
from tui_attn.maps.factors import PrefixFactor, SharedFactor, relative_tolerance
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model.trace import LayerTrace, Trace, Visibility

S, D_V = 100, 32
ALL = (0, S)


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def eff(
    trace: Trace, head: int = 0, variant: Variant = "output", span: tuple[int, int] | None = None
) -> torch.Tensor:
    rows = span or (0, trace.layers[0].length)
    return effective_rows(trace, 0, head, rows, (0, trace.layers[0].length), variant)


@pytest.fixture(params=[False, True], ids=["encoder", "decoder"])
def layer(request: pytest.FixtureRequest) -> LayerTrace:
    return toys.layer_trace(S, causal=request.param, bias=True)


def replace_outputs(layer: LayerTrace, attention: torch.Tensor) -> Trace:
    """The same values under another attention: what its outputs alone determine."""
    outputs = torch.stack([attention @ layer.v[layer.kv_head(h)] for h in range(layer.heads)])
    return toys.trace(LayerTrace(**{**vars(layer), "o": outputs}))


def test_e1_effective_attention_gives_the_head_its_output(layer: LayerTrace) -> None:
    a, v = toys.attention(layer, 0), layer.v[0]
    a_eff = eff(toys.trace(layer))
    close(a_eff @ v, a @ v)
    projection = torch.randn(D_V, 256, dtype=torch.float64)
    t = v @ projection
    close(a_eff @ t, a @ t, 1e-9)


def test_e2_null_attention_gives_nothing_and_rows_lie_in_the_column_space() -> None:
    layer = toys.layer_trace(S)
    a, v = toys.attention(layer, 0), layer.v[0]
    a_eff = eff(toys.trace(layer))
    close((a - a_eff) @ v, torch.zeros(S, D_V, dtype=torch.float64))
    close(a_eff @ (torch.eye(S, dtype=torch.float64) - v @ torch.linalg.pinv(v)), 0 * a)


def test_e3_idempotent(layer: LayerTrace) -> None:
    a_eff = eff(toys.trace(layer))
    again = replace_outputs(layer, a_eff)
    span = (D_V + 1, S) if layer.visibility.is_causal else ALL
    close(eff(again, span=span), a_eff[slice(*span)])


def test_e4_orthogonal_parts(layer: LayerTrace) -> None:
    a = toys.attention(layer, 0)
    a_eff = eff(toys.trace(layer))
    null = a - a_eff
    assert abs(float((null * a_eff).sum())) < 1e-10
    assert math.isclose(
        float(a.square().sum()), float(a_eff.square().sum() + null.square().sum()), rel_tol=1e-12
    )


def test_e5_minimum_norm() -> None:
    layer = toys.layer_trace(S)
    a, v = toys.attention(layer, 0), layer.v[0]
    a_eff = eff(toys.trace(layer))
    onto_null = torch.eye(S, dtype=torch.float64) - v @ torch.linalg.pinv(v)
    for scale in (1e-3, 1.0):
        moved = a_eff + scale * torch.randn(S, S, dtype=torch.float64) @ onto_null
        close(moved @ v, a @ v, 1e-9)
        assert float(moved.norm()) > float(a_eff.norm())


def test_e6_textbook_projection_and_pseudo_inverse(layer: LayerTrace) -> None:
    a, v = toys.attention(layer, 0), layer.v[0]
    mask = layer.visibility.mask(ALL, ALL)
    a_eff = eff(toys.trace(layer))
    close(a_eff, toys.effective(a, v, mask))
    if not layer.visibility.is_causal:
        close(a_eff, layer.o[0] @ torch.linalg.pinv(v))
        close(a_eff, a @ v @ torch.linalg.pinv(v))


def test_e7_only_the_column_space_of_the_values_counts(layer: LayerTrace) -> None:
    mix = torch.randn(D_V, D_V, dtype=torch.float64)
    mixed = LayerTrace(**{**vars(layer), "v": layer.v @ mix, "o": layer.o @ mix})
    close(eff(toys.trace(mixed)), eff(toys.trace(layer)), 1e-8)


@pytest.mark.parametrize("length", [1, 2, D_V - 1, D_V])
@pytest.mark.parametrize("causal", [False, True])
def test_e8_short_texts_are_identifiable(length: int, causal: bool) -> None:
    layer = toys.layer_trace(length, causal=causal)
    assert torch.equal(eff(toys.trace(layer)), toys.attention(layer, 0))


def test_e9_one_key_more_than_the_width_is_the_cliff() -> None:
    layer = toys.layer_trace(D_V + 1)
    a, trace = toys.attention(layer, 0), toys.trace(layer)
    assert float((eff(trace) - a).abs().max()) > 1e-3
    close(eff(trace, variant="sum-one"), a)
    beyond = toys.layer_trace(D_V + 2)
    moved = eff(toys.trace(beyond), variant="sum-one") - toys.attention(beyond, 0)
    assert float(moved.abs().max()) > 1e-3


@pytest.mark.parametrize("length", [D_V - 2, D_V, D_V + 1, S])
@pytest.mark.parametrize("causal", [False, True])
def test_e10_dimension_of_the_null_space(length: int, causal: bool) -> None:
    layer = toys.layer_trace(length, causal=causal)
    _, factor = nullspace.factor(toys.trace(layer), 0, 0, "output")
    assert int(factor.null_dimensions((0, length)).max()) == max(length - D_V, 0)


@pytest.mark.parametrize("causal", [False, True])
def test_e11_sum_one_keeps_row_sums_and_forgets_the_bias(causal: bool) -> None:
    layer = toys.layer_trace(S, causal=causal, bias=True)
    a, v, mask = toys.attention(layer, 0), layer.v[0], layer.visibility.mask(ALL, ALL)
    assert layer.value_bias is not None
    bare = v - layer.value_bias[0]
    a_one = eff(toys.trace(layer), variant="sum-one")
    close(a_one.sum(-1), torch.ones(S, dtype=torch.float64))
    close(a_one @ v, a @ v)
    close(a_one @ bare, a @ bare)
    without = LayerTrace(
        **{
            **vars(layer),
            "v": bare[None].expand(2, -1, -1),
            "o": (a @ bare)[None].expand(2, -1, -1),
        }
    )
    close(eff(toys.trace(without), variant="sum-one"), a_one)
    close(a_one, toys.effective(a, torch.cat([v, torch.ones(S, 1).double()], 1), mask))


def test_e11_closed_form_of_sum_one() -> None:
    layer = toys.layer_trace(S)
    a_eff = eff(toys.trace(layer))
    v = layer.v[0]
    ones = torch.ones(S, dtype=torch.float64)
    w = ones - v @ torch.linalg.pinv(v) @ ones
    expected = a_eff + (1 - a_eff.sum(-1))[:, None] * w / (w @ w)
    close(eff(toys.trace(layer), variant="sum-one"), expected)


def test_no_bias_is_the_paper_taken_literally(layer: LayerTrace) -> None:
    assert layer.value_bias is not None
    a, mask = toys.attention(layer, 0), layer.visibility.mask(ALL, ALL)
    bare = layer.v[0] - layer.value_bias[0]
    a_bare = eff(toys.trace(layer), variant="no-bias")
    close(a_bare, toys.effective(a, bare, mask))
    close(a_bare @ bare, a @ bare)
    assert float((a_bare - eff(toys.trace(layer))).abs().max()) > 1e-3


def test_no_bias_is_refused_where_the_bias_is_not_known() -> None:
    layer = LayerTrace(**{**vars(toys.layer_trace(S)), "value_bias_known": False})
    with pytest.raises(InspectError) as caught:
        eff(toys.trace(layer), variant="no-bias")
    assert caught.value.code == ExitCode.UNSUPPORTED


def test_norms_grow_from_effective_over_sum_one_to_raw(layer: LayerTrace) -> None:
    trace = toys.trace(layer)
    norms = [eff(trace).norm(), eff(trace, variant="sum-one").norm()]
    assert norms[0] <= norms[1] <= toys.attention(layer, 0).norm()


def test_e12_row_sums() -> None:
    layer = toys.layer_trace(S)
    v, a = layer.v[0], toys.attention(layer, 0)
    onto_null = torch.eye(S, dtype=torch.float64) - v @ torch.linalg.pinv(v)
    close(eff(toys.trace(layer)).sum(-1), 1 - (a @ onto_null).sum(-1))


def test_e13_leverage_bounds_every_cell() -> None:
    layer = toys.layer_trace(S)
    left = torch.linalg.svd(layer.v[0], full_matrices=False)[0]
    leverage = left.square().sum(-1)
    assert math.isclose(float(leverage.sum()), D_V, rel_tol=1e-12)  # E10: leverages sum to rank
    bound = toys.attention(layer, 0).norm(dim=-1)[:, None] * leverage.sqrt()
    assert bool((eff(toys.trace(layer)).abs() <= bound + 1e-12).all())


@pytest.mark.parametrize("causal", [False, True])
def test_e14_equal_and_zero_values(causal: bool) -> None:
    values = toys.layer_trace(S).v.clone()
    values[:, 7] = values[:, 3]
    values[:, 5] = 0
    layer = toys.layer_trace(S, causal=causal, values=values)
    a_eff = eff(toys.trace(layer))
    seeing = slice(8, S) if causal else slice(0, S)
    close(a_eff[seeing, 7], a_eff[seeing, 3])
    close(a_eff[:, 5], torch.zeros(S, dtype=torch.float64))
    _, factor = nullspace.factor(toys.trace(layer), 0, 0, "output")
    if causal:  # repeated values are not identifiable long before s = d_v
        assert factor.null_dimensions((0, 10)).tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 2, 2]


def test_e15_permutations_and_linearity() -> None:
    layer = toys.layer_trace(S)
    base = eff(toys.trace(layer))
    keys, queries = torch.randperm(S), torch.randperm(S)
    permuted = LayerTrace(
        **{
            **vars(layer),
            "q": layer.q[:, queries],
            "k": layer.k[:, keys],
            "v": layer.v[:, keys],
            "o": layer.o[:, queries],
        }
    )
    close(eff(toys.trace(permuted)), base[queries][:, keys])
    doubled = LayerTrace(**{**vars(layer), "o": 2 * layer.o})
    close(eff(toys.trace(doubled)), 2 * base)


def test_e16_decoders_never_leak_onto_future_keys() -> None:
    layer = toys.layer_trace(S, causal=True)
    a, a_eff = toys.attention(layer, 0), eff(toys.trace(layer))
    assert bool((a_eff.triu(1) == 0).all())
    assert float((a_eff[:D_V] - a[:D_V]).abs().max()) < 1e-15
    assert float((a_eff[D_V] - a[D_V]).abs().max()) > 1e-3
    _, factor = nullspace.factor(toys.trace(layer), 0, 0, "output")
    expected = [max(row + 1 - D_V, 0) for row in range(S)]
    assert factor.null_dimensions(ALL).tolist() == expected


def test_e16_future_tokens_change_nothing() -> None:
    layer = toys.layer_trace(S, causal=True)
    short = LayerTrace(
        **{
            **vars(layer),
            **{name: getattr(layer, name)[:, :60] for name in ("q", "k", "v", "o")},
            "visibility": Visibility.causal(60),
        }
    )
    close(eff(toys.trace(short)), eff(toys.trace(layer))[:60, :60])


@pytest.mark.parametrize("left,right", [(4, 0), (40, 0), (50, 50), (3, 2)])
def test_e17_windows_and_any_interval_match_an_svd_per_row(left: int, right: int) -> None:
    position = torch.arange(S)
    visibility = Visibility((position - left).clamp(min=0), (position + right + 1).clamp(max=S))
    layer = toys.layer_trace(S, visibility=visibility)
    a, mask = toys.attention(layer, 0), visibility.mask(ALL, ALL)
    close(eff(toys.trace(layer)), toys.effective(a, layer.v[0], mask))


def test_e17_prefix_and_shared_factors_agree() -> None:
    layer = toys.layer_trace(S)
    values = layer.v[0]
    shared = SharedFactor(values, layer.visibility, toys.FULL_ROW_RANK)
    prefix = PrefixFactor(values, layer.visibility, toys.FULL_ROW_RANK)
    close(prefix.weights(layer.o[0], ALL), shared.weights(layer.o[0], ALL))
    assert prefix.ranks(ALL).tolist() == shared.ranks(ALL).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
def test_e18_padding_changes_nothing(side: str) -> None:
    layer = toys.layer_trace(60)
    pads = (9, 0) if side == "left" else (0, 9)

    def padded(tensor: torch.Tensor, value: float) -> torch.Tensor:
        return torch.nn.functional.pad(tensor, (0, 0, *pads), value=value)

    first = torch.full((69,), pads[0])
    with_pads = LayerTrace(
        **{
            **vars(layer),
            **{name: padded(getattr(layer, name), 7.0) for name in ("q", "k", "v", "o")},
            "visibility": Visibility(first, first + 60),
        }
    )
    inside = slice(pads[0], pads[0] + 60)
    a_eff = eff(toys.trace(with_pads))
    close(a_eff[inside, inside], eff(toys.trace(layer)))
    outside = torch.ones(69, dtype=torch.bool)
    outside[inside] = False
    assert bool((a_eff[:, outside] == 0).all())


def test_e19_grouped_queries_are_the_repeated_ones() -> None:
    grouped = toys.layer_trace(S, heads=6, kv_heads=2, causal=True)
    repeated = LayerTrace(
        **{
            **vars(grouped),
            "k": grouped.k.repeat_interleave(3, 0),
            "v": grouped.v.repeat_interleave(3, 0),
        }
    )
    one, other = toys.trace(grouped), toys.trace(repeated)
    for head in range(6):
        close(eff(one, head), eff(other, head))
    assert nullspace.factor(one, 0, 0, "output") is nullspace.factor(one, 0, 2, "output")
    assert nullspace.factor(one, 0, 0, "output") is not nullspace.factor(one, 0, 3, "output")


def test_e20_cells_are_certain_exactly_where_the_sum_one_null_space_is_empty() -> None:
    """Least and largest weight of a distribution with the same output, by linear program."""
    widths, d_v = {}, 6
    for length in (d_v + 1, d_v + 2, 2 * d_v):
        layer = toys.layer_trace(length, d_v=d_v)
        row, values = toys.attention(layer, 0)[0].numpy(), layer.v[0].numpy()
        equal = np.concatenate([values, np.ones((length, 1))], 1).T
        ends = [
            linprog(sign * np.eye(length)[2], A_eq=equal, b_eq=equal @ row, bounds=(0, None))
            for sign in (1, -1)
        ]
        low, high = ends[0].fun, -ends[1].fun
        assert low - 1e-9 <= row[2] <= high + 1e-9
        assert (ends[0].x > 1e-9).sum() <= d_v + 1  # a vertex, after Caratheodory
        _, factor = nullspace.factor(toys.trace(layer), 0, 0, "sum-one")
        widths[int(factor.null_dimensions((0, 1)))] = high - low
    assert widths[0] < 1e-9
    assert widths[1] > 1e-6
    assert widths[d_v - 1] > 1e-6


def test_e21_truncation_error_is_bounded() -> None:
    layer = toys.layer_trace(S)
    v, a = layer.v[0], toys.attention(layer, 0)
    singular = torch.linalg.svdvals(v)
    cut = float((singular[20] + singular[21]) / 2 / singular[0])
    truncated = eff(toys.trace(layer, tolerance=cut))
    error = float((truncated @ v - a @ v).norm())
    spectral = float(torch.linalg.matrix_norm(a, 2))
    assert 0 < error <= spectral * float(singular[21:].square().sum().sqrt()) + 1e-12


def test_e23_the_common_mistakes_are_told_apart() -> None:
    """What an implementer gets wrong must be far from what this code computes."""
    decoder = toys.layer_trace(S, causal=True)
    a, v = toys.attention(decoder, 0), decoder.v[0]
    right = eff(toys.trace(decoder))
    onto_columns = v @ torch.linalg.pinv(v)
    leaking = a @ onto_columns
    assert float(leaking.triu(1).abs().max()) > 1e-2
    zeroed = leaking.tril()
    assert float((zeroed @ v - a @ v).abs().max()) > 1e-2
    assert float((right @ v - a @ v).abs().max()) < 1e-10
    encoder = toys.layer_trace(S)
    wrong_side = onto_columns @ toys.attention(encoder, 0)
    assert float((wrong_side - eff(toys.trace(encoder))).abs().max()) > 1e-2


def test_effective_attention_is_signed_and_not_renormalised() -> None:
    a_eff = eff(toys.trace(toys.layer_trace(S)))
    assert float(a_eff.min()) < -1e-3
    assert float((a_eff.sum(-1) - 1).abs().max()) > 1e-2


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(1, 90),
    width=st.integers(1, 40),
    causal=st.booleans(),
    variant=st.sampled_from(VARIANTS),
    data=st.data(),
)
def test_any_window_is_a_piece_of_the_whole_map(
    length: int, width: int, causal: bool, variant: Variant, data: st.DataObject
) -> None:
    layer = toys.layer_trace(length, 2, 1, 8, width, causal=causal, bias=True, seed=length)
    trace = toys.trace(layer)
    spans = []
    for _ in range(2):
        start = data.draw(st.integers(0, length - 1))
        spans.append((start, data.draw(st.integers(start + 1, length))))
    rows, columns = spans
    whole = eff(trace, 1, variant)
    window = effective_rows(trace, 0, 1, rows, columns, variant)
    close(window, whole[slice(*rows), slice(*columns)], 1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_outputs_are_computed_again(causal: bool) -> None:
    exact = toys.layer_trace(64, causal=causal)
    rounded = {name: getattr(exact, name).bfloat16() for name in ("q", "k", "v", "o")}
    layer = LayerTrace(**{**vars(exact), **rounded})
    again = LayerTrace(**{**vars(layer), **{name: rounded[name].double() for name in rounded}})
    expected = toys.effective(
        toys.attention(again, 0), again.v[0], layer.visibility.mask((0, 64), (0, 64))
    )
    half = Trace({0: layer}, tolerance=toys.FULL_ROW_RANK, exact_outputs=False)
    close(eff(half), expected, 1e-9)


def test_tolerance_is_never_that_of_half_precision() -> None:
    assert math.isclose(relative_tolerance(512, 32), 6.1e-5, rel_tol=1e-2)


@pytest.mark.parametrize("rows", [(0, 200), (20, 90), (63, 65), (100, 101), (130, 200)])
@pytest.mark.parametrize("kind", ["plain", "repeated", "flat", "steep"])
def test_any_rows_of_a_causal_map_match_an_svd_per_row(rows: tuple[int, int], kind: str) -> None:
    """Rows are factored in blocks, and what a block does depends on its values' condition."""
    layer = toys.layer_trace(200, causal=True)
    values = layer.v[0]
    if kind == "repeated":  # few distinct tokens: rank stays low for long
        values[:150] = values[torch.arange(150) % 7]
    elif kind == "flat":  # never of full rank
        values[:, 5] = values[:, 4]
    elif kind == "steep":  # condition number 1e5
        values *= torch.logspace(0, -5, D_V, dtype=torch.float64)
    a = toys.attention(layer, 0)
    layer.o[0] = a @ values
    one = toys.trace(layer, tolerance=1e-7 if kind == "steep" else toys.FULL_ROW_RANK)
    found = effective_rows(one, 0, 0, rows, (0, 200), "output")
    mask = layer.visibility.mask((0, 200), (0, 200))
    wanted = toys.effective(a, values, mask, rtol=1e-7)[slice(*rows)]
    close(found, wanted, 1e-4 if kind == "steep" else 1e-9)
    _, factor = nullspace.factor(one, 0, 0, "output")
    singular = [torch.linalg.svdvals(values[: row + 1]) for row in range(*rows)]
    ranks = [int((found > 1e-7 * found[0]).sum()) for found in singular]
    assert factor.ranks(rows).tolist() == ranks


def test_a_factor_keeps_the_matrices_of_few_rows() -> None:
    """A matrix for every row would be far more than the trace itself."""
    layer = toys.layer_trace(2000, causal=True)
    one = toys.trace(layer)
    for start in range(0, 2000, 40):
        effective_rows(one, 0, 0, (start, start + 40), (0, 40), "output")
    _, factor = nullspace.factor(one, 0, 0, "output")
    assert isinstance(factor, PrefixFactor)
    assert _matrices(factor) <= 4 * 64 + 2000 // 64 + 2 + 2000 // D_V + 1


def _matrices(factor: PrefixFactor) -> int:
    """How many D_V x D_V matrices of float64 a factor holds."""
    seen: dict[int, int] = {}

    def walk(value: object) -> None:
        if isinstance(value, torch.Tensor):
            seen[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)
        elif hasattr(value, "__dict__"):
            walk(vars(value))

    walk(vars(factor))
    return sum(seen.values()) // (D_V * D_V * 8)
