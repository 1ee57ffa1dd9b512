"""Writes tables with the names, types and forms of the cells of the table that was read.

A cell that is not missing is copied; a missing cell is written in the format of its column.
"""

import datetime
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.cli.asking import reading
from plica.cli.model import Model, shortened
from plica.files.columns import Form
from plica.files.dates import Format
from plica.files.numbers import reader
from plica.files.rows.write import writing_rows

if TYPE_CHECKING:
    import torch

    from plica.files.rows import Batch, RowFile
    from plica.files.rows.batch import Array

ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, eq=False)
class Layout:
    """The types and forms in which the rows of a file are written again.

    Args:
        model: The model that fills in missing cells.
        rows: The file that is read.
        positions: The column of each variable in that file.
        types: The type of each column in the written file: a Python type, or the read file's own.
        forms: The form in which the cells of each variable are written.
        verbatim: Whether cells are copied without conversion, since both files are of the same kind.
    """

    model: Model
    rows: "RowFile"
    positions: Sequence[int]
    types: Sequence[Any]
    forms: Sequence[Form]
    verbatim: bool

    @staticmethod
    def of(model: Model, rows: "RowFile", data: Path, out: Path) -> "Layout":
        """The layout of a file that is read from `data` and written to `out`."""
        endings = [path.suffix.lower() for path in (data, out)]
        verbatim = endings[0] == endings[1] or set(endings) <= set(ARRAYS)
        types: list[Any] = list(rows.stored or rows.types)
        usual: Form = "number" if endings[1] in ARRAYS else "text" if endings[1] == ".csv" else "typed"
        forms, positions = [usual] * model.width, model.positions(rows)
        for variable, (position, type_) in enumerate(zip(positions, model.types, strict=True)):
            stored = rows.types[position]
            if verbatim and (stored is str or _has_digits(model, variable, stored, rows)):
                forms[variable] = "text"
            elif (type_, stored) not in _STAYS:  # numbers of other types need not fit
                types[position] = type_
        return Layout(model, rows, positions, tuple(types), tuple(forms), verbatim)

    def completed(self, batch: "Batch", x: "Array", filled: "Array", *, keep: bool = True) -> Any:
        """The cells of a batch with the missing ones filled in; the others are copied, or converted to the new form.

        Args:
            batch: The rows of the file.
            x: `(B, D)` their numbers, NaN where a cell is missing or a category is unknown.
            filled: `(B, D)` the numbers without NaN.
            keep: Whether to copy categories that the model has never seen instead of filling them in.
        """
        model = self.model
        if x.dtype.kind != "f":
            # Whole numbers have no NaN: nothing is missing. Only arrays have truth values here.
            return batch.cells if self.verbatim or x.dtype.kind != "b" else x.astype(np.uint8)
        unread = np.isnan(x)
        if batch.cells.dtype != object and model.encoding is None:
            return np.where(unread, filled, batch.cells).astype(batch.cells.dtype)
        cells = batch.cells.astype(object)
        missing = unread
        if model.encoding is not None and keep:
            missing = model.encoding.missing(batch.cells[:, list(self.positions)])
        completed_rows = model.cells(np.where(unread, shortened(model.rounded(filled)), x), self.forms)
        if batch.cells.dtype != object and self.verbatim:  # numbers of categories and of reals, in its dtype
            cells = batch.cells.copy()
        unknown = unread & ~missing
        for variable, position in enumerate(self.positions):
            # The model's categories are text and the file's cells are not: a cell true is written as the text "True".
            type_, stored = model.types[variable], self.rows.types[position]
            translated = cells.dtype == object and type_ is str and stored is not str and model.is_closed(variable)
            written = missing[:, variable] | (translated or not self.verbatim) & ~unknown[:, variable]
            for row in np.flatnonzero(written).tolist():
                cell = completed_rows[row][variable]
                is_number = self.forms[variable] == "text" and self.verbatim and stored in (int, float)
                cells[row, position] = int(str(cell)) if is_number else cell
            if not self.verbatim and type_ is int:
                for row in np.flatnonzero(unknown[:, variable]).tolist():
                    number = reader("")(cells[row, position])
                    cells[row, position] = number if isinstance(number, int) else cells[row, position]
        return cells


# (type of the model, type of the file) for which the written file stores such cells with the type of the read file
_STAYS = frozenset(
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
    """Whether numbers of a table with types are dates by their digits, such as 20260131."""
    if model.encoding is None or not rows.stored or stored not in (int, float):
        return False
    column = model.encoding.modelled[variable]
    return column.kind in ("date", "timestamp", "time") and Format.of(column.format).is_digits


@contextmanager
def rewriting(
    model: Model, data: Path, out: Path, **options: Any
) -> Iterator[tuple[Layout, Iterator[tuple["Batch", "torch.Tensor"]], Callable[[Any], None]]]:
    """The layout of a file of rows, its batches with their rows as a tensor, and a function that writes rows."""
    with reading(model, data, **options) as (rows, batches):
        layout = Layout.of(model, rows, data, out)
        names, has_names = model.names_of(rows), named(model, rows)
        with writing_rows(out, names, rows.row_shape, layout.types, named=has_names, mark=rows.mark) as write:
            yield layout, batches, write


def named(model: Model, rows: "RowFile | None" = None) -> bool:
    """Whether columns have names, by the model or by a file."""
    return model.encoding is not None or (rows is not None and rows.names is not None)
