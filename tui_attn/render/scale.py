"""Numbers -> levels of a colour scale. Only the colour is bounded, never the number.

numpy is imported with the first number, so that the first frame does not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tui_attn.answers import BoolArray, FloatArray

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_LEVEL = 255
"""The level of a cell that has nothing to show."""
BROKEN = 254
"""The level of a cell that is there and is NaN."""


@dataclass(frozen=True)
class Scale:
    """What the colours of a map span.

    The square root spreads small weights out, since attention is heavy-tailed; a signed scale is
    symmetric about zero.

    Attributes:
        low: The least value of the map.
        high: The largest.
        signed: Whether zero sits in the middle.
        root: Whether the square root is taken; not where equal steps are equal steps.
    """

    low: float
    high: float
    signed: bool = False
    root: bool = True

    def positions(self, values: FloatArray) -> FloatArray:
        """Where values lie: 0 … 1, or -1 … 1 when signed; NaN stays NaN."""
        import numpy as np

        reach = max(abs(self.low), abs(self.high)) if self.signed else self.high
        share = values / (reach if reach > 0 else 1.0)
        spread: FloatArray = np.sign(share) * np.sqrt(np.abs(share)) if self.root else share
        return spread.clip(-1.0 if self.signed else 0.0, 1.0)

    def levels(
        self, values: FloatArray, steps: int, visible: BoolArray | None = None
    ) -> NDArray[np.uint8]:
        """Levels 0 … steps-1 (the middle one is zero when signed); infinities have the outermost.

        Args:
            values: Any shape.
            steps: Number of levels; odd when signed.
            visible: The same shape: where NaN is BROKEN; elsewhere, or if None, it is NO_LEVEL.
        """
        import numpy as np

        positions = self.positions(values)
        if self.signed:
            half = steps // 2
            levels = half + np.rint(positions * half)
        else:
            levels = np.minimum(np.floor(positions * steps), steps - 1)
        nan = NO_LEVEL if visible is None else np.where(visible, BROKEN, NO_LEVEL)
        return np.where(np.isnan(values), nan, np.nan_to_num(levels)).astype(np.uint8)

    def covering(self, values: FloatArray) -> Scale:
        """The scale that spans these values too; NaN and infinities do not count."""
        import numpy as np

        finite = values[np.isfinite(values)]
        if not finite.size:
            return self
        low, high = float(finite.min()), float(finite.max())
        return replace(self, low=min(self.low, low), high=max(self.high, high))

    def legend(self) -> str:
        """The span in words, `-0.31 … 0.62 √`."""
        return f"{self.low:.2g} … {self.high:.2g}{' √' if self.root else ''}"


def shared(scales: list[Scale]) -> Scale:
    """One scale for maps side by side."""
    return Scale(
        min(scale.low for scale in scales),
        max(scale.high for scale in scales),
        any(scale.signed for scale in scales),
    )
