"""What the screen asks about token identity, computed on a worker's thread."""

from __future__ import annotations

from dataclasses import dataclass

from tui_attn.answers import Inspector
from tui_attn.answers.identity import IdentityChoices, IdentityWindow, ProbeInfo, Rate, Transfer
from tui_attn.progress import Job


@dataclass(frozen=True)
class RowsRequest:
    """Some of the counted tokens, at every layer."""

    run: int
    rows: tuple[int, int]
    choices: IdentityChoices


@dataclass(frozen=True)
class RatesRequest:
    """The rates of one method; None: the probes there are for this model."""

    run: int
    choices: IdentityChoices | None


@dataclass(frozen=True)
class TransferRequest:
    """The rates of a probe between layers."""

    run: int
    choices: IdentityChoices


def compute_rows(session: Inspector, request: RowsRequest, job: Job) -> IdentityWindow:
    """Some tokens at every layer."""
    return session.identity.window(request.rows, request.choices, job=job)


def compute_rates(
    session: Inspector, request: RatesRequest, job: Job
) -> tuple[Rate, ...] | tuple[ProbeInfo, ...]:
    """The rates of a method, or the probes there are."""
    if request.choices is None:
        return tuple(session.identity.probes())
    return tuple(session.identity.rates(request.choices, job=job))


def compute_transfer(session: Inspector, request: TransferRequest, job: Job) -> Transfer:
    """The rates between layers."""
    return session.identity.transfer(request.choices, job=job)
