"""npz, written column by column through temporary files: a table may be larger than memory."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tui_attn.export import plain_json

_CHUNK = 1 << 20
"""Cells of a column that are in memory at a time."""


def write(
    columns: Sequence[str],
    blocks: Iterable[list[tuple[int | float | str | bool, ...]]],
    metadata: dict[str, object],
    stream: BinaryIO,
) -> None:
    """Write rows as one array a column, and the metadata as JSON in an array of its own.

    Args:
        columns: Names of the columns.
        blocks: Rows.
        metadata: What is needed to make the table again.
        stream: Where to.
    """
    with ExitStack() as stack:
        spools = [_Spool(stack.enter_context(tempfile.TemporaryFile())) for _ in columns]
        for block in blocks:
            for spool, cells in zip(spools, zip(*block, strict=True), strict=False):
                spool.add(np.array(cells))
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            described = np.array(plain_json.dumps(metadata))
            _add(archive, "metadata", described.dtype, (), [described])
            for name, spool in zip(columns, spools, strict=True):
                _add(archive, name, spool.dtype, (spool.length,), spool.chunks())


def _add(
    archive: zipfile.ZipFile,
    name: str,
    dtype: np.dtype[np.generic],
    shape: tuple[int, ...],
    chunks: Iterable[NDArray[np.generic]],
) -> None:
    # The entry has no date: the same numbers make the same bytes.
    entry = zipfile.ZipInfo(f"{name}.npy")
    entry.compress_type = zipfile.ZIP_DEFLATED
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    with archive.open(entry, "w", force_zip64=True) as target:
        np.lib.format.write_array_header_2_0(target, header)
        for chunk in chunks:
            target.write(chunk.astype(dtype).tobytes())


class _Spool:
    """A column on disk. Text is kept once and numbered, since a column names few tokens often.

    Args:
        file: Where the cells go.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._parts: list[tuple[np.dtype[np.generic], int]] = []
        self._numbers: dict[str, int] = {}

    def add(self, cells: NDArray[np.generic]) -> None:
        """Append cells."""
        self._parts.append((cells.dtype, len(cells)))
        if cells.dtype.kind == "U":
            found = [self._numbers.setdefault(str(cell), len(self._numbers)) for cell in cells]
            cells = np.array(found, dtype=np.int64)
        self._file.write(cells.tobytes())

    @property
    def length(self) -> int:
        """Number of cells."""
        return sum(count for _, count in self._parts)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """What holds every cell."""
        kinds = [dtype for dtype, _ in self._parts]
        return np.result_type(*kinds) if kinds else np.dtype(np.float64)

    def chunks(self) -> Iterator[NDArray[np.generic]]:
        """The cells, in pieces."""
        texts = np.array(list(self._numbers))
        self._file.seek(0)
        for dtype, count in self._parts:
            stored = np.dtype(np.int64) if dtype.kind == "U" else dtype
            for start in range(0, count, _CHUNK):
                wanted = min(_CHUNK, count - start)
                cells = np.frombuffer(self._file.read(wanted * stored.itemsize), stored)
                yield texts[cells] if dtype.kind == "U" else cells
