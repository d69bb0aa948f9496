"""Effective attention of a head: what a variant multiplies, its factor, and rows of the map."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tui_attn.answers import Variant
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import softmax
from tui_attn.maps.factors import Factor, PrefixFactor, SharedFactor
from tui_attn.model.trace import LayerTrace, Trace, Visibility

_KEPT_FACTORS = 12
"""Heads whose factors are kept; another costs one pass over its values."""


@dataclass(frozen=True)
class Operand:
    """What a variant multiplies: the columns whose product with A must stay.

    Attributes:
        values: (s, w) float64; w is d_v, or d_v + 1 with the column of ones of `sum-one`. NaN are
            zeros here, as they would stop a factorisation; they come back through the outputs
            that they made NaN.
        shift: (d_v,) float64, the bias taken out of the values, or None.
        ones: What stands in the column of ones, or None. It has the size of a typical value, so
            that the tolerance treats it as one.
    """

    values: torch.Tensor
    shift: torch.Tensor | None = None
    ones: float | None = None

    @property
    def takes_sums(self) -> bool:
        """Whether A times `values` depends on what rows of A sum to."""
        return self.shift is not None or self.ones is not None

    def outputs(self, outputs: torch.Tensor, sums: torch.Tensor | None = None) -> torch.Tensor:
        """A times `values`, from the head's outputs (r, d_v).

        Args:
            outputs: A times the head's own values.
            sums: (r,) what rows of A sum to, where a sink takes a part; None: they sum to one.
        """
        one = torch.ones_like(outputs[:, :1]) if sums is None else sums[:, None]
        if self.shift is not None:
            return outputs - one * self.shift
        if self.ones is not None:
            return torch.cat([outputs, one * self.ones], 1)
        return outputs


def operand(layer: LayerTrace, head: int, variant: Variant) -> Operand:
    """The values that a variant of effective attention multiplies (method: three variants).

    Raises:
        InspectError: `no-bias` where the bias inside fused projections is not known (exit code 4).
    """
    kv_head = layer.kv_head(head)
    values = layer.v[kv_head].double().nan_to_num(0.0, 0.0, 0.0)
    if variant == "sum-one":
        ones = float(values.square().mean().sqrt()) or 1.0
        return Operand(torch.cat([values, torch.full_like(values[:, :1], ones)], 1), ones=ones)
    if variant == "no-bias":
        if not layer.value_bias_known:
            raise InspectError(
                "the bias of the values is not known for this model family",
                "use --variant output or sum-one",
                ExitCode.UNSUPPORTED,
            )
        if layer.value_bias is not None:
            shift = layer.value_bias[kv_head].double()
            return Operand(values - shift, shift)
    return Operand(values)


def factor(trace: Trace, layer_number: int, head: int, variant: Variant) -> tuple[Operand, Factor]:
    """The operand and factor of a head, shared by the query heads of its group."""
    layer = trace.layers[layer_number]

    def make() -> tuple[Operand, Factor]:
        made = operand(layer, head, variant)
        kind = SharedFactor if layer.visibility.shared else PrefixFactor
        return made, kind(made.values, layer.visibility, trace.tolerance)

    what = (layer_number, layer.kv_head(head), variant)
    return trace.recent("factor", what, make, most=_KEPT_FACTORS)


def effective_rows(
    trace: Trace,
    layer_number: int,
    head: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    variant: Variant,
) -> torch.Tensor:
    """Effective attention of `rows` x `columns` (half-open): float64, 0 on invisible keys.

    A query whose values are independent has no null space: its effective attention is its
    attention, exactly.
    """
    layer = trace.layers[layer_number]
    made, factors = factor(trace, layer_number, head, variant)
    identifiable = factors.null_dimensions(rows) == 0
    if bool(identifiable.all()):
        return softmax.attention_window(trace, layer_number, head, rows, columns)
    if trace.exact_outputs:
        outputs = layer.o[head, slice(*rows)].double()
    else:
        outputs = softmax.output_rows(layer, head, rows)
    sums = None
    if layer.sinks is not None and made.takes_sums:
        sums = softmax.attention_rows(layer, head, rows).sum(-1)
    weights = factors.weights(made.outputs(outputs, sums), rows)
    cells = _visible_products(layer.visibility, weights, made.values, rows, columns)
    if bool(identifiable.any()):
        which = torch.nonzero(identifiable).flatten()
        first, stop = int(which[0]), int(which[-1]) + 1
        span = (rows[0] + first, rows[0] + stop)
        raw = softmax.attention_window(trace, layer_number, head, span, columns)
        cells[which] = raw[which - first]
    return cells


def _visible_products(
    visibility: Visibility,
    weights: torch.Tensor,
    values: torch.Tensor,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> torch.Tensor:
    """Weights (r, w) times values (s, w): (rows, columns), 0 where the query does not see the key.

    Half of a causal map is not there to be multiplied, and only its edge needs a mask.
    """
    first, stop = visibility.first[slice(*rows)], visibility.stop[slice(*rows)]
    bounds = torch.stack([first.min(), first.max(), stop.min(), stop.max()])
    start, all_from, all_to, end = bounds.clamp(*columns).tolist()
    if (start, all_from, all_to, end) == (*[columns[0]] * 2, *[columns[1]] * 2):
        return weights @ values[slice(*columns)].T
    cells = weights.new_zeros(rows[1] - rows[0], columns[1] - columns[0])
    cells[:, start - columns[0] : end - columns[0]] = weights @ values[start:end].T
    for edge in ((start, all_from), (all_to, end)):
        if edge[0] < edge[1]:
            inside = cells[:, edge[0] - columns[0] : edge[1] - columns[0]]
            inside.masked_fill_(~visibility.mask(rows, edge), 0.0)
    return cells
