"""What is added to the logits of attention for where tokens stand, kept as what generates it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch


@dataclass(frozen=True)
class KeyBias:
    """A bias that depends on the key alone, up to a constant of the row (ALiBi).

    Attributes:
        values: (H, keys).
    """

    values: torch.Tensor

    def cells(self, heads: slice, rows: torch.Tensor, keys: slice) -> torch.Tensor:
        """(h, r, c), for row positions (r,)."""
        return self.values[heads, None, keys].expand(-1, len(rows), -1)


@dataclass(frozen=True)
class DistanceBias:
    """A bias that depends on the distance between query and key (T5, MPNet).

    Attributes:
        values: (H, queries + keys - 1): the bias of query i and key j is at j - i + queries - 1.
        queries: Number of queries.
    """

    values: torch.Tensor
    queries: int

    @classmethod
    def read(cls, cells: torch.Tensor) -> DistanceBias | None:
        """Read it off (H, queries, keys); None where it depends on more than the distance."""
        queries = cells.shape[1]
        made = cls(torch.cat([cells[:, 1:, 0].flip(1), cells[:, 0]], 1), queries)
        for start in range(0, queries, 64):
            rows = torch.arange(start, min(start + 64, queries), device=cells.device)
            if not torch.equal(
                made.cells(slice(None), rows, slice(0, cells.shape[2])), cells[:, rows]
            ):
                return None
        return made

    def cells(self, heads: slice, rows: torch.Tensor, keys: slice) -> torch.Tensor:
        """(h, r, c), for row positions (r,)."""
        columns = torch.arange(keys.start, keys.stop, device=rows.device)
        return self.values[heads][:, columns - rows[:, None] + self.queries - 1]


@dataclass(frozen=True)
class DisentangledBias:
    """Products of contents with embeddings of distances (DeBERTa), both ways.

    Attributes:
        from_query: (H, s, buckets) products of each query with the distances' keys, or None.
        from_key: (H, s, buckets) products of each key with the distances' queries, or None.
        query_bucket: (2 s - 1,) int64, the bucket of distance i - j at i - j + s - 1.
        key_bucket: Likewise, for `from_key`.
    """

    from_query: torch.Tensor | None
    from_key: torch.Tensor | None
    query_bucket: torch.Tensor
    key_bucket: torch.Tensor

    def cells(self, heads: slice, rows: torch.Tensor, keys: slice) -> torch.Tensor:
        """(h, r, c), for row positions (r,)."""
        columns = torch.arange(keys.start, keys.stop, device=rows.device)
        distance = rows[:, None] - columns + (len(self.query_bucket) + 1) // 2 - 1
        parts = []
        if self.from_query is not None:
            parts.append(self.from_query[heads][:, rows[:, None], self.query_bucket[distance]])
        if self.from_key is not None:
            parts.append(self.from_key[heads][:, columns, self.key_bucket[distance]])
        return sum(parts[1:], parts[0])


Bias = KeyBias | DistanceBias | DisentangledBias


def moved(bias: Bias, device: torch.device) -> Bias:
    """The same on another device."""
    parts = {
        part.name: value.to(device)
        for part in fields(bias)
        if isinstance(value := getattr(bias, part.name), torch.Tensor)
    }
    return replace(bias, **parts)  # type: ignore[arg-type]
