"""Forward mode: tangents at the input of the first block -> what they are after every block.

One push gives J v for all layers and all positions at once, where reverse mode needs one pass for
every component of every output (method: 5.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch.nn.functional import pad

from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import blocks, families
from tui_attn.model.adapter import Site
from tui_attn.model.linearised import LinearBlock
from tui_attn.model.memory import ran_out
from tui_attn.progress import Job

_BATCH_BYTES = 384 * 2**20
"""Of one batch of tangents on a CPU: larger ones gain nothing."""
_LINEAR_BYTES = 2 * 2**30
"""Of linearised blocks on a CPU."""
_SHARE_OF_FREE = 0.4
"""Of a GPU's free memory, for either."""
_TEMPORARIES = 24
"""Tensors of a hidden state's size that one tangent needs inside a block, about."""
_BREAK_EVEN = 3
"""Linearising pays from about this many times d tangents on."""

T = TypeVar("T")


@dataclass(frozen=True)
class Pushed:
    """What T tangents are at the input (0) and after every block, at every position.

    Attributes:
        squares: (layers + 1, T, s) float64, ||J v||^2.
        sums: (layers + 1, T, s) float64, (1^T J v)^2, the square of the sum over components.
    """

    squares: torch.Tensor
    sums: torch.Tensor


class Tangents:
    """Pushes tangents through the blocks of a model, for one text.

    Args:
        model: A model that passed `capture.verify`.
        inputs: Keyword arguments of its forward, a batch of one without padding.
        sites: What `verify` returned.
        job: Told about every block.
        batch: Tangents that go through together; None: what a budget of bytes allows.

    Attributes:
        length: Number of tokens s.
        width: d.
        layers: Number of blocks.
        causal: Whether no query sees a later key.
        batch: Tangents that go through together.
        halved: How often the batch was halved for lack of memory.

    Raises:
        Cancelled: The job was cancelled.
        InspectError: The model's blocks do not follow one another (exit code 4).
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        inputs: dict[str, torch.Tensor],
        sites: list[Site],
        job: Job | None = None,
        batch: int | None = None,
    ) -> None:
        self._model = model
        with blocks.plain_attention(model):
            self._blocks = blocks.record(model, inputs, sites, job or Job())
            found = [block.attention() for block in self._blocks]
            planes = [attention.weights()[0] for attention in found if attention is not None]
        # Recurrences of hybrids mix positions too, and attention that is read by hooks is not seen
        # here: such blocks are never held as matrices.
        self._recurrent = len(planes) < len(self._blocks)
        self._hidden = self._blocks[0].hidden
        _, self.length, self.width = self._hidden.shape
        self.layers = len(self._blocks)
        self.causal = bool(planes) and not any(bool(plane.triu(1).any()) for plane in planes)
        self.halved = 0
        heads = planes[0].shape[:2].numel() if planes else 0
        cells = _TEMPORARIES * self.length * self.width + 4 * heads * self.length**2
        bytes_each = cells * self._hidden.element_size()
        self.batch = batch or max(1, _budget(self._hidden.device, _BATCH_BYTES) // bytes_each)
        self._linear: list[LinearBlock] = []

    @property
    def linearised(self) -> bool:
        """Whether the blocks are held as matrices."""
        return bool(self._linear)

    def push(
        self, positions: torch.Tensor, vectors: torch.Tensor, job: Job | None = None
    ) -> Pushed:
        """Push tangents through all blocks, in batches.

        Where memory runs out the batch is halved and the work goes on.

        Args:
            positions: (T,) int64, the input at which each tangent sits; it is zero elsewhere.
            vectors: (T, d), the tangents.
            job: Checked at every block.

        Raises:
            Cancelled: The job was cancelled.
            InspectError: A layer has no forward derivative (exit code 4), or a single tangent
                does not fit into memory (5).
        """
        job = job or Job()
        positions = positions.to(self._hidden.device)
        vectors = vectors.to(self._hidden)
        parts: list[Pushed] = []
        start = 0
        with blocks.plain_attention(self._model):
            while start < len(positions):
                rest = len(positions) - start
                part = slice(start, start + math.ceil(rest / math.ceil(rest / self.batch)))
                done = self._or_halve(partial(self._once, positions[part], vectors[part], job))
                if done is not None:
                    parts.append(done)
                    start = part.stop
        return Pushed(
            torch.cat([part.squares for part in parts], 1),
            torch.cat([part.sums for part in parts], 1),
        )

    def prepare(self, count: int, job: Job | None = None) -> None:
        """Hold the blocks as matrices, if `count` tangents are worth it and memory allows.

        Raises:
            Cancelled: The job was cancelled.
            InspectError: As for `push`.
        """
        job = job or Job()
        held = self.layers * self.length * 5 * self.width**2 * self._hidden.element_size()
        if (
            self._linear
            or self._recurrent
            or count < _BREAK_EVEN * self.width
            or held > _budget(self._hidden.device, _LINEAR_BYTES)
        ):
            return
        linear: list[LinearBlock] = []
        with blocks.plain_attention(self._model):
            for block in self._blocks:
                job.report("linearising the blocks", len(linear), self.layers)
                work = partial(blocks.linearise, block, self.batch, job)
                made = self._or_halve(work) if self.batch > 1 else None
                if made is None:  # memory ran out: the blocks themselves need far less
                    return
                linear.append(made)
            if self._same(linear, job):
                self._linear = linear

    def _once(self, positions: torch.Tensor, vectors: torch.Tensor, job: Job) -> Pushed:
        if self._linear:
            return self._through_matrices(self._linear, positions, vectors, job)
        return self._through_blocks(positions, vectors, job)

    def _through_blocks(self, positions: torch.Tensor, vectors: torch.Tensor, job: Job) -> Pushed:
        moved = vectors.new_zeros(len(positions), 1, self.length, self.width)
        moved[torch.arange(len(positions)), 0, positions] = vectors
        states = _Norms()
        states.add(moved[:, 0])
        for block in self._blocks:
            job.check()
            moved = block.tangent(moved)
            states.add(moved[:, 0])
        return states.pushed()

    def _through_matrices(
        self, linear: list[LinearBlock], positions: torch.Tensor, vectors: torch.Tensor, job: Job
    ) -> Pushed:
        enter = slice(int(positions.min()), int(positions.max()) + 1)
        # In a decoder no position before the first input moves.
        leave = slice(enter.start if self.causal else 0, self.length)
        moved = vectors.new_zeros(enter.stop - enter.start, self.width, len(positions))
        moved[positions - enter.start, :, torch.arange(len(positions))] = vectors
        states = _Norms()
        states.add(moved.permute(2, 0, 1), (enter.start, self.length - enter.stop))
        for block in linear:
            job.check()
            moved = block.push(moved, enter, leave)
            enter = leave
            states.add(moved.permute(2, 0, 1), (leave.start, 0))
        return states.pushed()

    def _same(self, linear: list[LinearBlock], job: Job) -> bool:
        """Whether the matrices do what the blocks do: is it only attention that mixes positions?"""
        positions = torch.tensor([self.length // 2], device=self._hidden.device)
        vectors = torch.ones(1, self.width).to(self._hidden)
        expected = self._through_blocks(positions, vectors, job).squares
        actual = self._through_matrices(linear, positions, vectors, job).squares
        return bool(((actual - expected).abs() <= 1e-3 * expected.amax(-1, keepdim=True)).all())

    def _or_halve(self, work: Callable[[], T]) -> T | None:
        """The result of `work`, or None after the batch was halved for lack of memory."""
        try:
            return work()
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, NotImplementedError) or "vmap" in str(error):
                raise InspectError(
                    f"{self._model.config.model_type!r} has a layer without a forward derivative",
                    families.HINT,
                    ExitCode.UNSUPPORTED,
                ) from error
            if not ran_out(error):
                raise
            if self.batch == 1:
                raise InspectError(
                    f"one tangent over {self.length} tokens does not fit into memory",
                    "shorten the text with --max-tokens",
                    ExitCode.INPUT,
                ) from error
        self.batch //= 2
        self.halved += 1
        if self._hidden.is_cuda:
            torch.cuda.empty_cache()
        return None


class _Norms:
    """Norms of tangents, state after state."""

    def __init__(self) -> None:
        self._squares: list[torch.Tensor] = []
        self._sums: list[torch.Tensor] = []

    def add(self, moved: torch.Tensor, still: tuple[int, int] = (0, 0)) -> None:
        """Add tangents (T, positions, d); so many positions before and after them stand still."""
        self._squares.append(pad(moved.square().sum(-1), still))
        self._sums.append(pad(moved.sum(-1).square(), still))

    def pushed(self) -> Pushed:
        return Pushed(
            torch.stack(self._squares).cpu().double(), torch.stack(self._sums).cpu().double()
        )


def _budget(device: torch.device, on_cpu: int) -> int:
    if device.type != "cuda":
        return on_cpu
    return int(torch.cuda.mem_get_info(device)[0] * _SHARE_OF_FREE)
