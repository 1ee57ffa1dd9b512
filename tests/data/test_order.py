"""Buffers in which rows are shuffled: their order, the groups that they know, and their memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from plica.data.batch import Group, NumberBatch
from plica.data.order import shuffled

BUFFER = 3 << 23


def of_groups(number: int, rows: int, width: int = 1) -> Iterator[NumberBatch]:
    """For each of some groups its rows, whose cells are their numbers."""
    for at in range(number):
        group = Group(0, at, at * rows, rows, str)
        numbers = np.arange(at * rows, (at + 1) * rows)
        cells = np.repeat(numbers[:, None].astype(np.float64), width, axis=1)
        yield NumberBatch((group,), np.zeros(rows, np.int32), numbers, cells)


def test_a_buffer_gives_every_row_once_and_each_with_its_group() -> None:
    order = []
    for batch in shuffled(of_groups(40, 10_000), np.random.default_rng(0), 1000):
        assert len(batch) <= 1000
        np.testing.assert_array_equal(batch.numbers[:, 0], batch.rows)
        groups = np.asarray([group.number for group in batch.groups])[batch.group_of]
        np.testing.assert_array_equal(groups, batch.rows // 10_000)
        order += batch.rows.tolist()
    assert sorted(order) == list(range(400_000)) != order


def test_a_buffer_forgets_groups_all_of_whose_rows_it_gave() -> None:
    known = [len(batch.groups) for batch in shuffled(of_groups(400, 4096), np.random.default_rng(0), 1000)]
    assert max(known) < 200  # of 400


@pytest.mark.parametrize("batches", [15, 60])
def test_a_buffer_is_in_memory_twice_at_most(batches: int) -> None:
    tracemalloc.start()
    try:
        for _ in shuffled(of_groups(batches, 8192, 100), np.random.default_rng(0), 1000):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    batch = 8192 * 100 * 8
    assert peak < 2 * (BUFFER + batch) + 2 * batch  # a batch fills it; the next one is made while it is there
