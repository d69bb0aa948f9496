"""One line of statistics for every head, streamed over blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tui_attn.answers import HeadSummary
from tui_attn.maps.base import MapSpec
from tui_attn.maps.sampling import STATISTICS, row_blocks, sampled_rows

if TYPE_CHECKING:
    import torch

    from tui_attn.answers import FloatArray, Variant
    from tui_attn.model.trace import Trace

_THUMBNAIL = 24

MAP = MapSpec(
    name="heads",
    title="Heads",
    axes="layer x head",
    scale="table",
    formula="rank V, s - rank V, ||A_null|| / ||A||, corr(A, A_eff), H(A) / log s, and more",
    source="On Identifiability in Transformers (arXiv 1908.04211), sections 3 and 4",
    meaning="how far each head's attention is identifiable, and what it looks like",
    has_variants=True,
)


def summarise(
    trace: Trace, layer: int, head: int, variant: Variant, pause: Callable[[], None]
) -> HeadSummary:
    """The statistics of one head, over visible cells; of a long text, over sampled rows.

    Args:
        trace: The run.
        layer: Number of the layer.
        head: A query head.
        variant: What effective attention keeps.
        pause: Called before every block of rows; what it raises comes through.
    """
    import torch

    from tui_attn.maps import softmax
    from tui_attn.maps.nullspace import effective_rows, factor

    record = trace.layers[layer]
    length, keys = record.length, record.keys
    made, factors = factor(trace, layer, head, variant)
    everything = (0, keys)
    moments = _Moments()
    entropies, firsts, sums, errors, ranks, nulls, seen = [], [], [], [], [], [], []
    thumbnail = torch.full((_THUMBNAIL, _THUMBNAIL), -torch.inf, dtype=torch.float64)
    for rows in row_blocks(length, STATISTICS, keys):
        pause()
        visible = record.visibility.mask(rows, everything)
        raw = softmax.attention_rows(record, head, rows)
        effective = effective_rows(trace, layer, head, rows, everything, variant)
        moments.add(raw, effective, visible)
        count = visible.sum(-1)
        entropies.append((torch.special.entr(raw).sum(-1) / count.double().log())[count > 0])
        first_seen = visible[:, 0]
        firsts.append(raw[first_seen, 0])
        sums.append(effective.sum(-1)[count > 0])
        expected = raw @ made.values
        errors.append((effective @ made.values - expected).abs().max() / expected.abs().max())
        ranks.append(factors.ranks(rows))
        nulls.append(factors.null_dimensions(rows))
        seen.append(count)
        _pool_into(thumbnail, raw.masked_fill(~visible, -torch.inf).cpu(), rows, length)
    entropy = torch.cat(entropies)
    row_sums = torch.cat(sums) if moments.cells else torch.full((1,), torch.nan)
    null_dimensions = torch.cat(nulls)
    widest = int(null_dimensions.argmax()) if bool(null_dimensions.any()) else -1
    return HeadSummary(
        layer=layer,
        head=head,
        rank=int(torch.cat(ranks)[widest]),
        visible_keys=int(torch.cat(seen)[widest]),
        null_dimension=int(null_dimensions[widest]),
        identifiable=not bool(null_dimensions.any()),
        null_share=moments.null_share,
        correlation=moments.correlation,
        entropy=float(entropy[entropy.isfinite()].mean()),
        negative_share=moments.negative_share,
        first_token_share=float(torch.cat(firsts).mean()),
        row_sum_min=float(row_sums.min()),
        row_sum_max=float(row_sums.max()),
        output_error=float(torch.stack(errors).max()),
        thumbnail=_as_picture(thumbnail, length, keys),
        sampled_rows=sampled_rows(length, STATISTICS, keys),
    )


class _Moments:
    """Running sums over visible cells; pairs are raw and effective attention."""

    def __init__(self) -> None:
        self.cells = self.negative = 0
        self.raw = self.effective = 0.0
        self.raw_raw = self.effective_effective = self.raw_effective = self.null_null = 0.0

    def add(self, raw: torch.Tensor, effective: torch.Tensor, visible: torch.Tensor) -> None:
        """Count the cells of some rows; invisible cells are zero in both."""
        self.cells += int(visible.sum())
        self.negative += int(((effective < 0) & visible).sum())
        self.raw += float(raw.sum())
        self.effective += float(effective.sum())
        self.raw_raw += float(raw.square().sum())
        self.effective_effective += float(effective.square().sum())
        self.raw_effective += float((raw * effective).sum())
        self.null_null += float((raw - effective).square().sum())

    @property
    def null_share(self) -> float:
        return math.sqrt(self.null_null / self.raw_raw) if self.raw_raw else math.nan

    @property
    def negative_share(self) -> float:
        return self.negative / self.cells if self.cells else math.nan

    @property
    def correlation(self) -> float:
        if not self.cells:
            return math.nan
        covariance = self.raw_effective - self.raw * self.effective / self.cells
        raw = self.raw_raw - self.raw**2 / self.cells
        effective = self.effective_effective - self.effective**2 / self.cells
        # A variance that is only rounding noise belongs to a constant map.
        if raw <= 1e-12 * self.raw_raw or effective <= 1e-12 * self.effective_effective:
            return math.nan
        return covariance / math.sqrt(raw * effective)


def _pool_into(
    picture: torch.Tensor, rows: torch.Tensor, span: tuple[int, int], length: int
) -> None:
    """Pool rows by maximum into the cells of a picture of the whole map, `length` rows."""
    keys = rows.shape[1]
    down, across = _bins(length), _bins(keys)
    wide = min(_THUMBNAIL, keys)
    columns = rows.new_full((len(rows), wide), -math.inf)
    columns.scatter_reduce_(1, across.expand(len(rows), -1), rows, "amax")
    target = picture[:, :wide]
    target.scatter_reduce_(0, down[slice(*span), None].expand(-1, wide), columns, "amax")


def _bins(length: int) -> torch.Tensor:
    """(length,) which row or column of a picture each one falls into."""
    import torch

    return torch.arange(length) * min(_THUMBNAIL, length) // length


def _as_picture(picture: torch.Tensor, length: int, keys: int) -> FloatArray:
    import numpy as np

    rows, columns = min(_THUMBNAIL, length), min(_THUMBNAIL, keys)
    cells: FloatArray = picture[:rows, :columns].numpy().copy()
    cells[np.isneginf(cells)] = np.nan
    return cells
