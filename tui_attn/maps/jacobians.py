r"""Norms of Jacobians: which inputs a hidden state is made of.

    c_ij^l = ||d e_i^l / d x_j|| / sum_k ||d e_i^l / d x_k||

with x_j the output of the embeddings at position j and e_i^l the output of block l at position i
(On Identifiability in Transformers, arXiv 1908.04211, section 5). The norm is Frobenius's. Shares
of a hidden state sum to one over the inputs.

`Exact` pushes all d unit tangents of every input through the model. `Estimate` pushes k random ones
v of +-1, for which the mean of ||J v||^2 is an unbiased estimate of ||J||_F^2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from tui_attn.answers.attribution import Norm
from tui_attn.errors import ExitCode, InspectError
from tui_attn.progress import Job

if TYPE_CHECKING:
    from tui_attn.model.tangents import Pushed


class Pusher(Protocol):
    """What pushes tangents through a model: `model.tangents.Tangents`."""

    length: int
    width: int
    layers: int

    @property
    def batch(self) -> int:
        """Tangents that go through together."""
        ...

    def prepare(self, count: int, job: Job | None = None) -> None:
        """Get ready for so many tangents."""
        ...

    def push(
        self, positions: torch.Tensor, vectors: torch.Tensor, job: Job | None = None
    ) -> Pushed:
        """Push tangents (T, d) that sit at inputs (T,)."""
        ...


def shares_of(norms: torch.Tensor) -> torch.Tensor:
    """Shares from norms (…, query, input): each row over its sum, NaN where all are zero."""
    return norms / norms.sum(-1, keepdim=True)


class Exact:
    """The norms of all Jacobians, input by input; a cancelled sweep goes on where it stopped.

    Args:
        pusher: The model at one text.

    Attributes:
        done: (s,) bool, inputs whose Jacobians are known.
    """

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher
        self.done = torch.zeros(pusher.length, dtype=torch.bool)
        shape = (pusher.layers + 1, pusher.length, pusher.length)  # layer, input, query
        self._squares = torch.zeros(shape, dtype=torch.float64)
        self._sums = torch.zeros(shape, dtype=torch.float64)

    @property
    def complete(self) -> bool:
        """Whether every input has been swept."""
        return bool(self.done.all())

    def sweep(self, job: Job | None = None) -> None:
        """Sweep the inputs that are left.

        Raises:
            Cancelled: The job was cancelled; inputs that were done stay done.
            InspectError: As for `Tangents.push`.
        """
        job = job or Job()
        pusher = self._pusher
        left = torch.nonzero(~self.done).flatten().tolist()
        pusher.prepare(len(left) * pusher.width, job)
        unit = torch.eye(pusher.width)
        for position in left:
            job.report("exact attribution", int(self.done.sum()), pusher.length)
            pushed = pusher.push(torch.full((pusher.width,), position), unit, job)
            self._squares[:, position] = pushed.squares.sum(1)
            self._sums[:, position] = pushed.sums.sum(1)
            self.done[position] = True

    def shares(self, layer: int, norm: Norm = "frobenius") -> torch.Tensor:
        """Shares after a block.

        Args:
            layer: 0 is the output of the embeddings, l + 1 the output of block l.
            norm: `ones` is the 2-norm of 1^T J, the sum over output components, which is what
                `tf.gradients` and `grad_outputs=ones` give (method: 5.1).

        Returns:
            (s, s) float64, query x input. NaN for `ones` where the sum over output components is
            only rounding, as after a layer norm with equal weights.

        Raises:
            InspectError: The sweep is not complete (exit code 5).
        """
        if not self.complete:
            raise InspectError(
                f"{int(self.done.sum())} of {len(self.done)} inputs are done",
                "let the sweep finish, or take the estimate",
                ExitCode.INPUT,
            )
        frobenius = self._squares[layer].T.sqrt()
        if norm == "frobenius":
            return shares_of(frobenius)
        sums = self._sums[layer].T.sqrt()
        rounding = torch.finfo(torch.float32).eps * self._pusher.width**0.5
        lost = sums.sum(-1) <= rounding * frobenius.sum(-1)
        return shares_of(sums.masked_fill(lost[:, None], 0.0))


class Estimate:
    """Shares from k random tangents for each input; more tangents refine it.

    The `ones` norm is not estimated: its relative error would be sqrt(2 / k) in every square.

    Args:
        pusher: The model at one text.
        seed: Tangent n of input j depends on the seed, n and j alone.

    Attributes:
        seed: The seed.
        counts: (s,) int64, tangents pushed for each input.
    """

    def __init__(self, pusher: Pusher, seed: int = 0) -> None:
        self._pusher = pusher
        self.seed = seed
        self.counts = torch.zeros(pusher.length, dtype=torch.int64)
        shape = (pusher.layers + 1, pusher.length, pusher.length)  # layer, input, query
        self._total = torch.zeros(shape, dtype=torch.float64)
        self._total_squared = torch.zeros(shape, dtype=torch.float64)

    @property
    def probes(self) -> int:
        """Tangents that every input has had, at least."""
        return int(self.counts.min())

    def copy(self) -> Estimate:
        """The same estimate, to be refined without changing this one."""
        made = Estimate(self._pusher, self.seed)
        made.counts = self.counts.clone()
        made._total = self._total.clone()
        made._total_squared = self._total_squared.clone()
        return made

    def refine(self, probes: int, job: Job | None = None) -> None:
        """Push tangents until every input has had `probes` of them.

        Raises:
            Cancelled: The job was cancelled; what was pushed is kept.
            InspectError: As for `Tangents.push`.
        """
        job = job or Job()
        pusher = self._pusher
        todo = [
            (number, position)
            for number in range(self.probes, probes)
            for position in range(pusher.length)
            if number >= self.counts[position]
        ]
        pusher.prepare(len(todo), job)
        start = 0
        while start < len(todo):
            job.report("estimating attribution", start, len(todo))
            batch = todo[start : start + pusher.batch]
            vectors = torch.stack([self._tangent(*which) for which in batch])
            positions = torch.tensor([position for _, position in batch])
            squares = pusher.push(positions, vectors, job).squares
            self._total.index_add_(1, positions, squares)
            self._total_squared.index_add_(1, positions, squares.square())
            self.counts += torch.bincount(positions, minlength=pusher.length)
            start += len(batch)

    def shares(self, layer: int) -> torch.Tensor:
        """Estimated shares after a block: (s, s) float64, query x input.

        Args:
            layer: 0 is the output of the embeddings, l + 1 the output of block l.

        Raises:
            InspectError: An input has had no tangent yet (exit code 5).
        """
        return shares_of(self._means(layer).sqrt())

    def standard_error(self, layer: int) -> torch.Tensor:
        """Standard errors of the shares, (s, s) float64; NaN for inputs with a single tangent.

        The spread of the tangents, carried through root and quotient to first order.
        """
        means = self._means(layer)
        squares = self._total_squared[layer].T / self.counts
        variances = (squares - means.square()).clamp(min=0) / (self.counts - 1)
        # Of the norm sqrt(m): var(m) / 4 m.
        variances = torch.where(means > 0, variances / (4 * means), variances)
        norms = means.sqrt()
        total = norms.sum(-1, keepdim=True)
        shares = norms / total
        others = variances.sum(-1, keepdim=True) - variances
        errors = ((1 - shares).square() * variances + shares.square() * others).sqrt() / total
        return errors.masked_fill(self.counts < 2, torch.nan)

    def _means(self, layer: int) -> torch.Tensor:
        """(query, input) estimates of ||J||_F^2."""
        if not self.probes:
            raise InspectError(
                "no estimate of attribution was made yet", "call refine first", ExitCode.INPUT
            )
        return self._total[layer].T / self.counts

    def _tangent(self, number: int, position: int) -> torch.Tensor:
        generator = np.random.Generator(np.random.PCG64([self.seed, number, position]))
        signs = generator.integers(0, 2, self._pusher.width) * 2 - 1
        return torch.from_numpy(signs).double()
