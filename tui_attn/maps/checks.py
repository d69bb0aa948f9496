"""Numbers check themselves: what must hold after every run, and by how much it does."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tui_attn.answers import Check
from tui_attn.maps import softmax
from tui_attn.model.trace import LayerTrace, Trace
from tui_attn.progress import Job

_ROWS = 16
"""Queries looked at per head: enough to see a wrong mask or kernel, cheap at any length."""


@dataclass(frozen=True)
class Found:
    """What was checked, and the NaN and infinities among heads' outputs and hidden states."""

    checks: tuple[Check, ...]
    nan_count: int
    inf_count: int


def of_run(trace: Trace, deficient: dict[int, tuple[int, ...]], causal: bool, job: Job) -> Found:
    """The checks of a run: every layer is looked at once.

    Args:
        trace: The run.
        deficient: Heads per layer whose output projection has not full rank.
        causal: Whether the model is a decoder.
        job: Told about every layer.

    Returns:
        Row sums (at most one where sinks take a part), causality (decoders only), A V against the
        kernel's own output, the rank of the output projections, and what is no number.

    Raises:
        Cancelled: The job was cancelled.
    """
    limit = 1e-4 if trace.exact_outputs else 5e-2
    row_sums, future, outputs = 0.0, 0.0, 0.0
    missing: list[float] = []
    blind_rows = 0
    nan_count = sum(int(hidden.isnan().sum()) for hidden in trace.hidden)
    inf_count = sum(int(hidden.isinf().sum()) for hidden in trace.hidden)
    for number, layer in enumerate(trace.layers.values()):
        job.report("checking the numbers", number, len(trace.layers))
        nan_count += int(layer.o.isnan().sum())
        inf_count += int(layer.o.isinf().sum())
        scale = float(layer.o.abs().max()) or 1.0
        blind = layer.visibility.blind((0, layer.length))
        blind_rows = max(blind_rows, int(blind.sum()))
        rows = _spread(layer)
        rows = rows[~blind[rows]]
        if not len(rows):
            continue
        keys = torch.arange(layer.keys, device=rows.device)
        for head in range(layer.heads):
            raw = softmax.attention_rows(layer, head, rows)
            excess = raw.sum(-1) - 1
            if layer.sinks is None:
                row_sums = _worst(row_sums, excess.abs().max())
            else:
                row_sums = _worst(row_sums, excess.max())
                missing += [-float(excess.max()), -float(excess.min())]
            future = _worst(future, (raw.nan_to_num() * (keys > rows[:, None])).max())
            actual = raw @ layer.v[layer.kv_head(head)].double()
            outputs = _worst(outputs, (actual - layer.o[head, rows].double()).abs().max() / scale)
    notes = filter(None, (_sinks(missing), _blind(blind_rows)))
    found = [_check("row sums", row_sums, 1e-6, ", ".join(notes))]
    if causal:
        found.append(_check("causal", future, 0.0))
    found.append(_check("A V = o", outputs, limit))
    flat = sum(len(heads) for heads in deficient.values())
    note = f"{flat} heads with a larger null space than shown" if flat else ""
    found.append(Check("W_O rank", flat == 0, float(flat), 0.0, note))
    return Found(tuple(found), nan_count, inf_count)


def _spread(layer: LayerTrace) -> torch.Tensor:
    """(at most _ROWS,) positions from the first to the last query."""
    steps = torch.linspace(0, layer.length - 1, min(_ROWS, layer.length), device=layer.q.device)
    return steps.round().long()


def _worst(so_far: float, error: torch.Tensor) -> float:
    value = float(error)
    return value if value > so_far or value != value else so_far


def _sinks(missing: list[float]) -> str:
    return f"sinks take {min(missing):.2f} to {max(missing):.2f} of a row" if missing else ""


def _blind(rows: int) -> str:
    return f"{rows} queries see no key" if rows else ""


def _check(name: str, error: float, limit: float, note: str = "") -> Check:
    return Check(name, error <= limit, error, limit, note)
