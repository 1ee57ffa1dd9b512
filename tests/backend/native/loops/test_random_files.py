"""Random functions in files: loops, branches and arrays that loops carry give what the interpreter gives."""

from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.backend.native.mlir.test_random_programs import SIZES, traced
from tests.harness.carried_arrays import carried_function
from tests.harness.libraries import LibraryPrograms
from tests.harness.native import assert_interpreted
from tests.harness.random_functions import functions


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(st.lists(functions(floats=(("float64",),)), min_size=8, max_size=8))
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_many_random_functions(found) -> None:
    modules = LibraryPrograms({f"f{place}": traced(one) for place, one in enumerate(found)})
    for place, function in enumerate(found):
        for sizes in SIZES:
            # dozens of operations in another order, with ranges of up to 30
            assert_interpreted(modules, f"f{place}", function.draw(sizes, seed=1), scale=1e4)


def _check_carried(seeds: Sequence[int]) -> None:
    made = {f"f{seed}": carried_function(np.random.default_rng(seed)) for seed in seeds}
    modules = LibraryPrograms({name: one.traced() for name, one in made.items()})
    for name, one in made.items():
        for sizes in ({"n": 0, "m": 2, "k": 0}, {"n": 1, "m": 0, "k": 4}, {"n": 12, "m": 9, "k": 6}):
            assert_interpreted(modules, name, one.arguments(sizes))


def test_arrays_that_are_handed_on() -> None:
    _check_carried((30, 36, 177))


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 1100, 10))
def test_many_arrays_that_are_handed_on(start: int) -> None:
    _check_carried(range(start, start + 10))
