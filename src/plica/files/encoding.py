"""How the rows of a table become rows of a circuit, and back: the columns, and the words for a missing cell.

A model that was trained on a table with typed columns keeps this in its file; what it completes is the user's own
table again. Rows of a model that has none are numbers as they are.

>>> import pathlib, tempfile
>>> from plica.files.rows import open_rows
>>> encoding = Encoding((TableColumn("pet", "categorical", ("cat", "dog")), TableColumn("age", "real")))
>>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.csv"
>>> _ = path.write_text(chr(10).join(["age,name,pet", "2.5,Tom,cat", ",Rex,dog"]))
>>> with open_rows(path, named=True) as rows:
...     read = encoding.reader(rows)
...     (batch,) = rows.batches(10)
>>> read(batch)
array([[0. , 2.5],
       [1. , nan]])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from plica.errors import InputError
from plica.files.columns import check_domain, encode, is_missing
from plica.files.kinds import TableColumn, check_format
from plica.files.numbers import reader
from plica.files.rows.batch import Array, Batch, RowFile
from plica.forks import cached_property
from plica.symbolic.domains import Domain


class KeptColumn(TypedDict):
    """A column in a model file."""

    name: str
    kind: Literal["categorical", "boolean", "count", "whole", "real", "date", "timestamp", "time", "ignored"]
    categories: list[str | int | bool]
    format: NotRequired[str]
    origin: NotRequired[int]


class KeptEncoding(TypedDict):
    """An encoding in a model file."""

    columns: list[KeptColumn]
    missing: list[str]


@dataclass(frozen=True)
class Encoding:
    """The typed columns of a table.

    Args:
        columns: In the order of the table that the model learned from.
        words: Text that means that a cell is missing, beside none at all.
    """

    columns: tuple[TableColumn, ...]
    words: tuple[str, ...] = ()

    @cached_property
    def modelled(self) -> tuple[TableColumn, ...]:
        """The columns that variables stand for: variable v is that of number v."""
        return tuple(column for column in self.columns if column.kind != "ignored")

    def places(self, rows: RowFile) -> tuple[int, ...]:
        """Where each modelled column stands in a file: by name, or by position where a file has no names.

        Raises:
            InputError: A column is not there.
        """
        if rows.names is None:
            return tuple(place for place, one in enumerate(self._by_position(rows)) if one.kind != "ignored")
        wanted = [one.name.strip() for one in self.modelled]
        lacking = [name for name in wanted if name not in rows.names]
        if lacking:
            raise InputError(
                f"{rows.source}: there is no column {lacking[0]!r}, which the model knows; the columns are "
                f"{', '.join(rows.names)}; add it, with empty cells where nothing is known"
            )
        places = tuple(rows.names.index(name) for name in wanted)
        for place in places:
            rows.check_can_model(place)
        return places

    def names(self, rows: RowFile) -> tuple[str, ...]:
        """The names of the columns of a file, which may have none of its own.

        Raises:
            InputError: It has another number of columns.
        """
        return rows.names or tuple(one.name for one in self._by_position(rows))

    def _by_position(self, rows: RowFile) -> tuple[TableColumn, ...]:
        """The columns of a file without names: all, or those that variables stand for."""
        for wanted in (self.columns, self.modelled):
            if len(wanted) == rows.width:
                return wanted
        raise InputError(
            f"{rows.source}: found {rows.width} columns without names, expected {len(self.columns)}: "
            f"{', '.join(one.name for one in self.columns)}"
        )

    def reader(
        self, rows: RowFile, *, unknown: Callable[[TableColumn, Any], None] | None = None
    ) -> Callable[[Batch], Array]:
        """What makes a circuit's rows `(B, V)`, NaN where a cell is missing, of batches of a file.

        Args:
            rows: The file.
            unknown: Called with each category that a column does not have, which is then taken for missing.
        """
        places = self.places(rows)

        def read(batch: Batch) -> Array:
            found = [
                encode(column, batch.cells[:, place], batch.places, words=self.words, unknown=unknown)
                for column, place in zip(self.modelled, places, strict=True)
            ]
            return np.stack(found, axis=1)

        return read

    def missing(self, cells: Array) -> Array:
        """Which cells are missing: empty, or one of the words that mean so."""
        return is_missing(cells, self.words)

    def check_domains(self, domains: Sequence[Domain]) -> None:
        """Raise unless each column that is not ignored has a variable, whose values are those of its kind.

        Raises:
            InputError: A column and its variable do not fit.
        """
        if len(self.modelled) != len(domains):
            raise InputError(f"{len(self.modelled)} columns do not fit a circuit of {len(domains)} variables")
        for column, domain in zip(self.modelled, domains, strict=True):
            check_domain(column, domain)

    def as_json(self) -> KeptEncoding:
        """As a model file keeps it."""
        columns: list[KeptColumn] = []
        for one in self.columns:
            kept: KeptColumn = {"name": one.name, "kind": one.kind, "categories": list(one.categories)}
            if one.format:
                kept["format"] = one.format
            if one.origin:
                kept["origin"] = one.origin
            columns.append(kept)
        return {"columns": columns, "missing": list(self.words)}

    @staticmethod
    def of_json(kept: KeptEncoding) -> "Encoding":
        """What a model file keeps.

        Raises:
            InputError: The format of a column is none.
        """
        columns = []
        for one in kept["columns"]:
            form, origin = one.get("format", ""), one.get("origin", 0)
            column = TableColumn(one["name"], one["kind"], tuple(one["categories"]), format=form, origin=origin)
            try:
                check_format(column)
            except ValueError as error:
                raise InputError(f"column {column.name!r}: the format {form!r} is none: {error}") from error
            columns.append(column)
        return Encoding(tuple(columns), tuple(kept["missing"]))


def read_numbers(batch: Batch) -> Array:
    """Rows of numbers `(B, D)` as they are: integers stay integers; NaN where a cell is missing.

    Raises:
        InputError: A cell is no number.
    """
    cells = batch.cells
    if cells.dtype != object:
        return cells
    numbers, read = np.full(cells.shape, np.nan), reader("")
    for row, column in np.argwhere(~is_missing(cells, ("nan", "NaN"))).tolist():
        number = read(cells[row, column])
        if number is None:
            raise InputError(
                f"{batch.places[row]}, column {column + 1}: {str(cells[row, column])!r} is not a finite number; "
                "correct the cell, or leave it empty where the value is not known"
            )
        numbers[row, column] = number
    return numbers
