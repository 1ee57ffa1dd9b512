"""Encodes the cells of a table's columns as numbers that a circuit reads, and decodes numbers to cells.

A column has a kind (`plica.files.kinds`), or it is ignored and no variable stands for it. A cell is missing if it is
empty or one of the words that the user lists (`--missing NA`).

>>> pet = TableColumn("pet", "categorical", ("cat", "dog"))
>>> encode(pet, np.array(["dog", None, "cat"], dtype=object), ["row 0", "row 1", "row 2"])
array([ 1., nan,  0.])
>>> decode(pet, np.array([0.0, 1.0]))
['cat', 'dog']
>>> encode(pet, np.array(["bird"], dtype=object), ["pets.csv, line 2"])
Traceback (most recent call last):
plica.errors.InputError: pets.csv, line 2, column 'pet': 'bird' is none of the categories cat, dog; ...
"""

import decimal
import reprlib
import shlex
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from plica.errors import InputError
from plica.files import dates
from plica.files.kinds import KINDS, Cell, TableColumn
from plica.files.numbers import decimals_of
from plica.files.rows.batch import Array, CellType
from plica.symbolic.domains import Domain

_LONGEST_WORD = 20  # letters of a word that may mean a missing value

# The form in which a file stores cells: as text, as values of some type, or as numbers alone.
Form: TypeAlias = Literal["text", "typed", "number"]


def is_missing(cells: Array, words: Collection[str] = ()) -> Array:
    """The mask of missing cells: None, NaN, empty text, text in `words`, and numbers whose text is in `words`."""
    numbers = {number for number in map(_as_number, words) if number is not None}
    if cells.dtype != object:
        missing = np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(cells.shape, dtype=bool)
        return missing | np.isin(cells, [*numbers]) if numbers and cells.dtype.kind in "iuf" else missing

    def is_missing_cell(cell: Any) -> bool:
        if isinstance(cell, str):
            return cell.strip() in ("", *words)
        is_number = isinstance(cell, int | float | decimal.Decimal | np.number) and not isinstance(cell, bool)
        return cell is None or bool(cell != cell) or (is_number and cell in numbers)

    return np.asarray([*map(is_missing_cell, cells.ravel())], dtype=bool).reshape(cells.shape)


def _as_number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def encode(
    column: TableColumn,
    cells: Array,
    labels: Sequence[str],
    *,
    words: Collection[str] = (),
    unknown: Callable[[TableColumn, Any], None] | None = None,
) -> Array:
    """The numbers of some cells of a column, NaN where one is missing.

    Args:
        column: The column.
        cells: (B,).
        labels: The name of each row in messages, such as "pets.csv, line 2".
        words: Text that means that a cell is missing.
        unknown: Called with each category that the column does not have; the cell then counts as missing.

    Raises:
        InputError: A cell is no value of the column.
    """
    kind, missing = KINDS[column.kind], is_missing(cells, words)
    number = kind.number(column)
    numbers = np.full(len(cells), np.nan)
    for row in np.flatnonzero(~missing).tolist():
        encoded = number(cells[row])
        if encoded is not None:
            numbers[row] = encoded
            continue
        cell = cells[row].item() if isinstance(cells[row], np.generic) else cells[row]
        if not kind.closed or unknown is None:
            advice = "" if kind.closed else _missing_value_advice(cell) + _date_advice(column, cells[row])
            raise InputError(
                f"{labels[row]}, column {column.name!r}: {reprlib.repr(cell)} is {kind.expected(column)}{advice}"
            )
        unknown(column, cell)
    return numbers


def _missing_value_advice(cell: Any) -> str:
    """The advice for a short word in place of a number, which often means that the value is missing."""
    is_word = isinstance(cell, str) and len(cell) <= _LONGEST_WORD and not any(map(str.isdigit, cell))
    return f", or train with --missing {shlex.quote(cell)} if that means a missing value" if is_word else ""


def _date_advice(column: TableColumn, cell: Any) -> str:
    """The advice for a number in place of a date, since the number does not say what it counts."""
    if column.kind not in ("date", "timestamp", "time") or not dates.is_bare(cell):
        return ""
    return (
        f"; a number is read as a {column.kind} only by a format of digits alone, such as %Y%m%d. Write the column as "
        f"text or as {column.kind}s, or train with such a format (--columns)"
    )


def check_domain(column: TableColumn, domain: Domain) -> None:
    """Raise unless each value of a column's variable is the number of a cell of the column.

    Raises:
        InputError: The variable takes other values.
    """
    if not KINDS[column.kind].fits(column, domain):
        known = f" of {len(column.categories)} categories" if column.categories else ""
        raise InputError(
            f"column {column.name!r}{known} is of the kind {column.kind!r}, and its variable takes {domain.name}; "
            "choose another kind, or an input distribution that takes its values"
        )


def decode(column: TableColumn, numbers: Array, form: Form = "typed") -> list[Cell]:
    """The cells that some numbers encode; no number is NaN."""
    kind = KINDS[column.kind]
    if form == "number":
        return [_as_number_alone(column, kind.value(column, float(number)), float(number)) for number in numbers]
    cell = kind.text if form == "text" else kind.value
    return [cell(column, float(number)) for number in numbers]


def _as_number_alone(column: TableColumn, value: Cell, number: float) -> Cell:
    """A cell as a number: the state of a category that is text; dates and times counted from 1970 or midnight."""
    return value if isinstance(value, int | float) else number + column.origin


def is_whole(column: TableColumn) -> bool:
    """Whether a column has whole numbers, dates or times, whose variable counts units from an origin."""
    return not KINDS[column.kind].closed and column.kind != "real"


def bounded(column: TableColumn, numbers: Array) -> Array:
    """Numbers of which none is below the `least` of the column, and no count is below 0."""
    least = 0 if column.kind == "count" else column.least
    if least is None:
        return numbers
    bound = least - column.origin
    if numbers.dtype.kind == "i":  # a bound below all of them changes nothing
        bound = max(bound, int(np.iinfo(numbers.dtype).min))
    return np.maximum(numbers, bound)


def rounded(column: TableColumn, numbers: Array, domain: Domain) -> Array:
    """Numbers as the column has them: none below its `least`, whole where its cells are, rounded to its decimals.

    A number whose rounding leaves the domain stays unrounded.
    """
    numbers = bounded(column, numbers)
    if is_whole(column) and not domain.whole:
        return np.round(numbers) + 0.0
    decimals = decimals_of(column.format) if column.kind == "real" else None
    if decimals is None:
        return numbers
    result = np.round(numbers, decimals) + 0.0  # no minus zero
    inside = (result > domain.least if domain.above else result >= domain.least) & (result <= domain.most)
    return np.where(inside, result, numbers)


def type_of(column: TableColumn) -> CellType:
    """The Python type of a column's cells."""
    return KINDS[column.kind].type(column)
