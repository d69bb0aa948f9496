"""Names for NumPy arrays that cost no import of NumPy: `--help` must not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]
else:  # only annotations need them
    FloatArray = IntArray = BoolArray = "numpy.ndarray"
