"""A loaded model and an encoded text -> Trace, with errors that people can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import capture

if TYPE_CHECKING:
    from tui_attn.model.loading import LoadedModel
    from tui_attn.model.tokens import Encoded
    from tui_attn.model.trace import Trace
    from tui_attn.progress import Job


def inputs_of(loaded: LoadedModel, encoded: Encoded) -> dict[str, torch.Tensor]:
    """The keyword arguments of the model's forward: a batch of one, without padding."""
    device = loaded.model.device
    inputs = {"input_ids": torch.tensor([encoded.ids], device=device)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if encoded.takes_segments:
        inputs["token_type_ids"] = torch.tensor([encoded.segments], device=device)
    return inputs


def trace_of(loaded: LoadedModel, encoded: Encoded, job: Job) -> Trace:
    """Run one text through the model.

    Raises:
        InspectError: It does not fit into memory (exit code 5).
        Cancelled: The job was cancelled.
    """
    try:
        return capture.capture(loaded.model, inputs_of(loaded, encoded), loaded.sites, job)
    except torch.OutOfMemoryError as error:
        raise InspectError(
            f"{len(encoded.ids)} tokens do not fit into the memory of {loaded.model.device}",
            "shorten the text with --max-tokens, or use --dtype bfloat16 or --device cpu",
            ExitCode.INPUT,
        ) from error
