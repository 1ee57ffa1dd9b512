"""Reading folds: which equations are made, and that they give the folds that were asked for."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.frontend.programs import interpret
from plica.graph.fold import FoldIndex
from plica.ir.program import Program
from plica.ir.types import spec
from plica.lower.fold.read import MAX_RUNS, FoldRun, read_folds, runs
from plica.tracing import namespace as xp
from plica.tracing.trace import trace
from tests.harness.programs import run_torch, to_torch

ARRAYS = [np.arange(folds * 2.0).reshape(folds, 2) + 100 * number for number, folds in enumerate((6, 3, 40))]
SCATTERED = [(2, fold) for fold in range(39, -1, -1)]


def program_of(places: list[FoldIndex]) -> Program:
    return trace(
        lambda *arrays: read_folds(arrays, places, lambda index: xp.stack([xp.full((), int(one)) for one in index])),
        *[spec(array.shape, "float64") for array in ARRAYS],
    )


def expected(places: list[FoldIndex]) -> np.ndarray:
    return np.stack([ARRAYS[array][fold] for array, fold in places])


# name: places (array, fold), and the operations that read them
READS = {
    "all of one": ([(1, 0), (1, 1), (1, 2)], {}),
    "one": ([(0, 4)], {"slice": 1}),
    "neighbours": ([(0, 1), (0, 2), (0, 3)], {"slice": 1}),
    "every second": ([(0, 1), (0, 3), (0, 5)], {"slice": 1}),
    "one repeated": ([(0, 2)] * 4, {"slice": 1, "broadcast_to": 1}),
    "two repeated": ([(0, 2)] * 3 + [(1, 0)] * 2, {"slice": 2, "broadcast_to": 2, "concat": 1}),
    "several arrays": ([(0, 4), (0, 5), (1, 0), (1, 1), (1, 2)], {"slice": 1, "concat": 1}),
    "one array whole, twice": ([(1, 0), (1, 1), (1, 2)] * 2, {"concat": 1}),
    "downwards": ([(1, 2), (1, 1), (1, 0)], {"slice": 3, "concat": 1}),
    "scattered": (SCATTERED, {"take": 1}),
    "scattered over two": ([*SCATTERED, (0, 3)], {"concat": 1, "take": 1}),
    "as many runs as are joined": (SCATTERED[:MAX_RUNS], {"slice": MAX_RUNS, "concat": 1}),
    "one run more": (SCATTERED[: MAX_RUNS + 1], {"take": 1}),
}


@pytest.mark.parametrize("name", READS)
def test_what_reads_folds(name: str) -> None:
    places, operations = READS[name]
    program = program_of(places)
    made = Counter(equation.op.name for equation in program.equations)
    indices = len(places) if operations.get("take") else 0  # made as scalars here, captured in circuits
    assert made == Counter({**operations, **({"full": indices, "stack": 1} if indices else {})}) or (
        indices and {name: made[name] for name in operations} == operations
    )
    (found,) = interpret(program, *ARRAYS)
    np.testing.assert_array_equal(found, expected(places))


@given(
    st.lists(st.one_of(*[st.tuples(st.just(n), st.integers(0, len(a) - 1)) for n, a in enumerate(ARRAYS)]), min_size=1)
)
def test_any_places(places: list[FoldIndex]) -> None:
    program = program_of(places)
    (found,) = interpret(program, *ARRAYS)
    np.testing.assert_array_equal(found, expected(places))
    (tensor,) = run_torch(program, *map(to_torch, ARRAYS))
    np.testing.assert_array_equal(tensor, expected(places))
    read = [(run.array, run.start + run.step * place) for run in runs(places) for place in range(run.count)]
    assert read == places


def test_views_share_memory_in_torch() -> None:
    """A slice, strided or not, and a broadcast copy nothing."""
    for name in ("neighbours", "every second", "one repeated", "all of one"):
        tensors = list(map(to_torch, ARRAYS))
        (found,) = run_torch(program_of(READS[name][0]), *tensors)
        storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
        assert found.untyped_storage().data_ptr() in storages, name


def test_runs_are_the_longest_from_the_front() -> None:
    places = [(0, 0), (0, 2), (0, 4), (0, 5), (0, 6), (0, 6), (0, 6), (1, 7), (0, 0)]
    assert list(runs(places)) == [
        FoldRun(0, 0, 2, 3),
        FoldRun(0, 5, 1, 2),
        FoldRun(0, 6, 0, 2),
        FoldRun(1, 7, 1, 1),
        FoldRun(0, 0, 1, 1),
    ]
