"""A loaded model and an encoded text -> traces, with errors that people can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tui_attn.answers.memory import Keep, TooLarge
from tui_attn.model import capture, placement, writing
from tui_attn.model.memory import told_of_shortage

if TYPE_CHECKING:
    from tui_attn.answers import Stack
    from tui_attn.model.loading import LoadedModel
    from tui_attn.model.tokens import Encoded
    from tui_attn.model.trace import Trace
    from tui_attn.model.writing import Written
    from tui_attn.progress import Job


def inputs_of(
    loaded: LoadedModel, encoded: Encoded, written: Written | None = None
) -> dict[str, torch.Tensor]:
    """The keyword arguments of the model's forward: a batch of one, without padding."""
    device = placement.computing(loaded.model)[0]
    inputs = {"input_ids": torch.tensor([encoded.ids], device=device)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if loaded.stacks:
        start = [writing.start_id(loaded.model) or 0]  # enough where the encoder alone is looked at
        ids = start if written is None else written.ids
        inputs["decoder_input_ids"] = torch.tensor([ids], device=device)
    elif encoded.takes_segments:
        inputs["token_type_ids"] = torch.tensor([encoded.segments], device=device)
    return inputs


def written_for(
    loaded: LoadedModel, encoded: Encoded, text: str, decoder_text: str | None, job: Job
) -> Written | None:
    """What the decoder reads; None where the model has none.

    Args:
        loaded: The model.
        encoded: The text.
        text: The same, as it was given.
        decoder_text: What the decoder shall read; None: what the model writes, or, where it cannot,
            the text itself.
        job: Told about every token.

    Raises:
        InspectError: The decoder's text is empty or too long (exit code 5).
        TooLarge: Writing does not fit into memory (exit code 5).
        Cancelled: The job was cancelled.
    """
    if not loaded.stacks:
        return None
    if decoder_text is not None:
        return writing.given(loaded, decoder_text)
    if not loaded.can_write:
        return writing.given(loaded, text, "copied")
    inputs = inputs_of(loaded, encoded)
    del inputs["decoder_input_ids"]
    plan = loaded.footprint.plan(len(encoded.ids), placement.computing(loaded.model))
    with loaded.running, torch.inference_mode(), told_of_shortage(lambda: TooLarge(plan, "device")):
        return writing.greedy(loaded, inputs, job)


def trace_of(loaded: LoadedModel, encoded: Encoded, job: Job, keep: Keep | None = None) -> Trace:
    """Run one text through the model.

    Args:
        loaded: The model, or the encoder of one.
        encoded: The text.
        job: Told about every layer.
        keep: Where the layers stay; None: beside the model, if that fits.

    Raises:
        TooLarge: It does not fit into memory (exit code 5).
        Cancelled: The job was cancelled.
    """
    return traces_of(loaded, encoded, None, job, keep)[loaded.info.stack]


def traces_of(
    loaded: LoadedModel,
    encoded: Encoded,
    written: Written | None,
    job: Job,
    keep: Keep | None = None,
) -> dict[Stack | None, Trace]:
    """`trace_of` for every stack; `written` is what the decoder reads.

    Raises:
        TooLarge: It does not fit into memory (exit code 5).
        Cancelled: The job was cancelled.
    """
    count = len(encoded.ids) + (0 if written is None else len(written.ids))
    plan = loaded.footprint.plan(count, placement.computing(loaded.model))
    if keep is None and not plan.fits("device"):
        raise TooLarge(plan)
    keep = keep or "device"
    with loaded.running, told_of_shortage(lambda: TooLarge(plan, keep)):
        return capture.capture_stacks(
            loaded.model,
            inputs_of(loaded, encoded, written),
            loaded.all_sites,
            job,
            keep=keep,
            running=loaded.running,
        )
