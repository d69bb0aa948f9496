"""Layers that are kept nowhere: computed again from what entered their blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from tui_attn.model.trace import LayerTrace

_KEPT = 3
"""Layers at hand: the one on the screen, and one that statistics are made of, before and after."""


class RecomputedLayers(Mapping[int, LayerTrace]):
    """Layers by their numbers; looking one up runs its block, unless it was among the latest.

    Args:
        make: Runs the block of a layer.
        running: Held by whoever runs the model.
    """

    def __init__(
        self, make: Mapping[int, Callable[[], LayerTrace]], running: threading.RLock
    ) -> None:
        self._make = make
        self._running = running
        self._kept: dict[int, LayerTrace] = {}

    def __getitem__(self, layer: int) -> LayerTrace:
        with self._running:
            made = self._kept.pop(layer, None) or self._make[layer]()
            self._kept[layer] = made
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            return made

    def __iter__(self) -> Iterator[int]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)
