"""How much memory a text takes on its way through a model, and how much there is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from tui_attn.answers.memory import Keep, MemoryPlan, Need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_attn.model.capture import Call

_LAYERS_AT_HAND = 4
"""Layers beside the model where the others are elsewhere: one that runs, and the latest ones."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that every token takes.

    Attributes:
        layers: Number of attention layers.
        layer: q, k, v and o of one layer.
        hidden: One hidden state.
        working: What a block holds while it runs, about.
    """

    layers: int
    layer: int
    hidden: int
    working: int

    @classmethod
    def of(cls, model: Any, layers: int, call: Call) -> Footprint:  # noqa: ANN401
        """Read it off a model and one call of its attention kernel."""
        config = model.config.get_text_config()
        size, tokens = call.q.element_size(), call.q.shape[2]
        layer = sum(part.numel() for part in (call.q, call.k, call.v, call.o)) * size // tokens
        width = config.hidden_size
        inner = getattr(config, "intermediate_size", None) or 4 * width
        return cls(layers, layer, width * size, (3 * inner + 4 * width) * size + layer)

    def plan(self, tokens: int, devices: list[torch.device]) -> MemoryPlan:
        """What a text of so many tokens needs on these devices together."""
        layers, states = self.layers * self.layer, (self.layers + 1) * self.hidden
        at_hand = min(_LAYERS_AT_HAND, self.layers) * self.layer
        per_token: dict[Keep, Need] = {"device": Need(self.working + layers + states)}
        if devices[0].type != "cpu":
            per_token["host"] = Need(self.working + self.layer, layers + states)
        per_token["recompute"] = Need(self.working + at_hand + states)
        needs = {
            keep: Need(need.device * tokens, need.host * tokens) for keep, need in per_token.items()
        }
        there = Need(sum(map(free, devices)), free(torch.device("cpu")))
        return MemoryPlan(tokens, " ".join(map(str, devices)), needs, there)


def free(device: torch.device) -> int:
    """Bytes that can still be had on a device."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    import psutil

    return int(psutil.virtual_memory().available)


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory; the CPU's allocator has no class for it."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError)
        and ("not enough memory" in str(error) or "can't allocate memory" in str(error))
    )


@contextmanager
def told_of_shortage(make: Callable[[], Exception]) -> Iterator[None]:
    """Turn an error about memory into another one.

    Args:
        make: Makes the other error.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise make() from error
