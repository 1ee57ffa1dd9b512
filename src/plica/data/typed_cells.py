"""Numbers of cells of typed columns, by operations on whole arrays: numbers, dates, time stamps and times of day.

Each function returns numbers `(B,)`, NaN where a cell is missing, and a mask of the cells that it could read. Others,
such as 2.5 in a column of whole numbers, are left to the functions of `plica.files.columns`, which say what is wrong.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from plica.files import dates
from plica.files.kinds import FARTHEST, LARGEST, TableColumn
from plica.files.rows.batch import Array

_INT64 = (-(2**63), 2**63 - 1)
_EXACT_DIGITS = 15  # decimal digits that a float64 has
_DAY = 24 * 3600 * 10**6  # microseconds
_PER_UNIT = {"s": 10**6, "ms": 10**3, "us": 1}
# A day of margin at both ends of the years 1 to 9999: there a zone may move a time out of them.
_FIRST = (datetime.datetime(1, 1, 3) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
_LAST = (datetime.datetime(9999, 12, 29) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
_TEMPORAL = ("date", "timestamp", "time")

Numbers = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class MissingWords:
    """The words for missing cells.

    Attributes:
        texts: The words, with the empty text.
        numbers: Those that are numbers: (W,) floats.
        wholes: Those that are whole numbers of 64 bits: (W,) integers.
    """

    texts: tuple[str, ...]
    numbers: Array
    wholes: Array

    @staticmethod
    def of(words: Sequence[str]) -> MissingWords:
        """The words as cells of each type."""
        numbers = []
        for word in words:
            try:
                numbers.append(float(word))
            except ValueError:
                continue
        wholes = [int(number) for number in numbers if number.is_integer() and abs(number) < 2.0**63]
        return MissingWords(("", *words), np.asarray(numbers, np.float64), np.asarray(wholes, np.int64))


def numbers_of_typed(column: TableColumn, cells: Any, missing: MissingWords, *, is_array: bool) -> Numbers | None:
    """The numbers of a typed column; None for text, truth values and dictionaries.

    Args:
        column: A column of numbers, dates or times.
        cells: A `pyarrow.Array`.
        missing: The words for missing cells.
        is_array: Whether numbers in place of dates count from 1970.
    """
    types, stored = pa.types, cells.type
    is_temporal = column.kind in _TEMPORAL
    if types.is_integer(stored) or types.is_floating(stored) or types.is_decimal(stored):
        if is_temporal and not is_array:
            return None
        if types.is_integer(stored):
            return _of_integers(column, cells, missing)
        floats = _decimals(cells) if types.is_decimal(stored) else _floats(cells)
        return None if floats is None else _of_floats(column, floats, missing)
    if is_temporal and (types.is_date32(stored) or types.is_timestamp(stored) or types.is_time(stored)):
        return _of_times(column, cells)
    return None


def of_wholes(column: TableColumn, wholes: Array) -> Numbers | None:
    """Whole numbers as numbers of a column: their distances from its origin, as far as its kind allows.

    Args:
        column: A column of counts, whole numbers, dates or times.
        wholes: (B,) of int64.
    """
    origin = column.origin
    least, most = _INT64 if column.kind in _TEMPORAL else (origin - FARTHEST, origin + FARTHEST)
    if column.kind == "count":
        least, most = max(least, 0), min(most, int(LARGEST) - 1)
    if column.kind in _TEMPORAL:  # whose distances have no limit, but those that int64 holds
        least, most = max(least, least + origin), min(most, most + origin)
    if not _INT64[0] <= origin <= _INT64[1]:
        return None
    least, most = max(least, _INT64[0]), min(most, _INT64[1])
    if least > most:
        return None
    is_read = np.ones(len(wholes), dtype=bool)
    if len(wholes) and not (least <= wholes.min() and wholes.max() <= most):
        is_read = (wholes >= least) & (wholes <= most)
    return (wholes - np.int64(origin) if origin else wholes).astype(np.float64), is_read


def of_floats(column: TableColumn, floats: Array) -> Numbers | None:
    """Finite floats as numbers of a column, whole ones where its kind has whole numbers; others are not read.

    Args:
        column: A column of numbers, dates or times.
        floats: (B,) of float64.
    """
    if column.kind == "real":
        return floats + 0.0, np.isfinite(floats)  # no minus zero
    with np.errstate(invalid="ignore"):
        is_whole = (np.floor(floats) == floats) & (np.abs(floats) < 2.0**62)
    read = of_wholes(column, np.where(is_whole, floats, 0.0).astype(np.int64))
    return None if read is None else (read[0], read[1] & is_whole)


def _of_integers(column: TableColumn, cells: Any, missing: MissingWords) -> Numbers | None:
    values = (cells.fill_null(0) if cells.null_count else cells).to_numpy()
    if values.dtype == np.uint64 and len(values) and values.max() > _INT64[1]:
        return None
    wholes = values.astype(np.int64, copy=False)
    read = (wholes.astype(np.float64), np.ones(len(wholes), dtype=bool))
    if column.kind != "real":
        of_column = of_wholes(column, wholes)
        if of_column is None:
            return None
        read = of_column
    numbers, is_read = read
    is_nothing = np.isin(wholes, missing.wholes) if len(missing.wholes) else None
    if cells.null_count:
        is_nothing = _is_null(cells) if is_nothing is None else is_nothing | _is_null(cells)
    if is_nothing is not None:
        numbers[is_nothing] = np.nan
        is_read |= is_nothing
    return numbers, is_read


def _of_floats(column: TableColumn, floats: Array, missing: MissingWords) -> Numbers | None:
    is_null = np.isnan(floats)
    if len(missing.numbers):
        is_null |= np.isin(floats, missing.numbers)
    read = of_floats(column, floats)
    if read is None:
        return None
    read[0][is_null] = np.nan
    return read[0], read[1] | is_null


def _floats(cells: Any) -> Array:
    """Floats of any width as float64, NaN where a cell is null."""
    return cells.to_numpy(zero_copy_only=False).astype(np.float64)  # type: ignore[no-any-return]


def _decimals(cells: Any) -> Array | None:
    """Decimals as float64, each the nearest to it; None for types of too many digits.

    Numerator and power of ten are exact, so the quotient is rounded once.
    """
    precision, scale = cells.type.precision, cells.type.scale
    if precision > _EXACT_DIGITS or not 0 <= scale <= _EXACT_DIGITS:
        return None
    wide = cells.cast(pa.decimal128(precision, scale))
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]  # low words
    return np.where(_is_null(cells), np.nan, words / 10.0**scale)


def _of_times(column: TableColumn, cells: Any) -> Numbers | None:
    form = dates.Format.of(column.format)
    is_time = pa.types.is_time(cells.type)
    if form.months or form.is_dated == is_time:
        return None
    is_null, microseconds, is_read = _is_null(cells), *_microseconds(cells)
    if not form.is_timed:
        is_read &= microseconds % form.unit == 0
    read = of_wholes(column, microseconds // form.unit)
    if read is None:
        return None
    numbers, fits = read
    numbers[is_null] = np.nan
    return numbers, (is_read & fits) | is_null


def _microseconds(cells: Any) -> tuple[Array, Array]:
    """Dates, time stamps or times as microseconds, and the mask of those that Python's types can hold."""
    if pa.types.is_date32(cells.type):
        days = _integers(cells, pa.int32())
        is_held = (days >= _FIRST // _DAY) & (days <= _LAST // _DAY)
        return np.where(is_held, days, 0) * _DAY, is_held
    unit = cells.type.unit
    values = _integers(cells, pa.int32() if cells.type.bit_width == 32 else pa.int64())
    is_time = pa.types.is_time(cells.type)
    first, last = (0, _DAY - 1) if is_time else (_FIRST, _LAST)
    if unit == "ns":
        microseconds = values // 1000
        is_held = (microseconds >= first) & (microseconds <= last)
        return microseconds, is_held & (values % 1000 == 0) if is_time else is_held
    factor = _PER_UNIT[unit]
    is_held = (values >= -(-first // factor)) & (values <= last // factor)
    return np.where(is_held, values, 0) * factor, is_held


def _integers(cells: Any, width: Any) -> Array:
    """The stored integers of a column of dates or times, 0 where a cell is null."""
    return cells.cast(width).fill_null(0).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _is_null(cells: Any) -> Array:
    if not cells.null_count:
        return np.zeros(len(cells), dtype=bool)
    return np.array(cells.is_null().to_numpy(zero_copy_only=False))
