"""Which rows a process reads, and in which order: shards, groups in random order, and a buffer that is shuffled.

If every group's size is known, each of `world` processes has consecutive rows of all groups in their order, and the
numbers of rows differ by one at most. Else row r of the source goes to process r modulo `world`, and each process
reads the source as a whole. The order of the groups depends on the seed alone, and that within the buffer on the rank
too, so that the shards are every row once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from plica.data.batch import Allocate, Batch, Group, RowBatch, Space
from plica.errors import InputError
from plica.files.rows.batch import Array

_BUFFERED_ROWS = 1 << 16
_BUFFERED_BYTES = 3 << 23  # so few that the allocator reuses the memory instead of asking the system for it


AnyBatch = TypeVar("AnyBatch", bound=Batch)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive rows of a group.

    Attributes:
        group: The group.
        start: Their first, counted from the beginning of the group.
        stop: The end; None for that of the group.
    """

    group: Group
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows of one of several processes.

    Args:
        rank: Which process, from 0.
        world: How many there are.
    """

    rank: int = 0
    world: int = 1

    def of_sizes(self, groups: Sequence[Group], source: str) -> Iterator[Stretch]:
        """The stretches of groups whose sizes are known.

        Raises:
            InputError: There are fewer rows than processes.
        """
        sizes = [group.num_rows or 0 for group in groups]
        ends = np.cumsum([0, *sizes]).tolist()
        total = ends[-1]
        if total and total < self.world:
            raise InputError(
                f"{source}: {total} row(s) for {self.world} processes, so process {self.rank} may have none; "
                f"use {total} processes at most"
            )
        first, last = total * self.rank // self.world, total * (self.rank + 1) // self.world
        for group, start, end in zip(groups, ends, ends[1:], strict=False):
            if max(first, start) < min(last, end):
                yield Stretch(group, max(first - start, 0), min(last, end) - start)

    def dealt(self, batches: Iterable[RowBatch]) -> Iterator[RowBatch]:
        """The rows whose number among all is the rank modulo the number of processes."""
        seen = 0
        for batch in batches:
            rows = np.arange((self.rank - seen) % self.world, len(batch), self.world)
            seen += len(batch)
            if len(rows):
                yield batch.take(rows)


def read(
    groups: Iterable[Group],
    read_group: Callable[[Group], Iterator[Any]],
    *,
    source: str,
    size: int,
    shard: Shard,
    seed: int | None,
    convert: Callable[[RowBatch], AnyBatch],
) -> Generator[AnyBatch, None, None]:
    """The batches of a shard.

    Args:
        groups: All groups, in the order of the source.
        read_group: Reads a group as RecordBatches.
        source: The name of the source in messages.
        size: The rows of each batch but the last.
        shard: Which rows.
        seed: Of their random order; None for the order of the source.
        convert: Makes what is shuffled and returned of the rows as they are read.

    Raises:
        InputError: There are fewer rows than processes.
    """
    stretches: Iterable[Stretch] = map(Stretch, groups)
    is_dealt = False
    if shard.world > 1 or seed is not None:
        known = list(groups)
        if seed is not None:
            known = [known[position] for position in np.random.default_rng(seed).permutation(len(known))]
        is_dealt = shard.world > 1 and any(group.num_rows is None for group in known)
        stretches = map(Stretch, known) if is_dealt else shard.of_sizes(known, source)
        if shard.world == 1:
            stretches = map(Stretch, known)
    batches: Iterator[RowBatch] = (part for stretch in stretches for part in _of_stretch(stretch, read_group))
    if is_dealt:
        batches = shard.dealt(batches)
    converted: Iterator[AnyBatch] = map(convert, batches)
    if seed is not None:
        converted = shuffled(converted, np.random.default_rng([seed, shard.rank, shard.world]), size)
    yield from rebatched(converted, size)


def _of_stretch(stretch: Stretch, read_group: Callable[[Group], Iterator[Any]]) -> Iterator[RowBatch]:
    at, group = 0, stretch.group
    for data in read_group(group):
        start = max(stretch.start - at, 0)
        stop = data.num_rows if stretch.stop is None else min(stretch.stop - at, data.num_rows)
        if start < stop:
            yield RowBatch.of_group(data.slice(start, stop - start), group, group.first + at + start)
        at += data.num_rows
        if stretch.stop is not None and at >= stretch.stop:
            return


def shuffled(batches: Iterable[AnyBatch], random: np.random.Generator, size: int) -> Iterator[AnyBatch]:
    """Rows in random order within a buffer, which holds 65,536 rows or 24 MiB, and two batches at least.

    A full buffer is shuffled, and gives away one half, a batch at a time: rows that are read together are spread over
    more than a buffer. At most two copies of the buffer exist at once.
    """
    buffer: list[AnyBatch] = []
    of_whole, of_half = Space().empty, Space().empty
    rows = bytes_ = 0
    for batch in batches:
        buffer.append(batch)
        rows, bytes_ = rows + len(batch), bytes_ + batch.nbytes
        del batch  # the buffer alone refers to it, so that joining can release it
        if rows >= 2 * size and (rows >= _BUFFERED_ROWS or bytes_ >= _BUFFERED_BYTES):
            whole, order, half = _emptied(buffer, of_whole), random.permutation(rows), rows // 2
            yield from _taken(whole, order[:half], size)
            buffer.append(whole.take(order[half:], of_half))
            del whole
            rows, bytes_ = rows - half, bytes_ - bytes_ // 2
    if buffer:
        yield from _taken(_emptied(buffer, of_whole), random.permutation(rows), size)


def _emptied(buffer: list[AnyBatch], allocate: Allocate) -> AnyBatch:
    whole = _joined(buffer, allocate)
    buffer.clear()
    return whole


def _taken(batch: AnyBatch, rows: Array, size: int) -> Iterator[AnyBatch]:
    """Rows of a batch by their positions, `size` at a time."""
    for start in range(0, len(rows), size):
        yield batch.take(rows[start : start + size])


def rebatched(batches: Iterable[AnyBatch], size: int) -> Generator[AnyBatch, None, None]:
    """Batches of `size` rows each, the last of fewer; none without rows."""
    waiting: list[AnyBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= size:
            whole = _joined(waiting)
            for start in range(0, rows - size + 1, size):
                yield whole.slice(start, start + size)
            rows %= size
            waiting = [whole.slice(len(whole) - rows, len(whole))] if rows else []
    if rows:
        yield _joined(waiting)


def _joined(batches: Sequence[AnyBatch], allocate: Allocate = np.empty) -> AnyBatch:
    return batches[0] if len(batches) == 1 else type(batches[0]).joined(batches, allocate)
