"""Data sets split into training, validation and test rows: the bundled digits, or a file of the user.

>>> import tempfile, pathlib
>>> import numpy as np
>>> path = pathlib.Path(tempfile.mkdtemp()) / "toy.npy"
>>> np.save(path, np.arange(100 * 4).reshape(100, 2, 2) % 3)
>>> data = from_path(path)
>>> data.shape, data.num_values, len(data.train), len(data.valid), len(data.test)
((1, 2, 2), 3, 72, 14, 14)
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.extras import require
from plica.files.encoding import Encoding
from plica.files.tables import (
    Array,
    Table,
    check_table,
    first_index,
    npz_keys,
    open_npz,
    read_member,
    read_table,
)
from plica.ir.dtypes import DType
from plica.paths import as_path
from plica.symbolic.domains import Domain, outside

ImageShape = tuple[int, int, int]

SPLITS = ("train", "valid", "test")
HELD_OUT = 0.14
"""The share of the rows of a file without splits, once for validation and once for test."""
_MOST_INFERRED_VALUES = 4096  # more distinct integers are likely counts or identifiers, which the user must confirm


@dataclass(frozen=True, slots=True, eq=False)
class Streamed:
    """Training rows that are too many to be held: streams that `plica.learn.fit` learns from.

    Attributes:
        train: All training rows.
        with_valid: These and the validation rows.
    """

    train: Any
    with_valid: Any


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Rows of one width in three parts.

    Attributes:
        name: The name in reports.
        train: (N, D), as are `valid` and `test`; integers or floats. If the training rows are streamed, a sample.
        shape: (channels, height, width) if the rows are images, else None.
        num_values: Values lie in 0 .. num_values - 1; None if they are not states.
        encoding: The encoding of a table of typed columns; rows have NaN where a cell is missing.
        streamed: The training rows, if they are not held.
    """

    name: str
    train: Array
    valid: Array
    test: Array
    shape: ImageShape | None
    num_values: int | None
    encoding: Encoding | None = None
    streamed: Streamed | None = None

    @property
    def num_train(self) -> int:
        """The number of training rows."""
        return len(self.train if self.streamed is None else self.streamed.train)

    @property
    def num_missing(self) -> Array:
        """`(D,)` the number of training rows in which each column is missing."""
        if self.streamed is not None:
            return self.num_train - np.asarray(self.streamed.train.known_cells())
        missing: Array = np.isnan(self.train).sum(axis=0)
        return missing

    @property
    def num_variables(self) -> int:
        """The width of a row."""
        return int(self.train.shape[1])


def digits(domain: Domain | None = None) -> Dataset:
    """scikit-learn's 1797 handwritten digits of 8x8 pixels with values 0 .. 16, split 1297 / 250 / 250.

    Args:
        domain: The domain of the values, by default 17 states; values become floats unless it is of whole numbers.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998 (its test part).
    """
    rows = np.asarray(require("sklearn.datasets").load_digits().data)
    rows = rows.astype(np.int64 if domain is None else domain.dtype(DType.FLOAT64).numpy)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    train, valid, test = np.split(rows, (1297, 1547))
    return Dataset("digits", train, valid, test, (1, 8, 8), 17 if domain is None else None)


def from_path(
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    key: str | None = None,
    image_shape: ImageShape | None = None,
    num_values: int | None = None,
    domain: Domain | None = None,
    delimiter: str | None = None,
) -> Dataset:
    """Read a file and split its rows at random 72 / 14 / 14, or as the file does.

    A `.npz` with arrays `train`, `valid` and `test` keeps its splits; if it also holds a number `num_variables`, its
    rows are bits packed by `numpy.packbits`.

    Args:
        path: `.npy`, `.npz` or `.csv`, see `tables`.
        seed: The seed of the random split.
        key: Which array of a `.npz` to read and split.
        image_shape: (channels, height, width), for images stored as flat rows.
        num_values: Number of values of each variable; by default one more than the largest.
        domain: The legal values; by default categories, as many as `num_values`.
        delimiter: The delimiter of a `.csv`; by default a comma, or the delimiter that its first lines suggest.

    Raises:
        FileFormatError: The file cannot be read.
        InputError: A value does not fit, or there are too few rows.
    """
    path = as_path(path)
    if path.suffix.lower() == ".parquet":
        raise FileFormatError(
            f"{path}: a .parquet file holds typed columns; say how to read them, for example --columns auto"
        )
    is_split = path.suffix.lower() == ".npz" and key is None and set(SPLITS) <= set(npz_keys(path))
    tables = _read_splits(path) if is_split else (read_table(path, key=key, delimiter=delimiter),)
    shape = image_shape_of(tables[0], image_shape)
    rows = [values_of(table, domain) for table in tables]
    num_values = None if domain is not None else check_range(tables, rows, num_values)
    flat = [part.reshape(len(part), -1) for part in rows]
    train, valid, test = flat if is_split else split_rows(flat[0], tables[0].source, seed)
    return Dataset(name_of(path), train, valid, test, shape, num_values)


def name_of(path: Path) -> str:
    """The name of a file for reports, with bytes that are no text replaced."""
    return path.stem.encode("utf-8", "backslashreplace").decode("utf-8")


def _read_splits(path: Path) -> tuple[Table, ...]:
    tables = tuple(read_table(path, key=key) for key in SPLITS)
    if "num_variables" in npz_keys(path):
        tables = tuple(_unpack_bits(table, path) for table in tables)
    for table in tables[1:]:
        if table.values.shape[1:] != tables[0].values.shape[1:]:
            raise InputError(
                f"{table.source}: rows of shape {table.values.shape[1:]}, expected {tables[0].values.shape[1:]} "
                f"as in {tables[0].source}"
            )
    return tables


def _unpack_bits(table: Table, path: Path) -> Table:
    with open_npz(path) as archive:
        stored = read_member(path, archive, "num_variables")
    if stored.ndim != 0 or stored.dtype.kind not in "iu":
        raise FileFormatError(
            f"{path}: num_variables must be one integer, found {stored.dtype} of shape {stored.shape}; leave it out if "
            "the rows are not packed bits"
        )
    width, values = int(stored), table.values
    if values.dtype != np.uint8 or values.ndim != 2 or not 0 < width <= 8 * values.shape[1]:
        raise FileFormatError(
            f"{table.source}: with num_variables = {width}, expected (N, {-(-width // 8)}) bytes of packed bits, "
            f"found {values.dtype} of shape {values.shape}; leave num_variables out if the rows are not packed"
        )
    unpacked = Table(np.unpackbits(values, axis=1)[:, :width], table.source)
    check_table(unpacked)
    return unpacked


def image_shape_of(table: Table, wanted: ImageShape | None) -> ImageShape | None:
    """(channels, height, width) of the rows of a table, if they are images.

    Raises:
        InputError: The shape that is wanted does not fit.
    """
    row = table.values.shape[1:]
    shape = None if len(row) == 1 else (1, *row) if len(row) == 2 else row
    if wanted is None or shape == wanted:
        return shape
    size = math.prod(wanted)
    if shape is not None:
        raise InputError(
            f"{table.source}: holds images of shape {shape} (C, H, W), not the image shape {wanted} asked for"
        )
    if size != row[0]:
        raise InputError(
            f"{table.source}: rows have {row[0]} values, but images of shape {wanted} (C, H, W) have {size}; "
            "choose an image shape (--image-shape) that fits"
        )
    return wanted


def values_of(table: Table, domain: Domain | None) -> Array:
    """The values of a table as numbers of a domain, or without one as categories.

    Raises:
        InputError: A value is none of them.
    """
    return _as_categories(table) if domain is None else _of_domain(table, domain)


def _of_domain(table: Table, domain: Domain) -> Array:
    wrong = outside(np, table.values.reshape(1, -1), [domain])
    bad = None if wrong is None else first_index(wrong.reshape(table.values.shape))
    if bad is not None:
        raise InputError(f"{table.where(bad)}: {table.values[bad]} is {domain.refusal}; {domain.advice}")
    return table.values.astype(domain.dtype(DType.FLOAT64).numpy)


def _as_categories(table: Table) -> Array:
    values = table.values
    if values.dtype.kind == "f":
        bad = first_index(values != np.floor(values))
        if bad is not None:
            raise InputError(
                f"{table.where(bad)}: {values[bad]} is not an integer, as categories must be; "
                "for real values use a density (--input gaussian)"
            )
        bad = first_index(np.abs(values.astype(np.float64)) >= 2.0**62)
    else:
        bad = first_index(values >= 2**62)
    if bad is not None:
        raise InputError(f"{table.where(bad)}: {values[bad]} is too large for a category")
    return values.astype(np.int64)


def check_range(tables: Sequence[Table], rows: Sequence[Array], num_values: int | None) -> int:
    """The number of categories: as said, or one more than the largest, and at least 2.

    Args:
        tables: The tables, for messages.
        rows: Their values.
        num_values: What is said of it.

    Raises:
        InputError: A value is negative or too large.
    """
    for table, values in zip(tables, rows, strict=True):
        bad = first_index(values < 0)
        if bad is not None:
            raise InputError(f"{table.where(bad)}: {values[bad]} is negative; categories are counted from 0")
        bad = None if num_values is None else first_index(values >= num_values)
        if bad is not None:
            raise InputError(
                f"{table.where(bad)}: {values[bad]} is out of range 0 .. {num_values} - 1; "
                "raise the number of values (--num-values)"
            )
    if num_values is not None:
        return num_values
    table, values = max(zip(tables, rows, strict=True), key=lambda pair: int(pair[1].max()))
    largest = int(values.max())
    if largest >= _MOST_INFERRED_VALUES:
        where = first_index(values == largest)
        assert where is not None, "the largest value lies in its own array"
        raise InputError(
            f"{table.where(where)}: {largest} would make {largest + 1} categories; state the number of values "
            "(--num-values) if that is meant, or use a density (--input gaussian)"
        )
    return max(largest + 1, 2)


def split_rows(rows: Array, source: str, seed: int, *, with_test: bool = True) -> tuple[Array, Array, Array]:
    """Rows split at random, 72 / 14 / 14, or 86 / 14 without test rows.

    Raises:
        InputError: There are too few rows.
    """
    held_out = max(1, round(HELD_OUT * len(rows)))
    least = 3 if with_test else 2
    if len(rows) < least:
        each = "one each to train on, to choose a model by and to test" if with_test else "to train on and to choose by"
        raise InputError(f"{source}: {len(rows)} row(s), expected at least {least}: {each}")
    shuffled = rows[np.random.default_rng(seed).permutation(len(rows))]
    tested = held_out if with_test else 0
    train, valid, test = np.split(shuffled, (len(rows) - held_out - tested, len(rows) - tested))
    return train, valid, test
