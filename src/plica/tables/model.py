"""A trained model: it reads rows of files and frames, and turns numbers into rows, a batch at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plica.errors import InputError
from plica.files.columns import Form, decode, rounded, type_of
from plica.files.encoding import Encoding
from plica.files.kinds import KINDS, Cell, TableColumn
from plica.files.rows import Batch, RowFile
from plica.files.rows.batch import Array, CellType
from plica.forks import cached_property
from plica.lower.data import column_domains
from plica.symbolic.domains import Domain, outside
from plica.tables.build import find_device
from plica.tables.files import numbers_reader

TEMPORAL = ("date", "timestamp", "time")  # kinds of columns


@dataclass(frozen=True, eq=False)
class Model:
    """A compiled circuit in eval mode, and the encoding of its tables.

    Args:
        circuit: The circuit, a `TorchCircuit`.
        encoding: The encoding of tables with typed columns; None if rows are plain numbers.
        image_shape: (channels, height, width) if rows are images.
        stated: The domains of the columns where the circuit is a native module, which does not say them; its rows are
            arrays of numpy.
    """

    circuit: Any
    encoding: Encoding | None
    image_shape: tuple[int, ...] | None
    stated: tuple[Domain, ...] | None = None

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The values that each column may have."""
        return column_domains(self.circuit.symbolic) if self.stated is None else self.stated

    def rows(self, x: Array) -> Any:
        """Rows of numbers as the circuit takes them: a tensor on its device."""
        if self.stated is not None:
            return x
        import torch

        return torch.from_numpy(x).to(self.circuit.leaves.device)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the variables: of the columns that they stand for, or their numbers."""
        if self.encoding is not None:
            return tuple(column.name for column in self.encoding.modelled)
        return tuple(map(str, range(self.width)))

    def names_of(self, rows: RowFile) -> tuple[str, ...]:
        """The names of the columns of a file: its own, else those of the model, else numbers."""
        return rows.header or (self.names if self.encoding is None else self.encoding.names(rows))

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return len(self.domains)

    def reader(
        self, rows: RowFile, *, unknown: Callable[[TableColumn, Any], None] | None = None, unread: str | None = None
    ) -> Callable[[Batch], Array]:
        """A function from batches of a file to rows `(B, D)` of numbers, NaN where a cell is missing.

        Args:
            rows: The file.
            unknown: Called with each category that a column does not have; the cell then counts as missing.
            unread: The name of a column that need not be in the file, and all of whose cells count as missing.

        Raises:
            InputError: The file has other columns; a cell does not fit its column.
        """
        domains, encoding = self.domains, self.encoding
        counted = encoding is None
        if counted and rows.width != self.width:
            raise InputError(f"{rows.source}: found rows of {rows.width} values, expected {self.width}")
        encoded = numbers_reader(encoding, rows, unknown=unknown, unread=unread)

        def read(batch: Batch) -> Array:
            x = encoded(batch)
            wrong = outside(np, x.T, domains)
            for column, row in [] if wrong is None else np.argwhere(wrong)[:1].tolist():
                domain = domains[column]
                label = f"{column} (counted from 0)" if counted else repr(self.names[column])
                raise InputError(
                    f"{batch.labels[row]}, column {label}: {x[row, column]} is {domain.refusal}; "
                    f"{domain.advice}, or {'NaN' if counted else 'leave it empty'} where the value is missing"
                )
            return x

        return read

    def positions(self, rows: RowFile, unread: str | None = None) -> tuple[int, ...]:
        """The column of each variable in a file; -1 for a column `unread`, which need not be there."""
        return tuple(range(self.width)) if self.encoding is None else self.encoding.positions(rows, unread)

    @cached_property
    def types(self) -> tuple[CellType, ...]:
        """The Python type of each variable's cells."""
        if self.encoding is None:
            return tuple(int if domain.whole else float for domain in self.domains)
        return tuple(type_of(column) for column in self.encoding.modelled)

    def is_closed(self, variable: int) -> bool:
        """Whether a variable stands for listed values, of which a table may have others."""
        return self.encoding is not None and KINDS[self.encoding.modelled[variable].kind].closed

    def cells(self, x: Array, forms: Sequence[Form]) -> list[list[Cell]]:
        """The cells of rows `(B, D)` of numbers, none of which is NaN, in one form for each variable."""
        columns = [
            self.column(variable, values, form) for variable, (values, form) in enumerate(zip(x.T, forms, strict=True))
        ]
        lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
        return [list(row) for row in zip(*lists, strict=True)]

    def column(self, variable: int, numbers: Array, form: Form) -> "Array | list[Cell]":
        """The cells of some numbers of a variable, none of which is NaN: an array where they are numbers of a type."""
        numbers = widened(numbers)
        if self.encoding is None:
            return numbers.astype(np.int64) if self.domains[variable].whole else numbers.astype(np.float64)
        column = self.encoding.modelled[variable]
        if column.kind == "real" and form != "text":
            return numbers.astype(np.float64)
        return decode(column, numbers, form)

    def rounded(self, x: Array) -> Array:
        """Numbers `(B, D)` that were drawn or computed, with as many decimals as their columns have."""
        if self.encoding is None:
            return x
        return np.stack([self.rounded_column(variable, values) for variable, values in enumerate(x.T)], axis=1)

    def rounded_column(self, variable: int, numbers: Array) -> Array:
        """Numbers of a variable that were drawn or computed, with as many decimals as its column has."""
        if self.encoding is None:
            return numbers
        return rounded(self.encoding.modelled[variable], widened(numbers), self.domains[variable])

    def numbers(self, x: Array) -> Array:
        """Rows `(B, D)` of numbers for an array: categories that are text become the numbers of their states.

        They are in double precision if a column has an origin, as the time stamps have.
        """
        if self.encoding is None:
            return x
        cells = self.cells(self.rounded(x), ["number"] * self.width)
        is_far = any(column.origin for column in self.encoding.modelled)
        dtype = np.float64 if is_far else x.dtype if x.dtype.kind == "f" else None
        return np.asarray(cells, dtype=dtype).reshape(x.shape)


def widened(x: Array) -> Array:
    """Numbers in double precision that print as those of `x`: 0.1 in single precision becomes 0.1."""
    return x.astype(str).astype(np.float64) if x.dtype == np.float32 else x


def shortened(x: Array) -> Array:
    """Numbers in double precision; those that single precision holds exactly become the decimals that it prints."""
    if x.dtype != np.float64:
        return widened(x)
    single = x.astype(np.float32)
    from_single = (single == x) & (x != np.round(x))
    return np.where(from_single, widened(np.where(from_single, single, np.float32(0))), x)


def open_model(path: Path, device: str) -> Model:
    """The model of a file, on a device."""
    from plica.frontend.saving import load

    circuit = load(path)
    torch_device = find_device(device)
    stored: Any = circuit.saved_with.get("encoding")
    shape = circuit.saved_with.get("image_shape")
    encoding = None if stored is None else Encoding.of_json(stored)
    return Model(circuit.to(torch_device).eval(), encoding, None if shape is None else tuple(shape))
