"""Reads and writes numbers in the format of their column: thousands separators, percent signs, decimals.

A format is a picture: `0` is a plain number, `0.00` has two decimals, `0.##` has at most two. `#,##0` has a comma
between thousands, `0,00` a decimal comma, `0%` a percent sign, `$0.00` a currency sign. The number of `5%` is 5.

>>> guess(["1,005", "12", "3,000,000"]), guess(["5%", "12.5 %"]), guess(["1.005,50", "2,75"])
('#,##0', '0.#%', '#.##0,00')
>>> reader("#,##0")("1,005"), text(1005, "#,##0"), text(2.5, "0.00%")
(1005, '1,005', '2.50%')
"""

import decimal
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

Number: TypeAlias = int | float

_SPACES = " \u00a0\u202f"  # thousands separators: the space, and two spaces that prevent line breaks
_MARKS: tuple[tuple[str, str], ...] = (
    *((",", "."), ("", ","), (".", ",")),
    *((mark, point) for point in ",." for mark in _SPACES),
    *(("'", "."), ("\u2019", ".")),
)
_MONEY = "$\u00a2-\u00a5\u0e3f\u20a0-\u20bf"  # currency signs, as a class of letters
_PICTURE = re.compile(
    rf"(?P<before>[{_MONEY}][{_SPACES}]?)?(?:#(?P<thousands>[,.'\u2019{_SPACES}])##)?0"
    rf"(?:(?P<point>[.,])(?P<decimals>0+|#+))?(?P<after>[{_SPACES}]?[%{_MONEY}])?"
)
_BEFORE, _AFTER = re.compile(rf"^[+-]?([{_MONEY}][{_SPACES}]?)"), re.compile(rf"([{_SPACES}]?[%{_MONEY}])$")
_MOST_DECIMALS = 9  # numbers with more decimals are written with all digits that reading them back needs


@dataclass(frozen=True, slots=True)
class _Picture:
    thousands: str
    point: str
    decimals: int
    fixed: bool
    before: str
    after: str


@cache
def picture(form: str) -> _Picture:
    """The parts of a format.

    Raises:
        ValueError: The text is no format.
    """
    match = _PICTURE.fullmatch(form or "0")
    if match is None or match["thousands"] == (match["point"] or ""):
        raise ValueError("expected a picture of a number, such as 0.00, #,##0 or 0%")
    point = match["point"] or ("," if match["thousands"] == "." else ".")
    digits = match["decimals"] or ""
    return _Picture(
        match["thousands"] or "", point, len(digits), "#" not in digits, match["before"] or "", match["after"] or ""
    )


def decimals_of(form: str) -> int | None:
    """How many decimals numbers of a format have; None for as many as each number needs."""
    return picture(form).decimals if form else None


@cache
def reader(form: str) -> Callable[[Any], Number | None]:
    """A function from cells to numbers, exact for whole ones; it returns None for a cell that is no finite number."""
    parts = picture(form)
    # usual thousands separators are read in any column, beside the separator of its own format
    usual = ("", "." if parts.point == "," else ",", *_SPACES, "'", "\u2019")
    patterns = [(_pattern(mark, parts.point), (mark, parts.point)) for mark in dict.fromkeys((parts.thousands, *usual))]

    def read(cell: Any) -> Number | None:
        if not isinstance(cell, str):
            return _of_value(cell)
        cell = _without_signs(cell, parts.before, parts.after)
        number = _of_text(cell) if parts.point == "." else None
        for pattern, (thousands, point) in patterns if number is None else ():
            if pattern.fullmatch(cell):
                return _of_text((cell.replace(thousands, "") if thousands else cell).replace(point, "."))
        return number

    return read


def _without_signs(cell: str, before: str, after: str) -> str:
    """A text without the signs before and after its number; the Unicode minus becomes that of ASCII."""
    cell = cell.strip().replace("\u2212", "-")
    if before and (sign := _BEFORE.match(cell)) is not None and sign[1][0] == before[0]:
        cell = cell[: sign.start(1)] + cell[sign.end(1) :]
    return cell[: -len(after.lstrip())].rstrip() if after and cell.endswith(after[-1]) else cell


def has_sign(form: str) -> bool:
    """Whether numbers of a format have a percent or currency sign."""
    parts = picture(form)
    return bool(parts.before or parts.after)


@cache
def _pattern(thousands: str, point: str) -> re.Pattern[str]:
    groups = rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|\d+" if thousands else r"\d+"
    return re.compile(rf"[+-]?(?:{groups})(?:{re.escape(point)}\d+)?", re.ASCII)


def _of_text(cell: str) -> Number | None:
    """The number that Python reads from a text; None for texts such as 1_000, which only Python reads as numbers."""
    match = _WHOLE.fullmatch(cell)
    if match:
        return int(match[1])
    if not cell.isascii() or "_" in cell:
        return None
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _of_value(cell: Any) -> Number | None:
    try:
        if isinstance(cell, int | np.integer) and not isinstance(cell, bool):
            return int(cell)
        number = float(cell) if not isinstance(cell, np.datetime64) else math.nan  # numpy would count nanoseconds
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(cell) if number.is_integer() and not isinstance(cell, bool | np.bool_) else number


_WHOLE = re.compile(r"([+-]?[0-9]{1,300})(\.0*)?")


def text(number: Number, form: str) -> str:
    """A number as text of a format, with more decimals than the format has if the text would lose digits."""
    parts = picture(form)
    digits = str(number) if isinstance(number, int) else repr(number)
    if isinstance(number, float) and (not form or round(number, parts.decimals) != number):
        if not form:
            return digits
        digits = np.format_float_positional(number, trim="-")
    elif form:
        digits = f"{decimal.Decimal(digits):.{parts.decimals}f}"
        if parts.decimals and not parts.fixed:
            digits = digits.rstrip("0").rstrip(".")
    integer, _, fraction = digits.partition(".")
    if parts.thousands:
        integer = f"{int(integer):,}".replace(",", parts.thousands) if integer not in ("-0",) else integer
    sign = "-" if integer[0] == "-" else ""
    return f"{sign}{parts.before}{integer[len(sign) :]}{parts.point if fraction else ''}{fraction}{parts.after}"


def guess(cells: Sequence[Any]) -> str | None:
    """The format that all cells have, or None if a cell is no number."""
    texts = list(dict.fromkeys(_without_signs(cell, "", "") for cell in cells if isinstance(cell, str)))
    before, after = (
        next((sign for cell in texts if (sign := at.search(cell)) is not None), None) for at in (_BEFORE, _AFTER)
    )
    signs = (before[1] if before else "", after[1] if after else "")
    if any(signs):
        texts = [_without_signs(cell, *signs) for cell in texts]
    if any(_of_value(cell) is None for cell in cells if not isinstance(cell, str)):
        return None
    if all(_of_text(cell) is not None for cell in texts):
        return _form("", ".", texts, *signs, native=len(texts) == 0)
    for thousands, point in _MARKS:
        pattern = _pattern(thousands, point)
        if all(pattern.fullmatch(cell) for cell in texts):
            return _form(thousands, point, texts, *signs)
    return None


def _form(thousands: str, point: str, texts: Sequence[str], before: str, after: str, *, native: bool = False) -> str:
    """The format of texts with a thousands separator, a point and signs; empty for plain numbers."""
    begin = f"#{thousands}##0" if thousands else "0"
    decimals = [len(cell.partition(point)[2]) for cell in texts]
    scientific = any("e" in cell.lower() for cell in texts)
    most = max(decimals, default=0)
    if native or ((scientific or most > _MOST_DECIMALS) and not (before or after)):
        return ""
    digits = ("0" if min(decimals) == most else "#") * most
    form = f"{before}{begin}{point if digits else ''}{digits}{after}"
    return "" if form == "0" else form
