"""The columns of a table as its cells suggest, or as a file says.

>>> cells = np.array([["cat", "4", "1.5"], ["bird", "2", None], ["cat", "4", "-2"]], dtype=object)
>>> for column in infer_columns(("pet", "legs", "weight"), cells):
...     print(column)
TableColumn(name='pet', kind='categorical', categories=('bird', 'cat'), input='')
TableColumn(name='legs', kind='categorical', categories=(2, 4), input='')
TableColumn(name='weight', kind='real', categories=(), input='')
"""

import json
import reprlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.files.columns import (
    LARGEST,
    Category,
    KindName,
    TableColumn,
    category_of,
    is_code,
    is_missing,
    number_of,
    whole_of,
)
from plica.files.rows.batch import Array
from plica.files.schema import check, without_repeats
from plica.files.tables import one_line
from plica.paths import check_is_file

MOST_CODES = 20  # whole numbers of a column that are taken for categories; of more, for counts or reals
MOST_CATEGORIES = 1000  # of text: beyond it, texts are likely names or remarks


class ColumnRecord(TypedDict):
    """What a file says of a column, and what a model file keeps."""

    kind: Literal["auto", "categorical", "count", "real", "ignored"]
    categories: NotRequired[list[str | int | bool]]
    input: NotRequired[str]


def infer_columns(
    names: Sequence[str],
    cells: Array,
    *,
    said: Mapping[str, ColumnRecord] | None = None,
    words: Collection[str] = (),
    source: str = "table",
) -> tuple[TableColumn, ...]:
    """The columns of a table of N rows.

    Text and truth values are categories; whole numbers are categories where they are at most `MOST_CODES`, else counts
    if none is negative; other numbers are real. Where a column has both, its numbers are text.

    Args:
        names: Of the D columns.
        cells: (N, D).
        said: What is known of some columns, by name.
        words: Text that means that a cell is missing.
        source: What messages call the table.

    Raises:
        InputError: A column has no cell, too many categories, or what is said of it does not fit.
    """
    said = said or {}
    unknown = [name for name in said if name not in names]
    if unknown:
        raise InputError(f"{source}: there is no column {unknown[0]!r}; its columns are {', '.join(names)}")
    return tuple(
        _column(f"{source}, column {name!r}", name, cells[:, place], said.get(name, {"kind": "auto"}), words)
        for place, name in enumerate(names)
    )


def _column(where: str, name: str, cells: Array, said: ColumnRecord, words: Collection[str]) -> TableColumn:
    if said["kind"] == "ignored":
        return TableColumn(name, "ignored", (), said.get("input", ""))
    present = list(cells[~is_missing(cells, words)])
    wholes = [whole_of(one) for one in present]
    if any(is_code(one) for one in present):
        wholes = [None] * len(present)
    kind = _kind(where, present, wholes) if said["kind"] == "auto" else said["kind"]
    categories: tuple[Category, ...] = ()
    if kind == "categorical":
        categories = tuple(said.get("categories", ())) or _categories(where, present, wholes)
    return TableColumn(name, kind, categories, said.get("input", ""))


def _kind(where: str, present: list[Any], wholes: list[int | None]) -> KindName:
    if not present:
        raise InputError(f'{where}: every cell is missing; leave the column out: {{"kind": "ignored"}}')
    known = set(wholes) - {None}
    if None not in wholes and known:
        if len(known) <= MOST_CODES:
            return "categorical"
        return "count" if all(one is not None and 0 <= one < LARGEST for one in known) else "real"
    texts = [one for one in present if isinstance(one, bool | np.bool_) or is_code(one) or number_of(one) is None]
    if not texts:
        return "real"
    _check_one_kind(where, present, texts)
    return "categorical"


def _check_one_kind(where: str, present: list[Any], texts: list[Any]) -> None:
    """Raise where most cells are numbers, of which there are many: the texts among them likely say what is missing."""
    numbers = {number_of(one) for one in present} - {None}
    if len(numbers) > MOST_CODES and 2 * len(texts) < len(present) and not any(map(is_code, texts)):
        shown = reprlib.repr(str(texts[0]))
        raise InputError(
            f"{where}: most cells are numbers and {len(texts)} of {len(present)} are not, such as {shown}; if that "
            f"means that the value is missing, say so with --missing {shown}; else correct the "
            'cells, or say {"kind": "categorical"} in the file of --columns'
        )


def _categories(where: str, present: list[Any], wholes: list[int | None]) -> tuple[Category, ...]:
    known: set[Category] = {one for one in wholes if one is not None}
    found = {category_of(one) for one in present} if None in wholes else known
    if any(isinstance(one, str) for one in found):
        found = {str(one) for one in found}
    if not found:
        raise InputError(f"{where}: every cell is missing, so that there are no categories; list them")
    if len(found) > MOST_CATEGORIES:
        raise InputError(
            f"{where}: {len(found)} different texts, more than {MOST_CATEGORIES}, are likely names or remarks; say "
            '{"kind": "ignored"} in the file of --columns, or list its categories'
        )
    return tuple(sorted(found, key=lambda one: (isinstance(one, str), one)))


def read_columns(path: Path) -> dict[str, ColumnRecord]:
    """What a JSON file says of columns: `{"age": "real", "pet": {"kind": "categorical", "categories": ["cat"]}}`.

    Raises:
        FileFormatError: It is missing, or says something else.
    """
    check_is_file(path)
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_records)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: no JSON ({one_line(error)})") from error
    check(found, dict[str, Any], str(path))
    records: dict[str, Any] = {name: {"kind": said} if isinstance(said, str) else said for name, said in found.items()}
    for name, said in records.items():
        check(said, ColumnRecord, f"{path}: column {name!r}")
        _check_categories(f"{path}: column {name!r}", said)
    return records


def _records(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What JSON says by name, each once, whatever spaces are around it."""
    return without_repeats([(name.strip(), said) for name, said in pairs])


def _check_categories(where: str, said: ColumnRecord) -> None:
    if "categories" not in said:
        return
    said["categories"] = listed = [one.strip() if isinstance(one, str) else one for one in said["categories"]]
    if said["kind"] != "categorical":
        raise FileFormatError(f'{where}: only a column of the kind "categorical" has categories')
    if not listed or "" in listed or len({str(one) for one in listed}) < len(listed):
        raise FileFormatError(f"{where}: expected different categories, at least one and none empty; found {listed}")
