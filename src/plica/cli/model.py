"""A trained model as the commands ask it: rows of a file in, numbers or rows out, a batch at a time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.cli.build import find_device
from plica.errors import InputError
from plica.files.columns import Form, decode, rounded, type_of
from plica.files.encoding import Encoding, read_numbers
from plica.files.kinds import KINDS, Cell, TableColumn
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
    def reading(self, path: Path, key: str | None = None, mark: str | None = None) -> Iterator[RowFile]:
        """A file of rows of this model."""
        with open_rows(path, key=key, named=self.encoding is not None, mark=mark) as rows:
            yield rows

    def reader(
        self, rows: RowFile, *, unknown: Callable[[TableColumn, Any], None] | None = None
    ) -> Callable[[Batch], Array]:
        """What makes rows `(B, D)` of numbers, NaN where a cell is missing, of batches of a file.

        Args:
            rows: The file.
            unknown: Called with each category that a column does not have, which is then taken for missing.

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

    def is_closed(self, variable: int) -> bool:
        """Whether a variable stands for listed values, of which a table may have others."""
        return self.encoding is not None and KINDS[self.encoding.modelled[variable].kind].closed

    def cells(self, x: Array, forms: Sequence[Form]) -> list[list[Cell]]:
        """The cells of rows `(B, D)` of numbers, none of which is NaN, in one form for each variable."""
        x = widened(x)
        if self.encoding is None:
            whole = [domain.whole for domain in column_domains(self.circuit.symbolic)]
            return [[int(value) if one else float(value) for value, one in zip(row, whole, strict=True)] for row in x]
        columns = [
            decode(column, values, form)
            for column, values, form in zip(self.encoding.modelled, x.T, forms, strict=True)
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def rounded(self, x: Array) -> Array:
        """Numbers `(B, D)` that were drawn or computed, with as many decimals as their columns have."""
        if self.encoding is None or x.dtype.kind != "f":
            return x
        x, domains = widened(x), column_domains(self.circuit.symbolic)
        columns = zip(self.encoding.modelled, x.T, domains, strict=True)
        return np.stack([rounded(column, values, domain) for column, values, domain in columns], axis=1)

    def numbers(self, x: Array) -> Array:
        """Rows `(B, D)` of numbers as an array has them: categories that are text by the numbers of their states.

        They are in double precision where a column counts from far away, as time stamps do from 1970.
        """
        if self.encoding is None:
            return x
        cells = self.cells(self.rounded(x), ["number"] * self.width)
        is_far = any(column.origin for column in self.encoding.modelled)
        dtype = np.float64 if is_far else x.dtype if x.dtype.kind == "f" else None
        return np.asarray(cells, dtype=dtype).reshape(x.shape)


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
