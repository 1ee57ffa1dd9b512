"""Numbers of cells that are plain texts, by operations on whole arrays, as `typed_cells` has those of typed cells.

A text of a number is plain if Arrow and `plica.files.numbers` read it alike: at most 15 digits before the point and 20
after it, no spaces, no sign but a minus, no thousands separators. One of a date or a time is plain if its format has
digits at fixed places. Others are left to the functions of `plica.files.columns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plica.data.typed_cells import MissingWords, Numbers, of_floats, of_wholes
from plica.files import dates, numbers
from plica.files.kinds import TableColumn
from plica.files.rows.batch import Array

_WHOLE = "^-?[0-9]{1,15}$"
_REAL = r"^-?[0-9]{1,15}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?$"  # as many decimals as float64 is written with
_WITH_POINT = r"^-?[0-9]{1,15}(\.0{1,9})?$"


def numbers_of_text(column: TableColumn, cells: Any, missing: MissingWords) -> Numbers | None:
    """The numbers of a column of text; None if it is no text.

    Args:
        column: A column of numbers, dates or times.
        cells: A `pyarrow.Array`.
        missing: The words for missing cells.
    """
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return None
    read = _numbers(column, cells) if column.kind in ("count", "whole", "real") else _times(column, cells)
    if read is None:
        return None
    numbers_, is_read = read
    is_nothing = pc.is_in(cells, pa.array([*missing.texts, None], cells.type)).to_numpy(zero_copy_only=False)
    numbers_[is_nothing] = np.nan
    return numbers_, is_read | is_nothing


def _numbers(column: TableColumn, cells: Any) -> Numbers | None:
    pattern = _WHOLE if numbers.picture(column.format).point == "," else _REAL if column.kind == "real" else _WITH_POINT
    is_plain = pc.match_substring_regex(cells, pattern)
    plain = pc.if_else(is_plain, cells, pa.scalar(None, cells.type)).cast(pa.float64())
    floats = plain.to_numpy(zero_copy_only=False)
    is_number = ~np.isnan(floats)
    read = of_floats(column, np.where(is_number, floats, 0.0))
    return None if read is None else (read[0], read[1] & is_number)


def _times(column: TableColumn, cells: Any) -> Numbers | None:
    layout = dates.fixed_layout(column.format)
    if layout is None:
        return None
    width = sum(size or len(piece) for piece, size in layout)
    has_width = pc.equal(pc.binary_length(cells), width).fill_null(False)
    letters = _letters(cells.filter(has_width), width)
    fields, is_plain = _fields(layout, letters)
    microseconds, is_time = _microseconds(fields, len(letters))
    read = of_wholes(column, microseconds // dates.Format.of(column.format).unit)
    if read is None:
        return None
    result, is_read = np.full(len(cells), np.nan), np.array(has_width.to_numpy(zero_copy_only=False))
    result[is_read] = read[0]
    is_read[is_read] = read[1] & is_plain & is_time
    return result, is_read


def _letters(cells: Any, width: int) -> Array:
    """The bytes of N texts of `width` bytes each, `(N, width)`."""
    size = np.int64 if pa.types.is_large_string(cells.type) else np.int32
    start = np.frombuffer(cells.buffers()[1], size)[cells.offset] if len(cells) else 0
    content = cells.buffers()[2] if len(cells) else b""
    return np.frombuffer(content, np.uint8)[start : start + len(cells) * width].reshape(len(cells), width)


def _fields(layout: Sequence[tuple[str, int]], letters: Array) -> tuple[dict[str, Array], Array]:
    """The number of each directive of texts `(N, width)`, and the mask of the texts that have digits in its places."""
    fields: dict[str, Array] = {}
    is_plain, at = np.ones(len(letters), dtype=bool), 0
    for piece, size in layout:
        literal = piece if not size else "." if piece[-1] == "f" else ""
        for letter in literal:
            is_plain &= letters[:, at] == ord(letter)
            at += 1
        number = np.zeros(len(letters), np.int64)
        for _ in range(size - len(literal) if size else 0):
            digit = letters[:, at].astype(np.int64) - ord("0")
            is_plain &= (digit >= 0) & (digit <= 9)
            number, at = 10 * number + digit, at + 1
        if size:
            fields[piece[-1]] = number * 10 ** (6 - int(piece[0])) if piece[-1] == "f" else number
    return fields, is_plain


def _microseconds(fields: Mapping[str, Array], count: int) -> tuple[Array, Array]:
    """The microseconds from 1970 or midnight of dates and times, and the mask of those that exist."""
    zero, one = np.zeros(count, np.int64), np.ones(count, np.int64)
    year = fields["y"] + dates.century_of(fields["y"]) if "y" in fields else fields.get("Y", 1970 * one)
    month, day = fields.get("m", one), fields.get("d", one)
    hour, minute, second = (fields.get(name, zero) for name in "HMS")
    is_time = (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60)
    is_time &= (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1)
    first = np.where(is_time, 12 * (year - 1970) + month - 1, 0).astype("M8[M]")
    days = first.astype("M8[D]").astype(np.int64)
    is_time &= days + day <= (first + 1).astype("M8[D]").astype(np.int64)
    days += np.where(is_time, day - 1, 0)
    seconds = np.where(is_time, ((days * 24 + hour) * 60 + minute) * 60 + second, 0)
    return seconds * 10**6 + fields.get("f", zero), is_time
