"""Tables that ship in packages, as columns of numbers and codes of categories. A further table is one row of `SETS`.

>>> table = SETS["iris"].load()
>>> table.values.shape, table.columns[-1]
((150, 5), Column(name='target', categories=('setosa', 'versicolor', 'virginica')))
"""

from __future__ import annotations

import csv
import io
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.extras import LIBRARIES, require

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: of numbers, or of categories.

    Attributes:
        name: Its name.
        categories: The texts of its categories, whose values are their places; empty for numbers.
    """

    name: str
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class MixedTable:
    """Rows of numbers and categories.

    Attributes:
        columns: The columns in order.
        values: `(N, D)`: numbers, and places of categories; NaN is missing.
        of_all: The table of which this one hides cells: it says which columns are whole numbers. None for itself.
    """

    columns: tuple[Column, ...]
    values: Array
    of_all: MixedTable | None = None

    def __post_init__(self) -> None:
        assert self.values.shape[1:] == (len(self.columns),), "a value for each column"

    def is_whole(self, position: int) -> bool:
        """Whether the values of a column are whole numbers, where they are known."""
        column = (self.of_all or self).values[:, position]
        known = column[~np.isnan(column)]
        return bool((known == np.floor(known)).all())

    def replaced(self, values: Array) -> MixedTable:
        """The table with other values, such as some that are hidden; its columns stay what they were."""
        return MixedTable(self.columns, values, self.of_all or self)


@dataclass(frozen=True, slots=True)
class TableSet:
    """A table of a package.

    Attributes:
        package: The module of the package that ships the table.
        load: Reads it.
        target: The column of categories that classifiers predict; empty if it has none.
    """

    package: str
    load: Callable[[], MixedTable]
    target: str = ""

    @property
    def is_there(self) -> bool:
        """Whether its package is installed."""
        return find_spec(self.package) is not None


def table_of(cells: Mapping[str, Sequence[Any]], categories: Iterable[str] = ()) -> MixedTable:
    """A table of columns of numbers or texts.

    Args:
        cells: The cells of each column; None or an empty text is missing.
        categories: Columns of categories beside those that hold texts.
    """
    columns, values, coded = [], [], set(categories)
    for name, column in cells.items():
        texts = ["" if cell is None else str(cell) for cell in column]
        numbers = [_number(text) for text in texts]
        if name in coded or any(number is None for number in numbers):
            known = tuple(sorted({text for text in texts if text}))
            place = {text: float(position) for position, text in enumerate(known)}
            columns.append(Column(name, known))
            values.append([place.get(text, np.nan) for text in texts])
        else:
            columns.append(Column(name))
            values.append([np.nan if number is None else number for number in numbers])
    return MixedTable(tuple(columns), np.array(values, dtype=np.float64).T)


def _number(text: str) -> float | None:
    try:
        return float(text) if text else np.nan
    except ValueError:
        return None


def _of_sklearn(name: str, target_is_category: bool = True, **arguments: Any) -> MixedTable:
    bunch = getattr(require("sklearn.datasets"), name)(**arguments)
    cells: dict[str, Any] = dict(zip(map(str, bunch.feature_names), bunch.data.T, strict=True))
    if target_is_category:
        cells["target"] = np.array(bunch.target_names)[bunch.target]
        return table_of(cells)
    return table_of({**cells, "target": bunch.target}, ("sex",))


def _folder(package: str) -> Path:
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        require(package)  # raises, and says what to install
        raise AssertionError(f"{package} has no folder")
    return Path(spec.origin).parent


def _of_pydataset(
    member: str, categories: Sequence[str] = (), without: Sequence[str] = (), most_rows: int | None = None
) -> MixedTable:
    """A table of the archive of `pydataset`, which is not imported: its import writes into the home folder."""
    with tarfile.open(_folder("pydataset") / "resources.tar.gz") as archive:
        file = archive.extractfile(f"resources/rdata/csv/{member}.csv")
        assert file is not None, "the archive has the file"
        text = file.read().decode("utf-8")
    return _of_csv(text, categories, ("", *without), most_rows)


def _of_statsmodels(name: str, categories: Sequence[str] = (), without: Sequence[str] = ()) -> MixedTable:
    """A table of `statsmodels`, which is not imported: it needs pandas."""
    text = (_folder("statsmodels") / "datasets" / name / f"{name}.csv").read_text("utf-8")
    return _of_csv(text, categories, without, None)


def _of_csv(text: str, categories: Sequence[str], without: Sequence[str], most_rows: int | None) -> MixedTable:
    """A table of the text of a `.csv`, without some columns; a fixed draw of rows if it has too many."""
    head = text.split("\n", 1)[0]
    names, *rows = csv.reader(io.StringIO(text), delimiter="\t" if "\t" in head else ",")
    if most_rows is not None and len(rows) > most_rows:
        chosen = np.random.default_rng(0).choice(len(rows), most_rows, replace=False)
        rows = [rows[row] for row in np.sort(chosen)]
    columns = zip(*([cell if cell != "NA" else "" for cell in row] for row in rows if row), strict=True)
    cells = {name.strip(" '"): cells for name, cells in zip(names, columns, strict=True)}
    return table_of({name: column for name, column in cells.items() if name not in without}, categories)


_SKLEARN, _PYDATASET, _STATSMODELS = "sklearn", "pydataset", "statsmodels"

SETS: Mapping[str, TableSet] = {
    "cancer": TableSet(_SKLEARN, partial(_of_sklearn, "load_breast_cancer"), "target"),
    "wine": TableSet(_SKLEARN, partial(_of_sklearn, "load_wine"), "target"),
    "iris": TableSet(_SKLEARN, partial(_of_sklearn, "load_iris"), "target"),
    "diabetes": TableSet(_SKLEARN, partial(_of_sklearn, "load_diabetes", False, scaled=False)),
    "Salaries": TableSet(_PYDATASET, partial(_of_pydataset, "car/Salaries"), "rank"),
    "Boston": TableSet(_PYDATASET, partial(_of_pydataset, "MASS/Boston", ("chas",))),
    "birthwt": TableSet(
        _PYDATASET, partial(_of_pydataset, "MASS/birthwt", ("low", "race", "smoke", "ht", "ui")), "low"
    ),
    "Housing": TableSet(_PYDATASET, partial(_of_pydataset, "Ecdat/Housing"), "airco"),
    "mpg": TableSet(_PYDATASET, partial(_of_pydataset, "ggplot2/mpg", ("year",), ("model",)), "class"),
    "Mroz": TableSet(_PYDATASET, partial(_of_pydataset, "Ecdat/Mroz"), "work"),
    "crabs": TableSet(_PYDATASET, partial(_of_pydataset, "MASS/crabs", (), ("index",)), "sp"),
    "diamonds": TableSet(_PYDATASET, partial(_of_pydataset, "ggplot2/diamonds", most_rows=1500), "cut"),
    "anes96": TableSet(_STATSMODELS, partial(_of_statsmodels, "anes96", ("vote",)), "vote"),
}
assert {table.package for table in SETS.values()} <= LIBRARIES.keys(), "missing packages have an extra"
