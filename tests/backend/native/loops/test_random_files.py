"""Random Programs and functions in files and in the interpreter, at sizes of which one is zero."""

from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.ir.program import Program
from tests.harness.carried_arrays import carried_function
from tests.harness.libraries import LibraryPrograms, assert_interpreted
from tests.harness.random_functions import Function, functions
from tests.harness.random_programs import arguments, programs

SIZES = ({"n": 0, "m": 2}, {"n": 1, "m": 1}, {"n": 5, "m": 3})


def _check(found: list[Program]) -> None:
    modules = LibraryPrograms({f"f{place}": program for place, program in enumerate(found)})
    for name, program in modules.programs.items():
        for sizes in SIZES:
            assert_interpreted(modules, name, arguments(program, sizes))


# Several Programs for each example: a file takes a tenth of a second whatever is in it. The first is the simplest.
@settings(max_examples=2, derandomize=True, database=None, deadline=None)
@given(st.lists(programs(), min_size=5, max_size=5))
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_native_is_the_interpreter(found) -> None:
    _check(found)


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(st.lists(programs(), min_size=5, max_size=5))
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_many_random_programs(found) -> None:
    _check(found)


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(st.lists(functions(floats=(("float64",),)), min_size=8, max_size=8))
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_many_random_functions(found) -> None:
    """Loops, branches, scans and calls among them."""
    modules = LibraryPrograms({f"f{place}": traced(one) for place, one in enumerate(found)})
    for place, function in enumerate(found):
        for sizes in SIZES:
            # dozens of operations in another order, with ranges of up to 30
            assert_interpreted(modules, f"f{place}", function.draw(sizes, seed=1), scale=1e4)


def traced(function: Function) -> Program:
    kinds = {"int64": int, "float64": float, "bool": bool}
    specs = [kinds[one.dtype] if one.shape is None else plica.spec(one.shape, one.dtype) for one in function.arguments]
    return plica.trace(function.load({"plica": plica, "pnp": pnp, "jit": plica.jit}), *specs)


def _check_carried(seeds: Sequence[int]) -> None:
    made = {f"f{seed}": carried_function(np.random.default_rng(seed)) for seed in seeds}
    modules = LibraryPrograms({name: one.traced() for name, one in made.items()})
    for name, one in made.items():
        for sizes in ({"n": 0, "m": 2, "k": 0}, {"n": 1, "m": 0, "k": 4}, {"n": 12, "m": 9, "k": 6}):
            assert_interpreted(modules, name, one.arguments(sizes))


def test_arrays_that_are_handed_on() -> None:
    _check_carried((30, 32, 36, 121, 177, 181))


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 1100, 10))
def test_many_arrays_that_are_handed_on(start: int) -> None:
    _check_carried(range(start, start + 10))
