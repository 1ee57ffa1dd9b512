"""Random Programs in native code and in the interpreter, at sizes of which one is zero."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from plica.ir.program import Program
from tests.harness.native import NativePrograms, assert_interpreted
from tests.harness.random_programs import arguments, programs

SIZES = ({"n": 0, "m": 2}, {"n": 1, "m": 1}, {"n": 5, "m": 3})


def _check(found: list[Program]) -> None:
    modules = NativePrograms({f"f{place}": program for place, program in enumerate(found)})
    for name, program in modules.programs.items():
        for sizes in SIZES:
            assert_interpreted(modules, name, arguments(program, sizes))


# Several Programs for each example: a module takes half a second whatever is in it.
@settings(max_examples=1, derandomize=True, database=None, deadline=None)
@given(st.lists(programs(), min_size=8, max_size=8))
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_native_is_the_interpreter(found) -> None:
    _check(found)


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(st.lists(programs(), min_size=8, max_size=8))
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_many_random_programs(found) -> None:
    _check(found)
