"""Reads dates, times of day and time stamps in the format of their column as whole numbers of units, and writes them.

A format is text with the directives of `strftime` and a few more. `%-d` and the like have no leading zero. `%3f` is a
point and three digits of a second; cells may omit them. `%z[+01:00]` is the distance from UTC, written literally.
`%q` is the quarter of a year. Names of months are English. Nothing depends on the locale. A date without a day is a
number of months, or of quarters.

A number in an array counts units from 1970 or from midnight. A number in a table with types is read by its digits if
the format has digits alone: 19700103 by `%Y%m%d` is the third day.

>>> form = Format.of("%d.%m.%Y %H:%M")
>>> form.read("24.12.2026 18:30"), form.unit
(29968950, 60000000)
>>> form.text(29968950)
'24.12.2026 18:30'
>>> guess(["3/14/2026", "12/1/2026"], DATES)
'%-m/%-d/%Y'
>>> Format.of("%Y-Q%q").read("1971-Q2")
5
>>> Format.of("%Y%m%d").read(19700103), Format.of("%Y%m%d").read(np.int64(2)), Format.of("%Y-%m-%d").read(2)
(2, 2, None)
>>> form.read("1.2.2026 9:05"), form.read("01.02.2026 09:05")
(29498945, 29498945)
"""

import datetime
import decimal
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from plica.files.rows.batch import Array

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH_OF = {name: month for month, full in enumerate(_MONTHS, 1) for name in (full, full[:3])}
_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND = 1_000_000  # microseconds, in which units are counted
_DAY = 24 * 3600 * _SECOND
_PIVOT = 69  # by POSIX, two digits from here on are years of the 20th century, smaller ones of the 21st


@dataclass(frozen=True, slots=True)
class _Directive:
    """A part of a format.

    Args:
        pattern: A regular expression for its text.
        text: Writes it.
        unit: The smallest difference that its text shows, in microseconds.
    """

    pattern: str
    text: Callable[[datetime.datetime], str]
    unit: int


def _hour(value: datetime.datetime) -> int:
    return (value.hour - 1) % 12 + 1


def _fraction(digits: int) -> _Directive:
    def text(value: datetime.datetime) -> str:
        return f".{value.microsecond:06}"[: digits + 1]

    return _Directive(rf"(?:\.\d{{1,{digits}}})?", text, 10 ** (6 - digits))


_DIRECTIVES: Mapping[str, _Directive] = {
    "Y": _Directive(r"\d{4}", lambda value: f"{value.year:04}", 365 * _DAY),
    "y": _Directive(r"\d{2}", lambda value: f"{value.year % 100:02}", 365 * _DAY),
    "m": _Directive(r"\d{2}", lambda value: f"{value.month:02}", 28 * _DAY),
    "-m": _Directive(r"\d{1,2}", lambda value: str(value.month), 28 * _DAY),
    "q": _Directive(r"[1-4]", lambda value: str((value.month + 2) // 3), 84 * _DAY),
    "b": _Directive(r"[A-Za-z]{3,9}", lambda value: _MONTHS[value.month - 1][:3], 28 * _DAY),
    "B": _Directive(r"[A-Za-z]{3,9}", lambda value: _MONTHS[value.month - 1], 28 * _DAY),
    "d": _Directive(r"\d{2}", lambda value: f"{value.day:02}", _DAY),
    "-d": _Directive(r"\d{1,2}", lambda value: str(value.day), _DAY),
    "H": _Directive(r"\d{2}", lambda value: f"{value.hour:02}", 3600 * _SECOND),
    "-H": _Directive(r"\d{1,2}", lambda value: str(value.hour), 3600 * _SECOND),
    "I": _Directive(r"\d{2}", lambda value: f"{_hour(value):02}", 3600 * _SECOND),
    "-I": _Directive(r"\d{1,2}", lambda value: str(_hour(value)), 3600 * _SECOND),
    "p": _Directive(r"[AaPp][Mm]", lambda value: "AM" if value.hour < 12 else "PM", 12 * 3600 * _SECOND),
    "M": _Directive(r"\d{2}", lambda value: f"{value.minute:02}", 60 * _SECOND),
    "S": _Directive(r"\d{2}", lambda value: f"{value.second:02}", _SECOND),
    **{f"{digits}f": _fraction(digits) for digits in range(1, 7)},
}
_ZONE = r"Z|[+-]\d{2}(?::?\d{2})?| UTC"
_UTC = ("Z", " UTC")
# the pattern of a number of two digits without digits beside it, whose leading zero may be missing
_SEPARATE_TWO_DIGITS = re.compile(r"(?<![}\]]\))(?<!\d)(\(\?P<[mdHI]>\\d)\{2\}(?=\))(?!\)(?:\(\?P<[YymqdHIMS]>|\d))")
_TOKEN = re.compile(rf"%z\[({_ZONE})\]|%(-?[A-Za-z]|[1-6]f)|(%)|([^%]+)")
_YEAR_PARTS, _MONTH_PARTS, _TIME_PARTS = frozenset("Yy"), frozenset("mbB"), frozenset("HIpMSf")
_DIGITS, _MOST_DIGITS = frozenset("YymqdHIMS"), 10**20
_WIDTHS = {"Y": 4, **dict.fromkeys("ymdHMS", 2), **{f"{digits}f": digits + 1 for digits in range(1, 7)}}
_DATE_PARTS = _YEAR_PARTS | _MONTH_PARTS | frozenset("dq")

_CLOCKS = ("%H:%M:%S", "%H:%M", "%-H:%M:%S", "%-H:%M", "%-I:%M %p", "%-I:%M:%S %p")
DATES: tuple[str, ...] = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%-d.%-m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%-m/%-d/%Y", "%-d/%-m/%Y"),
    *("%d-%m-%Y", "%m-%d-%Y", "%Y%m%d", "%d %b %Y", "%-d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %-d, %Y"),
    *("%d %B %Y", "%-d %B %Y", "%B %d, %Y", "%B %-d, %Y", "%d-%b-%y", "%d %b %y"),
    *("%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%-m/%-d/%y", "%-d/%-m/%y"),
    *("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%-m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%b %y"),
    *("%Y-Q%q", "%YQ%q", "%Y Q%q", "Q%q %Y", "Q%q/%Y", "Q%q-%Y"),
)
TIMES: tuple[str, ...] = (*_CLOCKS, *(f"%H:%M:%S%{digits}f" for digits in range(1, 7)))
STAMPS: tuple[str, ...] = tuple(
    f"{date}{between}{clock}" for date in DATES if "d" in date for between in (" ", "T", ", ") for clock in TIMES
)


@dataclass(frozen=True, slots=True)
class Format:
    """The format of the texts of a column of dates or times.

    Attributes:
        pattern: Matches a text; numbers without digits beside them may lack their leading zero.
        padded: Matches a text that has all leading zeros.
        unit: The unit of the numbers in microseconds: the smallest difference that the format shows.
        months: How many months one unit is if the format has no day; else 0.
        names: The directives, in their order.
        zone: The distance from UTC as text; None if the format has none.
        parts: The pieces to write, in order: text, or a function.
    """

    pattern: re.Pattern[str]
    padded: re.Pattern[str]
    unit: int
    months: int
    names: tuple[str, ...]
    zone: str | None
    parts: tuple[str | Callable[[datetime.datetime], str], ...]

    @staticmethod
    @cache
    def of(text: str) -> "Format":
        """The format that a text describes.

        Raises:
            ValueError: The text is no format, or lacks a part of a date or a time.
        """
        pattern, unit, zone = "", 365 * _DAY, None
        names: list[str] = []
        parts: list[str | Callable[[datetime.datetime], str]] = []
        end = 0
        for token in _TOKEN.finditer(text):
            end, (offset, name, percent, literal) = token.end(), token.groups()
            if offset is not None and zone is None:
                zone, pattern = offset, f"{pattern}(?P<z>{_ZONE})"
                parts.append(offset)
            elif name in _DIRECTIVES and name[-1] not in names:
                directive = _DIRECTIVES[name]
                names.append(name[-1])
                pattern, unit = f"{pattern}(?P<{name[-1]}>{directive.pattern})", min(unit, directive.unit)
                parts.append(directive.text)
            elif literal is not None:
                pattern += re.escape(literal)
                parts.append(literal)
            else:
                raise ValueError(f"{percent or token[0]} is no known directive, or occurs twice")
        present = set(names)
        by_day = "d" in present and "q" not in present and bool(present & _MONTH_PARTS)
        months = 0 if by_day or not present & _DATE_PARTS else 3 if {"q"} == present - _YEAR_PARTS else 1
        by_month = months == 3 or (
            months == 1 and bool(present - _YEAR_PARTS) and present <= _YEAR_PARTS | _MONTH_PARTS
        )
        dated = ((by_day or by_month) and bool(present & _YEAR_PARTS)) or not present & _DATE_PARTS
        timed = ("M" in present and ("H" in present or {"I", "p"} <= present)) or not present & _TIME_PARTS
        if end < len(text) or not names or not dated or not timed or ("S" not in present and "f" in present):
            raise ValueError(
                "expected day, month and year, or hours and minutes, or both, or a month or quarter and its year"
            )
        read = re.compile(_SEPARATE_TWO_DIGITS.sub(r"\1{1,2}", pattern))
        return Format(read, re.compile(pattern), unit, months, tuple(names), zone, tuple(parts))

    @property
    def is_dated(self) -> bool:
        """Whether the format has days, or months of years."""
        return "d" in self.names or self.months > 0

    @property
    def is_timed(self) -> bool:
        """Whether the format has hours."""
        return "M" in self.names

    def read(self, cell: Any) -> int | None:
        """A cell as a number of units from 1970 or midnight; None if the cell does not have this format."""
        if is_bare(cell):
            cell = self._digits_of(cell)
        if not isinstance(cell, str):
            try:
                return number_of(cell, self.unit, self.months, timed=self.is_timed, dated=self.is_dated)
            except OverflowError:  # beyond the years 1 to 9999 in UTC
                return None
        match = self.pattern.fullmatch(cell.strip())
        if match is None:
            return None
        value = _value_of(match.groupdict())
        if value is not None and self.months:
            return _month_number(value) // self.months
        return None if value is None else (value - _EPOCH) // datetime.timedelta(microseconds=self.unit)

    @property
    def is_digits(self) -> bool:
        """Whether texts have digits alone, as those of `%Y%m%d` have."""
        return set(self.names) <= _DIGITS and not any(isinstance(part, str) for part in self.parts)

    def _digits_of(self, cell: Any) -> str | None:
        """The digits of a number that writes a date, such as 19700103; None unless this format has digits alone."""
        if not self.is_digits or cell != cell or not 0 <= cell < _MOST_DIGITS or cell != int(cell):
            return None
        return str(int(cell)).zfill(len(self.text(0)))

    def value(self, number: int) -> datetime.datetime:
        """The time of a number; times outside the years 1 to 9999 are clamped to these years."""
        if self.months:
            year, month = divmod(number * self.months + 12 * _EPOCH.year, 12)
            ends = (datetime.datetime.min, datetime.datetime(datetime.MAXYEAR, 13 - self.months, 1))
            return ends[year > 1] if not 1 <= year <= datetime.MAXYEAR else datetime.datetime(year, month + 1, 1)
        microseconds = number * self.unit
        if not self.is_dated:
            microseconds %= _DAY
        limits = (datetime.datetime.min, datetime.datetime.max)
        least, most = ((end - _EPOCH) // datetime.timedelta(microseconds=1) for end in limits)
        return _EPOCH + datetime.timedelta(microseconds=min(max(microseconds, least), most))

    def text(self, number: int) -> str:
        """A number as text of this format."""
        value = self.value(number)
        if self.zone is not None:
            value = _moved(value, _offset(self.zone))
        return "".join(part if isinstance(part, str) else part(value) for part in self.parts)


def fixed_layout(text: str) -> tuple[tuple[str, int], ...] | None:
    """The pieces of a format of days or times whose texts have one length: a directive and its width, or a text and 0.

    >>> fixed_layout("%d.%m.%Y"), fixed_layout("%-d.%m.%Y")
    ((('d', 2), ('.', 0), ('m', 2), ('.', 0), ('Y', 4)), None)
    """
    pieces = []
    for token in _TOKEN.finditer(text):
        _, name, _, literal = token.groups()
        if name not in _WIDTHS and (literal is None or not literal.isascii()):
            return None
        pieces.append((literal, 0) if literal is not None else (name, _WIDTHS[name]))
    return None if Format.of(text).months else tuple(pieces)


def century_of(year: Array) -> Array:
    """The centuries that years of two digits lie in."""
    return np.where(year >= _PIVOT, 1900, 2000)


def _value_of(fields: Mapping[str, str]) -> datetime.datetime | None:
    """The time in UTC of the matched directives of a text; None if there is no such time, as for February 30."""
    year = int(fields.get("Y", 0))
    if "y" in fields:
        year = int(fields["y"]) + int(century_of(np.asarray(int(fields["y"]))))
    hour = int(fields.get("H", 0))
    if "I" in fields:
        hour = int(fields["I"])
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (fields["p"].lower() == "pm")
    name = fields.get("b") or fields.get("B")
    month = int(fields.get("m", 1)) if name is None else _MONTH_OF.get(name.title(), 0)
    if "q" in fields:
        month = 3 * int(fields["q"]) - 2
    clock = (hour, int(fields.get("M", 0)), int(fields.get("S", 0)), int(f"{fields.get('f', '')[1:]:0<6}"))
    try:
        date = (year, month, int(fields.get("d", 1))) if fields.keys() & _DATE_PARTS else (1970, 1, 1)
        value = datetime.datetime(*date, *clock)
        return value - _offset(fields["z"]) if "z" in fields else value
    except (ValueError, OverflowError):
        return None


def _moved(value: datetime.datetime, distance: datetime.timedelta) -> datetime.datetime:
    """A time moved by a distance, clamped to the years 1 to 9999."""
    try:
        return value + distance
    except OverflowError:
        return datetime.datetime.max if distance > datetime.timedelta(0) else datetime.datetime.min


def _offset(zone: str) -> datetime.timedelta:
    if zone in _UTC:
        return datetime.timedelta(0)
    distance = datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].lstrip(":") or 0))
    return -distance if zone[0] == "-" else distance


def _month_number(value: datetime.date) -> int:
    """The number of months from January 1970 to a time."""
    return 12 * (value.year - _EPOCH.year) + value.month - 1


def is_bare(cell: Any) -> bool:
    """Whether a cell is a Python number, from a table with types; unlike numpy's, it does not count from 1970."""
    return isinstance(cell, int | float | decimal.Decimal) and not isinstance(cell, bool | np.generic)


def number_of(cell: Any, unit: int, months: int, *, timed: bool, dated: bool) -> int | None:
    """A date, a time or a number in units; None for other cells, and for times that are no multiple of the unit."""
    if isinstance(cell, datetime.datetime):
        value = cell.astimezone(datetime.UTC).replace(tzinfo=None) if cell.tzinfo else cell
        microseconds = (value - _EPOCH) // datetime.timedelta(microseconds=1) if dated else None
    elif isinstance(cell, np.datetime64):
        microseconds = int(cell.astype("datetime64[us]").astype(np.int64)) if dated else None
    elif isinstance(cell, datetime.date):
        microseconds = (cell.toordinal() - _EPOCH.toordinal()) * _DAY if dated else None
    elif isinstance(cell, datetime.time):
        seconds = (cell.hour * 60 + cell.minute) * 60 + cell.second
        microseconds = None if dated else seconds * _SECOND + cell.microsecond
    elif isinstance(cell, bool | np.bool_ | str):
        return None
    else:
        try:
            return int(cell) if float(cell).is_integer() else None
        except (TypeError, ValueError, OverflowError):
            return None
    if microseconds is not None and months:
        value = _EPOCH + datetime.timedelta(microseconds=microseconds)
        number, after = divmod(_month_number(value), months)
        return None if after or value != datetime.datetime(value.year, value.month, 1) else number
    if microseconds is None or (not timed and microseconds % unit):
        return None
    return microseconds // unit


def _may_be(text: str, formats: Sequence[str]) -> bool:
    """Whether a text has as many digits as a date, or the colon of a time: a quick test that most texts fail."""
    if "%M" in formats[0]:
        return ":" in text
    groups, has_letters = [len(digits) for digits in re.findall(r"\d+", text)], any(map(str.isalpha, text))
    return len(groups) == 3 or groups == [8] or (4 in groups and len(groups) == 2) or (has_letters and len(groups) > 0)


def guess(cells: Sequence[Any], formats: Sequence[str]) -> str | None:
    """The format that fits all texts, or None.

    If several fit, it is the format by which the dates lie closest together: 01/02/2026 and 01/03/2026 are two days of
    January, not the first days of two months. Among equals, the first that writes most texts as they were wins.
    """
    texts = list(dict.fromkeys(cell.strip() for cell in cells))
    if not texts or not _may_be(texts[0], formats):
        return None
    fitting = [(form, form) for form in formats] + [(form, f"{form}%z[{{}}]") for form in formats if "%M" in form]
    best: tuple[int, int, str] | None = None
    for plain, form in fitting:
        zone = re.search(rf"(?:{_ZONE})$", texts[0]) if form != plain else None
        if form != plain and zone is None:
            continue
        name = form.format(zone[0]) if zone else form
        reader = Format.of(name)
        if reader.padded.fullmatch(texts[0]) is None or reader.read(texts[0]) is None:
            continue
        numbers = [reader.read(text) if reader.padded.fullmatch(text) else None for text in texts]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers) or (best is not None and max(known) - min(known) > best[0]):
            continue
        changed = sum(reader.text(number) != text for number, text in zip(known, texts, strict=True))
        if best is None or (max(known) - min(known), changed) < best[:2]:
            best = (max(known) - min(known), changed, name)
    return None if best is None else best[2]
