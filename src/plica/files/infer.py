"""Infers the columns of a table from its cells, or takes them from a file of `--columns`.

>>> cells = np.array([["cat", "4", "1.50"], ["bird", "2", None], ["cat", "4", "-2.25"]], dtype=object)
>>> for column in infer_columns(("pet", "legs", "weight"), cells):
...     print(column.name, column.kind, column.categories, column.format)
pet categorical ('bird', 'cat')
legs whole ()
weight real () 0.00
"""

import datetime
import decimal
import json
import re
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.files import dates, numbers
from plica.files.columns import is_missing
from plica.files.kinds import KINDS, Cells, TableColumn, check_format
from plica.files.rows.batch import Array
from plica.files.schema import check, without_repeats
from plica.files.tables import one_line
from plica.paths import check_is_file

MOST_CODES = 20  # distinct values: so few texts are always categories, and never identifiers
MOST_CATEGORIES = 1000  # distinct texts; more are likely names or remarks
_LEAST_NUMBERED = 20  # rows; in a table of at least as many, a column 1, 2, 3, ... likely numbers the rows
_IDENTIFIER = re.compile(r"(?:^|[\W_])(?i:id|uuid|guid|key)$|[a-z](?:Id|ID)$")
_PLAIN = (str, int, float, bool, np.generic, decimal.Decimal, datetime.date, datetime.time)  # cells that are modelled
# words that mean in many programs that a value is missing
_NOTHING = frozenset(
    ("na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", ".", "missing", "unknown", "inf", "-inf")
)
_STRIDE_DIVISOR = 200  # every (n // 200)-th text, up to eight, is a sample that tells words from dates


class ColumnRecord(TypedDict):
    """A column in a file of `--columns`."""

    kind: Literal["auto", "categorical", "boolean", "count", "whole", "real", "date", "timestamp", "time", "ignored"]
    categories: NotRequired[list[str | int | bool]]
    input: NotRequired[str]
    format: NotRequired[str]


def infer_columns(
    names: Sequence[str],
    cells: Array,
    *,
    records: Mapping[str, ColumnRecord] | None = None,
    words: Collection[str] = (),
    source: str = "table",
) -> tuple[TableColumn, ...]:
    """The columns of a table of N rows.

    Each column has the first kind of `KINDS` that its cells suggest. Identifiers, remarks and columns without cells
    are ignored; their `why` gives the reason.

    Args:
        names: Of the D columns.
        cells: (N, D).
        records: The user's records of some columns, by name.
        words: Text that means that a cell is missing.
        source: The name of the table in messages.

    Raises:
        InputError: A record does not fit its column, or a column has words among numbers or dates.
    """
    present = [Cells(list(column[~is_missing(column, words)])) for column in cells.T]
    return columns_of(names, present, records=records, source=source)


def columns_of(
    names: Sequence[str],
    present: Sequence[Cells],
    *,
    records: Mapping[str, ColumnRecord] | None = None,
    source: str = "table",
) -> tuple[TableColumn, ...]:
    """The columns of a table, of which each column's cells are known that are not missing; see `infer_columns`.

    Args:
        names: Of the D columns.
        present: The cells of each.
        records: The user's records of some columns, by name.
        source: The name of the table in messages.

    Raises:
        InputError: A record does not fit its column, or a column has words among numbers or dates.
    """
    records = records or {}
    unknown = [name for name in records if name not in names]
    if unknown:
        raise InputError(f"{source}: there is no column {unknown[0]!r}; its columns are {', '.join(names)}")
    return tuple(
        _column(f"{source}, column {name!r}", name, cells, records.get(name, {"kind": "auto"}))
        for name, cells in zip(names, present, strict=True)
    )


def _column(where: str, name: str, present: Cells, record: ColumnRecord) -> TableColumn:
    kind = record["kind"]
    if kind == "ignored":
        return TableColumn(name, "ignored", (), record.get("input", ""))
    form, distribution = record.get("format", ""), record.get("input", "")
    if kind == "auto":
        return _guessed(where, TableColumn(name, "ignored", input=distribution, format=form), present)
    column = TableColumn(name, kind, tuple(record.get("categories", ())), distribution, form)
    try:
        if column.format:
            check_format(column)
        described = KINDS[kind].described(column, present) or column
        check_format(described)
    except ValueError as error:
        tried = "no known format fits its cells"
        if column.format:
            tried = f"the format {column.format!r} is invalid: {error}"
        raise InputError(
            f'{where}: {tried}; say how they are written, as in {{"kind": "date", "format": "%d.%m.%Y"}}'
        ) from error
    if KINDS[kind].closed and not described.categories:
        raise InputError(f"{where}: there are no categories in its cells; list them")
    return described


def _guessed(where: str, column: TableColumn, present: Cells) -> TableColumn:
    why = _why_ignored(column.name, present)
    if why:
        return replace(column, why=why)
    for kind, entry in KINDS.items():
        described = entry.described(replace(column, kind=kind), present)
        if described is not None and kind == "categorical":
            _check_one_kind(where, present)
            if len(described.categories) > max(MOST_CODES, min(MOST_CATEGORIES, present.total // 2)):
                return replace(column, why=f"names or remarks: {len(described.categories):,} different texts")
        if described is not None and entry.suggested(described, present):
            return described
    raise AssertionError("every column can be categorical")


def _why_ignored(name: str, present: Cells) -> str:
    """Why a column is not modelled; empty if it is."""
    values = present.values
    if not values:
        return "every cell is missing"
    other_types = {type(cell).__name__ for cell in values if not isinstance(cell, _PLAIN)}
    if other_types:
        return f"cells of the type {min(other_types)}"
    wholes = present.wholes
    if present.total >= _LEAST_NUMBERED and present.are_row_numbers:
        return "the numbers of rows"
    is_diverse = len(present.distinct) > MOST_CODES and (wholes is not None or present.numbers is None)
    if is_diverse and _IDENTIFIER.search(name):
        return f"an identifier: {len(present.distinct):,} different values"
    return ""


def _check_one_kind(where: str, present: Cells) -> None:
    """Raise if texts among numbers or dates are likely words for missing values.

    They likely do if all are words such as NA, or if they are few beside many numbers or dates.
    """
    if present.has_codes:
        return
    texts = [cell for cell in present.values if isinstance(cell, str)]
    sample = texts[:: max(1, len(texts) // _STRIDE_DIVISOR)][:8]
    written = {form for cell in sample if (form := numbers.guess([cell])) is not None}
    readers: list[tuple[str, Callable[[Any], Any]]] = [
        ("numbers", numbers.reader(form)) for form in sorted({"", *written})
    ]
    for subject, formats in (("dates", dates.DATES), ("dates", dates.STAMPS), ("times", dates.TIMES)):
        likely = {form for cell in sample if (form := dates.guess([cell], formats)) is not None}
        readers += [(subject, dates.Format.of(form).read) for form in sorted(likely)]
    for subject, read in readers:
        known = {number for number in map(read, present.values) if number is not None}
        other_cells = [
            (cell, count) for cell, count in present.counted if read(cell) is None or isinstance(cell, bool | np.bool_)
        ]
        num_others = sum(count for _, count in other_cells)
        few = len(known) > MOST_CODES and 2 * num_others < present.total
        if known and other_cells and (few or all(str(cell).strip().lower() in _NOTHING for cell, _ in other_cells)):
            shown = reprlib.repr(str(other_cells[0][0]))
            raise InputError(
                f"{where}: {'most' if few else 'some'} cells are {subject} and {num_others} of "
                f"{present.total} are not, such as {shown}; if that means that the value is missing, say so with "
                f"--missing {shown}; "
                'else correct the cells, or say {"kind": "categorical"} in the file of --columns'
            )


def read_columns(path: Path) -> dict[str, ColumnRecord]:
    """The records of a JSON file: `{"age": "real", "pet": {"kind": "categorical", "categories": ["cat"]}}`.

    Raises:
        FileFormatError: The file is missing, or does not hold such records.
    """
    check_is_file(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_records)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: not valid JSON ({one_line(error)}); correct it there") from error
    return check_records(content, f"{path}: ")


def check_records(content: Any, where: str = "") -> dict[str, ColumnRecord]:
    """The records of a mapping from names to kinds or records: `{"age": "real", "pet": {"kind": "categorical"}}`.

    Args:
        content: The mapping.
        where: The beginning of messages.

    Raises:
        FileFormatError: It holds something else.
    """
    check(content, dict[str, Any], f"{where}columns")
    records: dict[str, Any] = {
        name: {"kind": record} if isinstance(record, str) else dict(record) if isinstance(record, Mapping) else record
        for name, record in content.items()
    }
    for name, record in records.items():
        check(record, ColumnRecord, f"{where}column {name!r}")
        _check_categories(f"{where}column {name!r}", record)
    return records


def _records(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of a JSON object, without the spaces around their names; a repeated name is an error."""
    return without_repeats([(name.strip(), record) for name, record in pairs])


def _check_categories(where: str, record: ColumnRecord) -> None:
    if "categories" not in record:
        return
    record["categories"] = listed = [
        category.strip() if isinstance(category, str) else category for category in record["categories"]
    ]
    kind = record["kind"]
    if kind not in {name for name, entry in KINDS.items() if entry.closed}:
        raise FileFormatError(f'{where}: only a column of the kind "categorical" or "boolean" has categories')
    if not listed or "" in listed or len({str(category) for category in listed}) < len(listed):
        raise FileFormatError(f"{where}: expected different categories, at least one and none empty; found {listed}")
    if kind == "boolean" and len(listed) != 2:
        raise FileFormatError(f"{where}: expected two categories, that of false first; found {listed}")
