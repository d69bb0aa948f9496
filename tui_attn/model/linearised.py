r"""A block as matrices, for many tangents at a time: only attention mixes positions.

At each position i a block is q, k, v = f_i(x_i), then o = attention(q, k, v), then
y_i = g_i(o_i, x_i). With the Jacobians of f_i and g_i as matrices, a tangent costs five products
with a d x d matrix and no pass through normalisation and feed-forward. The tangent of attention is
closed: dA = A * (dL - rowsum(A * dL)) for logits L, and do = dA v + A dv.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tui_attn.model import scores


@dataclass(frozen=True)
class Attention:
    """One call of the attention kernel.

    Attributes:
        query: (1, H, s, d_k).
        key: (1, H_kv, s, d_k); grouped keys are not expanded.
        value: (1, H_kv, s, d_v).
        mask: (1, 1, s, s), True where visible or added to the logits; None: `causal` says it all.
        causal: Whether no query sees a later key, where there is no mask.
        scaling: What q k^T is multiplied by before the softmax.
        softcap: Logits x become softcap tanh(x / softcap); None: they stay.
        sinks: (H,) logits of an extra key without a value, or None.
        bias: (1, H, s, s), added to the logits, or None.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    causal: bool
    scaling: float
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    bias: torch.Tensor | None = None

    @property
    def groups(self) -> int:
        """Query heads that share a key."""
        return self.query.shape[1] // self.key.shape[1]

    def weights(self) -> torch.Tensor:
        """Softmax of the scaled logits: (1, H_kv, groups, s, s)."""
        heads, length = self.query.shape[1:3]
        grouped = (heads // self.groups, self.groups)
        hidden, bias = None, self.bias
        if self.mask is None and self.causal:
            square = torch.ones(length, length, dtype=torch.bool, device=self.query.device)
            hidden = square.triu(1)
        elif self.mask is not None and self.mask.dtype == torch.bool:
            hidden = ~self.mask
        elif self.mask is not None:
            bias = self.mask if bias is None else self.mask + bias
        if bias is not None:
            bias = bias.expand(-1, heads, -1, -1).reshape(1, *grouped, *bias.shape[2:])
        logits = scores.logits(
            self.query.reshape(1, *grouped, length, -1),
            self.key[:, :, None],
            self.scaling,
            hidden,
            softcap=self.softcap,
            bias=bias,
        )
        return scores.weights(logits, None if self.sinks is None else self.sinks.reshape(grouped))

    def slopes(self) -> torch.Tensor | None:
        """The derivative of the soft cap at every logit (H_kv, groups, s, s), None without one."""
        if self.softcap is None:
            return None
        _, heads, length, width = self.query.shape
        query = self.query.reshape(heads // self.groups, self.groups, length, width)
        logits: torch.Tensor = query @ self.key[0, :, None].transpose(-1, -2) * self.scaling
        return 1 - torch.tanh(logits / self.softcap).square()

    def output(self) -> torch.Tensor:
        """What the heads read: (1, s, H, d_v), the order in which transformers wants it."""
        read = self.weights() @ self.value[:, :, None]
        return read.flatten(1, 2).transpose(1, 2)


@dataclass(frozen=True)
class LinearBlock:
    """The derivative of one block at one text.

    Attributes:
        enter: (s, w, d) Jacobian of each position's queries, keys and values (w numbers in that
            order, heads one after the other) in its input.
        leave_heads: (s, d, H d_v) Jacobian of each position's output in what its heads read.
        leave_input: (s, d, d) Jacobian of each position's output in its input, besides attention.
        query: (H_kv, groups, s, d_k).
        key: (H_kv, s, d_k).
        value: (H_kv, s, d_v).
        weights: (H_kv, groups, s, s) attention.
        scaling: What q k^T is multiplied by before the softmax.
        slopes: (H_kv, groups, s, s) derivatives of the soft cap, or None.
    """

    enter: torch.Tensor
    leave_heads: torch.Tensor
    leave_input: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    weights: torch.Tensor
    scaling: float
    slopes: torch.Tensor | None = None

    def push(self, moved: torch.Tensor, enter: slice, leave: slice) -> torch.Tensor:
        """Tangents after the block.

        Args:
            moved: (e, d, T) tangents before it, of the e positions in `enter`.
            enter: Positions that move before the block; the others stand still.
            leave: Positions that move after it, among them those of `enter`.

        Returns:
            (l, d, T), of the l positions in `leave`.
        """
        entered = torch.bmm(self.enter[enter], moved)
        read = self._attention(entered, enter, leave)
        left = torch.bmm(self.leave_heads[leave], read)
        inside = slice(enter.start - leave.start, enter.stop - leave.start)
        left[inside].baddbmm_(self.leave_input[enter], moved)
        return left

    def _attention(self, entered: torch.Tensor, enter: slice, leave: slice) -> torch.Tensor:
        """(l, H d_v, T) tangents of what the heads read, from (e, w, T)."""
        kv_heads, groups, length, width = self.query.shape
        count = entered.shape[-1]
        moving = len(entered)
        queries, keys = kv_heads * groups * width, kv_heads * width
        # Positions first, as they come: (e, H_kv, groups, d_k, T); then (H_kv, e, d, T)
        d_query = entered[:, :queries].view(moving, kv_heads, groups, width, count)
        d_key = entered[:, queries : queries + keys].view(moving, kv_heads, width, count)
        d_value = entered[:, queries + keys :].view(moving, kv_heads, -1, count)
        d_key, d_value = d_key.transpose(0, 1), d_value.transpose(0, 1)
        weights = self.weights[:, :, leave]
        rows = weights.shape[2]

        by_keys: torch.Tensor = self.query[:, :, leave].flatten(1, 2) @ d_key.transpose(
            1, 2
        ).flatten(2)
        d_logits = by_keys.new_zeros(rows, kv_heads, groups, length, count)
        d_logits[:, :, :, enter] = by_keys.view(kv_heads, groups, rows, moving, count).permute(
            2, 0, 1, 3, 4
        )
        inside = slice(enter.start - leave.start, enter.stop - leave.start)
        d_logits[inside] += self.key[:, None] @ d_query
        d_logits *= self.scaling
        if self.slopes is not None:
            d_logits *= self.slopes[:, :, leave].permute(2, 0, 1, 3)[..., None]
        of_row = weights.permute(2, 0, 1, 3)
        d_logits -= of_row[..., None, :] @ d_logits
        d_weights = d_logits.mul_(of_row[..., None])

        read: torch.Tensor = (
            self.value.transpose(1, 2)[:, None] @ d_weights
        )  # (l, H_kv, groups, d_v, T)
        seen = weights[..., enter].flatten(1, 2) @ d_value.flatten(2)
        read += seen.view(kv_heads, groups, rows, -1, count).permute(2, 0, 1, 3, 4)
        return read.view(rows, -1, count)
