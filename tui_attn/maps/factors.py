r"""Factors of the values a query sees: from a head's output to the least attention that gives it.

With T the values (s x w) that a query sees, effective attention is the minimum-norm X with
X T = A T, hence X = O T^+ = O (T^T T)^+ T^T from the output O = A T alone (On Identifiability in
Transformers, section 3; method: equivalent forms). A factor turns outputs O into weights
O (T^T T)^+; their product with the values is the map, so what is kept is small and a window costs
rows x columns x w.

- All queries see the same keys: one w x w inverse serves every row.
- Each query sees its own keys (causal, windows): Gram matrices at block boundaries, O(s w) in all.

Everything is float64, since Gram matrices square the condition number; where that would cost digits
an orthogonal factorisation takes their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch

from tui_attn.model.trace import Visibility

_BLOCK = 64
"""Rows between two kept Gram matrices."""
_STEP = 16
"""Rows that share a base inside a block whose own base is too badly conditioned."""
_CONDITION = 1e6
"""Gram matrices up to this condition number are inverted as they are: ten digits are left."""
_KEPT_BLOCKS = 4
"""Blocks whose factors are kept: those of a screen, and a few more."""


def relative_tolerance(keys: int, width: int) -> float:
    """The bound, relative to the largest singular value, below which one counts as zero.

    The precision of float32, in which models run, and never of a half-precision dtype.
    """
    return max(keys, width) * torch.finfo(torch.float32).eps


class SharedFactor:
    """Factor of the values where every query sees the same keys.

    Args:
        values: (s, w) float64, all keys, finite.
        visibility: The one interval of visible keys.
        tolerance: See `Trace.tolerance`.
    """

    def __init__(
        self, values: torch.Tensor, visibility: Visibility, tolerance: float | None
    ) -> None:
        first, stop = int(visibility.first[0]), int(visibility.stop[0])
        visible = values[first:stop]
        if tolerance is None:
            tolerance = relative_tolerance(*visible.shape)
        self.rank, self._inverse = _pseudo_inverse(visible, tolerance)
        self._null_dimension = stop - first - self.rank

    def null_dimensions(self, rows: tuple[int, int]) -> torch.Tensor:
        """Dimension of the null space for each query of `rows`: (rows,) int64."""
        return torch.full((rows[1] - rows[0],), self._null_dimension, device=self._inverse.device)

    def ranks(self, rows: tuple[int, int]) -> torch.Tensor:
        """Rank of the values that each query sees: (rows,) int64."""
        return torch.full((rows[1] - rows[0],), self.rank, device=self._inverse.device)

    def weights(self, outputs: torch.Tensor, rows: tuple[int, int]) -> torch.Tensor:
        """What multiplies the values: (rows, w), from A T of those rows (rows, w)."""
        return outputs @ self._inverse


def _pseudo_inverse(values: torch.Tensor, tolerance: float) -> tuple[int, torch.Tensor]:
    """Rank of the values (s, w), and the pseudo-inverse (w, w) of their Gram matrix."""
    width = values.shape[1]
    if not len(values):
        return 0, values.new_zeros(width, width)
    if len(values) >= width and _CONDITION * tolerance**2 < 1:
        gram = values.T @ values
        triangle, failed = torch.linalg.cholesky_ex(gram)
        # Norms bound the condition number from above: a pass is a proof of full rank.
        if not failed:
            inverse = torch.cholesky_inverse(triangle)
            if gram.norm() * inverse.norm() < _CONDITION:
                return width, inverse
    triangle = torch.linalg.qr(values, mode="r").R
    _, singular, right = torch.linalg.svd(triangle, full_matrices=False)
    rank = int((singular > tolerance * singular[0]).sum())
    unmix = right[:rank].T / singular[:rank]  # W S^-1, (w, r)
    return rank, unmix @ unmix.T


class PrefixFactor:
    """Factors of the values where each query sees an interval of its own.

    Args:
        values: (s, w) float64, all keys, finite.
        visibility: The intervals.
        tolerance: See `Trace.tolerance`.
    """

    def __init__(
        self, values: torch.Tensor, visibility: Visibility, tolerance: float | None
    ) -> None:
        self._values = values
        self._first, self._stop = visibility.first, visibility.stop
        self._tolerance = tolerance
        self._sums = _block_sums(values)
        self._prefixes = _leading_prefixes(visibility)
        self._width = values.shape[1]
        self._blocks: dict[int, list[_Piece]] = {}

    def null_dimensions(self, rows: tuple[int, int]) -> torch.Tensor:
        """Dimension of the null space for each query of `rows`: (rows,) int64."""
        return (self._stop - self._first)[slice(*rows)] - self.ranks(rows)

    def ranks(self, rows: tuple[int, int]) -> torch.Tensor:
        """Rank of the values that each query sees: (rows,) int64."""
        return torch.cat(
            [piece.ranks[slice(*inside)] for piece, inside, _ in self._pieces_of(rows)]
        )

    def weights(self, outputs: torch.Tensor, rows: tuple[int, int]) -> torch.Tensor:
        """What multiplies the values: (rows, w), from A T of those rows (rows, w).

        Zero for queries without a null space: their effective attention is their attention.
        """
        return torch.cat(
            [
                piece.weights(outputs[slice(*outside)], inside)
                for piece, inside, outside in self._pieces_of(rows)
            ]
        )

    def _pieces_of(
        self, rows: tuple[int, int]
    ) -> Iterator[tuple[_Piece, tuple[int, int], tuple[int, int]]]:
        """The pieces that hold `rows`, with the range inside the piece and inside `rows`."""
        for block in range(rows[0] // _BLOCK, (rows[1] - 1) // _BLOCK + 1):
            for piece in self._block(block):
                start, stop = max(rows[0], piece.start), min(rows[1], piece.stop)
                if start < stop:
                    inside = (start - piece.start, stop - piece.start)
                    yield piece, inside, (start - rows[0], stop - rows[0])

    def _block(self, block: int) -> list[_Piece]:
        if block not in self._blocks:
            # The screen asks for the same rows again and again, a pass over all rows never does.
            while len(self._blocks) >= _KEPT_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            start, stop = block * _BLOCK, min((block + 1) * _BLOCK, len(self._stop))
            whole = self._on_base(start, stop) or self._independent(start, stop)
            self._blocks[block] = [whole] if whole else list(self._in_steps(start, stop))
        return self._blocks[block]

    def _in_steps(self, start: int, stop: int) -> Iterator[_Piece]:
        for step in range(start, stop, _STEP):
            end = min(step + _STEP, stop)
            yield self._on_base(step, end) or self._independent(step, end) or self._alone(step, end)

    def _on_base(self, start: int, stop: int) -> _Piece | None:
        """The rows as additions to what row `start` finds; None where that would cost digits."""
        if start < self._width or stop > self._prefixes:
            return None
        base = self._gram(start)
        added = self._values[start:stop]
        limit = min(_CONDITION, 1 / self._bound(stop))
        triangle, failed = torch.linalg.cholesky_ex(base)
        if failed:
            return None
        inverse = torch.cholesky_inverse(triangle)
        # Every Gram matrix of the piece lies between its base and its end.
        end = base + added.T @ added
        if inverse.norm() * end.trace() >= limit:  # a bound from above, and a cheap one
            smallest = torch.linalg.eigvalsh(base)[0]
            if not smallest * limit > torch.linalg.eigvalsh(end)[-1]:
                return None
        return _OnBase(start, stop, added, inverse)

    def _independent(self, start: int, stop: int) -> _Piece | None:
        """The rows as ones without a null space; None where that is not so for all of them."""
        if stop > min(self._width, self._prefixes):
            return None
        # Fewer keys than the last row sees can only be more independent.
        singular = torch.linalg.svdvals(self._values[:stop])
        tolerance = self._tolerance or relative_tolerance(stop, self._width)
        return (
            _Independent(start, stop, singular) if singular[-1] > tolerance * singular[0] else None
        )

    def _alone(self, start: int, stop: int) -> _Piece:
        """The rows one by one."""
        first, ends = self._first[start:stop], self._stop[start:stop]
        grams = self._grams(ends)
        if bool(first.any()):
            grams = grams - self._grams(first)
        return _Alone(start, stop, grams, self._bounds(ends - first), ends - first)

    def _gram(self, end: int) -> torch.Tensor:
        """(w, w): Gram matrix of the keys before `end`."""
        block = end // _BLOCK
        rest = self._values[block * _BLOCK : end]
        return self._sums[block] + rest.T @ rest if len(rest) else self._sums[block]

    def _grams(self, ends: torch.Tensor) -> torch.Tensor:
        """(r, w, w): Gram matrices of the keys before each of `ends`."""
        blocks = ends // _BLOCK
        offsets = torch.arange(_BLOCK, device=ends.device)
        positions = blocks[:, None] * _BLOCK + offsets  # (r, BLOCK)
        inside = (positions < ends[:, None]).double()
        rest = self._values[positions.clamp(max=len(self._values) - 1)] * inside[..., None]
        grams: torch.Tensor = torch.baddbmm(self._sums[blocks], rest.transpose(1, 2), rest)
        return grams

    def _bounds(self, keys: torch.Tensor) -> torch.Tensor:
        """(r,): `_bound` of each row."""
        return keys.new_tensor([self._bound(count) for count in keys.tolist()], dtype=torch.float64)

    def _bound(self, keys: int) -> float:
        """Eigenvalues of a Gram matrix below this share of the largest count as zero.

        The tolerance squared, but never less than the rounding noise of the eigenvalues.
        """
        tolerance = self._tolerance or relative_tolerance(keys, self._width)
        return max(tolerance**2, 8 * self._width * torch.finfo(torch.float64).eps)


def _leading_prefixes(visibility: Visibility) -> int:
    """How many of the first queries see themselves and everything before, and nothing else."""
    ends = torch.arange(1, len(visibility.stop) + 1, device=visibility.stop.device)
    plain = (visibility.first == 0) & (visibility.stop == ends)
    return int(plain.long().cumprod(0).sum())


def _block_sums(values: torch.Tensor) -> torch.Tensor:
    """(blocks + 1, w, w): Gram matrices of the keys before each block boundary."""
    length, width = values.shape
    padded = torch.nn.functional.pad(values, (0, 0, 0, -length % _BLOCK))
    blocks = padded.reshape(-1, _BLOCK, width)
    sums = (blocks.transpose(1, 2) @ blocks).cumsum(0)
    return torch.cat([torch.zeros_like(sums[:1]), sums])


class _Piece(Protocol):
    """Rows `start` … `stop` - 1 that are factored together; ranges count from `start`."""

    start: int
    stop: int
    ranks: torch.Tensor
    """(stop - start,) int64."""

    def weights(self, outputs: torch.Tensor, rows: tuple[int, int]) -> torch.Tensor:
        """What multiplies the values: (rows, w)."""
        ...


class _OnBase:
    """Rows that add their own values, one after the other, to a base G that all of them see.

    With P = G^-1 and I + V P V^T = L L^T, Woodbury's identity gives every row at once, since the
    leading parts of L are the factors of the leading parts:

        w_i = P o_i - P V^T L^-T (L^-1 V P o_i, cut off after i).
    """

    def __init__(self, start: int, stop: int, added: torch.Tensor, inverse: torch.Tensor) -> None:
        self.start, self.stop = start, stop
        self.ranks = torch.full((stop - start,), added.shape[1], device=added.device)
        self._inverse = inverse
        self._mixed = added @ inverse  # V P, (n, w)
        identity = torch.eye(len(added), dtype=added.dtype, device=added.device)
        self._triangle = torch.linalg.cholesky(identity + self._mixed @ added.T)

    def weights(self, outputs: torch.Tensor, rows: tuple[int, int]) -> torch.Tensor:
        """What multiplies the values: (rows, w)."""
        solved = torch.linalg.solve_triangular(self._triangle, self._mixed @ outputs.T, upper=False)
        solved = solved.triu(-rows[0])  # column c is row rows[0] + c
        corrections = torch.linalg.solve_triangular(self._triangle.T, solved, upper=True)
        found: torch.Tensor = outputs @ self._inverse - corrections.T @ self._mixed
        return found


class _Independent:
    """Rows whose values are independent: there is nothing to project away."""

    def __init__(self, start: int, stop: int, like: torch.Tensor) -> None:
        self.start, self.stop = start, stop
        self.ranks = torch.arange(start + 1, stop + 1, device=like.device)

    def weights(self, outputs: torch.Tensor, rows: tuple[int, int]) -> torch.Tensor:
        """Zero: their effective attention is their attention."""
        return torch.zeros_like(outputs)


class _Alone:
    """Rows with a pseudo-inverse (w, w) each."""

    def __init__(
        self,
        start: int,
        stop: int,
        grams: torch.Tensor,
        bounds: torch.Tensor,
        keys: torch.Tensor,
    ) -> None:
        self.start, self.stop = start, stop
        squares, basis = torch.linalg.eigh(grams)
        kept = squares > bounds[:, None] * squares[:, -1:]
        inverse_squares = torch.where(kept, 1 / squares.where(kept, 1.0), 0.0)
        self._inverses = (basis * inverse_squares[:, None]) @ basis.transpose(1, 2)
        self.ranks = kept.sum(-1).minimum(keys)

    def weights(self, outputs: torch.Tensor, rows: tuple[int, int]) -> torch.Tensor:
        """What multiplies the values: (rows, w)."""
        found: torch.Tensor = (self._inverses[slice(*rows)] @ outputs[..., None])[..., 0]
        return found


Factor = SharedFactor | PrefixFactor
