"""Rows of numbers that are read anew for each pass: their order, their parts, and what a pass says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from plica.data import NumberRows, Rows
from plica.data.number_rows import Part
from plica.errors import InputError
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn


def numbers_of(rows: NumberRows, **options: Any) -> list[int]:
    return [int(number) for batch in rows.batches(**options) for number in batch[:, 0]]


def of_folder(folder: Path) -> NumberRows:
    return NumberRows(Rows(folder), Encoding((TableColumn("row", "real"), TableColumn("weight", "real"))))


def test_each_pass_has_every_row_once(folder: Path, table: Any) -> None:
    rows = of_folder(folder)
    assert (len(rows), rows.width, numbers_of(rows)) == (1000, 2, list(range(1000)))
    assert [len(batch) for batch in rows.batches(300)] == [300, 300, 300, 100]
    first, again, other = (numbers_of(rows, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == sorted(other) == list(range(1000))
    (values,) = rows.batches(1000, dtype=np.float32)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values[:, 1], table["weight"].to_numpy().astype(np.float32))


def test_parts_are_disjoint_and_of_about_their_size(folder: Path) -> None:
    rows = of_folder(folder)
    held_out, others = rows.split(0.2, seed=3)
    assert sorted(numbers_of(held_out) + numbers_of(others)) == list(range(1000))
    assert 150 < len(held_out) < 250
    assert sorted(numbers_of(held_out, seed=5)) == numbers_of(held_out)
    assert numbers_of(rows.split(0.2, seed=4)[0]) != numbers_of(held_out)
    # A part of a part by another seed is a share of it, and neither all nor nothing.
    inner, outer = held_out.split(0.5, seed=4)
    assert sorted(numbers_of(inner) + numbers_of(outer)) == numbers_of(held_out)
    assert 60 < len(inner) < 140
    # Rows keep their part when their files lie elsewhere or are read in other batches.
    before = numbers_of(held_out)
    moved = of_folder(folder.rename(folder.parent / "moved"))
    assert numbers_of(moved.split(0.2, seed=3)[0], size=7) == before


@pytest.mark.parametrize("seed", [None, 5])
def test_a_part_without_rows_has_no_batch(seed: int | None) -> None:
    """The source has rows, so that nothing is wrong with it."""
    rows = NumberRows(Rows(pa.table({"row": [0, 1]})))
    empty, others = rows.split(0.0, seed=0)
    assert (len(empty), list(empty.batches(seed=seed)), list(empty.batches(3, seed=seed))) == (0, [], [])
    assert sorted(numbers_of(others, seed=seed)) == [0, 1]


def test_a_pass_says_how_many_cells_are_known(folder: Path, table: Any) -> None:
    rows = of_folder(folder)
    assert rows.known_cells().tolist() == [1000, 1000 - table["weight"].null_count]
    part = rows.part(Part(0, 0.5, 1.0))
    values = np.concatenate(list(part.batches()))
    assert len(part) == len(values)
    np.testing.assert_array_equal(part.known_cells(), (~np.isnan(values)).sum(axis=0))


def test_descriptions_tell_rows_and_parts_apart(folder: Path, table: Any) -> None:
    rows = of_folder(folder)
    assert rows.description() == of_folder(folder).description()
    held_out, others = rows.split(0.2, seed=3)
    changed = table.set_column(1, "weight", pa.array(np.zeros(1000)))
    encoding = rows.encoding
    descriptions = {
        description.description()
        for description in (rows, held_out, others, rows.split(0.2, seed=4)[0], NumberRows(Rows(changed), encoding))
    }
    assert len(descriptions) == 5


def test_columns_must_be_there_and_numbers(folder: Path) -> None:
    with pytest.raises(InputError, match="expects a column 'age'"):
        NumberRows(Rows(folder), Encoding((TableColumn("age", "real"),)))
    with pytest.raises(InputError, match=r"column 'pet': .*(cat|dog)"):
        next(NumberRows(Rows(folder)).batches())
