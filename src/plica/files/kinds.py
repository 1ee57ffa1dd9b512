"""The kinds of columns: each recognises, reads and writes cells in its column's format, and names a distribution.

A kind is one registry entry of `KINDS`. A column without a kind (`auto`) gets the first kind in the table that fits its
cells and is likely. Kinds of ordered numbers (counts, whole numbers, reals, dates, times) give probability to numbers
that no cell had. Columns of closed kinds (categories, truth values) list their values, and the variable's number of a
cell, its state, is the index in that list. A cell of another value may count as missing.

The number of a variable is the cell's number less the column's `origin`: float32 is exact near 0.

>>> column = TableColumn("born", "date", format="%d.%m.%Y", origin=20000)
>>> KINDS["date"].number(column)("05.10.2024"), KINDS["date"].text(column, 1.0)
(1.0, '05.10.2024')
"""

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from plica.files import dates, numbers
from plica.files.rows.batch import CellType
from plica.forks import cached_property
from plica.symbolic.domains import Domain

Category: TypeAlias = str | int | bool
Cell: TypeAlias = str | int | float | bool | datetime.date | datetime.time | None
KindName: TypeAlias = Literal[
    "categorical", "boolean", "count", "whole", "real", "date", "timestamp", "time", "ignored"
]
Reader: TypeAlias = Callable[[Any], float | None]

LARGEST = 2.0**53  # float64 holds each whole number below it exactly
FARTHEST = 2**62  # the largest distance of a whole number from the origin of its column
_NEAR = 2**20  # smaller whole numbers need no origin: float32 holds each exactly
_MOST_COUNTED = 100  # the largest counts that a mixture of 32 Poisson distributions covers (20 standard deviations)
_SHOWN = 8  # categories that a message lists
_ADVICE = "correct the cell, or leave it empty where the value is not known"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table.

    Args:
        name: Its name in the table, or its number, counted from 0, if columns have no names.
        kind: The kind of its cells.
        categories: Of a categorical or boolean column: state i of the variable stands for category i.
        input: The distribution of its input layers, by name; empty for that of its kind.
        format: The format of its numbers, dates or times (`numbers`, `dates`); empty for plain numbers.
        origin: The whole number, date or time for which the variable is 0.
        least: 0 for whole numbers and reals if no cell was below 0: none is filled in or drawn below it. Else None.
        why: Why it is ignored, unless the user chose this.
    """

    name: str
    kind: KindName
    categories: tuple[Category, ...] = ()
    input: str = field(default="", compare=False)
    format: str = ""
    origin: int = 0
    least: int | None = None
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Cells:
    """The cells of a column that are not missing; kinds recognise their columns by them.

    Args:
        values: Text, numbers, truth values, dates and times.
        counts: How many cells each value stands for; by default one.
        others: How many cells there are beside these, if the values are a sample.
        number_rows: Whether the cells are the numbers of their rows, where the order of the values does not tell.
    """

    values: Sequence[Any]
    counts: Sequence[int] | None = None
    others: int = 0
    number_rows: bool | None = None

    @cached_property
    def total(self) -> int:
        """How many cells there are."""
        return (len(self.values) if self.counts is None else sum(self.counts)) + self.others

    @property
    def counted(self) -> Sequence[tuple[Any, int]]:
        """Each value, and how many cells it stands for."""
        return list(zip(self.values, self.counts or [1] * len(self.values), strict=True))

    @cached_property
    def distinct(self) -> tuple[Any, ...]:
        """Each cell once, text without the spaces around it."""
        stripped = (cell.strip() if isinstance(cell, str) else cell for cell in self.values)
        return tuple({(isinstance(cell, bool | np.bool_), cell): cell for cell in stripped}.values())  # True is not 1

    @cached_property
    def has_codes(self) -> bool:
        """Whether a cell is a code such as 01 (`is_code`)."""
        return any(map(is_code, self.distinct))

    @cached_property
    def number_format(self) -> str | None:
        """The format of the numbers; None if a cell is no number."""
        if self.has_codes or any(isinstance(cell, bool | np.bool_) for cell in self.distinct):
            return None
        return numbers.guess(self.distinct)

    @cached_property
    def numbers(self) -> Sequence[numbers.Number] | None:
        """All cells as numbers; None if a cell is no number."""
        if self.number_format is None or not self.values:
            return None
        read = numbers.reader(self.number_format)
        read_numbers = [number for number in map(read, self.values) if number is not None]
        return read_numbers if len(read_numbers) == len(self.values) else None

    @cached_property
    def wholes(self) -> Sequence[int] | None:
        """All cells as whole numbers; None if a cell is no whole number."""
        wholes = [number for number in self.numbers or () if isinstance(number, int)]
        return wholes if wholes and len(wholes) == len(self.values) else None

    @cached_property
    def are_plain(self) -> bool:
        """Whether all cells are whole numbers that read the same without the format of their column."""
        return self.wholes is not None and list(map(numbers.reader(""), self.values)) == list(self.wholes)

    @cached_property
    def are_row_numbers(self) -> bool:
        """Whether the cells are whole numbers that count the rows, from 0 or 1."""
        if self.wholes is None:
            return False
        if self.number_rows is not None:
            return self.number_rows
        first = self.wholes[0]
        return first in (0, 1) and all(number == first + row for row, number in enumerate(self.wholes))


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """The registry entry of a kind of columns.

    Args:
        number: Makes, for a column, a function from a cell to the variable's number, or to None if the cell does not
            fit.
        value: The cell of a number, for files with types.
        text: The cell of a number, for files of text.
        type: The Python type of a column's cells, for files with types.
        expected: The end of an error for a cell that does not fit: "`cell` is ..." and what to do.
        input_layer: The name of the distribution for this kind, unless the user chooses one.
        fits: Whether all values in the domain of a variable encode cells of a column.
        described: The column completed with the categories, format and origin that its cells suggest; None if the
            cells are not of this kind.
        suggested: Whether cells that fit a column are likely of this kind.
        closed: Whether the values are listed, so that a cell of another value may count as missing.
    """

    number: Callable[[TableColumn], Reader]
    value: Callable[[TableColumn, float], Cell]
    text: Callable[[TableColumn, float], Cell]
    type: Callable[[TableColumn], CellType]
    expected: Callable[[TableColumn], str]
    input_layer: str
    fits: Callable[[TableColumn, Domain], bool]
    described: Callable[[TableColumn, Cells], TableColumn | None]
    suggested: Callable[[TableColumn, Cells], bool] = lambda _column, _cells: True
    closed: bool = False


def is_code(cell: Any) -> bool:
    """Whether a text has digits alone and begins with a zero, as postal codes do; 01 and 1 are different codes.

    >>> is_code("0150"), is_code("0"), is_code("0.5")
    (True, False, False)
    """
    if not isinstance(cell, str):
        return False
    cell = cell.strip()
    return len(cell) > 1 and cell[0] == "0" and cell.isascii() and cell.isdigit()


# Categories and truth values


def category_of(cell: Any) -> Category:
    """A cell as a category: text without spaces around it, whole numbers as integers."""
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    if isinstance(cell, int | float | np.number):
        return int(cell) if float(cell).is_integer() else str(float(cell))
    return str(cell).strip()


def _categorical(column: TableColumn, cells: Cells) -> TableColumn:
    """The column with its distinct cells as categories: all text if one is text, in order."""
    if column.categories:
        return column
    if cells.wholes is not None and cells.are_plain and not numbers.has_sign(cells.number_format or ""):
        categories: set[Category] = set(cells.wholes)
    else:
        listed = [category_of(cell) for cell in cells.distinct]
        has_text = any(isinstance(category, str) for category in listed)
        categories = set(map(str, listed)) if has_text else set(listed)
    ordered = sorted(categories, key=lambda category: (isinstance(category, str), category))
    return replace(column, categories=tuple(ordered))


def _state(column: TableColumn) -> Reader:
    """Reads a category's state: by text if one category is text; else text is read as a number or truth value."""
    by_text = any(isinstance(category, str) for category in column.categories)
    keys = _texts if by_text else _number
    states: dict[str | int, float] = {}
    for state, category in enumerate(column.categories):
        for key in keys(category):
            states.setdefault(key, float(state))
    read = numbers.reader("")

    def state_of(cell: Any) -> float | None:
        if isinstance(cell, str) and not by_text:
            cell = _TRUTH_OF.get(cell.strip().lower()) if (number := read(cell)) is None else number
            if cell is None:
                return None
        return next((states[key] for key in keys(category_of(cell)) if key in states), None)

    return state_of


def _number(category: Category) -> tuple[str | int, ...]:
    """The keys of a category that is no text; a truth value has the key 0 or 1, as in arrays."""
    return (category if isinstance(category, str) else int(category),)


def _texts(category: Category) -> tuple[str | int, ...]:
    """The texts of a category; a truth value has that of Python and that of `.csv` files: True and true."""
    text = str(category)
    return (text, text.lower()) if isinstance(category, bool) else (text,)


def _category_type(column: TableColumn) -> CellType:
    """Text if a category is text or beyond 64 bits; else whole numbers if one is a whole number; else truth values."""
    if any(isinstance(category, int) and not -(2**63) <= category < 2**63 for category in column.categories):
        return str
    types = {type(category) for category in column.categories}
    return next((cell_type for cell_type in (str, int, bool) if cell_type in types), str)


def _categories(column: TableColumn) -> str:
    """The `expected` of categories and truth values."""
    shown = ", ".join(map(str, column.categories[:_SHOWN])) + (", ..." if len(column.categories) > _SHOWN else "")
    return (
        f"none of the categories {shown}; correct the cell, leave it empty where the value is not known, list the "
        "category in training, or have such cells taken for missing (--unknown missing)"
    )


_TRUTHS = (("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("off", "on"), ("0", "1"))
_TRUTH_OF: Mapping[str, int] = {word: state for pair in _TRUTHS for state, word in enumerate(pair)}


def _truth(column: TableColumn) -> Reader:
    """Reads truth values in any spelling, in upper or lower case."""
    known = _state(column)

    def truth(cell: Any) -> float | None:
        state = known(cell)
        if state is None and isinstance(cell, str):
            state = _TRUTH_OF.get(cell.strip().lower())
        elif state is None and not isinstance(cell, datetime.date | datetime.time) and cell in (0, 1):
            state = int(cell)
        return None if state is None else float(state)

    return truth


def _boolean(column: TableColumn, cells: Cells) -> TableColumn | None:
    """The column with the most frequent spelling of each truth value."""
    if column.categories:
        return column
    if all(isinstance(cell, bool | np.bool_) for cell in cells.distinct):
        return replace(column, categories=(False, True))
    if cells.wholes is not None:
        if not set(cells.wholes) <= {0, 1}:
            return None
        if cells.are_plain:
            return replace(column, categories=(0, 1))
        return _boolean_numbers(column, cells.wholes, cells.values)
    spelled: Counter[str] = Counter()
    for cell, count in cells.counted:
        spelled[str(cell).strip()] += count
    if not all(word.lower() in _TRUTH_OF for word in spelled):
        return None
    words: list[str | None] = [None, None]
    for word, _ in reversed(spelled.most_common()):
        words[_TRUTH_OF[word.lower()]] = word
    for state in (0, 1):  # a truth value that no cell has is spelled like the other
        known_word = words[1 - state]
        if words[state] is None and known_word is not None:
            pair = next(pair for pair in _TRUTHS if known_word.lower() in pair)
            words[state] = _like(pair[state], known_word)
    return replace(column, categories=tuple(word for word in words if word is not None))


def _boolean_numbers(column: TableColumn, wholes: Sequence[int], values: Sequence[Any]) -> TableColumn | None:
    """The column if its truth values are numbers such as 0,0 and 1,0, each with a single spelling."""
    spelled = sorted({(number, str(cell).strip()) for number, cell in zip(wholes, values, strict=True)})
    if [number for number, _ in spelled] != [0, 1]:
        return None
    return replace(column, categories=tuple(word for _, word in spelled))


def _are_truths(cells: Cells) -> bool:
    """Whether whole numbers are truth values: both 0 and 1 occur, and they are neither money nor percents."""
    return cells.wholes is None or (len(set(cells.wholes)) == 2 and not numbers.has_sign(cells.number_format or ""))


def _like(word: str, pattern: str) -> str:
    """A word in the case of the letters of `pattern`: YES after NO."""
    return word.upper() if pattern.isupper() else word.title() if pattern.istitle() else word


# Numbers


def _whole_reader(column: TableColumn, least: int | None) -> Reader:
    """Reads whole numbers, counted from the origin; with `least`, only from `least` up to `LARGEST`."""
    read = numbers.reader(column.format)

    def number_of(cell: Any) -> float | None:
        number = None if isinstance(cell, bool | np.bool_ | datetime.date | datetime.time) else read(cell)
        if not isinstance(number, int) or (least is not None and not least <= number < LARGEST):
            return None
        distance = number - column.origin
        return float(distance) if -FARTHEST <= distance <= FARTHEST else None

    return number_of


def _whole_value(column: TableColumn, number: float) -> int:
    return int(number) + column.origin


def _real_reader(column: TableColumn) -> Reader:
    read = numbers.reader(column.format)

    def real(cell: Any) -> float | None:
        number = read(cell)
        try:
            return None if number is None else float(number)
        except OverflowError:
            return None

    return real


def _counted(column: TableColumn, cells: Cells) -> TableColumn | None:
    """The column with the format of its counts; None if a cell is no whole number from 0 up to `LARGEST`."""
    wholes = cells.wholes
    if column.format or (wholes and min(wholes) >= 0 and max(wholes) < LARGEST):
        return replace(column, format=column.format or cells.number_format or "")
    return None


def _like_counts(column: TableColumn, cells: Cells) -> bool:
    """Whether whole numbers look like counts: small, and with a variance of at least half their mean.

    The variance of a Poisson distribution is its mean; that of a mixture is larger. Half of it allows for chance.
    Money and percents are no counts, since they may be below 0.
    """
    if numbers.has_sign(column.format) or not _are_wholes(column):
        return False
    values = np.asarray(cells.wholes, dtype=np.float64)
    mean = float(np.average(values, weights=cells.counts))
    variance = float(np.average((values - mean) ** 2, weights=cells.counts))
    return mean + 2.0 * variance**0.5 <= _MOST_COUNTED and 2.0 * variance >= mean


def _are_wholes(column: TableColumn) -> bool:
    """Whether a column has whole numbers alone: one with 1.00 and 2.00 may also contain 2.50, one with 1 and 2 not."""
    return (numbers.decimals_of(column.format) or 0) < 2


def _whole(column: TableColumn, cells: Cells) -> TableColumn | None:
    """The column with the format and the origin of its whole numbers; None if a cell is none, or two are too far apart.

    The origin is 0 for small numbers, else their median, or their middle where the median would be too far from an end.
    """
    form = column.format or cells.number_format
    if form is None:
        return None
    read = numbers.reader(form)
    counted = [(number, count) for cell, count in cells.counted if isinstance(number := read(cell), int)]
    wholes = [number for number, _ in counted]
    if not wholes or (len(wholes) < len(cells.values) and not column.format):
        return None
    least, most = min(wholes), max(wholes)
    if most - least >= 2 * FARTHEST:
        return None
    origin = 0 if max(-least, most) < _NEAR else _median(counted)
    if most - least >= FARTHEST:
        origin = (least + most) // 2
    return replace(column, format=form, origin=origin, least=_least(wholes))


def _median(counted: Sequence[tuple[int, int]]) -> int:
    """The lower of the two numbers in the middle, where each has a count."""
    ordered, half = sorted(counted), sum(count for _, count in counted)
    below = 0
    for number, count in ordered:
        below += count
        if 2 * below >= half:
            return number
    raise AssertionError("there are numbers")


def _least(values: Sequence[numbers.Number]) -> int | None:
    return 0 if min(values, default=-1) >= 0 else None


def _real(column: TableColumn, cells: Cells) -> TableColumn | None:
    """The column with the format of its numbers; None if a cell is no number."""
    if cells.numbers is None and not column.format:
        return None
    form = column.format or cells.number_format or ""
    values = [number for number in map(numbers.reader(form), cells.values) if number is not None]
    return replace(column, format=form, least=_least(values))


def _whole_type(column: TableColumn) -> CellType:
    """Integers if files with types can hold them in 64 bits, else text."""
    return int if abs(column.origin) < FARTHEST else str


def _is_integer(_column: TableColumn, domain: Domain) -> bool:
    return domain.whole and domain.least < -LARGEST


# Dates and times


def _units(column: TableColumn) -> Reader:
    """Reads dates or times as whole numbers of their format's unit, such as days, counted from the origin."""
    form = dates.Format.of(column.format)

    def units(cell: Any) -> float | None:
        number = form.read(cell)
        return None if number is None else float(number - column.origin)

    return units


def _moment(column: TableColumn, number: float) -> datetime.datetime:
    form = dates.Format.of(column.format)
    value = form.value(int(number) + column.origin)
    return value if form.zone is None else value.replace(tzinfo=datetime.UTC)


def _moment_text(column: TableColumn, number: float) -> str:
    return dates.Format.of(column.format).text(int(number) + column.origin)


def _temporal(
    formats: Sequence[str], typed_format: Callable[[Sequence[Any]], str | None]
) -> Callable[[TableColumn, Cells], TableColumn | None]:
    """The `described` of dates or times: text in one of `formats`, or typed cells with the format of `typed_format`."""

    def described(column: TableColumn, cells: Cells) -> TableColumn | None:
        texts = [isinstance(cell, str) for cell in cells.distinct]
        form = column.format or (dates.guess(cells.distinct, formats) if all(texts) else None)
        if not form and not any(texts):
            form = typed_format(cells.distinct)
        if not form:
            return None
        read = dates.Format.of(form).read
        known = [(number, count) for cell, count in cells.counted if (number := read(cell)) is not None]
        return replace(column, format=form, origin=_median(known) if known else 0)

    return described


def _typed_date_format(cells: Sequence[Any]) -> str | None:
    """The format of dates; time stamps are dates if all are at midnight and none has a zone, as frames store dates."""
    return "%Y-%m-%d" if all(map(_is_date, cells)) else None


def _is_date(cell: Any) -> bool:
    if not isinstance(cell, datetime.datetime):
        return isinstance(cell, datetime.date)
    return cell.tzinfo is None and cell.time() == datetime.time()


def _typed_timestamp_format(cells: Sequence[Any]) -> str | None:
    if not all(isinstance(cell, datetime.datetime | np.datetime64) for cell in cells):
        return None
    zone = "%z[+00:00]" if any(getattr(cell, "tzinfo", None) for cell in cells) else ""
    has_fractions = any(cell.microsecond if isinstance(cell, datetime.datetime) else True for cell in cells)
    return f"%Y-%m-%d %H:%M:%S{'%6f' if has_fractions else ''}{zone}"


def _typed_time_format(cells: Sequence[Any]) -> str | None:
    if not all(isinstance(cell, datetime.time) for cell in cells):
        return None
    return f"%H:%M:%S{'%6f' if any(cell.microsecond for cell in cells) else ''}"


def _of_dates(name: str, value: Callable[[TableColumn, float], Cell], type_: CellType, described: Any) -> ColumnKind:
    return ColumnKind(
        number=_units,
        value=value,
        text=_moment_text,
        type=lambda _: type_,
        expected=lambda column: f"no {name} such as {_moment_text(column, 0)!r} ({column.format}); {_ADVICE}",
        input_layer="rounded-logistic",
        fits=_is_integer,
        described=described,
    )


def _category(column: TableColumn, state: float) -> Cell:
    """The category of a state, which a variable has as a float."""
    return column.categories[int(state)]


def _of_categories(
    number: Callable[[TableColumn], Reader],
    described: Callable[[TableColumn, Cells], TableColumn | None],
    suggested: Callable[[TableColumn, Cells], bool] = lambda _column, _cells: True,
) -> ColumnKind:
    return ColumnKind(
        number=number,
        value=_category,
        text=_category,
        type=_category_type,
        expected=_categories,
        input_layer="categorical",
        fits=lambda column, domain: domain.num_states == len(column.categories),
        described=described,
        suggested=suggested,
        closed=True,
    )


KINDS: Mapping[KindName, ColumnKind] = {
    "boolean": _of_categories(
        _truth,
        _boolean,
        suggested=lambda _, cells: _are_truths(cells),
    ),
    "date": _of_dates(
        "date",
        lambda column, number: _moment(column, number).date(),
        datetime.date,
        _temporal(dates.DATES, _typed_date_format),
    ),
    "timestamp": _of_dates("time stamp", _moment, datetime.datetime, _temporal(dates.STAMPS, _typed_timestamp_format)),
    "time": _of_dates(
        "time",
        lambda column, number: _moment(column, number).time(),
        datetime.time,
        _temporal(dates.TIMES, _typed_time_format),
    ),
    "count": ColumnKind(
        number=lambda column: _whole_reader(column, 0),
        value=_whole_value,
        text=lambda column, number: numbers.text(_whole_value(column, number), column.format),
        type=lambda _: int,
        expected=lambda _: (
            f'no count (0, 1, 2, ...); {_ADVICE}, or train with {{"kind": "whole"}} or "real" (--columns)'
        ),
        input_layer="poisson",
        fits=lambda _, domain: domain.whole and domain.least >= 0,
        described=_counted,
        suggested=_like_counts,
    ),
    "whole": ColumnKind(
        number=lambda column: _whole_reader(column, None),
        value=_whole_value,
        text=lambda column, number: numbers.text(_whole_value(column, number), column.format),
        type=_whole_type,
        expected=lambda _: f'no whole number; {_ADVICE}, or train with {{"kind": "real"}} (--columns)',
        input_layer="rounded-logistic",
        fits=_is_integer,
        described=_whole,
        suggested=lambda column, _: _are_wholes(column),
    ),
    "real": ColumnKind(
        number=_real_reader,
        value=lambda _, number: number,
        text=lambda column, number: numbers.text(number, column.format),
        type=lambda _: float,
        expected=lambda _: f"no finite number; {_ADVICE}",
        input_layer="gaussian",
        fits=lambda _, domain: not domain.whole,
        described=_real,
    ),
    "categorical": _of_categories(_state, _categorical),
}


def check_format(column: TableColumn) -> None:
    """Raise unless the format of a column is a format of its kind.

    Raises:
        ValueError: The format is none of that kind, or the kind has no format.
    """
    form = column.format
    if column.kind in ("count", "whole", "real"):
        numbers.picture(form)
    elif column.kind in ("date", "timestamp", "time"):
        parts = dates.Format.of(form)
        if (parts.is_dated, parts.is_timed) != (column.kind != "time", column.kind != "date"):
            raise ValueError(f"a format of a column of the kind {column.kind!r} has {_PARTS[column.kind]}")
    elif form:
        raise ValueError(f"a column of the kind {column.kind!r} has no format")


_PARTS = {"date": "a date and no time", "timestamp": "a date and a time", "time": "a time and no date"}
