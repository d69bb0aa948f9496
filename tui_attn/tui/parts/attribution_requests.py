"""What the screen asks about attribution, computed on a worker's thread."""

from __future__ import annotations

from dataclasses import dataclass

from tui_attn.answers import Inspector, Variant
from tui_attn.answers.attribution import AttributionChoices, AttributionState, Comparison, Mixing
from tui_attn.progress import Job


@dataclass(frozen=True)
class RefineRequest:
    """An estimate with so many probes, or the exact sweep."""

    run: int
    choices: AttributionChoices


@dataclass(frozen=True)
class MixingRequest:
    """The summaries of every layer."""

    run: int
    choices: AttributionChoices


@dataclass(frozen=True)
class CompareRequest:
    """Attention against attribution for one query of a head."""

    run: int
    layer: int
    head: int
    query: int
    choices: AttributionChoices
    variant: Variant


def compute_refine(session: Inspector, request: RefineRequest, job: Job) -> AttributionState:
    """Refine an estimate, or sweep."""
    return session.attribution.refine(request.choices, job=job)


def compute_mixing(session: Inspector, request: MixingRequest, job: Job) -> list[Mixing]:
    """The summaries of every layer, `emb` first."""
    found = []
    for layer in range(-1, len(session.attribution.layers) - 1):
        job.check()
        found.append(session.attribution.mixing(layer, request.choices))
    return found


def compute_comparison(session: Inspector, request: CompareRequest, job: Job) -> Comparison:
    """Attention against attribution."""
    job.check()
    return session.attribution.compare(
        request.layer, request.head, request.query, request.choices, request.variant
    )
