"""Where a model family keeps its blocks, output projections and value biases."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from tui_attn.answers import Stack
from tui_attn.model.placement import stored

_OUTPUT_NAMES = ("o_proj", "out_proj", "c_proj", "dense", "out_lin", "o")
_VALUE_NAMES = ("value", "v_proj", "v_lin", "v", "value_proj")
_FUSED_NAMES = ("c_attn", "query_key_value", "Wqkv")
_FUSED_LAYOUTS = {
    "GPT2Attention": "one after the other",
    "ModernBertAttention": "one after the other",
    "GPTNeoXAttention": "head by head",
    "BloomAttention": "head by head",
    "GPTBigCodeAttention": "head by head",
}
"""Whether queries, keys and values lie behind one another, or each head has its three together."""


@dataclass(frozen=True)
class Site:
    """One attention layer inside a model.

    Attributes:
        layer: The model's own number of the layer.
        name: Path of the attention module, e.g. `encoder.layer.3.attention.self`.
        attention: The module that calls the attention kernel.
        block: The whole block; its output is the hidden state of this layer.
        siblings: The list in which the block stands, with the blocks of a hybrid that have no
            attention; None where it stands alone.
        stack: The stack of an encoder-decoder; None of other models.
    """

    layer: int
    name: str
    attention: nn.Module
    block: nn.Module
    siblings: nn.ModuleList | None = None
    stack: Stack | None = None


def locate(
    model: nn.Module, attention_modules: list[nn.Module], stack: Stack | None = None
) -> list[Site]:
    """Find layer numbers and blocks for the modules of a stack that called the kernel, in order."""
    names = {id(module): name for name, module in model.named_modules()}
    sites: list[Site] = []
    for order, module in enumerate(attention_modules):
        name = names[id(module)]
        block_name, number = _block_of(model, name)
        declared = getattr(module, "layer_idx", None)
        layer = declared if isinstance(declared, int) else number
        if layer is None or any(site.layer == layer for site in sites):
            layer = order  # a module that is shared by all layers (ALBERT)
        siblings = model.get_submodule(block_name.rpartition(".")[0])
        sites.append(
            Site(
                layer,
                name,
                module,
                model.get_submodule(block_name),
                siblings if isinstance(siblings, nn.ModuleList) else None,
                stack,
            )
        )
    return sites


def hidden_state_blocks(sites: list[Site]) -> list[nn.Module]:
    """The blocks whose outputs are hidden states, each once, in the order in which they run."""
    blocks: list[nn.Module] = []
    for site in sites:
        for block in site.siblings or [site.block]:
            if all(block is not other for other in blocks):
                blocks.append(block)
    return blocks


def number_of_layers(sites: list[Site]) -> int:
    """How many blocks run: those of a hybrid without attention too, a shared one every time."""
    return max(len(sites), len(hidden_state_blocks(sites)))


def output_projection(model: nn.Module, site: Site) -> torch.Tensor | None:
    """The output projection as (d, H d_v), or None where it is not found.

    Head h uses the columns h d_v … (h+1) d_v - 1.
    """
    parent = model.get_submodule(site.name.rpartition(".")[0])
    holders = [site.attention, getattr(parent, "output", None)]
    for holder in holders:
        for name in _OUTPUT_NAMES:
            linear = getattr(holder, name, None)
            weight = stored(linear, "weight") if isinstance(linear, nn.Module) else None
            if weight is not None and weight.ndim == 2:
                return weight.T if _is_transposed(linear) else weight
    return None


def value_bias(site: Site, kv_heads: int, width: int) -> tuple[torch.Tensor | None, bool]:
    """The bias inside the values.

    Args:
        site: The attention layer.
        kv_heads: H_kv.
        width: d_v.

    Returns:
        (H_kv, d_v) or None where there is none, and whether that could be told at all.
    """
    for name in _VALUE_NAMES:
        linear = getattr(site.attention, name, None)
        if isinstance(linear, nn.Module) and hasattr(linear, "weight"):
            bias = stored(linear, "bias")
            return (None if bias is None else bias.reshape(kv_heads, width)), True
    if not any(name.endswith("bias") for name, _ in site.attention.named_parameters()):
        return None, True
    for name in _FUSED_NAMES:
        linear = getattr(site.attention, name, None)
        bias = stored(linear, "bias") if isinstance(linear, nn.Module) else None
        layout = _FUSED_LAYOUTS.get(type(site.attention).__name__)
        if bias is None or layout is None:
            continue
        if layout == "head by head" and kv_heads > 1:
            return bias.reshape(kv_heads, 3, width)[:, 2], True
        return bias[-kv_heads * width :].reshape(kv_heads, width), True
    return None, False


def deficient_heads(model: nn.Module, site: Site, heads: int, width: int) -> tuple[int, ...]:
    """Heads whose slice (d, d_v) of the output projection has less than full column rank.

    For such a head the null space of V H is larger than that of V (method: equivalent forms).
    """
    projection = output_projection(model, site)
    if (
        projection is None
        or projection.shape[1] != heads * width
        or not projection.is_floating_point()
    ):
        return ()
    slices = projection.detach().cpu().double().reshape(-1, heads, width).transpose(0, 1)
    gram = slices.transpose(1, 2) @ slices  # (H, d_v, d_v): its eigenvalues are squares
    known = gram.isfinite().all(-1).all(-1)
    gram = gram.where(known[:, None, None], torch.eye(width, dtype=gram.dtype))  # not a number
    bound = (torch.finfo(torch.float32).eps * max(slices.shape[1:])) ** 2
    squares = torch.linalg.eigvalsh(gram)
    ranks = (squares > bound * squares[:, -1:]).sum(-1)
    return tuple(int(head) for head in torch.nonzero(ranks < width).flatten())


def _block_of(model: nn.Module, name: str) -> tuple[str, int | None]:
    """The nearest enclosing member of a ModuleList, and its number in the list."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        parent = model.get_submodule(".".join(parts[: end - 1]))
        if isinstance(parent, nn.ModuleList) and not _is_inside_a_block(model, parts[: end - 1]):
            return ".".join(parts[:end]), int(parts[end - 1])
    return name, None


def _is_inside_a_block(model: nn.Module, path: list[str]) -> bool:
    """Whether a list holds the parts of a block (T5), not blocks: parts are of many kinds."""
    kinds = {type(member) for member in model.get_submodule(".".join(path)).children()}
    return len(kinds) > 1 and any(
        isinstance(model.get_submodule(".".join(path[:end])), nn.ModuleList)
        for end in range(1, len(path))
    )


def _is_transposed(linear: object) -> bool:
    """Transformers' Conv1D (GPT-2) stores (in, out); nn.Linear stores (out, in)."""
    return type(linear).__name__ == "Conv1D"
