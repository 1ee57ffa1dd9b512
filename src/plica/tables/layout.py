"""The cells of a table with missing ones filled in, in the types and forms of the table.

A cell that is not missing is copied if the written file is of the kind of the read one, else converted. The form of a
column (`plica.files.columns.Form`) says whether its cells are text, values of a type such as dates, or plain numbers.
"""

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.files.columns import Form
from plica.files.dates import Format
from plica.files.numbers import reader
from plica.tables.model import TEMPORAL, Model, shortened

if TYPE_CHECKING:
    from plica.files.rows import Batch, RowFile
    from plica.files.rows.batch import Array


@dataclass(frozen=True, eq=False)
class Layout:
    """The types and forms in which the rows of one table are written to another.

    Args:
        model: The model that fills in missing cells.
        rows: The file or frame that is read.
        positions: The column of each variable in it.
        types: The type of each column in the written table: a Python type, or the one that the read table stores.
        forms: The form in which the cells of each variable are written.
        verbatim: Whether both tables are of the same kind, so that cells are copied without conversion.
    """

    model: Model
    rows: "RowFile"
    positions: Sequence[int]
    types: Sequence[Any]
    forms: Sequence[Form]
    verbatim: bool

    @staticmethod
    def of(model: Model, rows: "RowFile", form: Form, *, verbatim: bool) -> "Layout":
        """The layout of `rows` written in a form; with `verbatim`, to a table of the same kind."""
        types: list[Any] = list(rows.stored or rows.types)
        forms, positions = [form] * model.width, model.positions(rows)
        for variable, (position, type_) in enumerate(zip(positions, model.types, strict=True)):
            stored = rows.types[position]
            if verbatim and (stored is str or _has_digits(model, variable, stored, rows)):
                forms[variable] = "text"
            elif (type_, stored) not in _FITS_FILE_TYPE:
                types[position] = type_
        return Layout(model, rows, positions, tuple(types), tuple(forms), verbatim)

    def in_type(self, type_: Any) -> "Layout":
        """The layout with one type for all columns of the model, for files that have no types."""
        read = set(self.positions)
        return replace(
            self, types=tuple(type_ if position in read else kind for position, kind in enumerate(self.types))
        )

    def completed(self, batch: "Batch", x: "Array", filled: "Array", *, keep: bool = True) -> Any:
        """The cells of a batch with the missing ones filled in; the others are copied, or converted to the new form.

        Args:
            batch: B rows of the file, which may have further columns.
            x: The numbers of the model's D variables in these rows, `(B, D)`. NaN stands for a missing cell and for a
                category that the model has never seen.
            filled: The numbers with those that the model fills in, `(B, D)`, without NaN.
            keep: Whether to copy categories that the model has never seen instead of filling them in.

        Returns:
            The cells with all columns of the file, an array of the file's dtype or of Python objects.
        """
        model = self.model
        if x.dtype.kind != "f":
            # Integers and truth values have no NaN: no cell is missing. Truth values come from arrays alone, and files
            # of other kinds get them as 0 and 1.
            return batch.cells if self.verbatim or x.dtype.kind != "b" else x.astype(np.uint8)
        is_nan = np.isnan(x)
        if batch.cells.dtype != object and model.encoding is None:
            return np.where(is_nan, filled, batch.cells).astype(batch.cells.dtype)
        is_missing = is_nan
        if model.encoding is not None and keep:
            is_missing = model.encoding.missing(batch.cells[:, list(self.positions)])
        in_file_dtype = batch.cells.dtype != object and self.verbatim  # numbers of categories and of reals
        cells = batch.cells.copy() if in_file_dtype else batch.cells.astype(object)
        for variable, position in enumerate(self.positions):
            missing = is_missing[:, variable]
            is_written = self._written(variable, is_nan[:, variable], missing, in_file_dtype=in_file_dtype)
            new, codes = self._new_cells(variable, x, filled, is_written)
            rows = np.flatnonzero(is_written)
            for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
                cells[row, position] = new[code]
            if self._reads_wholes(variable):
                for row in np.flatnonzero(is_nan[:, variable] & ~missing).tolist():
                    cells[row, position] = _whole(cells[row, position])
        return cells

    def columns(self, data: Any, x: "Array", filled: "Array", *, keep: bool = True, kept: Collection[int] = ()) -> Any:
        """`completed` of columns, without an object of Python for each cell.

        Args:
            data: B rows of the file, a `pyarrow.RecordBatch`.
            x: See `completed`.
            filled: See `completed`.
            keep: See `completed`.
            kept: Positions of columns that are copied as they are.

        Returns:
            The columns as a `pyarrow.RecordBatch`, of the types in which they are written.
        """
        import pyarrow as pa

        from plica.data.write import arrow_type, column_of

        columns, names, is_real = list(data.columns), data.schema.names, x.dtype.kind == "f"
        for variable, position in enumerate(self.positions):
            if position in kept:
                continue
            kind = arrow_type(self.types[position])
            if not is_real:
                columns[position] = column_of(columns[position], kind, names[position])
                continue
            is_nan = np.isnan(x[:, variable])
            is_missing = self._missing(variable, columns[position], is_nan) if keep else is_nan
            is_written = self._written(variable, is_nan, is_missing)
            old, rows = columns[position], np.flatnonzero(~is_written)
            if len(rows) < len(is_written):
                old = old.take(pa.array(rows))
            if self._reads_wholes(variable) and len(rows):
                old = [_whole(cell) for cell in old.to_pylist()]
            old = column_of(old, kind, names[position])
            if len(rows) < len(is_written):
                new, codes = self._new_cells(variable, x, filled, is_written)
                at = np.empty(len(is_written), dtype=np.int64)
                at[rows], at[is_written] = np.arange(len(rows)), len(rows) + codes
                old = pa.concat_arrays([old, column_of(new, kind, names[position])]).take(pa.array(at))
            columns[position] = old
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _missing(self, variable: int, column: Any, is_nan: "Array") -> "Array":
        """The mask of the cells of a column that are missing, among those without a number."""
        encoding = self.model.encoding
        if encoding is None or not self.model.is_closed(variable) or not is_nan.any():
            return is_nan
        import pyarrow as pa

        from plica.data.arrow_cells import python_cells

        is_missing = is_nan.copy()
        cells = column.take(pa.array(np.flatnonzero(is_nan)))
        listed = np.empty(len(cells), dtype=object)
        listed[:] = python_cells(cells)
        is_missing[is_nan] = encoding.missing(listed)
        return is_missing

    def _written(self, variable: int, is_nan: "Array", is_missing: "Array", *, in_file_dtype: bool = False) -> "Array":
        """The mask of the cells of a column that are written anew: missing ones, and all that are converted."""
        type_, stored = self.model.types[variable], self.rows.types[self.positions[variable]]
        # Categories that are text are written as text, whatever the file has: a cell true becomes "True".
        becomes_text = not in_file_dtype and type_ is str and stored is not str and self.model.is_closed(variable)
        return is_missing | ~is_nan if becomes_text or not self.verbatim else is_missing

    def _new_cells(self, variable: int, x: "Array", filled: "Array", is_written: "Array") -> tuple[Any, "Array"]:
        """The distinct new cells of a column, and for each row of `is_written` the position of its cell in them."""
        numbers = x[is_written, variable].astype(np.float64)
        is_filled = np.isnan(numbers)
        # the model computes in single precision: `shortened` gives its numbers the decimals that they have there
        drawn = filled[is_written, variable][is_filled]
        numbers[is_filled] = shortened(self.model.rounded_column(variable, drawn))
        numbers, codes = np.unique(numbers, return_inverse=True)
        new = self.model.column(variable, numbers, self.forms[variable])
        # A date that a file of numbers has as digits, such as 20260131, is the text of its format, as a number.
        is_number = self.rows.types[self.positions[variable]] in (int, float)
        if self.forms[variable] == "text" and self.verbatim and is_number:
            new = [int(str(cell)) for cell in new]
        return new.tolist() if isinstance(new, np.ndarray) and self.rows.stream is None else new, codes

    def _reads_wholes(self, variable: int) -> bool:
        """Whether a text of a whole number that is no category of the model is written as a number."""
        return not self.verbatim and self.model.types[variable] is int


def _whole(cell: Any) -> Any:
    number = reader("")(cell)
    return number if isinstance(number, int) else cell


# (type of the model's cells, type of the read file's cells): the type that the read file stores holds both
_FITS_FILE_TYPE = frozenset(
    [
        (str, str),
        (int, float),
        (bool, int),
        (bool, float),
        (datetime.date, datetime.date),
        (datetime.date, datetime.datetime),
        (datetime.datetime, datetime.datetime),
        (datetime.time, datetime.time),
    ]
)


def _has_digits(model: Model, variable: int, stored: Any, rows: "RowFile") -> bool:
    """Whether a column of dates or times is stored as numbers whose digits are the date, such as 20260131."""
    if model.encoding is None or not rows.stored or stored not in (int, float):
        return False
    column = model.encoding.modelled[variable]
    return column.kind in TEMPORAL and Format.of(column.format).is_digits
