"""What one pass over rows says of each column, in memory that does not grow: its kind, its categories, mean and range.

Kinds are recognised by distinct cells and their counts (`distinct.py`), and where these are a sample by cells that a
sample could lack: the least, the largest, one with a fraction, texts that are no plain numbers. Summaries of shards
merge to that of all rows.

>>> from plica.data.rows import Rows
>>> rows = Rows(pa.table({"pet": ["cat", "dog", None, "cat"], "age": [2.5, 3.0, 1.0, 1.5]}))
>>> summary = summarise(rows)
>>> summary.columns["pet"].distinct.counts, summary.columns["age"].moments.mean
({'cat': 2, 'dog': 1}, 2.0)
>>> [(column.name, column.kind, column.categories) for column in summary.infer()]
[('pet', 'categorical', ('cat', 'dog')), ('age', 'real', ())]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plica.data.arrow_cells import cell_type, python_cells
from plica.data.distinct import DistinctCells
from plica.data.rows import ROWS, Rows
from plica.data.text_cells import numbers_of_text
from plica.data.typed_cells import MissingWords, numbers_of_typed
from plica.errors import InputError
from plica.files.columns import is_missing
from plica.files.infer import ColumnRecord, columns_of
from plica.files.kinds import Cells, TableColumn
from plica.files.rows.batch import Array
from plica.files.tables import one_line

_REAL = TableColumn("", "real")
_MOST_TEXTS = 32  # that are no plain numbers, and are kept beside a sample


@dataclass(frozen=True, slots=True)
class Moments:
    """The number, the mean, the variance and the range of some numbers.

    Attributes:
        number: How many there are.
        mean: Their mean.
        deviations: The sum of their squared distances from it.
        least: The smallest.
        most: The largest.
    """

    number: int = 0
    mean: float = 0.0
    deviations: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    @staticmethod
    def of(numbers: Array) -> Moments:
        """The moments of an array."""
        if not len(numbers):
            return Moments()
        with np.errstate(over="ignore"):  # beyond float64 the mean is infinite
            mean = float(numbers.mean())
            deviations = float(((numbers - mean) ** 2).sum())
        return Moments(len(numbers), mean, deviations, float(numbers.min()), float(numbers.max()))

    @property
    def variance(self) -> float:
        """The variance; NaN of no numbers."""
        return self.deviations / self.number if self.number else math.nan

    def merged(self, other: Moments) -> Moments:
        """The moments of both.

        Source: T. Chan, G. Golub, R. LeVeque, "Algorithms for computing the sample variance", 1983, equation 1.5.
        """
        total = self.number + other.number
        if not self.number or not other.number:
            return self if self.number else other
        distance, share = other.mean - self.mean, other.number / total
        return Moments(
            total,
            self.mean + distance * share,
            self.deviations + other.deviations + distance * distance * self.number * share,  # `**` would raise
            min(self.least, other.least),
            max(self.most, other.most),
        )


class ColumnSummary:
    """What is known of the cells of a column.

    Args:
        words: Text that means that a cell is missing.

    Attributes:
        num_rows: The rows that were seen.
        num_null: How many cells were null or NaN.
        distinct: The other cells, words among them.
        moments: Those of the cells that are numbers, or plain texts of numbers, without words.
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.num_rows = self.num_null = 0
        self.distinct, self.moments = DistinctCells(), Moments()
        self._words, self._missing = tuple(words), MissingWords.of(words)
        self._witnesses: dict[str, Any] = {}  # by what they show
        self._other: list[Any] = []  # a cell of a type that no column has
        self._run: tuple[int, int] | None = None  # the first and the last of the cells while they count by ones

    def add(self, cells: Any) -> None:
        """Add the cells of some rows, a `pyarrow.Array`."""
        present = cells.drop_null()
        if len(present) and cell_type(present.type) is None:
            self._other = python_cells(present.slice(0, 1))
            present = present.slice(0, 0)
        if pa.types.is_floating(present.type):
            present = present.filter(pc.invert(pc.is_nan(present)))
        is_first = self.num_rows == self.num_null
        self.num_rows += len(cells)
        self.num_null += len(cells) - len(present)
        if not len(present):
            return
        self.distinct.add(present)
        plain = present.dictionary_decode() if pa.types.is_dictionary(present.type) else present
        read = numbers_of_typed(_REAL, plain, self._missing, is_array=False) or numbers_of_text(
            _REAL, plain, self._missing
        )
        if read is None:
            self._run = None
            return
        numbers, is_read = read[0], read[1] & ~np.isnan(read[0])
        self._add_run(numbers, is_read, is_first)
        moments = Moments.of(numbers[is_read])
        self._add_witnesses(plain, numbers, is_read, moments)
        self.moments = self.moments.merged(moments)

    def merged(self, other: ColumnSummary) -> ColumnSummary:
        """The summary of the rows of both, those of this one first."""
        result = ColumnSummary(self._words)
        result.num_rows = self.num_rows + other.num_rows
        result.num_null = self.num_null + other.num_null
        result.distinct = self.distinct.merged(other.distinct)
        result.moments = self.moments.merged(other.moments)
        result._other = self._other or other._other
        result._witnesses = {**other._witnesses, **self._witnesses}
        for name, is_further in (
            ("least", other.moments.least < self.moments.least),
            ("most", other.moments.most > self.moments.most),
        ):
            if is_further:
                result._witnesses[name] = other._witnesses[name]
        if not self.distinct.counts or not other.distinct.counts:
            result._run = self._run or other._run
        elif self._run is not None and other._run is not None and other._run[0] == self._run[1] + 1:
            result._run = (self._run[0], other._run[1])
        return result

    def cells(self) -> Cells:
        """The cells that are not missing, by which kinds recognise their columns."""
        if self._other:
            return Cells(self._other)
        counts = dict(self.distinct.counts)
        if not self.distinct.has_all:
            counts = {**dict.fromkeys(self._witnesses.values(), 1), **counts}
        others = max(self.num_rows - self.num_null - sum(counts.values()), 0)
        values = np.empty(len(counts), dtype=object)
        values[:] = list(counts)
        present = values[~is_missing(values, self._words)]
        number_rows = None if not others else self._run is not None and self._run[0] in (0, 1)
        if not others and any(count > 1 for count in counts.values()):
            number_rows = False
        return Cells(list(present), [counts[cell] for cell in present], others, number_rows)

    def _add_run(self, numbers: Array, is_read: Array, is_first: bool) -> None:
        counts_on = bool(is_read.all()) and bool((np.diff(numbers) == 1).all()) and float(numbers[0]).is_integer()
        if counts_on and is_first:
            self._run = (int(numbers[0]), int(numbers[-1]))
        elif counts_on and self._run is not None and numbers[0] == self._run[1] + 1:
            self._run = (self._run[0], int(numbers[-1]))
        else:
            self._run = None

    def _add_witnesses(self, plain: Any, numbers: Array, is_read: Array, moments: Moments) -> None:
        known = np.where(is_read, numbers, np.nan)
        rows: dict[str, int] = {}
        if moments.least < self.moments.least:
            rows["least"] = int(np.nanargmin(known))
        if moments.most > self.moments.most:
            rows["most"] = int(np.nanargmax(known))
        if "fraction" not in self._witnesses and len(fractions := np.flatnonzero(is_read & (known != np.floor(known)))):
            rows["fraction"] = int(fractions[0])
        for name, row in rows.items():
            (self._witnesses[name],) = python_cells(plain.slice(row, 1))
        for row in np.flatnonzero(~is_read)[:_MOST_TEXTS].tolist():
            (cell,) = python_cells(plain.slice(row, 1))
            if len(self._witnesses) < _MOST_TEXTS:
                self._witnesses.setdefault(f"text {cell}", cell)


@dataclass(frozen=True)
class Summary:
    """What is known of the columns of a table.

    Attributes:
        source: The name of the table in messages.
        columns: The summary of each column, by its name.

    >>> from plica.data.rows import Rows
    >>> parts = [summarise(Rows(pa.table({"age": ages}))) for ages in ([1.0, 2.0], [6.0])]
    >>> both = parts[0].merged(parts[1])
    >>> both.num_rows, both.columns["age"].moments.mean
    (3, 3.0)
    """

    source: str
    columns: Mapping[str, ColumnSummary]

    @property
    def num_rows(self) -> int:
        """The rows that were seen."""
        return next(iter(self.columns.values())).num_rows

    def merged(self, other: Summary) -> Summary:
        """The summary of the rows of both, those of this one first.

        Raises:
            InputError: They have other columns.
        """
        if list(self.columns) != list(other.columns):
            raise InputError(
                f"{other.source}: the columns {', '.join(other.columns)}, expected {', '.join(self.columns)} as in "
                f"{self.source}; merge summaries of shards of one table"
            )
        return replace(
            self, columns={name: column.merged(other.columns[name]) for name, column in self.columns.items()}
        )

    def infer(self, records: Mapping[str, ColumnRecord] | None = None) -> tuple[TableColumn, ...]:
        """The columns with their kinds, as `plica.files.infer.infer_columns` finds them from all cells.

        Where distinct cells are a sample, the origin of a column is the median of the sample.

        Args:
            records: The user's records of some columns, by name.

        Raises:
            InputError: A record does not fit its column, or a column has words among numbers or dates.
        """
        present = [column.cells() for column in self.columns.values()]
        return columns_of(tuple(self.columns), present, records=records, source=self.source)


def summarise(
    rows: Rows,
    columns: Sequence[str] | None = None,
    *,
    words: Sequence[str] = (),
    size: int = ROWS,
    shard: tuple[int, int] = (0, 1),
) -> Summary:
    """Read rows once, and say what their columns hold.

    Args:
        rows: The rows.
        columns: The names of the columns; by default all.
        words: Text that means that a cell is missing.
        size: The rows that are added at once.
        shard: `(rank, world)`: the rows of which process; summaries of all ranks are merged in their order.

    Raises:
        FileFormatError: A file is damaged, or there are no rows.
        InputError: A cell is of no type that Python has, such as a time of the year 10,000.
    """
    names = tuple(columns) if columns is not None else tuple(rows.schema.names)
    summaries = {name: ColumnSummary(words) for name in names}
    for batch in rows.batches(columns, size=size, shard=shard):
        for (name, summary), cells in zip(summaries.items(), batch.data.columns, strict=True):
            try:
                summary.add(cells)
            except (OverflowError, ValueError) as error:
                raise InputError(
                    f"{batch.labels[0]} and below, column {name!r}: a cell that cannot be read ({one_line(error)}); "
                    "correct it, or leave it empty where the value is not known"
                ) from error
    return Summary(rows.source, summaries)
