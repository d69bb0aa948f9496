"""A loaded model and an encoded text -> Trace, with errors that people can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tui_attn.answers.memory import Keep, TooLarge
from tui_attn.model import capture, placement
from tui_attn.model.memory import told_of_shortage

if TYPE_CHECKING:
    from tui_attn.model.loading import LoadedModel
    from tui_attn.model.tokens import Encoded
    from tui_attn.model.trace import Trace
    from tui_attn.progress import Job


def inputs_of(loaded: LoadedModel, encoded: Encoded) -> dict[str, torch.Tensor]:
    """The keyword arguments of the model's forward: a batch of one, without padding."""
    device = placement.computing(loaded.model)[0]
    inputs = {"input_ids": torch.tensor([encoded.ids], device=device)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if encoded.takes_segments:
        inputs["token_type_ids"] = torch.tensor([encoded.segments], device=device)
    return inputs


def trace_of(loaded: LoadedModel, encoded: Encoded, job: Job, keep: Keep | None = None) -> Trace:
    """Run one text through the model.

    Args:
        loaded: The model.
        encoded: The text.
        job: Told about every layer.
        keep: Where the layers stay; None: beside the model, if that fits.

    Raises:
        TooLarge: It does not fit into memory (exit code 5).
        Cancelled: The job was cancelled.
    """
    plan = loaded.footprint.plan(len(encoded.ids), placement.computing(loaded.model))
    if keep is None and not plan.fits("device"):
        raise TooLarge(plan)
    keep = keep or "device"
    with loaded.running, told_of_shortage(lambda: TooLarge(plan, keep)):
        return capture.capture(
            loaded.model,
            inputs_of(loaded, encoded),
            loaded.sites,
            job,
            keep=keep,
            running=loaded.running,
        )
