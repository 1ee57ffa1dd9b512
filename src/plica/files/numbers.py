"""Numbers in the format of their column: marks between thousands, percent signs, digits after the point.

A format is a picture: `0` a number as it is, `0.00` two decimals, `0.##` at most two, `#,##0` a comma between
thousands, `0,00` a decimal comma, `0%` a percent sign, `$0.00` a currency sign. The number of `5%` is 5.

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

_SPACES = " \u00a0\u202f"  # as text has them between thousands: also those at which no line breaks
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
_MOST_DECIMALS = 9  # of more, numbers are written so that they are read as they were


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
        ValueError: It is none.
    """
    found = _PICTURE.fullmatch(form or "0")
    if found is None or found["thousands"] == (found["point"] or ""):
        raise ValueError("expected a picture of a number, such as 0.00, #,##0 or 0%")
    point = found["point"] or ("," if found["thousands"] == "." else ".")
    digits = found["decimals"] or ""
    return _Picture(
        found["thousands"] or "", point, len(digits), "#" not in digits, found["before"] or "", found["after"] or ""
    )


def decimals_of(form: str) -> int | None:
    """How many decimals numbers of a format have; None where they have as many as they need."""
    return picture(form).decimals if form else None


@cache
def reader(form: str) -> Callable[[Any], Number | None]:
    """What makes numbers of cells: whole ones to the last digit; None of a cell that is no finite number."""
    parts = picture(form)
    # whatever usually stands between thousands is read in any column, beside what its own cells have
    usual = ("", "." if parts.point == "," else ",", *_SPACES, "'", "\u2019")
    patterns = [(_pattern(mark, parts.point), (mark, parts.point)) for mark in dict.fromkeys((parts.thousands, *usual))]

    def read(cell: Any) -> Number | None:
        if not isinstance(cell, str):
            return _of_value(cell)
        cell = _bare(cell, parts.before, parts.after)
        found = _of_text(cell) if parts.point == "." else None
        for pattern, (thousands, point) in patterns if found is None else ():
            if pattern.fullmatch(cell):
                return _of_text((cell.replace(thousands, "") if thousands else cell).replace(point, "."))
        return found

    return read


def _bare(cell: str, before: str, after: str) -> str:
    """A text without the signs before and after its number, with the minus of ASCII."""
    cell = cell.strip().replace("\u2212", "-")
    if before and (found := _BEFORE.match(cell)) is not None and found[1][0] == before[0]:
        cell = cell[: found.start(1)] + cell[found.end(1) :]
    return cell[: -len(after.lstrip())].rstrip() if after and cell.endswith(after[-1]) else cell


def has_sign(form: str) -> bool:
    """Whether numbers of a format stand beside a percent or currency sign."""
    parts = picture(form)
    return bool(parts.before or parts.after)


@cache
def _pattern(thousands: str, point: str) -> re.Pattern[str]:
    groups = rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|\d+" if thousands else r"\d+"
    return re.compile(rf"[+-]?(?:{groups})(?:{re.escape(point)}\d+)?", re.ASCII)


def _of_text(cell: str) -> Number | None:
    """A number as Python has it, but not text such as 1_000 that only Python reads as one."""
    whole = _WHOLE.fullmatch(cell)
    if whole:
        return int(whole[1])
    if not cell.isascii() or "_" in cell:
        return None
    try:
        found = float(cell)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _of_value(cell: Any) -> Number | None:
    try:
        if isinstance(cell, int | np.integer) and not isinstance(cell, bool):
            return int(cell)
        found = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(found):
        return None
    return int(cell) if found.is_integer() and not isinstance(cell, bool | np.bool_) else found


_WHOLE = re.compile(r"([+-]?[0-9]{1,300})(\.0*)?")


def text(number: Number, form: str) -> str:
    """A number as text of a format; with more decimals than that where else it would be read as another."""
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
    whole, _, rest = digits.partition(".")
    if parts.thousands:
        whole = f"{int(whole):,}".replace(",", parts.thousands) if whole not in ("-0",) else whole
    sign = "-" if whole[0] == "-" else ""
    return f"{sign}{parts.before}{whole[len(sign) :]}{parts.point if rest else ''}{rest}{parts.after}"


def guess(cells: Sequence[Any]) -> str | None:
    """The format that all cells have, or None where one of them is no number."""
    texts = list(dict.fromkeys(_bare(cell, "", "") for cell in cells if isinstance(cell, str)))
    before, after = (
        next((sign for cell in texts if (sign := at.search(cell)) is not None), None) for at in (_BEFORE, _AFTER)
    )
    signs = (before[1] if before else "", after[1] if after else "")
    if any(signs):
        texts = [_bare(cell, *signs) for cell in texts]
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
    """The format of texts with some marks; empty where numbers are written as they are."""
    begin = f"#{thousands}##0" if thousands else "0"
    decimals = [len(cell.partition(point)[2]) for cell in texts]
    scientific = any("e" in cell.lower() for cell in texts)
    most = max(decimals, default=0)
    if native or ((scientific or most > _MOST_DECIMALS) and not (before or after)):
        return ""
    digits = ("0" if min(decimals) == most else "#") * most
    found = f"{before}{begin}{point if digits else ''}{digits}{after}"
    return "" if found == "0" else found
