"""The blocks of a model as functions of the hidden state that enters them, for one text.

Attention is a plain softmax here, as the fast kernels have no forward derivatives. Blocks run in
float32 or better whatever the model's dtype: half-precision weights are converted block by block
while they are used, so that no second copy of the model is ever held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, jvp, vmap
from torch.nn.functional import gelu
from torch.utils._pytree import tree_map
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import families
from tui_attn.model.adapter import Site, hidden_state_blocks
from tui_attn.model.capture import first_tensor, implementation
from tui_attn.model.linearised import Attention, LinearBlock
from tui_attn.progress import Job

IMPLEMENTATION = "attn_inspect_math"
_HALF = (torch.float16, torch.bfloat16)
_forward_mode = threading.RLock()

_answer: ContextVar[Callable[[Attention], torch.Tensor]] = ContextVar(
    "answer", default=Attention.output
)


def _plain_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **_: Any,  # noqa: ANN401 - whatever a family hands to its kernel
) -> tuple[torch.Tensor, None]:
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    attention = Attention(
        query,
        key,
        value,
        attention_mask,
        bool(causal),
        scale,
        softcap,
        s_aux,
        position_bias,
    )
    return _answer.get()(attention), None


AttentionInterface.register(IMPLEMENTATION, _plain_attention)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


@contextmanager
def plain_attention(model: Any) -> Iterator[None]:  # noqa: ANN401
    """While this is open, the model's blocks run with attention that has forward derivatives.

    One thread at a time: torch keeps one level of forward derivatives for the whole process.
    """
    with (
        _forward_mode,
        torch.no_grad(),
        implementation(model, _name_for(model)),
        _plain_experts(model),
        _plain_activations(model),
    ):
        yield


def _name_for(model: Any) -> str:  # noqa: ANN401
    """Models that are captured by hooks run their own eager attention."""
    return "eager" if model.config._attn_implementation == "eager" else IMPLEMENTATION


@contextmanager
def _plain_experts(model: Any) -> Iterator[None]:  # noqa: ANN401
    """Run mixtures of experts one by one: the grouped product has no forward derivative."""
    before = getattr(model.config, "_experts_implementation", "eager")
    if before == "eager":
        yield
        return
    model.set_experts_implementation("eager")
    try:
        yield
    finally:
        model.set_experts_implementation(before)


@contextmanager
def _answering(answer: Callable[[Attention], torch.Tensor]) -> Iterator[None]:
    token = _answer.set(answer)
    try:
        yield
    finally:
        _answer.reset(token)


@contextmanager
def _plain_activations(model: nn.Module) -> Iterator[None]:
    """BLOOM wrote the derivative of its GELU by hand, backwards only: run the plain formula."""
    own = [module for module in model.modules() if type(module).__name__ == "BloomGelu"]
    for module in own:
        module.forward = partial(gelu, approximate="tanh")
    try:
        yield
    finally:
        for module in own:
            del module.forward


@dataclass(frozen=True)
class Block:
    """One call of a block; calling it makes that call again with another hidden state.

    Attributes:
        module: The block.
        args: Positional arguments of its call.
        kwargs: Keyword arguments of its call.
        hidden: (1, s, d) what entered it, in float32 or better.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    hidden: torch.Tensor

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """The block's output (1, s, d) for a hidden state (1, s, d)."""
        args, kwargs = self.args, self.kwargs
        if args:
            args = (hidden, *args[1:])
        else:
            kwargs = {**kwargs, next(iter(kwargs)): hidden}
        held = {
            name: _in_full(tensor)
            for name, tensor in (*self.module.named_parameters(), *self.module.named_buffers())
            if tensor.dtype in _HALF
        }
        return first_tensor(functional_call(self.module, held, args, kwargs))

    def tangent(self, moved: torch.Tensor) -> torch.Tensor:
        """Tangents (T, 1, s, d) after the block; the block itself is computed once for all."""
        return vmap(lambda vector: jvp(self, (self.hidden,), (vector,))[1])(moved)  # type: ignore[no-any-return]

    def attention(self) -> Attention | None:
        """What its attention multiplies, None where it has none."""
        seen: list[Attention] = []

        def answer(attention: Attention) -> torch.Tensor:
            seen.append(attention)
            return attention.output()

        with _answering(answer):
            self(self.hidden)
        return seen[0] if seen else None


def record(model: Any, inputs: dict[str, torch.Tensor], sites: list[Site], job: Job) -> list[Block]:  # noqa: ANN401
    """The blocks in the order in which they run; call this under `plain_attention`.

    Args:
        model: A model that passed `capture.verify`.
        inputs: Keyword arguments of its forward, a batch of one without padding.
        sites: What `verify` returned.
        job: Told about every block.

    Raises:
        Cancelled: The job was cancelled.
        InspectError: Something else happens to hidden states between blocks (exit code 4).
    """
    calls: list[Block] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        job.report("running the text through the model", len(calls))
        args, kwargs = tree_map(_in_full, (args, kwargs))
        calls.append(Block(module, args, kwargs, first_tensor(args or tuple(kwargs.values()))))

    with ExitStack() as stack:
        for block in hidden_state_blocks(sites):
            stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
        model(**inputs, use_cache=False)
    half = next(iter(model.parameters())).dtype in _HALF
    blocks = [calls[0]]
    for call in calls[1:]:
        job.check()
        hidden = blocks[-1](blocks[-1].hidden)
        error = float((hidden - call.hidden).abs().max() / call.hidden.abs().max())
        if not error <= (0.1 if half else 1e-3):
            raise InspectError(
                f"{model.config.model_type!r} does not hand hidden states from block to block",
                families.HINT,
                ExitCode.UNSUPPORTED,
            )
        blocks.append(Block(call.module, call.args, call.kwargs, hidden))
    return blocks


def linearise(block: Block, batch: int, job: Job) -> LinearBlock:
    """The derivative of a block as matrices: one tangent for each component, at all positions.

    Args:
        block: The block; it has attention.
        batch: Tangents that go through together.
        job: Checked between batches.

    Raises:
        Cancelled: The job was cancelled.
    """
    attention = block.attention()
    assert attention is not None, "a recurrence mixes positions in its own way"
    read = attention.output()  # (1, s, H, d_v)
    _, length, heads, value_width = read.shape
    width = block.hidden.shape[-1]

    def split(hidden: torch.Tensor, read: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values (1, s, w), and the output of the block (1, s, d)."""
        seen: list[torch.Tensor] = []

        def answer(attention: Attention) -> torch.Tensor:
            parts = (attention.query, attention.key, attention.value)
            seen.append(torch.cat([part.transpose(1, 2).flatten(2) for part in parts], -1))
            return read

        with _answering(answer):
            output = block(hidden)
        return seen[0], output

    def columns(size: int) -> Iterator[tuple[slice, torch.Tensor]]:
        for start in range(0, size, batch):
            job.check()
            unit = torch.eye(size, dtype=read.dtype, device=read.device)[start : start + batch]
            yield slice(start, start + batch), unit[:, None, None].expand(-1, 1, length, -1)

    enter = leave_input = read.new_empty(0)
    for part, unit in columns(width):
        entered, left = vmap(
            lambda vector: jvp(lambda hidden: split(hidden, read), (block.hidden,), (vector,))[1]
        )(unit)
        if not part.start:
            enter = read.new_empty(length, entered.shape[-1], width)
            leave_input = read.new_empty(length, width, width)
        enter[:, :, part] = entered[:, 0].permute(1, 2, 0)
        leave_input[:, :, part] = left[:, 0].permute(1, 2, 0)
    leave_heads = read.new_empty(length, width, heads * value_width)
    for part, unit in columns(heads * value_width):
        left = vmap(
            lambda vector: jvp(lambda given: split(block.hidden, given)[1], (read,), (vector,))[1]
        )(unit.reshape(-1, 1, length, heads, value_width))
        leave_heads[:, :, part] = left[:, 0].permute(1, 2, 0)
    return LinearBlock(
        enter,
        leave_heads,
        leave_input,
        attention.query[0].reshape(-1, attention.groups, length, attention.query.shape[-1]),
        attention.key[0],
        attention.value[0],
        attention.weights()[0],
        attention.scaling,
        attention.slopes(),
    )


def _in_full(value: Any) -> Any:  # noqa: ANN401
    """Half-precision tensors in float32, anything else as it is."""
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in _HALF else value
