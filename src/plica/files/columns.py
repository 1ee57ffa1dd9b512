"""What the columns of a table mean: cells become numbers that a circuit reads, and numbers become cells again.

A column is categorical (one of known categories: text, whole numbers or truth values), a count, real, or ignored: then
no variable stands for it. A cell that is empty, or one of the words that were said to mean it, is missing.

>>> pet = TableColumn("pet", "categorical", ("cat", "dog"))
>>> encode(pet, np.array(["dog", None, "cat"], dtype=object), ["row 0", "row 1", "row 2"])
array([ 1., nan,  0.])
>>> decode(pet, np.array([0.0, 1.0]))
['cat', 'dog']
>>> encode(pet, np.array(["bird"], dtype=object), ["pets.csv, line 2"])
Traceback (most recent call last):
plica.errors.InputError: pets.csv, line 2, column 'pet': 'bird' is none of the categories cat, dog; ...
"""

import math
import re
import reprlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from plica.errors import InputError
from plica.files.rows.batch import Array, CellType
from plica.symbolic.domains import Domain

Category: TypeAlias = str | int | bool
Cell: TypeAlias = str | int | float | bool | None
KindName: TypeAlias = Literal["categorical", "count", "real", "ignored"]

_SHOWN = 8  # categories that a message lists
LARGEST = 2.0**53  # whole numbers below it are floats, each one


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table.

    Args:
        name: What the table calls it; its number, counted from 0, where columns have no names.
        kind: What its cells are.
        categories: Of a categorical column, in the order of the states that stand for them.
        input: The distribution of its input layers, by name; empty for that of its kind.
    """

    name: str
    kind: KindName
    categories: tuple[Category, ...] = ()
    input: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """How cells of one kind are read and written.

    Args:
        number: The number of a cell that is not missing; None where it is none of the column's.
        cell: The cell of a number.
        type: What the cells of a column are, where they need not be text.
        expected: What a cell must be, in words.
        input_layer: The distribution of a column of this kind, by name, where none is asked for.
        fits: Whether the values of a variable are numbers of a column.
    """

    number: Callable[[TableColumn], Callable[[Any], float | None]]
    cell: Callable[[TableColumn, float], Cell]
    type: Callable[[TableColumn], CellType]
    expected: Callable[[TableColumn], str]
    input_layer: str
    fits: Callable[[TableColumn, Domain], bool]


def category_of(cell: Any) -> Category:
    """A cell as a category: text without spaces around it, whole numbers as integers."""
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    if isinstance(cell, str):
        return cell.strip()
    return int(cell) if float(cell).is_integer() else str(float(cell))


def whole_of(cell: Any) -> int | None:
    """The whole number of a cell, to the last digit; None where it is none."""
    if isinstance(cell, str):
        found = _WHOLE.fullmatch(cell.strip())
        return int(found[1]) if found else None
    return None if isinstance(cell, bool | np.bool_) or not float(cell).is_integer() else int(cell)


def is_code(cell: Any) -> bool:
    """Whether a text has digits alone and begins with a zero, as postal codes do: 01 and 1 are two of them.

    >>> is_code("0150"), is_code("0"), is_code("0.5")
    (True, False, False)
    """
    return isinstance(cell, str) and _CODE.fullmatch(cell.strip()) is not None


def number_of(cell: Any) -> float | None:
    """A cell as a finite number; None where it is none, or text such as 1_000 that only Python reads as one."""
    if isinstance(cell, str) and (not cell.isascii() or "_" in cell):
        return None
    try:
        found = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def is_missing(cells: Array, words: Collection[str] = ()) -> Array:
    """Which cells are missing: None, NaN, and text that is empty or one of some words."""
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype != object:
        return np.zeros(cells.shape, dtype=bool)
    found = [
        one is None or (one.strip() in ("", *words) if isinstance(one, str) else one != one) for one in cells.ravel()
    ]
    return np.asarray(found, dtype=bool).reshape(cells.shape)


def encode(
    column: TableColumn, cells: Array, places: Sequence[str], *, words: Collection[str] = (), unknown: bool = False
) -> Array:
    """The numbers of some cells of a column, NaN where one is missing.

    Args:
        column: The column.
        cells: (B,).
        places: What each row is called in messages.
        words: Text that means that a cell is missing.
        unknown: Whether categories that the column does not have are taken for missing.

    Raises:
        InputError: A cell is none of the column's.
    """
    kind, missing = KINDS[column.kind], is_missing(cells, words)
    number = kind.number(column)
    numbers = np.full(len(cells), np.nan)
    for place in np.flatnonzero(~missing).tolist():
        found = number(cells[place])
        if found is not None:
            numbers[place] = found
        elif not (unknown and column.kind == "categorical"):
            cell = cells[place].item() if isinstance(cells[place], np.generic) else cells[place]
            raise InputError(
                f"{places[place]}, column {column.name!r}: {reprlib.repr(cell)} is {kind.expected(column)}"
            )
    return numbers


def check_domain(column: TableColumn, domain: Domain) -> None:
    """Raise unless the values of the variable that stands for a column are numbers of the column.

    Raises:
        InputError: They are not.
    """
    if not KINDS[column.kind].fits(column, domain):
        known = f" of {len(column.categories)} categories" if column.categories else ""
        raise InputError(
            f"column {column.name!r}{known} is of the kind {column.kind!r}, and its variable takes {domain.name}; "
            "choose another kind, or an input distribution that takes its values"
        )


def decode(column: TableColumn, numbers: Array) -> list[Cell]:
    """The cells of numbers, none of which is NaN."""
    cell = KINDS[column.kind].cell
    return [cell(column, float(number)) for number in numbers]


def type_of(column: TableColumn) -> CellType:
    """What the cells of a column are."""
    return KINDS[column.kind].type(column)


def _state(column: TableColumn) -> Callable[[Any], float | None]:
    """States of categories: by their text where one of them is text; else text is read as a number or truth value."""
    by_text = any(isinstance(category, str) for category in column.categories)
    keys = _texts if by_text else _number
    states: dict[str | int, float] = {}
    for place, category in enumerate(column.categories):
        for key in keys(category):
            states.setdefault(key, float(place))

    def state(cell: Any) -> float | None:
        if isinstance(cell, str) and not by_text:
            known = (read(cell) for read in (whole_of, number_of, lambda text: _TRUTH.get(text.strip().lower())))
            cell = next((one for one in known if one is not None), None)
            if cell is None:
                return None
        return next((states[key] for key in keys(category_of(cell)) if key in states), None)

    return state


def _type(column: TableColumn) -> CellType:
    """Truth values beside whole numbers are whole numbers; all beside text is text, as are numbers beyond 64 bits."""
    if any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in column.categories):
        return str
    found = {type(category) for category in column.categories}
    return next((one for one in (str, int, bool) if one in found), str)


def _number(category: Category) -> tuple[str | int, ...]:
    """Truth values are the numbers 0 and 1 here, as in arrays."""
    return (category if isinstance(category, str) else int(category),)


def _texts(category: Category) -> tuple[str | int, ...]:
    """Truth values are what Python writes, or what `.csv` files have: True and true."""
    text = str(category)
    return (text, text.lower()) if isinstance(category, bool) else (text,)


def _count(_column: TableColumn) -> Callable[[Any], float | None]:
    def count(cell: Any) -> float | None:
        number = number_of(cell)
        return number if number is not None and number.is_integer() and 0 <= number < LARGEST else None

    return count


def _categories(column: TableColumn) -> str:
    shown = ", ".join(map(str, column.categories[:_SHOWN])) + (", ..." if len(column.categories) > _SHOWN else "")
    return (
        f"none of the categories {shown}; correct the cell, leave it empty where the value is not known, list the "
        "category in training, or have such cells taken for missing later (--unknown missing)"
    )


_WHOLE = re.compile(r"([+-]?[0-9]{1,300})(\.0*)?")
_CODE = re.compile(r"0[0-9]+")
_TRUTH = {"true": True, "false": False}
_MEND = "correct the cell, or leave it empty where the value is not known"

KINDS: dict[str, ColumnKind] = {
    "categorical": ColumnKind(
        number=_state,
        cell=lambda column, state: column.categories[int(state)],
        type=_type,
        expected=_categories,
        input_layer="categorical",
        fits=lambda column, domain: domain.num_states == len(column.categories),
    ),
    "count": ColumnKind(
        number=_count,
        cell=lambda _, number: int(number),
        type=lambda _: int,
        expected=lambda _: f"no count (0, 1, 2, ...); {_MEND}",
        input_layer="poisson",
        fits=lambda _, domain: domain.whole and domain.least >= 0,
    ),
    "real": ColumnKind(
        number=lambda _: number_of,
        cell=lambda _, number: number,
        type=lambda _: float,
        expected=lambda _: f"no finite number; {_MEND}",
        input_layer="gaussian",
        fits=lambda _, domain: not domain.whole,
    ),
}
