"""Masks as rules: which keys each query sees, handed to the kernel without an s x s tensor.

transformers builds a mask by calling a function registered under the name of the attention
implementation. Ours asks for the same mask in blocks of rows and keeps only the interval of keys
that each query sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
)

from tui_attn.errors import ExitCode, InspectError
from tui_attn.model.trace import Visibility

_BLOCK = 64
"""Rows of a mask that exist at a time."""


@dataclass(frozen=True)
class Rule:
    """What stands in a mask's place.

    Attributes:
        visibility: The keys that each query sees.
        causal: What the fast kernel is told instead of a mask; None where it cannot be told.
    """

    visibility: Visibility
    causal: bool | None

    @classmethod
    def plain(cls, queries: int, keys: int, causal: bool, device: torch.device | str) -> Rule:
        """Every query sees every key, or those up to itself."""
        if causal:
            return cls(Visibility.causal(queries, device), True)
        return cls(Visibility.full(queries, device, keys), False)

    @classmethod
    def of(cls, visibility: Visibility, keys: int) -> Rule:
        """The rule of any intervals; a window wider than the text is none."""
        queries, device = len(visibility.first), visibility.first.device
        for causal in (True, False):
            plain = cls.plain(queries, keys, causal, device)
            if torch.equal(visibility.first, plain.visibility.first) and torch.equal(
                visibility.stop, plain.visibility.stop
            ):
                return plain
        return cls(visibility, None)

    @classmethod
    def read(cls, mask: torch.Tensor) -> Rule:
        """The rule of a mask (1, heads, queries, keys) that a model made itself.

        Args:
            mask: True where visible, or added to the logits: the least number there is where not.

        Raises:
            InspectError: It is not one range of keys for each query (exit code 4).
        """

        def rows(start: int, count: int) -> torch.Tensor:
            part = mask[0, 0, start : start + count]
            return part if mask.dtype == torch.bool else part > torch.finfo(part.dtype).min / 2

        return cls.of(_read(rows, mask.shape[2]), mask.shape[3])


def rule_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    device: torch.device | str = "cpu",
    **kwargs: Any,  # noqa: ANN401 - whatever else transformers tells about a mask
) -> Rule:
    """The rule of a mask, in the place of `transformers.masking_utils.sdpa_mask`.

    Raises:
        InspectError: The mask is not one range of keys for each query (exit code 4).
    """
    unpadded = attention_mask is None or bool(attention_mask.all())
    if unpadded and not q_offset and mask_function is bidirectional_mask_function:
        return Rule.plain(q_length, kv_length, False, device)
    if unpadded and not q_offset and mask_function is causal_mask_function:
        return Rule.plain(q_length, kv_length, True, device)
    kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)

    def rows(start: int, count: int) -> torch.Tensor:
        mask: torch.Tensor = sdpa_mask(
            batch_size,
            count,
            kv_length,
            q_offset=q_offset + start,
            mask_function=mask_function,
            attention_mask=attention_mask,
            device=device,
            **kwargs,
        )
        return mask[0, 0]

    return Rule.of(_read(rows, q_length), kv_length)


def _read(rows: Callable[[int, int], torch.Tensor], length: int) -> Visibility:
    """The intervals of a mask that comes in blocks: so many rows from a start on, (r, keys) bool.

    Raises:
        InspectError: It is not one range of keys for each query (exit code 4).
    """
    parts: list[Visibility] = []
    for start in range(0, length, _BLOCK):
        part = Visibility.from_mask(rows(start, min(_BLOCK, length - start)))
        if part is None:
            raise InspectError(
                "this model's attention mask is not one range of keys for each query",
                "such masks are not supported yet",
                ExitCode.UNSUPPORTED,
            )
        parts.append(part)
    return Visibility(
        torch.cat([part.first for part in parts]), torch.cat([part.stop for part in parts])
    )
