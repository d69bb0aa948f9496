"""Toy traces with random values in float64, and the textbook formulas to hold the code against."""

from __future__ import annotations

import torch

from tui_attn.model.trace import LayerTrace, Trace, Visibility

FULL_ROW_RANK = 1e-12
"""Tolerance of the toys' rank decisions: their values are float64 and well conditioned."""


def layer_trace(
    length: int = 100,
    heads: int = 2,
    kv_heads: int = 2,
    d_k: int = 32,
    d_v: int = 32,
    *,
    causal: bool = False,
    visibility: Visibility | None = None,
    values: torch.Tensor | None = None,
    bias: bool = False,
    seed: int = 0,
) -> LayerTrace:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q, k = random(heads, length, d_k), random(kv_heads, length, d_k)
    v = random(kv_heads, length, d_v) if values is None else values
    value_bias = random(kv_heads, d_v) if bias else None
    if value_bias is not None:
        v = v + value_bias[:, None]
    if visibility is None:
        visibility = Visibility.causal(length) if causal else Visibility.full(length)
    layer = LayerTrace(
        layer=0,
        q=q,
        k=k,
        v=v,
        o=torch.empty(heads, length, v.shape[-1], dtype=torch.float64),
        scaling=d_k**-0.5,
        visibility=visibility,
        value_bias=value_bias,
    )
    for head in range(heads):
        layer.o[head] = attention(layer, head) @ v[layer.kv_head(head)]
    return layer


def trace(layer: LayerTrace, tolerance: float | None = FULL_ROW_RANK) -> Trace:
    return Trace({layer.layer: layer}, tolerance=tolerance)


def attention(layer: LayerTrace, head: int) -> torch.Tensor:
    """Softmax of the scaled logits, the textbook way: (s, s)."""
    mask = layer.visibility.mask((0, layer.length), (0, layer.length))
    logits = layer.q[head] @ layer.k[layer.kv_head(head)].T * layer.scaling
    return logits.masked_fill(~mask, -torch.inf).softmax(-1)


def effective(
    a: torch.Tensor, t: torch.Tensor, mask: torch.Tensor | None = None, rtol: float = FULL_ROW_RANK
) -> torch.Tensor:
    """A T T^+ row by row over each row's visible keys, by a plain SVD: (s, s)."""
    result = torch.zeros_like(a)
    for row in range(len(a)):
        keys = torch.arange(len(t)) if mask is None else torch.nonzero(mask[row]).flatten()
        left, singular, _ = torch.linalg.svd(t[keys], full_matrices=False)
        left = left[:, singular > rtol * singular[0]]
        result[row, keys] = a[row, keys] @ left @ left.T
    return result
