"""Families that do not use transformers' attention interface, read from outside by hooks.

Such a model runs its own eager attention. A hook on each attention module makes its queries, keys
and values again from the module's own projections, and takes what the heads read from the input
of the output projection. The model itself makes s x s numbers while it runs; none is kept.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tui_attn.model.bias import Bias, DisentangledBias, DistanceBias, KeyBias
from tui_attn.model.masks import Rule

Given = dict[str, Any]
"""The arguments of an attention module's call by their names."""


@dataclass(frozen=True)
class Read:
    """What one attention module multiplied; tensors have their batch dimension."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scaling: float
    rule: Rule
    bias: Bias | None = None


@dataclass(frozen=True)
class Reader:
    """How a class of attention modules is read.

    Attributes:
        read: Queries, keys and values of one call.
        output: The projection whose input is what the heads read; None: the module returns it.
    """

    read: Callable[[nn.Module, Given], Read]
    output: str | None


def readers(model: nn.Module) -> list[tuple[nn.Module, Reader]]:
    """The attention modules of a model that can be read, in the order in which they stand."""
    named = ((module, _kind(module)) for module in model.modules())
    return [(module, _READERS[kind]) for module, kind in named if kind in _READERS]


def _kind(module: nn.Module) -> str:
    return f"{type(module).__module__.rpartition('.')[2]}.{type(module).__name__}"


@contextmanager
def hooks(
    model: nn.Module, tell: Callable[[nn.Module, Read, torch.Tensor], None]
) -> Iterator[None]:
    """While this is open, every call of an attention module is told.

    Args:
        model: A model that has `readers`.
        tell: Gets the module, what it multiplied and what the heads read (1, H, s, d_v).
    """
    with ExitStack() as stack:
        for module, reader in readers(model):
            for handle in _attach(module, reader, tell):
                stack.callback(handle.remove)
        yield


def _attach(
    module: nn.Module, reader: Reader, tell: Callable[[nn.Module, Read, torch.Tensor], None]
) -> Iterator[Any]:
    merged: list[torch.Tensor] = []

    def before_output(_: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        merged[:] = args[:1]

    def after(module: nn.Module, args: tuple[Any, ...], kwargs: Given, result: Any) -> None:  # noqa: ANN401
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        read = reader.read(module, given)
        heads = merged[0] if reader.output else result[0]
        batch, length, _ = heads.shape
        tell(module, read, heads.reshape(batch, length, read.q.shape[1], -1).transpose(1, 2))
        merged.clear()

    if reader.output:
        yield getattr(module, reader.output).register_forward_pre_hook(before_output)
    yield module.register_forward_hook(after, with_kwargs=True)


def _plain(q: torch.Tensor, causal: bool) -> Rule:
    return Rule.plain(q.shape[2], q.shape[2], causal, q.device)


def _bloom(module: Any, given: Given) -> Read:  # noqa: ANN401
    q, k, v = module._reshape(module.query_key_value(given["hidden_states"]))
    bias = KeyBias(given["alibi"][:, 0])
    return Read(q, k, v, module.inv_norm_factor, _plain(q, True), bias)


def _gpt_neo(module: Any, given: Given) -> Read:  # noqa: ANN401
    q, k, v = (
        _heads(projection(given["hidden_states"]), module.num_heads)
        for projection in (module.q_proj, module.k_proj, module.v_proj)
    )
    length = q.shape[2]
    return Read(q, k, v, 1.0, Rule.read(module.bias[:, :, :length, :length]))


def _mpt(module: Any, given: Given) -> Read:  # noqa: ANN401
    fused = module.Wqkv(given["hidden_states"])
    if module.clip_qkv:
        fused = fused.clamp(-module.clip_qkv, module.clip_qkv)
    q, k, v = (_heads(part, module.n_heads) for part in fused.chunk(3, -1))
    position = given.get("position_bias")
    bias = None if position is None else KeyBias(position[:, -1, -q.shape[2] :])
    return Read(q, k, v, module.softmax_scale, _plain(q, True), bias)


def _mpnet(module: Any, given: Given) -> Read:  # noqa: ANN401
    q, k, v = (
        _heads(projection(given["hidden_states"]), module.num_attention_heads)
        for projection in (module.q, module.k, module.v)
    )
    position = given.get("position_bias")
    bias = None if position is None else DistanceBias.read(position[0])
    return Read(q, k, v, q.shape[-1] ** -0.5, _plain(q, False), bias)


def _deberta(module: Any, given: Given) -> Read:  # noqa: ANN401
    hidden, heads = given["hidden_states"], module.num_attention_heads
    looking = given.get("query_states")
    q = _heads(module.query_proj(hidden if looking is None else looking), heads)
    k, v = (
        _heads(projection(hidden), heads) for projection in (module.key_proj, module.value_proj)
    )
    ways = [way for way in ("c2p", "p2c") if way in module.pos_att_type]
    scaling = 1 / math.sqrt(q.shape[-1] * (1 + len(ways)))
    bias = None
    if module.relative_attention and ways:
        bias = _disentangled(module, given, q[0] * scaling, k[0] * scaling, ways)
    return Read(q, k, v, scaling, _plain(q, False), bias)


def _disentangled(
    module: Any,  # noqa: ANN401
    given: Given,
    q: torch.Tensor,
    k: torch.Tensor,
    ways: list[str],
) -> DisentangledBias:
    heads, span = module.num_attention_heads, module.pos_ebd_size
    own = "" if module.share_att_key else "pos_"
    distances = given["rel_embeddings"][None, : 2 * span]
    plane = given["relative_pos"].reshape(q.shape[1], k.shape[1])  # at i, j for the distance i - j
    bucket = torch.cat([plane[0].flip(0), plane[1:, 0]]).long()

    def products(contents: torch.Tensor, projection: str) -> torch.Tensor:
        of_distances = _heads(getattr(module, own + projection)(distances), heads)[0]
        return contents @ of_distances.transpose(1, 2)

    return DisentangledBias(
        products(q, "key_proj") if "c2p" in ways else None,
        products(k, "query_proj") if "p2c" in ways else None,
        (bucket + span).clamp(0, 2 * span - 1),
        (span - bucket.flip(0)).clamp(0, 2 * span - 1),
    )


def _heads(merged: torch.Tensor, heads: int) -> torch.Tensor:
    """(1, s, H d) -> (1, H, s, d)."""
    batch, length, _ = merged.shape
    return merged.reshape(batch, length, heads, -1).transpose(1, 2)


_READERS = {
    "modeling_bloom.BloomAttention": Reader(_bloom, "dense"),
    "modeling_gpt_neo.GPTNeoSelfAttention": Reader(_gpt_neo, "out_proj"),
    "modeling_mpt.MptAttention": Reader(_mpt, "out_proj"),
    "modeling_mpnet.MPNetSelfAttention": Reader(_mpnet, "o"),
    "modeling_deberta_v2.DisentangledSelfAttention": Reader(_deberta, None),
}
"""By the file and the class of the attention modules."""
