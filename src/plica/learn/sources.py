"""Where the rows of a training run come from: a tensor that is held, or a stream that is read again for each pass.

Both give the batches of an epoch in an order that one generator decides, so that a run which goes on finds the rows
that it has not seen.

>>> source = HeldRows(torch.arange(5.0)[:, None])
>>> generator = torch.Generator().manual_seed(0)
>>> with closing(source.shuffled(generator, 2)) as batches:
...     [(len(share), rows) for share, rows in batches]
[(2, 2), (2, 2), (1, 1)]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing
from typing import Any, Protocol, TypeGuard, final

import numpy as np
import torch
from torch import Tensor

from plica.distributed.ranks import ALONE, Ranks
from plica.learn.checkpoints import describe_rows

_ROWS_AT_ONCE, _CELLS_AT_ONCE = 8192, 1 << 20  # that a stream gives

Batches = Generator[tuple[Tensor, int], None, None]
"""Pairs of the share of this process, `(B, D)`, and the number of rows of all processes."""


class Stream(Protocol):
    """Rows of numbers that are read anew for each pass, as `plica.data.NumberRows` reads files."""

    @property
    def width(self) -> int:
        """The numbers of a row."""

    def __len__(self) -> int:
        """The number of rows."""

    def batches(self, size: int, *, seed: int | None = None, dtype: Any = np.float64) -> Generator[Any, None, None]:
        """All rows as arrays `(B, D)`: `size` rows each but the last; in a random order that `seed` decides."""

    def split(self, share: float, seed: int) -> tuple[Stream, Stream]:
        """A share of the rows, and the others."""

    def known_cells(self) -> Any:
        """`(D,)` the number of rows in which each column is not missing."""

    def description(self) -> str:
        """The size of the rows and a digest of their values."""


def is_stream(rows: Any) -> TypeGuard[Stream]:
    """Whether rows are a stream, and no array."""
    return all(hasattr(rows, name) for name in ("batches", "split", "description"))


class Source(ABC):
    """Rows to learn from, or by which epochs are scored; `len` is their number."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def row_shape(self) -> tuple[int, ...]:
        """The shape of a row."""

    @abstractmethod
    def shuffled(self, generator: torch.Generator, size: int, *, skip: int = 0, ranks: Ranks = ALONE) -> Batches:
        """The batches of an epoch in random order.

        Args:
            generator: Decides the order, by the same draws whatever is skipped.
            size: Rows of a batch, of all processes together.
            skip: The batches that were seen already.
            ranks: The processes, each of which gets its share of every batch.
        """

    @abstractmethod
    def in_order(self, size: int, *, ranks: Ranks = ALONE) -> Batches:
        """All rows once, in batches: `shuffled` says more."""

    @abstractmethod
    def description(self) -> str:
        """The size of the rows and a digest of their values."""


@final
class HeldRows(Source):
    """Rows that are held.

    Args:
        rows: `(N, D)` on the device of the model.
    """

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `Source.row_shape`."""
        return tuple(self._rows.shape[1:])

    def shuffled(self, generator: torch.Generator, size: int, *, skip: int = 0, ranks: Ranks = ALONE) -> Batches:
        """See `Source.shuffled`."""
        order = torch.randperm(len(self._rows), generator=generator).to(self._rows.device)
        for chosen in torch.split(order, size)[skip:]:
            yield self._rows[ranks.share(chosen)], len(chosen)

    def in_order(self, size: int, *, ranks: Ranks = ALONE) -> Batches:
        """See `Source.in_order`."""
        for rows in torch.split(self._rows, min(size, len(self._rows))):  # torch counts sizes in 64 bits
            yield ranks.share(rows), len(rows)

    def description(self) -> str:
        """See `Source.description`."""
        return describe_rows(self._rows)

    def split(self, share: float, seed: int) -> tuple[HeldRows, HeldRows]:
        """A share of the rows that is drawn, and the others."""
        number, rows = round(share * len(self._rows)), self._rows
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).to(rows.device)
        return HeldRows(rows[order[:number]]), HeldRows(rows[order[number:]])


@final
class StreamedRows(Source):
    """Rows of a stream.

    Every process reads all of them and computes its share, so that the batches are those of one process.

    Args:
        stream: The rows.
        like: A parameter of the model, whose device and dtype they get.
    """

    def __init__(self, stream: Stream, like: Tensor) -> None:
        self._stream, self._device = stream, like.device
        self._dtype = like.real.dtype if like.is_complex() else like.dtype

    def __len__(self) -> int:
        return len(self._stream)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `Source.row_shape`."""
        return (self._stream.width,)

    def shuffled(self, generator: torch.Generator, size: int, *, skip: int = 0, ranks: Ranks = ALONE) -> Batches:
        """See `Source.shuffled`."""
        return self._batches(size, int(torch.randint(2**31, (), generator=generator)), skip, ranks)

    def in_order(self, size: int, *, ranks: Ranks = ALONE) -> Batches:
        """See `Source.in_order`."""
        return self._batches(size, None, 0, ranks)

    def _batches(self, size: int, seed: int | None, skip: int, ranks: Ranks) -> Batches:
        at_once = size * max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // self._stream.width) // size)
        dtype = np.float64 if self._dtype == torch.float64 else np.float32
        step = 0
        with closing(self._stream.batches(min(at_once, len(self)), seed=seed, dtype=dtype)) as arrays:
            for array in arrays:
                for start in range(0, len(array), size):
                    rows = torch.from_numpy(array[start : start + size])
                    if step >= skip:
                        yield ranks.share(rows).to(self._device, self._dtype), len(rows)
                    step += 1

    def description(self) -> str:
        """See `Source.description`."""
        return self._stream.description()

    def split(self, share: float, seed: int) -> tuple[StreamedRows, StreamedRows]:
        """A share of the rows, of about that size, and the others."""
        like = torch.empty(0, dtype=self._dtype, device=self._device)
        held_out, others = self._stream.split(share, seed)
        return StreamedRows(held_out, like), StreamedRows(others, like)
