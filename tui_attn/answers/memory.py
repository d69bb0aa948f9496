"""What a run needs, and where its layers can be kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui_attn.errors import ExitCode, InspectError

Keep = Literal["device", "host", "recompute"]
KEEPS: tuple[Keep, ...] = ("device", "host", "recompute")
"""Where q, k, v and o of the layers stay: beside the model, in host memory as they are captured, or
nowhere: a layer is computed again from its hidden state when it is looked at."""
_SPARE = 0.9
"""Of the free memory so much may be planned with."""


@dataclass(frozen=True)
class Need:
    """Bytes that one way of keeping the layers needs, about; on a CPU all of it is `device`."""

    device: int
    host: int = 0


@dataclass(frozen=True)
class MemoryPlan:
    """What a text needs in each way, against what is free.

    Attributes:
        tokens: Length of the text.
        device: Name of the model's device.
        needs: The ways there are, the quickest to look at first.
        free: What is free now.
    """

    tokens: int
    device: str
    needs: dict[Keep, Need]
    free: Need

    def fits(self, keep: Keep) -> bool:
        """Whether this way fits into what is free."""
        need = self.needs[keep]
        return need.device <= _SPARE * self.free.device and need.host <= _SPARE * self.free.host

    @property
    def best(self) -> Keep | None:
        """The first way that fits."""
        return next((keep for keep in self.needs if self.fits(keep)), None)

    @property
    def longest(self) -> int:
        """How many tokens fit in the way that needs least; needs grow with the length."""
        return max(
            int(self.tokens * min(_SPARE * free / need for need, free in self._pairs(keep)))
            for keep in self.needs
        )

    def _pairs(self, keep: Keep) -> list[tuple[int, int]]:
        need = self.needs[keep]
        pairs = [(need.device, self.free.device), (need.host, self.free.host)]
        return [pair for pair in pairs if pair[0]]


class TooLarge(InspectError):
    """A run that does not fit, or did not; the plan holds the ways that are left.

    Args:
        plan: What each way needs.
        tried: The way that ran out of memory; None: nothing was tried.
    """

    def __init__(self, plan: MemoryPlan, tried: Keep | None = None) -> None:
        need = plan.needs[tried or "device"]
        place = "" if plan.device == "cpu" else f" on {plan.device}"
        super().__init__(
            f"{plan.tokens:,} tokens ran out of memory{place}"
            if tried
            else f"{plan.tokens:,} tokens need about {size(need.device)}{place}, "
            f"and {size(plan.free.device)} are free",
            _advice(plan, tried),
            ExitCode.INPUT,
        )
        self.plan = plan
        self.tried = tried


def _advice(plan: MemoryPlan, tried: Keep | None) -> str:
    ways = [
        f"--keep {keep} (about {size(need.device + need.host)})"
        for keep, need in plan.needs.items()
        if keep not in ("device", tried) and plan.fits(keep)
    ]
    shorter = min(plan.longest, plan.tokens // 2 if tried else plan.tokens)
    if shorter > 0:
        ways.append(f"--max-tokens {shorter}")
    return "use " + ", ".join([*ways, "--dtype bfloat16 or a smaller model"])


def size(number: float) -> str:
    """Bytes in words: `3.2 GiB`."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} GiB"
