"""One forward pass -> Trace, through transformers' attention interface.

A function registered as an attention implementation sees q, k and v after every family's own
projections, rotary embeddings and normalisation, calls the fast kernel, or our own for what the
fast one cannot do, and records what went in and out. A mask function must stand under the same
name: without one the models hand over no mask at all and decoders silently look at the future.
Families that do not use the interface are read by hooks instead.
"""

from __future__ import annotations

import math
import sys
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
from transformers.masking_utils import eager_mask, sdpa_mask

from tui_attn.answers import STACKS, Stack
from tui_attn.answers.memory import Keep
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import adapter, families, hooked, scores
from tui_attn.model.adapter import Site
from tui_attn.model.bias import Bias, DistanceBias, KeyBias, moved
from tui_attn.model.masks import Rule, rule_mask
from tui_attn.model.placement import computing, stored
from tui_attn.model.recompute import RecomputedLayers
from tui_attn.model.trace import LayerTrace, Trace, Visibility
from tui_attn.progress import Job

IMPLEMENTATION = "attn_inspect_record"
WITH_MASKS = "attn_inspect_record_masks"
"""For models that add their position bias to the mask (Falcon with ALiBi), which needs a tensor."""
WIDE = "attn_inspect_eager_float32"
"""Eager attention for the self-check where that of half precision overflows."""
_SELF_CHECK_TOKENS = 16
_SELF_CHECK_WRITTEN = 11
"""Tokens of an encoder-decoder's decoder: other than those of its encoder, so that lengths tell
which stack a call belongs to."""


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
    softcap: float | None = None
    bias: Bias | None = None
    sinks: torch.Tensor | None = None


@dataclass
class _Recorder:
    calls: list[Call] = field(default_factory=list)
    # What is done with a call as soon as it was made: kept, or moved away first.
    take: Callable[[Call], Call] = lambda call: call
    # Layers share their position bias, so it is kept once.
    biases: dict[int, tuple[torch.Tensor, DistanceBias | None]] = field(default_factory=dict)

    def add(self, call: Call) -> None:
        self.calls.append(self.take(call))


_recorder: ContextVar[_Recorder | None] = ContextVar("recorder", default=None)


def _record_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Rule | torch.Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs: Any,  # noqa: ANN401 - whatever a family hands to its kernel
) -> tuple[torch.Tensor, None]:
    recorder = _recorder.get() or _Recorder()
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    bias: Bias | None
    rule, bias = _rule(attention_mask, causal, query, key)
    if position_bias is not None:
        bias = _distance_bias(position_bias, recorder)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    if rule.causal is not None and softcap is None and bias is None and s_aux is None:
        output, _ = sdpa_attention_forward(
            module, query, key, value, None, scaling=scale, is_causal=rule.causal, **kwargs
        )
    else:
        read = [
            scores.attend(q, k, v, scale, rule.visibility, softcap=softcap, bias=bias, sinks=s_aux)
            for q, k, v in zip(query, key, value, strict=True)
        ]
        output = torch.stack(read).transpose(1, 2).contiguous()
    recorder.add(
        Call(
            module,
            query,
            key,
            value,
            output.transpose(1, 2),
            scale,
            rule.visibility,
            softcap,
            bias,
            s_aux,
        )
    )
    return output, None


def _wide_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,  # noqa: ANN401 - whatever a family hands to its kernel
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The family's own formula, its logits in float32."""
    formula = sys.modules[type(module).__module__].eager_attention_forward
    wide = (tensor.float() for tensor in (query, key, value))
    output, weights = formula(module, *wide, attention_mask, **kwargs)
    return output.to(query.dtype), weights


def _wide_mask(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    return eager_mask(*args, **{**kwargs, "dtype": torch.float32})


AttentionInterface.register(WIDE, _wide_attention)
AttentionMaskInterface.register(WIDE, _wide_mask)
AttentionInterface.register(IMPLEMENTATION, _record_attention)
AttentionMaskInterface.register(IMPLEMENTATION, rule_mask)
AttentionInterface.register(WITH_MASKS, _record_attention)
AttentionMaskInterface.register(WITH_MASKS, sdpa_mask)


def _rule(
    mask: Rule | torch.Tensor | None, causal: bool, query: torch.Tensor, key: torch.Tensor
) -> tuple[Rule, KeyBias | None]:
    """Which keys each query sees, and the bias that the model added to the mask."""
    if mask is None:
        return Rule.plain(query.shape[2], key.shape[2], causal, query.device), None
    if isinstance(mask, Rule):
        return mask, None
    rule, last = Rule.read(mask), mask[0, :, -1]
    return rule, KeyBias(last) if mask.is_floating_point() and bool(last.any()) else None


def _distance_bias(cells: torch.Tensor, recorder: _Recorder) -> DistanceBias | None:
    """The bias in a position bias (1, H, queries, keys); None for the zeros of cross attention."""
    if id(cells) not in recorder.biases:
        found = DistanceBias.read(cells[0]) if bool(cells.any()) else None
        if found is None and bool(cells.any()):
            raise InspectError(
                "this model's position bias depends on more than distances",
                "such models are not supported yet",
                ExitCode.UNSUPPORTED,
            )
        recorder.biases[id(cells)] = (cells, found)
    return recorder.biases[id(cells)][1]


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
    return capture_stacks(model, inputs, sites, job, keep=keep, running=running)[sites[0].stack]


def capture_stacks(
    model: nn.Module,
    inputs: dict[str, torch.Tensor],
    sites: list[Site],
    job: Job,
    *,
    keep: Keep = "device",
    running: threading.RLock | None = None,
) -> dict[Stack | None, Trace]:
    """`capture` for every stack of an encoder-decoder, in one forward pass.

    Args:
        model: As for `capture`.
        inputs: Likewise; with `decoder_input_ids`.
        sites: Those of all stacks.
        job: As for `capture`.
        keep: Likewise.
        running: Likewise.

    Returns:
        The trace of each stack; that of a model that is a single one is under None. The hidden
        states beside cross attention are those of the decoder.

    Raises:
        Cancelled: The job was cancelled.
        InspectError: As for `capture`.
    """
    entries: list[_Entry] = []
    place = _on_host if keep == "host" else _at_home
    states = _states(sites)
    hidden = {id(block): found for blocks, found in states.values() for block in blocks}
    total = len(hidden)

    def before_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        mine = hidden[id(module)]
        if not mine:  # a block that all layers share (ALBERT) comes by once a layer
            mine.append(place(first_tensor(args or tuple(kwargs.values()))[0]))
        if keep == "recompute":
            entries.append(_Entry(module, args, kwargs))

    def after_block(module: nn.Module, __: object, output: object) -> None:
        hidden[id(module)].append(place(first_tensor(output)[0]))
        done = sum(len(found) - bool(found) for _, found in states.values())
        job.report("running the text through the model", done, total)

    def take(call: Call) -> Call:
        if keep == "recompute":
            entries[-1].layers.append(len(recorder.calls))
            # Copies: a view of nothing would keep the whole tensor alive.
            q, k, v, o = (part[:0].clone() for part in (call.q, call.k, call.v, call.o))
            return replace(call, q=q, k=k, v=v, o=o)
        q, k, v, o = (place(part) for part in (call.q, call.k, call.v, call.o))
        return replace(call, q=q, k=k, v=v, o=o)

    with ExitStack() as stack, torch.inference_mode():
        for block in (block for blocks, _ in states.values() for block in blocks):
            before = block.register_forward_pre_hook(before_block, with_kwargs=True)
            stack.callback(before.remove)
            stack.callback(block.register_forward_hook(after_block).remove)
        recorder = stack.enter_context(_recording(model))
        recorder.take = take
        model(**inputs, use_cache=False)
        called = _in_order(sites, recorder.calls)
        layers: dict[Stack | None, Mapping[int, LayerTrace]] = {}
        for which in dict.fromkeys(site.stack for site in sites):
            if keep == "recompute":
                again = {
                    called[number].layer: partial(_run_again, model, entry, called[number])
                    for entry in entries
                    for number in entry.layers
                    if called[number].stack == which
                }
                layers[which] = RecomputedLayers(again, running or threading.RLock())
            else:
                layers[which] = {
                    site.layer: _layer_trace(model, site, call)
                    for site, call in zip(called, recorder.calls, strict=True)
                    if site.stack == which
                }
    return {
        which: Trace(
            found,
            tuple(states[_side(which)][1]),
            ids=_at_home(inputs[_ids_of(which)][0]),
            inputs=inputs,
            word_embeddings=_word_embeddings(model),
            exact_outputs=recorder.calls[0].q.dtype in (torch.float32, torch.float64),
        )
        for which, found in layers.items()
    }


def _side(stack: Stack | None) -> Stack | None:
    """The stack whose blocks hold a stack's layers."""
    return "decoder" if stack == "cross" else stack


def _ids_of(stack: Stack | None) -> str:
    """The input whose tokens look."""
    return "decoder_input_ids" if _side(stack) == "decoder" else "input_ids"


def _states(
    sites: list[Site],
) -> dict[Stack | None, tuple[list[nn.Module], list[torch.Tensor]]]:
    """For each side the blocks that make its hidden states, and room for those."""
    sides: dict[Stack | None, list[Site]] = {}
    for site in sites:
        sides.setdefault(_side(site.stack), []).append(site)
    return {side: (adapter.hidden_state_blocks(own), []) for side, own in sides.items()}


def _in_order(sites: list[Site], calls: list[Call]) -> list[Site]:
    """The sites in the order of the calls; a module that layers share (ALBERT) has many."""
    waiting: dict[int, list[Site]] = {}
    for site in sites:
        waiting.setdefault(id(site.attention), []).append(site)
    found = [waiting[id(call.module)].pop(0) for call in calls]
    assert not any(waiting.values()), "a layer that was there at the self-check did not run"
    return found


@dataclass
class _Entry:
    """A call of a block, and which calls of the attention kernel it made."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layers: list[int] = field(default_factory=list)


def _run_again(model: nn.Module, entry: _Entry, site: Site) -> LayerTrace:
    with torch.inference_mode(), _recording(model) as recorder:
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
        The attention layers in the order in which they run, and the first one's call; of an
        encoder-decoder those of the encoder.

    Raises:
        InspectError: The capture does not reproduce the model (exit code 4).
    """
    return next(iter(verify_stacks(model, vocabulary).values()))


def verify_stacks(
    model: Any,  # noqa: ANN401
    vocabulary: int,
) -> dict[Stack | None, tuple[list[Site], Call]]:
    """`verify`, for every stack of an encoder-decoder; a single one is under None.

    Raises:
        InspectError: As for `verify`.
    """
    steps = torch.arange(_SELF_CHECK_TOKENS, device=computing(model)[0])
    ids = (steps * 7919 % vocabulary)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if _is_encoder_decoder(model):
        inputs["decoder_input_ids"] = ids[:, :_SELF_CHECK_WRITTEN]
    try:
        with torch.inference_mode():
            model.set_attn_implementation("eager")
            expected = _output(model(**inputs, use_cache=False))
            if not hooked.readers(model):
                model.set_attn_implementation(_name_for(model))
            with _recording(model) as recorder:
                actual = _output(model(**inputs, use_cache=False))
            if bool((actual.isfinite() > expected.isfinite()).any()):
                with implementation(model, WIDE):
                    expected = _output(model(**inputs, use_cache=False))
    except InspectError:
        raise
    except (ValueError, KeyError, NotImplementedError, AttributeError, TypeError) as error:
        raise _unsupported(model, "does not run with recorded attention") from error
    if not recorder.calls:
        raise _unsupported(model, "does not use transformers' attention interface")
    scale = float(expected.nan_to_num(0.0, 0.0, 0.0).abs().max())
    difference = _apart(expected, actual)
    limit = 1e-4 if expected.dtype == torch.float32 else 0.1
    if expected.dtype == torch.float64:
        limit = 1e-6  # some families take their softmax in float32 all the same
    if not difference <= limit * max(scale, 1.0):
        raise _differs(model, "gives other outputs under capture", difference)
    if hooked.readers(model):
        _must_explain(model, recorder.calls, max(limit, 1e-4))
    return {
        stack: (adapter.locate(model, [call.module for call in calls], stack), calls[0])
        for stack, calls in _by_stack(model, recorder.calls).items()
    }


def _is_encoder_decoder(model: Any) -> bool:  # noqa: ANN401
    return bool(getattr(model.config, "is_encoder_decoder", False))


def _output(made: Any) -> torch.Tensor:  # noqa: ANN401
    """What a model makes of its input: hidden states, or logits where it has a head to write."""
    found: torch.Tensor = made.logits if "logits" in made else made.last_hidden_state
    return found


def _by_stack(model: Any, calls: list[Call]) -> dict[Stack | None, list[Call]]:  # noqa: ANN401
    """The calls of each stack, told by how many tokens look and how many are looked at."""
    if not _is_encoder_decoder(model):
        return {None: calls}
    read, written = _SELF_CHECK_TOKENS, _SELF_CHECK_WRITTEN
    lengths: dict[tuple[int, int], Stack] = {
        (read, read): "encoder",
        (written, written): "decoder",
        (written, read): "cross",
    }
    found: dict[Stack | None, list[Call]] = {stack: [] for stack in STACKS}
    for call in calls:
        stack = lengths.get((call.q.shape[2], call.k.shape[2]))
        if stack is None:
            raise _unsupported(model, "attends to its text and to what it writes at once")
        found[stack].append(call)
    for stack, own in found.items():
        if not own:
            raise _unsupported(
                model, f"computes the attention of its {stack} outside transformers' interface"
            )
    return found


def _apart(expected: torch.Tensor, actual: torch.Tensor) -> float:
    """The largest difference; what is no number in both does not count, in one it is NaN."""
    neither = ~(expected.isfinite() | actual.isfinite())
    return float((expected - actual).masked_fill(neither, 0.0).abs().max())


def _differs(model: Any, reason: str, difference: float) -> InspectError:  # noqa: ANN401
    if model.dtype == torch.float16 and not math.isfinite(difference):
        return InspectError(
            "the model's attention overflows in float16, which ends at 65,504",
            "use --dtype bfloat16 or float32",
            ExitCode.UNSUPPORTED,
        )
    return _unsupported(model, f"{reason} (off by {difference:.1e})")


def kernel(model: Any, call: Call) -> str:  # noqa: ANN401
    """What makes the outputs that are recorded, for people to read.

    Args:
        model: A model that passed `verify`.
        call: The first layer's call.
    """
    if hooked.readers(model):
        return "eager"
    config = model.config.get_text_config()
    if call.softcap is not None or call.bias is not None or call.sinks is not None:
        return "row blocks"
    windows = ("sliding_window", "local_attention", "attention_chunk_size")
    return "sdpa, row blocks" if any(getattr(config, name, None) for name in windows) else "sdpa"


def _name_for(model: Any) -> str:  # noqa: ANN401
    """The implementation under which a model is captured."""
    return WITH_MASKS if getattr(model.config, "alibi", False) else IMPLEMENTATION


def _must_explain(model: Any, calls: list[Call], limit: float) -> None:  # noqa: ANN401
    """Whether queries, keys and values that were read from outside give what the heads read."""
    for call in calls:
        read = scores.attend(
            call.q[0],
            call.k[0],
            call.v[0],
            call.scaling,
            call.visibility,
            bias=call.bias,
        )
        difference, o = _apart(read, call.o[0]), call.o.nan_to_num(0.0, 0.0, 0.0)
        if not difference <= limit * max(float(o.abs().max()), 1.0):
            raise _differs(model, "has another attention than is known", difference)


@contextmanager
def _recording(model: nn.Module) -> Iterator[_Recorder]:
    recorder = _Recorder()

    def tell(module: nn.Module, read: hooked.Read, o: torch.Tensor) -> None:
        recorder.add(
            Call(
                module,
                read.q,
                read.k,
                read.v,
                o,
                read.scaling,
                read.rule.visibility,
                bias=read.bias,
            )
        )

    token = _recorder.set(recorder)
    try:
        with hooked.hooks(model, tell):
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
        softcap=call.softcap,
        bias=None if call.bias is None else moved(call.bias, device),
        sinks=None if call.sinks is None else call.sinks.detach().to(device),
        value_bias=None if bias is None else bias.to(device),
        value_bias_known=known,
    )


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu()


def _at_home(tensor: torch.Tensor) -> torch.Tensor:
    """Where the maps compute: the tensor's own device, but the CPU for MPS (no float64)."""
    return tensor.cpu() if tensor.device.type == "mps" else tensor


def _unsupported(model: Any, reason: str) -> InspectError:  # noqa: ANN401
    return InspectError(
        f"the model family {model.config.model_type!r} is not supported: it {reason}",
        families.HINT,
        ExitCode.UNSUPPORTED,
    )


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
        families.HINT,
        ExitCode.UNSUPPORTED,
    )
