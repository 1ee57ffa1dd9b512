"""Parts of a source: consecutive rows by their numbers among all rows, which workers read one part after another.

>>> import pyarrow
>>> from plica.data import Rows
>>> rows = Rows(pyarrow.table({"row": list(range(5))}))
>>> parts = parts_of(sized(rows), 2)
>>> [(part.start, part.stop) for part in parts]
[(0, 2), (2, 4), (4, 5)]
>>> with PartReader(rows) as reader:
...     [batch.data.to_pydict() for batch in reader.read(parts[1], 2)]
[{'row': [2, 3]}]
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from plica.data.batch import Group, RowBatch
from plica.data.order import Stretch, rebatched
from plica.data.rows import ROWS, Rows, rows_at_once
from plica.errors import FileFormatError


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of a source.

    Attributes:
        start: The number of the first among all rows.
        stop: The end.
        stretches: Where they lie, in order; each has an end.
    """

    start: int
    stop: int
    stretches: tuple[Stretch, ...]


def sized(rows: Rows) -> tuple[Group, ...]:
    """The groups of a source, whose files are all opened; those of unknown size are read once to count their rows.

    Raises:
        PlicaError: A file is damaged or lacks a column.
    """
    groups = []
    with rows.reading([0], ROWS) as read:
        for group in rows.groups():
            if group.num_rows is None:
                group = replace(group, num_rows=sum(batch.num_rows for batch in read(group)))
            groups.append(group)
    return tuple(groups)


def parts_of(groups: Sequence[Group], size: int) -> tuple[Part, ...]:
    """All rows in parts of `size` rows, the last of fewer.

    Args:
        groups: The groups, all of known sizes.
        size: The rows of a part.
    """
    total = sum(group.num_rows or 0 for group in groups)
    stretches: list[list[Stretch]] = [[] for _ in range(0, total, size)]
    first = 0
    for group in groups:
        end = first + (group.num_rows or 0)
        for number in range(first // size, -(-end // size)):
            start, stop = max(first, number * size), min(end, (number + 1) * size)
            if start < stop:
                stretches[number].append(Stretch(group, start - first, stop - first))
        first = end
    return tuple(
        Part(number * size, min((number + 1) * size, total), tuple(part)) for number, part in enumerate(stretches)
    )


class PartReader:
    """Reads parts of a source; a part that begins where the last one ended goes on in the same group.

    So a worker that is dealt parts in their order decodes each group once at most, skipping the parts of others.

    Args:
        rows: The source.
    """

    def __init__(self, rows: Rows) -> None:
        self._place: tuple[int, int] | None = None
        self._batches: Iterator[Any] = iter(())
        self._data: Any = None
        self._at = 0
        self._reading: object = None
        self._stack, self._rows = ExitStack(), rows
        self._read = self._stack.enter_context(rows.reading(range(rows.width), rows_at_once(rows.width)))

    def read(self, part: Part, size: int) -> Generator[RowBatch, None, None]:
        """The rows of a part in batches of `size`, the last of fewer.

        Raises:
            InputError: A file has columns of other kinds than the first.
            FileFormatError: A file is damaged, or has fewer rows than it had.
        """
        return rebatched((batch for stretch in part.stretches for batch in self._of_stretch(stretch)), size)

    def _of_stretch(self, stretch: Stretch) -> Iterator[RowBatch]:
        group, at, stop = stretch.group, stretch.start, stretch.stop or 0
        if self._place != (group.file, group.number) or self._at > at:
            self._forget()
            self._place, self._batches = (group.file, group.number), self._read(group)
        self._reading = reading = object()
        try:
            while at < stop:
                if self._data is None or self._at + self._data.num_rows <= at:
                    self._at += 0 if self._data is None else self._data.num_rows
                    self._data = next(self._batches, None)
                    if self._data is None:
                        raise FileFormatError(
                            f"{group.label(group.first)} and below: the file has fewer rows than when the run began; "
                            "leave files as they are while they are read, and run again"
                        )
                    continue
                first = at - self._at
                data = self._data.slice(first, min(stop, self._at + self._data.num_rows) - at)
                yield RowBatch.of_group(data, group, group.first + at)
                at += data.num_rows
        except BaseException:
            if self._reading is reading:  # else a reading that was given up is closed only now
                self._forget()
            raise

    def _forget(self) -> None:
        """Begin with the next stretch anew."""
        self._place, self._batches, self._data, self._at, self._reading = None, iter(()), None, 0, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
