"""One forward pass -> Trace, through transformers' attention interface.

A function registered as an attention implementation sees q, k and v after every family's own
projections, rotary embeddings and normalisation, calls the fast kernel, and records what went in
and out. A mask function must stand under the same name: without one the models hand over no mask
at all and decoders silently look at the future.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from tui_attn.answers.memory import Keep
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import adapter
from tui_attn.model.adapter import Site
from tui_attn.model.placement import computing, stored
from tui_attn.model.recompute import RecomputedLayers
from tui_attn.model.trace import LayerTrace, Trace, Visibility
from tui_attn.progress import Job

IMPLEMENTATION = "attn_inspect_sdpa"
KERNEL = "sdpa"
_SELF_CHECK_TOKENS = 16


@dataclass(frozen=True)
class Call:
    """One call of the attention kernel; tensors still have their batch dimension."""

    module: nn.Module
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor
    scaling: float
    visibility: Visibility


@dataclass
class _Recorder:
    calls: list[Call] = field(default_factory=list)
    # What is done with a call as soon as it was made: kept, or moved away first.
    take: Callable[[Call], Call] = lambda call: call
    # Layers share their mask, so its intervals are read off once.
    seen: dict[int, tuple[torch.Tensor, Visibility]] = field(default_factory=dict)

    def visibility(self, mask: torch.Tensor | None, causal: bool, q: torch.Tensor) -> Visibility:
        if mask is None:
            make = Visibility.causal if causal else Visibility.full
            return make(q.shape[2], q.device)
        if id(mask) not in self.seen:
            self.seen[id(mask)] = (mask, _read_mask(mask))
        return self.seen[id(mask)][1]


_recorder: ContextVar[_Recorder | None] = ContextVar("recorder", default=None)


def _record_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,  # noqa: ANN401 - whatever a family hands to its kernel
) -> tuple[torch.Tensor, None]:
    _refuse_what_the_kernel_ignores(module, kwargs)
    output, _ = sdpa_attention_forward(
        module,
        query,
        key,
        value,
        attention_mask,
        scaling=scaling,
        is_causal=is_causal,
        **kwargs,
    )
    recorder = _recorder.get()
    if recorder is not None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        call = Call(
            module,
            query,
            key,
            value,
            output.transpose(1, 2),
            query.shape[-1] ** -0.5 if scaling is None else float(scaling),
            recorder.visibility(attention_mask, bool(causal), query),
        )
        recorder.calls.append(recorder.take(call))
    return output, None


AttentionInterface.register(IMPLEMENTATION, _record_attention)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def capture(
    model: nn.Module,
    inputs: dict[str, torch.Tensor],
    sites: list[Site],
    job: Job,
    *,
    keep: Keep = "device",
    running: threading.RLock | None = None,
) -> Trace:
    """Run one text through the model and keep what its attention layers multiplied.

    Args:
        model: A model that passed `verify`.
        inputs: Keyword arguments of its forward, a batch of one without padding.
        sites: What `verify` returned.
        job: Told about every layer; cancelling it leaves the forward pass.
        keep: Where the layers stay (`answers.memory.KEEPS`).
        running: Held by whoever runs the model, which layers that are kept nowhere do later.

    Returns:
        The trace: q, k, v, o of every attention layer and the hidden states.

    Raises:
        Cancelled: The job was cancelled.
        InspectError: A mask that is not one interval of keys for each query (exit code 4).
    """
    hidden: list[torch.Tensor] = []
    entries: list[_Entry] = []
    blocks = hidden_state_blocks(sites)
    place = _on_host if keep == "host" else _at_home

    def before_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not hidden:  # a block that all layers share (ALBERT) comes by once a layer
            hidden.append(place(first_tensor(args or tuple(kwargs.values()))[0]))
        if keep == "recompute":
            entries.append(_Entry(module, args, kwargs))

    def after_block(_: nn.Module, __: object, output: object) -> None:
        hidden.append(place(first_tensor(output)[0]))
        job.report("running the text through the model", len(hidden) - 1, len(blocks))

    def take(call: Call) -> Call:
        if keep == "recompute":
            entries[-1].layers.append(len(recorder.calls))
            return replace(call, q=call.q[:0], k=call.k[:0], v=call.v[:0], o=call.o[:0])
        q, k, v, o = (place(part) for part in (call.q, call.k, call.v, call.o))
        return replace(call, q=q, k=k, v=v, o=o)

    with ExitStack() as stack, torch.inference_mode():
        for block in blocks:
            before = block.register_forward_pre_hook(before_block, with_kwargs=True)
            stack.callback(before.remove)
            stack.callback(block.register_forward_hook(after_block).remove)
        recorder = stack.enter_context(_recording())
        recorder.take = take
        model(**inputs, use_cache=False)
        calls = list(zip(sites, recorder.calls, strict=True))
        layers: Mapping[int, LayerTrace]
        if keep == "recompute":
            again = {
                sites[number].layer: partial(_run_again, model, entry, sites[number])
                for entry in entries
                for number in entry.layers
            }
            layers = RecomputedLayers(again, running or threading.RLock())
        else:
            layers = {site.layer: _layer_trace(model, site, call) for site, call in calls}
    return Trace(
        layers,
        tuple(hidden),
        ids=_at_home(inputs["input_ids"][0]),
        inputs=inputs,
        word_embeddings=_word_embeddings(model),
        exact_outputs=recorder.calls[0].q.dtype in (torch.float32, torch.float64),
    )


@dataclass
class _Entry:
    """A call of a block, and which calls of the attention kernel it made."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layers: list[int] = field(default_factory=list)


def _run_again(model: nn.Module, entry: _Entry, site: Site) -> LayerTrace:
    with torch.inference_mode(), _recording() as recorder:
        entry.module(*entry.args, **entry.kwargs)
    call = next(call for call in recorder.calls if call.module is site.attention)
    return _layer_trace(model, site, call)


def _word_embeddings(model: Any) -> torch.Tensor | None:  # noqa: ANN401
    weight = stored(model.get_input_embeddings(), "weight")
    return weight if weight is not None and weight.ndim == 2 else None


def verify(model: Any, vocabulary: int) -> tuple[list[Site], Call]:  # noqa: ANN401
    """Check on a short input that capture sees what the model computes, and find its layers.

    The reference is the family's eager attention, the plain formula.

    Returns:
        The attention layers in the order in which they run, and the first one's call.

    Raises:
        InspectError: The capture does not reproduce the model (exit code 4).
    """
    count = min(_SELF_CHECK_TOKENS, vocabulary)
    ids = (torch.arange(count, device=computing(model)[0]) * 7919 % vocabulary)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    try:
        with torch.inference_mode():
            with implementation(model, "eager"):
                expected = model(**inputs, use_cache=False).last_hidden_state
            model.set_attn_implementation(IMPLEMENTATION)
            with _recording() as recorder:
                actual = model(**inputs, use_cache=False).last_hidden_state
    except InspectError:
        raise
    except (ValueError, KeyError, NotImplementedError, AttributeError, TypeError) as error:
        raise _unsupported(model, "does not run with recorded attention") from error
    if not recorder.calls:
        raise _unsupported(model, "does not use transformers' attention interface")
    scale = float(expected.abs().max())
    difference = float((expected - actual).abs().max())
    limit = 1e-4 if expected.dtype == torch.float32 else 0.1
    if expected.dtype == torch.float64:
        limit = 1e-6  # some families take their softmax in float32 all the same
    if not difference <= limit * max(scale, 1.0):
        raise _unsupported(model, f"gives other outputs under capture (off by {difference:.1e})")
    return adapter.locate(model, [call.module for call in recorder.calls]), recorder.calls[0]


@contextmanager
def _recording() -> Iterator[_Recorder]:
    recorder = _Recorder()
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


@contextmanager
def implementation(model: Any, name: str) -> Iterator[None]:  # noqa: ANN401
    """Run the model with another attention implementation, and put its own back."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _layer_trace(model: nn.Module, site: Site, call: Call) -> LayerTrace:
    q, k, v, o = (_at_home(tensor[0]) for tensor in (call.q, call.k, call.v, call.o))
    device = q.device
    bias, known = adapter.value_bias(site, v.shape[0], v.shape[-1])
    return LayerTrace(
        layer=site.layer,
        q=q,
        k=k,
        v=v,
        o=o,
        scaling=call.scaling,
        visibility=Visibility(
            *(bound.to(device) for bound in (call.visibility.first, call.visibility.stop))
        ),
        value_bias=None if bias is None else bias.to(device),
        value_bias_known=known,
    )


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu()


def _at_home(tensor: torch.Tensor) -> torch.Tensor:
    """Where the maps compute: the tensor's own device, but the CPU for MPS (no float64)."""
    return tensor.cpu() if tensor.device.type == "mps" else tensor


def _read_mask(mask: torch.Tensor) -> Visibility:
    plane = mask[0, 0]
    if plane.dtype != torch.bool:
        plane = plane == 0
    visibility = Visibility.from_mask(plane)
    if visibility is None or mask.shape[1] != 1:
        raise InspectError(
            "this model's attention mask is not one range of keys for each query",
            "such masks are not supported yet",
            ExitCode.UNSUPPORTED,
        )
    return visibility


def _refuse_what_the_kernel_ignores(module: nn.Module, kwargs: dict[str, Any]) -> None:
    for name, meaning in (
        ("softcap", "a soft cap on its logits"),
        ("s_aux", "attention sinks"),
        ("position_bias", "a position bias inside its attention"),
    ):
        if kwargs.get(name) is not None:
            raise InspectError(
                f"{type(module).__name__} has {meaning}, which the fast kernel leaves out",
                "choose a model without it",
                ExitCode.UNSUPPORTED,
            )


def _unsupported(model: Any, reason: str) -> InspectError:  # noqa: ANN401
    return InspectError(
        f"the model family {model.config.model_type!r} is not supported: it {reason}",
        "choose a BERT-, GPT-2- or Llama-like model",
        ExitCode.UNSUPPORTED,
    )


def hidden_state_blocks(sites: list[Site]) -> list[nn.Module]:
    """The blocks whose outputs are hidden states, each once, in the order in which they run."""
    blocks: list[nn.Module] = []
    for site in sites:
        if all(site.block is not block for block in blocks):
            blocks.append(site.block)
    return blocks


def first_tensor(value: object) -> torch.Tensor:
    """The hidden state among what a block takes or returns.

    Raises:
        InspectError: There is none (exit code 4).
    """
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, tuple | list):
        for item in value:
            if isinstance(item, torch.Tensor) and item.is_floating_point():
                return item
    raise InspectError(
        "a block of this model returns no hidden state",
        "choose a BERT-, GPT-2- or Llama-like model",
        ExitCode.UNSUPPORTED,
    )
