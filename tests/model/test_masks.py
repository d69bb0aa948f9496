"""Masks are rules: intervals of keys, never s x s numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    causal_mask_function,
    chunked_causal_mask_function,
    sdpa_mask,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)

from tests.model import tiny
from tests.model.test_capture import captured, eager, text
from tui_attn.errors import InspectError
from tui_attn.maps import softmax
from tui_attn.model import capture, masks, scores
from tui_attn.model.trace import Visibility

LONG = 512


class _Largest(TorchDispatchMode):
    """Notes the largest number of elements of anything that an operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, torch.Tensor):
                # A view of few numbers is no memory, however large its shape.
                stored = made.untyped_storage().nbytes() // made.element_size()
                self.elements = max(self.elements, min(made.numel(), stored))
        return result


@pytest.mark.parametrize(
    "family", ["llama", "mistral", "gemma3_text", "gemma2", "gpt_oss", "modernbert", "bert"]
)
def test_no_tensor_of_s_by_s_exists_during_capture(family: str) -> None:
    wide = {"max_position_embeddings": LONG} if family in ("bert", "modernbert") else {}
    model = tiny.model(family, **wide)
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    ids = text(LONG)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with _Largest() as largest:
        trace = capture.capture(model, inputs, sites, capture.Job())
    assert len(trace.layers) == 3
    assert LONG * 48 <= largest.elements < LONG * LONG


def test_the_guard_sees_a_mask() -> None:
    """The test above can fail: transformers' own mask is s x s."""
    with _Largest() as largest:
        sdpa_mask(1, LONG, LONG, mask_function=sliding_window_causal_mask_function(5), local_size=5)
    assert largest.elements >= LONG * LONG


@pytest.mark.parametrize("length", [1, 5, 64, 65, 150])
@pytest.mark.parametrize(
    "function",
    [
        causal_mask_function,
        sliding_window_causal_mask_function(7),
        sliding_window_causal_mask_function(1000),
        sliding_window_bidirectional_mask_function(4),
        chunked_causal_mask_function(10, torch.zeros(1, dtype=torch.int64)),
    ],
)
def test_a_rule_says_what_the_mask_says(function: Any, length: int) -> None:
    rule = masks.rule_mask(1, length, length, mask_function=function)
    expected = sdpa_mask(1, length, length, mask_function=function, allow_is_causal_skip=False)
    everything = (0, length)
    assert torch.equal(rule.visibility.mask(everything, everything), expected[0, 0])
    plain = rule.visibility.mask(everything, everything)
    if rule.causal is not None:
        assert torch.equal(plain, torch.ones_like(plain).tril() if rule.causal else plain | True)
    elif length > 10:
        assert not torch.equal(plain, torch.ones_like(plain).tril())


def test_padded_keys_are_seen_by_nobody() -> None:
    padding = torch.ones(1, 20, dtype=torch.bool)
    padding[0, 15:] = False
    rule = masks.rule_mask(1, 20, 20, attention_mask=padding)
    assert rule.causal is None
    assert int(rule.visibility.stop.max()) == 15


def test_a_mask_with_holes_is_refused() -> None:
    def holes(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key - query) % 2 == 0

    with pytest.raises(InspectError, match="not one range of keys"):
        masks.rule_mask(1, 10, 10, mask_function=holes)


def test_rules_are_registered_for_capture() -> None:
    assert ALL_MASK_ATTENTION_FUNCTIONS[capture.IMPLEMENTATION] is masks.rule_mask


@pytest.mark.parametrize("local,reach", [(8, 4), (9, 4), (10, 5)])
def test_the_edges_of_a_two_sided_window(local: int, reach: int) -> None:
    """ModernBERT tells its kernel another number than the window it means."""
    model = tiny.model("modernbert", local_attention=local)
    trace = captured(model, text())
    expected = eager(model, text()).attentions
    windowed = trace.layers[1]
    assert not trace.layers[0].visibility.first.any()  # every third layer sees everything
    assert windowed.visibility.first.tolist() == [max(0, row - reach) for row in range(30)]
    assert windowed.visibility.stop.tolist() == [min(30, row + reach + 1) for row in range(30)]
    actual = softmax.attention_rows(windowed, 0, (0, 30))
    torch.testing.assert_close(actual.float(), expected[1][0, 0], rtol=0, atol=1e-5)
    assert bool(((actual > 0) == (expected[1][0, 0] > 0)).all())


@pytest.mark.parametrize("length", [1, 63, 64, 130])
def test_blocks_of_rows_give_what_all_rows_give(length: int) -> None:
    maker = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(heads, length, width, generator=maker, dtype=torch.float64)
        for heads, width in ((4, 6), (2, 6), (2, 5))
    )
    rows = torch.arange(length)
    visibility = Visibility((rows - 9).clamp(min=0), (rows + 4).clamp(max=length))
    sinks = torch.randn(4, generator=maker, dtype=torch.float64)
    everything = (0, length)
    logits = scores.logits(
        query,
        key.repeat_interleave(2, 0),
        0.5,
        ~visibility.mask(everything, everything),
        softcap=1.5,
    )
    expected = scores.weights(logits, sinks) @ value.repeat_interleave(2, 0)
    actual = scores.attend(query, key, value, 0.5, visibility, softcap=1.5, sinks=sinks)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "mask,expected",
    [
        ([[1, 1], [1, 1]], ([0, 0], [2, 2])),
        ([[1, 0], [1, 1]], ([0, 0], [1, 2])),
        ([[1, 0, 1], [1, 1, 1], [0, 1, 1]], None),
    ],
)
def test_masks_are_read_as_intervals(mask: list[list[int]], expected: object) -> None:
    visibility = Visibility.from_mask(torch.tensor(mask))
    if expected is None:
        assert visibility is None
    else:
        assert visibility is not None
        assert (visibility.first.tolist(), visibility.stop.tolist()) == expected
