"""Data sets of more rows than are held: training rows stay where they lie, and other rows are a bounded sample.

A hash of its place says whether a row is for test, for validation or for training (`plica.data.number_rows`). Test and
validation rows are held, and so is a sample of the training rows, by which recipe and structure are chosen.

| held | rows |
|---|---|
| all, of tables of typed columns up to 2^23 cells (64 MiB) or 10,000 rows | all |
| all, of arrays of numbers up to 2^26 of them or 10,000 rows | all |
| test rows, validation rows | 14 percent each, at most 2^20 cells and 50,000 rows, about |
| a sample of the training rows | at most 2^21 cells and 100,000 rows, about |
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

import numpy as np

from plica.data import NumberRows, Rows, numbers
from plica.data.memory import give_back
from plica.data.number_rows import Contents, Part, uniform
from plica.data.rows import rows_at_once
from plica.files.datasets import (
    HELD_OUT,
    Dataset,
    ImageShape,
    Streamed,
    check_range,
    image_shape_of,
    name_of,
    values_of,
)
from plica.files.rows.batch import Array
from plica.files.tables import Member, Table, check_table, map_npy
from plica.ir.dtypes import DType
from plica.symbolic.domains import Domain

_MOST_HELD_CELLS, _MOST_HELD_ROWS = 1 << 23, 10_000
_MOST_HELD_NUMBERS = 1 << 26  # in the type of the file, and in that of the values
_HELD_OUT_CELLS, _HELD_OUT_ROWS = 1 << 20, 50_000
_SAMPLE_CELLS, _SAMPLE_ROWS = 1 << 21, 100_000
_LEAST_ROWS = 100  # of a part, of rows of many cells


def is_large(num_rows: int, width: int) -> bool:
    """Whether rows are too many to be held."""
    return num_rows > _MOST_HELD_ROWS and num_rows * width > _MOST_HELD_CELLS


def large_array(
    path: Path,
    *,
    seed: int,
    key: str | None,
    image_shape: ImageShape | None,
    num_values: int | None,
    domain: Domain | None,
) -> Dataset | None:
    """The data set of a large `.npy` or array of a `.npz`, as `plica.files.datasets.from_path` makes it of others.

    Args:
        path: The file.
        seed: The seed of the split.
        key: Which array of a `.npz`.
        image_shape: (channels, height, width), for images stored as flat rows.
        num_values: Number of values of each variable; by default one more than the largest.
        domain: The legal values; by default categories, as many as `num_values`.

    Returns:
        None if the array is not large.

    Raises:
        FileFormatError: The file cannot be read.
        InputError: A value does not fit.
    """
    array = Member(path, key) if path.suffix.lower() == ".npz" else map_npy(path)
    source = f"{path}[{array.key}]" if isinstance(array, Member) else str(path)
    try:
        num_rows, width = (array.shape[0], int(np.prod(array.shape[1:]))) if len(array.shape) > 1 else (0, 0)
        if num_rows <= _MOST_HELD_ROWS or num_rows * width <= _MOST_HELD_NUMBERS:
            return None
        found, step = 0, rows_at_once(width)
        for start in range(0, num_rows, step):
            part = Table(np.asarray(array[start : start + step]), source, first_row=start)
            check_table(part)
            values = values_of(part, domain)
            if domain is None:
                found = max(found, check_range((part,), (values,), num_values))
        shape = image_shape_of(part, image_shape)
    finally:
        if isinstance(array, Member):
            array.close()
    rows = NumberRows(Rows(path, key=key))
    *held, streamed = streamed_split(rows, num_rows, seed, with_test=True)
    stored = np.dtype(np.int64) if domain is None else domain.dtype(DType.FLOAT64).numpy
    train, valid, test = (values.astype(stored) for values in held)
    return Dataset(name_of(path), train, valid, test, shape, found if domain is None else None, None, streamed)


def streamed_split(
    rows: NumberRows, num_rows: int, seed: int, *, with_test: bool
) -> tuple[Array, Array, Array, Streamed]:
    """A sample of the training rows, the validation and test rows, and all training rows as streams, by one pass.

    Args:
        rows: The rows.
        num_rows: Their number.
        seed: The seed of the split.
        with_test: Whether there are test rows.

    Raises:
        PlicaError: See `plica.data.numbers`.
    """
    held_out = min(HELD_OUT, _rows(_HELD_OUT_ROWS, _HELD_OUT_CELLS, rows.width) / num_rows)
    first_valid = held_out if with_test else 0.0
    first_train = first_valid + held_out
    end = min(1.0, first_train + _rows(_SAMPLE_ROWS, _SAMPLE_CELLS, rows.width) / num_rows)
    starts = np.asarray([0.0, first_valid, first_train, end])  # of test, validation, sampled and other rows
    held: list[list[Array]] = [[], [], []]
    counts, known, digest = np.zeros(4, np.int64), np.zeros((4, rows.width), np.int64), hashlib.sha256()
    with closing(numbers(rows.encoding, rows.rows, size=rows_at_once(rows.width))) as batches:
        for batch in batches:
            part_of = np.searchsorted(starts, uniform(batch, seed), side="right") - 1
            values = np.ascontiguousarray(batch.numbers)
            digest.update(values.data)
            is_known = ~np.isnan(values)
            for part in range(len(starts)):
                chosen = np.flatnonzero(part_of == part)
                counts[part] += len(chosen)
                known[part] += is_known[chosen].sum(axis=0)
                if part < len(held):
                    held[part].append(values[chosen])
    test, valid, sample = (np.concatenate(arrays) for arrays in held)
    held.clear()
    give_back()
    for values in (test, valid, sample):
        np.random.default_rng(seed).shuffle(values)

    def stream(first: int) -> NumberRows:
        contents = Contents(int(counts[first:].sum()), known[first:].sum(axis=0), digest.hexdigest()[:16])
        return rows.part(Part(seed, float(starts[first]), 1.0), contents)

    return sample, valid, test, Streamed(stream(2), stream(1))


def _rows(most: int, most_cells: int, width: int) -> int:
    """How many rows are held of a part."""
    return min(most, max(_LEAST_ROWS, most_cells // width))
