"""A trained model as the commands ask it: rows of a file in, numbers or rows out, a batch at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.cli.build import find_device
from plica.errors import InputError
from plica.files.columns import Cell, decode, type_of
from plica.files.encoding import Encoding, read_numbers
from plica.files.rows import Batch, RowFile, open_rows
from plica.files.rows.batch import Array, CellType
from plica.lower.data import column_domains
from plica.symbolic.domains import outside

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit


@dataclass(frozen=True, eq=False)
class Model:
    """A compiled circuit in eval mode, and what the columns of its tables mean.

    Args:
        circuit: The circuit.
        encoding: Of tables with typed columns; None where rows are numbers as they are.
        image_shape: (channels, height, width) where rows are images.
    """

    circuit: "TorchCircuit"
    encoding: Encoding | None
    image_shape: tuple[int, ...] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the variables: the columns that they stand for, or their numbers."""
        if self.encoding is not None:
            return tuple(column.name for column in self.encoding.modelled)
        return tuple(map(str, range(self.width)))

    def names_of(self, rows: RowFile) -> tuple[str, ...]:
        """Of the columns of a file: its own as it has them, else those that the model knows, else numbers."""
        return rows.header or (self.names if self.encoding is None else self.encoding.names(rows))

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return len(column_domains(self.circuit.symbolic))

    @contextmanager
    def reading(self, path: Path, key: str | None = None) -> Iterator[RowFile]:
        """A file of rows of this model."""
        with open_rows(path, key=key, named=self.encoding is not None) as rows:
            yield rows

    def reader(self, rows: RowFile, *, unknown: bool) -> Callable[[Batch], Array]:
        """What makes rows `(B, D)` of numbers, NaN where a cell is missing, of batches of a file.

        Raises:
            InputError: The file has other columns; a cell does not fit its column.
        """
        if self.encoding is None and rows.width != self.width:
            raise InputError(f"{rows.source}: found rows of {rows.width} values, expected {self.width}")
        encoded = read_numbers if self.encoding is None else self.encoding.reader(rows, unknown=unknown)
        counted = self.encoding is None
        domains = column_domains(self.circuit.symbolic)

        def read(batch: Batch) -> Array:
            x = encoded(batch)
            wrong = outside(np, x.T, domains)
            for column, row in [] if wrong is None else np.argwhere(wrong)[:1].tolist():
                domain = domains[column]
                called = f"{column} (counted from 0)" if counted else repr(self.names[column])
                raise InputError(
                    f"{batch.places[row]}, column {called}: {x[row, column]} is {domain.refusal}; "
                    f"{domain.advice}, or {'NaN' if counted else 'leave it empty'} where the value is missing"
                )
            return x

        return read

    def places(self, rows: RowFile) -> tuple[int, ...]:
        """Where each variable stands in a file."""
        return tuple(range(self.width)) if self.encoding is None else self.encoding.places(rows)

    @property
    def types(self) -> tuple[CellType, ...]:
        """What the cells of each variable are."""
        if self.encoding is None:
            return tuple(int if domain.whole else float for domain in column_domains(self.circuit.symbolic))
        return tuple(type_of(column) for column in self.encoding.modelled)

    def cells(self, x: Array) -> list[list[Cell]]:
        """The cells of rows `(B, D)` of numbers, none of which is NaN."""
        x = widened(x)
        if self.encoding is None:
            whole = [domain.whole for domain in column_domains(self.circuit.symbolic)]
            return [[int(value) if one else float(value) for value, one in zip(row, whole, strict=True)] for row in x]
        columns = [decode(column, x[:, place]) for place, column in enumerate(self.encoding.modelled)]
        return [list(row) for row in zip(*columns, strict=True)]


def widened(x: Array) -> Array:
    """Numbers in double precision that are written as those of `x` are: 0.1 of single precision is 0.1."""
    return x.astype(str).astype(np.float64) if x.dtype == np.float32 else x


def shortened(x: Array) -> Array:
    """Numbers in double precision; those that come from single precision as that writes them, as `widened` has it."""
    if x.dtype != np.float64:
        return widened(x)
    single = x.astype(np.float32)
    from_single = (single == x) & (x != np.round(x))
    return np.where(from_single, widened(np.where(from_single, single, np.float32(0))), x)


def open_model(path: Path, device: str) -> Model:
    """The model of a file, on a device."""
    from plica.frontend.saving import load

    circuit = load(path)
    place = find_device(device)
    kept: Any = circuit.saved_with.get("encoding")
    shape = circuit.saved_with.get("image_shape")
    encoding = None if kept is None else Encoding.of_json(kept)
    return Model(circuit.to(place).eval(), encoding, None if shape is None else tuple(shape))
