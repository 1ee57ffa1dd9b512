"""The cells of a table with missing ones filled in, in the types and forms of the table.

A cell that is not missing is copied if the written file is of the kind of the read one, else converted. The form of a
column (`plica.files.columns.Form`) says whether its cells are text, values of a type such as dates, or plain numbers.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
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
        is_unseen = is_nan & ~is_missing
        # the model computes in single precision: `shortened` gives its numbers the decimals that they have there
        new_cells = model.cells(np.where(is_nan, shortened(model.rounded(filled)), x), self.forms)
        in_file_dtype = batch.cells.dtype != object and self.verbatim  # numbers of categories and of reals
        cells = batch.cells.copy() if in_file_dtype else batch.cells.astype(object)
        for variable, position in enumerate(self.positions):
            type_, stored = model.types[variable], self.rows.types[position]
            is_written = is_missing[:, variable]
            # Categories that are text are written as text, whatever the file has: a cell true becomes "True".
            becomes_text = not in_file_dtype and type_ is str and stored is not str and model.is_closed(variable)
            if becomes_text or not self.verbatim:
                is_written = is_written | ~is_unseen[:, variable]
            # A date that a file of numbers has as digits, such as 20260131, is the text of its format, as a number.
            is_digits = self.forms[variable] == "text" and self.verbatim and stored in (int, float)
            for row in np.flatnonzero(is_written).tolist():
                cell = new_cells[row][variable]
                cells[row, position] = int(str(cell)) if is_digits else cell
            if not self.verbatim and type_ is int:  # text of a whole number is written as a number
                for row in np.flatnonzero(is_unseen[:, variable]).tolist():
                    number = reader("")(cells[row, position])
                    cells[row, position] = number if isinstance(number, int) else cells[row, position]
        return cells


# (type of the model's cells, type of the read file's cells): the type that the read file stores holds both
_FITS_FILE_TYPE = frozenset(
    [
        (str, str),
        (int, float),
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
