"""Token identity: is this token still itself at layer l?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps.base import MapSpec

if TYPE_CHECKING:
    import torch

    from tui_attn.answers.identity import IdentityChoices
    from tui_attn.maps.retrieval import Found
    from tui_attn.model.trace import Trace

_MOST_ROWS = 2048
"""Rates of longer texts are taken over this many evenly spread tokens, and say so by their n."""
_BLOCK = 512

MAP = MapSpec(
    name="identity",
    title="Token identity",
    axes="token x layer",
    scale="rank",
    formula="rank of x_i among candidates x_j by similarity to h(e_i^l); identified where it is 1",
    source="On Identifiability in Transformers (arXiv 1908.04211), section 4",
    meaning="whether a hidden state still is nearest to its own token",
    summaries=("rates", "transfer"),
)


class Recovery(Protocol):
    """A trained map h from hidden states back to their tokens."""

    def __call__(self, trained_at: int, states: torch.Tensor) -> torch.Tensor:
        """Apply the map of one hidden state (0 is `emb`) to states (n, d): (n, d)."""
        ...


def identify(
    trace: Trace,
    state: int,
    rows: torch.Tensor,
    choices: IdentityChoices,
    recovery: Recovery | None = None,
    trained_at: int | None = None,
) -> Found:
    """Search the tokens of one hidden state.

    Args:
        trace: The run.
        state: Which hidden state: 0 is the output of the embeddings, l + 1 that of block l.
        rows: (n,) int64, positions of the tokens that are searched for; the candidates in the text
            are all of its tokens.
        choices: What is compared with what.
        recovery: The trained map, None for the naive search.
        trained_at: The hidden state whose map is applied; None: the same.

    Returns:
        What was found, as positions, or as ids where the candidates are the vocabulary;
        no numbers where the target is the layer below and there is none.

    Raises:
        InspectError: The model's word embeddings cannot be compared (exit code 4).
    """
    import torch

    from tui_attn.maps.retrieval import no_numbers, search

    if choices.target == "previous" and state == 0:
        return no_numbers(rows)
    hidden = trace.hidden[state]
    vectors = hidden[rows.to(hidden.device)].to(rows.device)  # layers may be on several devices
    if recovery is not None:
        vectors = recovery(state if trained_at is None else trained_at, vectors)
    if choices.candidates == "vocabulary":
        words = vocabulary(trace)
        labels = trace.ids[rows].to(words.device)
        everything = torch.arange(len(words), device=words.device)
        return search(vectors.to(words.device), labels, words, everything, choices.metric)
    targets = _targets(trace, state, choices)
    others = trace.ids if choices.match == "id" else torch.arange(len(trace.ids))
    others = others.to(targets.device)
    rows = rows.to(targets.device)
    return search(vectors.to(targets.device), others[rows], targets, others, choices.metric)


def number_of_candidates(trace: Trace, choices: IdentityChoices) -> int:
    """How many candidates a search has."""
    return len(trace.ids) if choices.candidates == "text" else len(vocabulary(trace))


def _targets(trace: Trace, state: int, choices: IdentityChoices) -> torch.Tensor:
    """(s, d): the vectors of the text's own tokens."""
    if choices.target == "word":
        words = vocabulary(trace)
        return words[trace.ids.to(words.device)]
    return trace.hidden[state - 1 if choices.target == "previous" else 0]


def vocabulary(trace: Trace) -> torch.Tensor:
    """(V, d): the model's word embeddings, where they can be compared with its hidden states.

    Raises:
        InspectError: They cannot (exit code 4).
    """
    words, width = trace.word_embeddings, trace.hidden[0].shape[-1]
    if words is None or not words.is_floating_point():
        raise InspectError(
            "this model's word embeddings cannot be read",
            "use the target embedding",
            ExitCode.UNSUPPORTED,
        )
    if words.shape[1] != width:
        raise InspectError(
            f"this model's word embeddings have width {words.shape[1]}, its hidden states {width}",
            "use the target embedding",
            ExitCode.UNSUPPORTED,
        )
    return words


def sampled(counted: torch.Tensor) -> Iterator[torch.Tensor]:
    """The counted tokens in blocks: all of them, or evenly spread ones of a long text."""
    import torch

    if len(counted) > _MOST_ROWS:
        spread = torch.linspace(0, len(counted) - 1, _MOST_ROWS, device=counted.device)
        counted = counted[spread.round().long()]
    yield from torch.split(counted, _BLOCK)
