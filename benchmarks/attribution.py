"""Hidden token attribution in forward mode, against one backward pass for every component."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer

from benchmarks.measuring import Row, ratio, row, seconds
from tui_attn import demo as demo_text
from tui_attn.maps.jacobians import Estimate, Exact
from tui_attn.model import capture, demo
from tui_attn.model.tangents import Tangents

TOKENS = 24
BACKWARD_PASSES = 64
PROBES = ((8, 0.05), (16, 0.03))
LENGTHS = (32, 64, 128, 256)


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark: all sides in turn, so that drift hits all of them."""
    loops, sweeps = [], []
    guesses: dict[int, list[float]] = {probes: [] for probes, _ in PROBES}
    errors = dict.fromkeys(guesses, 0.0)
    for run in range(runs):
        loops.append(_backward_loop())
        exact = Exact(_tangents(TOKENS))
        sweeps.append(seconds(exact.sweep))
        for probes in guesses:
            estimate = Estimate(_tangents(TOKENS), seed=run)
            guesses[probes].append(seconds(lambda e=estimate, k=probes: e.refine(k)))  # type: ignore[misc]
            errors[probes] = max(errors[probes], _largest_error(estimate, exact))
    rows = [
        row("plain loop of backward passes, 24 tokens", statistics.median(loops), "s", "-"),
        row("exact sweep, 24 tokens", statistics.median(sweeps), "s", "-"),
        row("plain loop / exact sweep", ratio(loops, sweeps), "times", "at least 20"),
    ]
    for probes, limit in PROBES:
        name = f"{probes} probes, 24 tokens"
        aim = "at least 300" if probes == PROBES[0][0] else "-"
        rows += [
            row(name, statistics.median(guesses[probes]), "s", "-"),
            row(f"plain loop / {name}", ratio(loops, guesses[probes]), "times", aim),
            row(f"largest error of a share, {name}", errors[probes], "", f"at most {limit}"),
        ]
    for length in LENGTHS:
        tangents = _tangents(length)
        taken = seconds(lambda t=tangents: Estimate(t).refine(1))  # type: ignore[misc]
        rows.append(row(f"one probe, {length} tokens", taken, "s", "-"))
    return rows


def _largest_error(estimate: Estimate, exact: Exact) -> float:
    return max(
        float((estimate.shares(layer) - exact.shares(layer)).abs().max()) for layer in range(1, 7)
    )


def _model_and_inputs(length: int) -> tuple[Any, dict[str, torch.Tensor]]:
    folder = str(demo.installed_folder())
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval().requires_grad_(False)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = " ".join([demo_text.TEXT] * 8)
    return model, dict(tokenizer(text, truncation=True, max_length=length, return_tensors="pt"))


def _tangents(length: int) -> Tangents:
    model, inputs = _model_and_inputs(length)
    sites, _ = capture.verify(model, model.config.vocab_size)
    return Tangents(model, inputs, sites)


def _backward_loop() -> float:
    """Seconds for all passes, from some that are spread evenly over layers and positions."""
    model, inputs = _model_and_inputs(TOKENS)
    states: list[torch.Tensor] = []

    def before(_: object, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        states.append(args[0].detach().requires_grad_(True))
        return (states[0], *args[1:])

    model.encoder.layer[0].register_forward_pre_hook(before)
    for block in model.encoder.layer:
        block.register_forward_hook(lambda _, __, output: states.append(output))
    model(**inputs)
    start, *outputs = states
    _, length, width = start.shape
    total = len(outputs) * length * width
    components = [number * total // BACKWARD_PASSES for number in range(BACKWARD_PASSES)]

    def passes() -> None:
        for number in components:
            layer, rest = divmod(number, length * width)
            wanted = outputs[layer][0, rest // width, rest % width]
            (gradient,) = torch.autograd.grad(wanted, start, retain_graph=True)
            gradient.square().sum(-1)

    passes()
    return seconds(passes) / BACKWARD_PASSES * total
