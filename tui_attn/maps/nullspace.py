r"""The linear algebra of effective attention: factors of the values, per set of visible keys.

With T the values (s x d_v) that a query sees, effective attention is the minimum-norm X with
X T = A T, hence X = O T^+ from the head's output O = A T alone (On Identifiability in Transformers,
section 3; method: equivalent forms). Two cases:

- all queries see the same keys: one thin SVD T = U S W^T serves every row, A_eff = (O W S^-1) U^T;
- each query sees its own keys (causal, windows): with G_i the Gram matrix of its visible values,
  A_eff[i, j] = (G_i^+ o_i) . t_j. Gram matrices are kept at block boundaries only, so memory stays
  O(s d_v).

Everything is float64: Gram matrices square the condition number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tui_attn.answers import Variant
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import softmax
from tui_attn.model.trace import LayerTrace, Trace, Visibility

_BLOCK = 64
"""Rows between two kept Gram matrices."""
_KEPT_INVERSES = 4
"""Row ranges whose inverses a factor keeps: those of one pass over a layer's statistics."""


def relative_tolerance(keys: int, width: int) -> float:
    """The bound, relative to the largest singular value, below which one counts as zero.

    The precision of float32, in which models run, and never of a half-precision dtype.
    """
    return max(keys, width) * torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class Operand:
    """What a variant multiplies: the columns whose product with A must stay.

    Attributes:
        values: (s, w) float64; w is d_v, or d_v + 1 with the column of ones of `sum-one`.
        shift: (d_v,) float64, the bias taken out of the values, or None.
        ones: What stands in the column of ones, or None. It has the size of a typical value, so
            that the tolerance treats it as one.
    """

    values: torch.Tensor
    shift: torch.Tensor | None
    ones: float | None

    def outputs(self, outputs: torch.Tensor) -> torch.Tensor:
        """A times `values`, from the head's outputs (r, d_v), as rows of A sum to one."""
        if self.shift is not None:
            return outputs - self.shift
        if self.ones is not None:
            return torch.cat([outputs, torch.full_like(outputs[:, :1], self.ones)], 1)
        return outputs


class SharedFactor:
    """Factor of the values where every query sees the same keys.

    Args:
        values: (s, w) float64, all keys.
        visibility: The one interval of visible keys.
        tolerance: See `Trace.tolerance`.
    """

    def __init__(
        self, values: torch.Tensor, visibility: Visibility, tolerance: float | None
    ) -> None:
        self._first, self._stop = int(visibility.first[0]), int(visibility.stop[0])
        visible = values[self._first : self._stop]
        orthogonal, triangle = torch.linalg.qr(visible)
        left, singular, right = torch.linalg.svd(triangle, full_matrices=False)
        if tolerance is None:
            tolerance = relative_tolerance(*visible.shape)
        self.rank = int((singular > tolerance * singular[0]).sum())
        self._left = values.new_zeros(len(values), self.rank)  # U, (s, r): zero on unseen keys
        self._left[self._first : self._stop] = orthogonal @ left[:, : self.rank]
        self._unmix = right[: self.rank].T / singular[: self.rank]  # W S^-1, (w, r)

    def forget(self) -> None:
        """Nothing to free: one small factor serves all rows."""

    def null_dimensions(self, rows: tuple[int, int]) -> torch.Tensor:
        """Dimension of the null space for each query of `rows`: (rows,) int64."""
        dimension = self._stop - self._first - self.rank
        return torch.full((rows[1] - rows[0],), dimension, device=self._left.device)

    def ranks(self, rows: tuple[int, int]) -> torch.Tensor:
        """Rank of the values that each query sees: (rows,) int64."""
        return torch.full((rows[1] - rows[0],), self.rank, device=self._left.device)

    def window(
        self, outputs: torch.Tensor, rows: tuple[int, int], columns: tuple[int, int]
    ) -> torch.Tensor:
        """Effective attention of `rows` x `columns` from A T of those rows (r, w)."""
        return torch.mm(outputs @ self._unmix, self._left[slice(*columns)].T)


class PrefixFactor:
    """Factors of the values where each query sees an interval of its own.

    Args:
        values: (s, w) float64, all keys.
        visibility: The intervals.
        tolerance: See `Trace.tolerance`.
    """

    def __init__(
        self, values: torch.Tensor, visibility: Visibility, tolerance: float | None
    ) -> None:
        self._values = values
        self._visibility = visibility
        self._tolerance = tolerance
        self._prefix = self._block_sums()
        self._inverses: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def _block_sums(self) -> torch.Tensor:
        """(blocks + 1, w, w): Gram matrices of the keys before each block boundary."""
        length, width = self._values.shape
        padded = torch.nn.functional.pad(self._values, (0, 0, 0, -length % _BLOCK))
        blocks = padded.reshape(-1, _BLOCK, width)
        sums = (blocks.transpose(1, 2) @ blocks).cumsum(0)
        return torch.cat([torch.zeros_like(sums[:1]), sums])

    def _grams(self, ends: torch.Tensor) -> torch.Tensor:
        """(r, w, w): Gram matrices of the keys before each of `ends`."""
        blocks = ends // _BLOCK
        offsets = torch.arange(_BLOCK, device=ends.device)
        positions = blocks[:, None] * _BLOCK + offsets  # (r, BLOCK)
        inside = (positions < ends[:, None]).double()
        rest = self._values[positions.clamp(max=len(self._values) - 1)] * inside[..., None]
        grams: torch.Tensor = torch.baddbmm(self._prefix[blocks], rest.transpose(1, 2), rest)
        return grams

    def _inverse(self, rows: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Pseudo-inverse Gram matrices (r, w, w) and ranks (r,) of each query's visible values."""
        if rows not in self._inverses:
            first = self._visibility.first[slice(*rows)]
            stop = self._visibility.stop[slice(*rows)]
            grams = self._grams(stop)
            if bool(first.any()):
                grams = grams - self._grams(first)
            squares, basis = torch.linalg.eigh(grams)
            keys = stop - first
            kept = squares > self._bounds(keys)[:, None] * squares[:, -1:]
            inverse_squares = torch.where(kept, 1 / squares.where(kept, 1.0), 0.0)
            inverse = (basis * inverse_squares[:, None]) @ basis.transpose(1, 2)
            # The screen asks for the same rows again, the heads of a group for a few blocks.
            while len(self._inverses) >= _KEPT_INVERSES:
                del self._inverses[next(iter(self._inverses))]
            self._inverses[rows] = (inverse, kept.sum(-1).minimum(keys))
        return self._inverses[rows]

    def _bounds(self, keys: torch.Tensor) -> torch.Tensor:
        """(r,): eigenvalues of a Gram matrix below this share of the largest count as zero.

        The tolerance squared, but never less than the rounding noise of the eigenvalues.
        """
        width = self._values.shape[1]
        if self._tolerance is None:
            tolerances = keys.clamp(min=width) * torch.finfo(torch.float32).eps
        else:
            tolerances = torch.full_like(self._values[:1, 0], self._tolerance).expand(len(keys))
        noise = 8 * width * torch.finfo(torch.float64).eps
        return tolerances.double().square().clamp(min=noise)

    def forget(self) -> None:
        """Free the inverses of rows; the Gram matrices stay."""
        self._inverses.clear()

    def null_dimensions(self, rows: tuple[int, int]) -> torch.Tensor:
        """Dimension of the null space for each query of `rows`: (rows,) int64."""
        span = slice(*rows)
        visible = self._visibility.stop[span] - self._visibility.first[span]
        return visible - self.ranks(rows)

    def ranks(self, rows: tuple[int, int]) -> torch.Tensor:
        """Rank of the values that each query sees: (rows,) int64."""
        return self._inverse(rows)[1]

    def window(
        self, outputs: torch.Tensor, rows: tuple[int, int], columns: tuple[int, int]
    ) -> torch.Tensor:
        """Effective attention of `rows` x `columns` from A T of those rows (r, w)."""
        inverse, _ = self._inverse(rows)
        weights = (inverse @ outputs[..., None])[..., 0]  # (r, w)
        cells = weights @ self._values[slice(*columns)].T
        return cells.masked_fill_(~self._visibility.mask(rows, columns), 0.0)


Factor = SharedFactor | PrefixFactor


def operand(layer: LayerTrace, head: int, variant: Variant) -> Operand:
    """The values that a variant of effective attention multiplies (method: three variants).

    Raises:
        InspectError: `no-bias` where the bias inside fused projections is not known (exit code 4).
    """
    kv_head = layer.kv_head(head)
    values = layer.v[kv_head].double()
    if variant == "sum-one":
        ones = float(values.square().mean().sqrt()) or 1.0
        return Operand(torch.cat([values, torch.full_like(values[:, :1], ones)], 1), None, ones)
    if variant == "no-bias":
        if not layer.value_bias_known:
            raise InspectError(
                "the bias of the values is not known for this model family",
                "use --variant output or sum-one",
                ExitCode.UNSUPPORTED,
            )
        if layer.value_bias is not None:
            shift = layer.value_bias[kv_head].double()
            return Operand(values - shift, shift, None)
    return Operand(values, None, None)


def factor(trace: Trace, layer_number: int, head: int, variant: Variant) -> tuple[Operand, Factor]:
    """The operand and factor of a head, shared by the query heads of its group."""
    layer = trace.layers[layer_number]

    def make() -> tuple[Operand, Factor]:
        made = operand(layer, head, variant)
        kind = SharedFactor if layer.visibility.shared else PrefixFactor
        # A NaN would stop the factorisation; it comes back through the outputs it made NaN.
        values = made.values.nan_to_num(0.0, 0.0, 0.0)
        return made, kind(values, layer.visibility, trace.tolerance)

    return trace.remember(("factor", layer_number, layer.kv_head(head), variant), make)


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
        return softmax.attention_rows(layer, head, rows)[:, slice(*columns)]
    if trace.exact_outputs:
        outputs = layer.o[head, slice(*rows)].double()
    else:
        outputs = softmax.output_rows(layer, head, rows)
    cells = factors.window(made.outputs(outputs), rows, columns)
    if bool(identifiable.any()):
        raw = softmax.attention_rows(layer, head, rows)[:, slice(*columns)]
        cells = torch.where(identifiable[:, None], raw, cells)
    return cells
