"""What an encoder-decoder's decoder reads: a text that is given, or what the model itself writes.

A decoder reads what it has written so far, shifted right: the start token, then every token but
the last. So row i of its attention is what it looks at while it finds token i + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from tui_attn.answers import DecoderSource, Token
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import tokens
from tui_attn.progress import Job

if TYPE_CHECKING:
    from tui_attn.model.loading import LoadedModel

_MOST = 32
"""Tokens that a model writes unasked."""


@dataclass(frozen=True)
class Written:
    """What a decoder reads.

    Attributes:
        ids: Its ids in order, the start token first.
        tokens: The same, named.
        text: The text that they spell.
        source: Where that is from.
    """

    ids: list[int]
    tokens: tuple[Token, ...]
    text: str
    source: DecoderSource


def start_id(model: Any) -> int | None:  # noqa: ANN401
    """The token with which a model begins to write; None where it is not said."""
    for config in (getattr(model, "generation_config", None), model.config):
        found = getattr(config, "decoder_start_token_id", None)
        if isinstance(found, int):
            return found
    return None


def given(loaded: LoadedModel, text: str, source: DecoderSource = "given") -> Written:
    """Read a text as if the model had written it.

    Raises:
        InspectError: The text is empty or too long (exit code 5).
    """
    labels = tokens.target_ids(loaded.tokenizer, text)
    model, start = loaded.model, start_id(loaded.model)
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        # mBART's way is its own: the language at the end of the labels comes first.
        shifted = model.prepare_decoder_input_ids_from_labels(labels=torch.tensor([labels]))
        ids = [int(token_id) for token_id in shifted[0]]
    else:
        ids = [labels[-1] if start is None else start, *labels[:-1]]
    limit = loaded.info.max_tokens
    if limit is not None and len(ids) > limit:
        raise InspectError(
            f"the decoder's text has {len(ids)} tokens and the model takes {limit}",
            "shorten it",
            ExitCode.INPUT,
        )
    return Written(ids, tokens.named(loaded.tokenizer, ids), text, source)


def greedy(loaded: LoadedModel, inputs: dict[str, torch.Tensor], job: Job) -> Written:
    """What the model writes to a text, the likeliest token at every step, at most 32 of them.

    Args:
        loaded: A model that `can_write`; the caller holds `running`.
        inputs: The text.
        job: Checked at every token.

    Raises:
        Cancelled: The job was cancelled.
    """
    made = loaded.model.generate(
        **inputs,
        max_new_tokens=_MOST,
        do_sample=False,
        num_beams=1,
        stopping_criteria=StoppingCriteriaList([_Checking(job)]),
    )
    ids = [int(token_id) for token_id in made[0]]
    text = loaded.tokenizer.decode(ids, skip_special_tokens=True)
    if len(ids) > 1 and ids[-1] in _ends(loaded.model):
        del ids[-1]  # nothing was found after it
    return Written(ids, tokens.named(loaded.tokenizer, ids), text, "greedy")


class _Checking(StoppingCriteria):  # type: ignore[misc]
    """Stops nothing, but is asked at every token."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._written = 0

    def __call__(self, input_ids: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        self._written += 1
        self._job.report("writing the decoder's text", self._written, _MOST)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def _ends(model: Any) -> list[int]:  # noqa: ANN401
    end = model.generation_config.eos_token_id
    return [end] if isinstance(end, int) else list(end or [])
