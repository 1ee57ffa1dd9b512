"""The table that a command writes, laid out as the table that it reads: names, types, and the form of each cell.

A cell that is there stays as it is; one that is missing is written in the format of its column.
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
    """How the rows of a file are written again.

    Args:
        model: Fills in what is missing.
        rows: The file that is read.
        places: Where each variable stands in it.
        types: What the cells of each column are once it is filled in, or how the file stores it.
        forms: How the cells of each variable are written.
        verbatim: Whether cells are written as they are read: both files are of one kind.
    """

    model: Model
    rows: "RowFile"
    places: Sequence[int]
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
        forms, places = [usual] * model.width, model.places(rows)
        for variable, (place, type_) in enumerate(zip(places, model.types, strict=True)):
            stored = rows.types[place]
            if verbatim and (stored is str or _has_digits(model, variable, stored, rows)):
                forms[variable] = "text"
            elif (type_, stored) not in _STAYS:  # numbers of other types need not fit
                types[place] = type_
        return Layout(model, rows, places, tuple(types), tuple(forms), verbatim)

    def completed(self, batch: "Batch", x: "Array", filled: "Array", *, keep: bool = True) -> Any:
        """The cells of a batch: those that are missing from what is filled in, the others as they are, or in its form.

        Args:
            batch: The rows as they lie in the file.
            x: `(B, D)` their numbers, NaN where one is missing or not known.
            filled: `(B, D)` the numbers without NaN.
            keep: Whether categories that the model has never seen stay, whatever is filled in.
        """
        model = self.model
        if x.dtype.kind != "f":
            # Whole numbers have no NaN: nothing is missing. Truth values are those of arrays alone.
            return batch.cells if self.verbatim or x.dtype.kind != "b" else x.astype(np.uint8)
        unread = np.isnan(x)
        if batch.cells.dtype != object and model.encoding is None:
            return np.where(unread, filled, batch.cells).astype(batch.cells.dtype)
        cells = batch.cells.astype(object)
        missing = unread
        if model.encoding is not None and keep:
            missing = model.encoding.missing(batch.cells[:, list(self.places)])
        found = model.cells(np.where(unread, shortened(model.rounded(filled)), x), self.forms)
        if batch.cells.dtype != object and self.verbatim:  # numbers of categories and of reals, in its dtype
            cells = batch.cells.copy()
        kept = unread & ~missing
        for variable, place in enumerate(self.places):
            # Truth values and numbers beside categories that are text: "True" is true, and true would be another text.
            type_, stored = model.types[variable], self.rows.types[place]
            translated = cells.dtype == object and type_ is str and stored is not str and model.is_closed(variable)
            written = missing[:, variable] | (translated or not self.verbatim) & ~kept[:, variable]
            for row in np.flatnonzero(written).tolist():
                cell = found[row][variable]
                is_number = self.forms[variable] == "text" and self.verbatim and stored in (int, float)
                cells[row, place] = int(str(cell)) if is_number else cell
            if not self.verbatim and type_ is int:
                for row in np.flatnonzero(kept[:, variable]).tolist():
                    number = reader("")(cells[row, place])
                    cells[row, place] = number if isinstance(number, int) else cells[row, place]
        return cells


# (type of the model, type of the file): how the file stores such cells is kept
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
    """The layout of a file of rows, its batches with their rows as a tensor, and a function that writes rows again."""
    with reading(model, data, **options) as (rows, batches):
        layout = Layout.of(model, rows, data, out)
        names, has_names = model.names_of(rows), named(model, rows)
        with writing_rows(out, names, rows.row_shape, layout.types, named=has_names, mark=rows.mark) as write:
            yield layout, batches, write


def named(model: Model, rows: "RowFile | None" = None) -> bool:
    """Whether columns have names, of the model or of a file."""
    return model.encoding is not None or (rows is not None and rows.names is not None)
