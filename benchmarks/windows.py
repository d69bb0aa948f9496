"""What a window costs on a long text, and what a capture costs over a plain forward pass."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2Model

from benchmarks.measuring import Row, ratio, row, seconds
from tui_attn import maps
from tui_attn.model import capture
from tui_attn.model.scores import attend
from tui_attn.model.trace import LayerTrace, Trace, Visibility
from tui_attn.progress import Job

ROWS, COLUMNS = 40, 120
SHORT, LONG = 512, 8192
HEADS, WIDTH = 4, 64
STEPS = 60
TOKENS = 2048


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark: both sides in turn, so that drift hits both."""
    rows = []
    for causal in (False, True):
        layers = {length: _layers(length, causal=causal) for length in (SHORT, LONG)}
        for name in ("attention", "effective"):
            pairs = [
                [_walk(Trace(layers[length]), name, length) for length in (LONG, SHORT)]
                for _ in range(runs)
            ]
            ones, others = (list(side) for side in zip(*pairs, strict=True))
            kind = "decoder" if causal else "encoder"
            what = f"{name} window {ROWS} x {COLUMNS}, {kind}, s = {LONG:,} / s = {SHORT}"
            rows.append(row(what, ratio(ones, others), "times", "at most 2"))
            rows.append(row(f"the same at s = {LONG:,}", min(ones) * 1000, "ms"))
    return [*rows, *_captures(runs)]


def _layers(length: int, *, causal: bool) -> dict[int, LayerTrace]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(HEADS, length, WIDTH, generator=generator) for _ in range(3))
    seen = Visibility.causal(length) if causal else Visibility.full(length)
    scaling = WIDTH**-0.5
    return {0: LayerTrace(0, q, k, v, attend(q, k, v, scaling, seen), scaling, seen)}


def _walk(trace: Trace, name: str, length: int) -> float:
    """Seconds a window, on a walk down from the middle of the map as the cursor makes it."""
    window = maps.get(name).window
    assert window is not None
    middle = length // 2

    def steps() -> None:
        for step in range(STEPS):
            rows = (middle + step, middle + step + ROWS)
            window(trace, 0, 1, rows, (middle - COLUMNS, middle), "output")

    window(trace, 0, 1, (middle, middle + ROWS), (middle - COLUMNS, middle), "output")
    return seconds(steps) / STEPS  # the head is on the screen; most rows come into it anew


def _captures(runs: int) -> list[Row]:
    torch.manual_seed(0)
    size = {"n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": 1000}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    model = GPT2Model(GPT2Config(**size, **ends, n_positions=TOKENS)).eval()
    inputs = {"input_ids": torch.randint(0, 1000, (1, TOKENS))}
    sites, _ = capture.verify(model, 1000)

    @torch.inference_mode()
    def plain() -> float:
        with capture.implementation(model, "sdpa"):
            return seconds(lambda: model(**inputs, use_cache=False))

    pairs = []
    for _ in range(runs):
        one = seconds(lambda: capture.capture(model, inputs, sites, Job()))
        pairs.append((one, plain()))
    ones, others = (list(side) for side in zip(*pairs, strict=True))
    what = f"capture of {TOKENS:,} tokens / plain forward pass"
    return [row(what, ratio(ones, others), "times", "at most 1.3")]
