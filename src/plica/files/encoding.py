"""The encoding of a table's rows as rows of a circuit: the columns, and the words for a missing cell.

A model that was trained on a table with typed columns has its encoding in its file. With it the model completes the
user's table in the table's own form. A model without an encoding takes rows of numbers.

>>> encoding = Encoding((TableColumn("pet", "categorical", ("cat", "dog")), TableColumn("age", "real")))
>>> [column.name for column in encoding.modelled]
['pet', 'age']
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict
from unicodedata import normalize

import numpy as np

from plica.errors import InputError
from plica.files.columns import check_domain, encode, is_missing, is_whole
from plica.files.kinds import TableColumn, check_format
from plica.files.numbers import reader
from plica.files.rows.batch import Array, Batch, RowFile, RowSource
from plica.forks import cached_property
from plica.symbolic.domains import REALS, Domain


class StoredColumn(TypedDict):
    """A column in a model file."""

    name: str
    kind: Literal["categorical", "boolean", "count", "whole", "real", "date", "timestamp", "time", "ignored"]
    categories: list[str | int | bool]
    format: NotRequired[str]
    origin: NotRequired[int]
    least: NotRequired[int]


class StoredEncoding(TypedDict):
    """An encoding in a model file."""

    columns: list[StoredColumn]
    missing: list[str]


@dataclass(frozen=True)
class Encoding:
    """The typed columns of a table.

    Args:
        columns: In the order of the table that the model learned from.
        words: Text that means that a cell is missing, beside empty text.
    """

    columns: tuple[TableColumn, ...]
    words: tuple[str, ...] = ()

    @cached_property
    def modelled(self) -> tuple[TableColumn, ...]:
        """The columns that variables stand for: variable v stands for column v of these."""
        return tuple(column for column in self.columns if column.kind != "ignored")

    def positions(self, rows: RowSource, unread: str | None = None) -> tuple[int, ...]:
        """The position of each modelled column in a file: by name, or by order if the file has no names.

        Args:
            rows: The file.
            unread: The name of a column that need not be there; its position is -1.

        Raises:
            InputError: The file lacks a column.
        """
        if rows.names is None:
            return tuple(
                -1 if column.name == unread else position
                for position, column in enumerate(self._by_position(rows))
                if column.kind != "ignored"
            )
        wanted = ["" if column.name == unread else column.name.strip() for column in self.modelled]
        lacking = [name for name in wanted if name and name not in rows.names]
        if lacking:
            looks_alike = normalize("NFC", lacking[0]) in [normalize("NFC", name) for name in rows.names]
            advice = (
                "it is there in another form of Unicode: give it the name that the model has, letter by letter"
                if looks_alike
                else "add it, with empty cells where values are unknown"
            )
            raise InputError(
                f"{rows.source}: the model expects a column {lacking[0]!r}, found the columns "
                f"{', '.join(rows.names)}; {advice}"
            )
        positions = tuple(rows.names.index(name) if name else -1 for name in wanted)
        for position in positions:
            if position >= 0:
                rows.check_can_model(position)
        return positions

    def names(self, rows: RowSource) -> tuple[str, ...]:
        """The names of the columns of a file; a file without names takes those of this encoding.

        Raises:
            InputError: The file has another number of columns.
        """
        return rows.names or tuple(column.name for column in self._by_position(rows))

    def _by_position(self, rows: RowSource) -> tuple[TableColumn, ...]:
        """The columns of a file without names: all, or those that variables stand for."""
        for wanted in (self.columns, self.modelled):
            if len(wanted) == rows.width:
                return wanted
        raise InputError(
            f"{rows.source}: found {rows.width} columns without names, expected {len(self.columns)}: "
            f"{', '.join(column.name for column in self.columns)}"
        )

    def reader(
        self, rows: RowFile, *, unknown: Callable[[TableColumn, Any], None] | None = None, unread: str | None = None
    ) -> Callable[[Batch], Array]:
        """A function from batches of a file to rows of the circuit, `(B, V)`, NaN where a cell is missing.

        Args:
            rows: The file.
            unknown: Called with each category that a column does not have; the cell then counts as missing.
            unread: The name of a column that need not be there, and all of whose cells count as missing.
        """
        positions = self.positions(rows, unread)

        def read(batch: Batch) -> Array:
            columns = [
                np.full(len(batch), np.nan)
                if position < 0
                else encode(column, batch.cells[:, position], batch.labels, words=self.words, unknown=unknown)
                for column, position in zip(self.modelled, positions, strict=True)
            ]
            return np.stack(columns, axis=1)

        return read

    def missing(self, cells: Array) -> Array:
        """The mask of missing cells: empty ones, and those in `words`."""
        return is_missing(cells, self.words)

    def check_domains(self, domains: Sequence[Domain]) -> None:
        """Raise unless each column that is not ignored has a variable, whose values are those of its kind.

        Raises:
            InputError: A column and its variable do not fit.
        """
        if len(self.modelled) != len(domains):
            raise InputError(f"{len(self.modelled)} columns do not fit a circuit of {len(domains)} variables")
        for column, domain in zip(self.modelled, domains, strict=True):
            if not (domain == REALS and is_whole(column)):  # a variable of a vector, whose answers are rounded
                check_domain(column, domain)

    def as_json(self) -> StoredEncoding:
        """The encoding as a model file stores it."""
        columns: list[StoredColumn] = []
        for column in self.columns:
            record: StoredColumn = {"name": column.name, "kind": column.kind, "categories": list(column.categories)}
            if column.format:
                record["format"] = column.format
            if column.origin:
                record["origin"] = column.origin
            if column.least is not None:
                record["least"] = column.least
            columns.append(record)
        return {"columns": columns, "missing": list(self.words)}

    @staticmethod
    def of_json(record: StoredEncoding) -> "Encoding":
        """The encoding that a model file stores.

        Raises:
            InputError: The format of a column is no format of its kind.
        """
        columns = []
        for entry in record["columns"]:
            form, origin = entry.get("format", ""), entry.get("origin", 0)
            column = TableColumn(
                entry["name"],
                entry["kind"],
                tuple(entry["categories"]),
                format=form,
                origin=origin,
                least=entry.get("least"),
            )
            try:
                check_format(column)
            except ValueError as error:
                raise InputError(f"column {column.name!r}: the format {form!r} is invalid: {error}") from error
            columns.append(column)
        return Encoding(tuple(columns), tuple(record["missing"]))


def read_numbers(batch: Batch) -> Array:
    """Rows of numbers `(B, D)` without an encoding: integers stay integers; NaN where a cell is missing.

    Raises:
        InputError: A cell is no number.
    """
    cells = batch.cells
    if cells.dtype != object:
        return cells
    numbers = np.full(cells.shape, np.nan)
    for row, column in np.argwhere(~is_missing(cells, NOT_A_NUMBER)).tolist():
        numbers[row, column] = number_of(cells[row, column], batch.labels, row, column)
    return numbers


_READ = reader("")
NOT_A_NUMBER = ("nan", "NaN")
"""Texts of missing numbers where no words are known."""


def number_of(cell: Any, labels: Sequence[str], row: int, column: int) -> float:
    """The number of a cell that has one; NaN where it is missing.

    Args:
        cell: The cell.
        labels: The names of the rows in messages; one is made for an error alone.
        row: Its row.
        column: The position of its column.

    Raises:
        InputError: The cell is no number.
    """
    number = _READ(cell)
    if number is None:
        if is_missing(np.asarray([cell], dtype=object), NOT_A_NUMBER)[0]:
            return np.nan
        raise InputError(
            f"{labels[row]}, column {column + 1}: {str(cell)!r} is not a finite number; correct the cell, or leave it "
            "empty where the value is not known. Only models that were trained with --columns read text"
        )
    return float(number)
