"""Random functions and Programs, compiled once: machine code gives what the interpreter gives, at three sizes each."""

from collections.abc import Mapping, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings

from plica.backend.native.loops import most_work
from plica.backend.native.loops.calls import compile_jit
from plica.ir.interpret import interpret_program
from plica.ir.program import Program
from plica.ops import OPS
from tests.harness.function_runs import TOLERANCE, assert_same, attempt, compiled
from tests.harness.random_functions import Function, functions
from tests.harness.random_programs import SIZES as PROGRAM_SIZES
from tests.harness.random_programs import arguments, programs
from tests.tracing.test_random_functions import SEEDS, SIZES

_ZERO = ({"n": 0, "m": 2}, {"n": 3, "m": 1})


def _functions_agree(function: Function, drawn: Sequence[Mapping[str, int]], seed: int) -> None:
    run, interpreter = compiled(function, "native"), compiled(function, "interpreter")
    tolerance = max(TOLERANCE[dtype] for dtype in function.floats)
    for sizes in drawn:
        given_ = function.draw(sizes, seed)
        copies = [one.copy() if isinstance(one, np.ndarray) else one for one in given_]
        expected = attempt(f"the interpreter at {sizes}", interpreter, given_)
        assert_same(attempt(f"native code at {sizes}", run, given_), expected, tolerance, f"native code at {sizes}")
        for one, before in zip(given_, copies, strict=True):
            np.testing.assert_array_equal(one, before, err_msg=f"an argument changed at {sizes}")
    assert run.num_compilations == 1


@settings(max_examples=8, deadline=None)
@given(functions(), SIZES, SEEDS)
def test_random_functions_give_what_the_interpreter_gives(function, drawn, seed):
    _functions_agree(function, drawn, seed)


@pytest.mark.full
@settings(max_examples=500, deadline=None)
@given(functions(), SIZES, SEEDS)
def test_many_random_functions_give_what_the_interpreter_gives(function, drawn, seed):
    _functions_agree(function, drawn, seed)


@settings(max_examples=3, deadline=None)
@given(functions(), SIZES, SEEDS)
def test_random_functions_in_parts_give_what_the_interpreter_gives(function, drawn, seed):
    with patch.object(most_work, "_SMALL", 1):  # as large functions are compiled
        _functions_agree(function, drawn, seed)


@pytest.mark.full
@settings(max_examples=500, deadline=None)
@given(functions(), SIZES, SEEDS)
def test_many_random_functions_in_parts_give_what_the_interpreter_gives(function, drawn, seed):
    with patch.object(most_work, "_SMALL", 1):
        _functions_agree(function, drawn, seed)


def _programs_agree(program: Program) -> None:
    run = compile_jit(program)
    for sizes in (*PROGRAM_SIZES, *_ZERO):
        given_ = arguments(program, sizes)
        try:
            expected = interpret_program(program, OPS, given_)
        except ValueError:  # the largest of no numbers
            with pytest.raises(ValueError, match="axis of size 0"):
                run(*given_)
            continue
        for one, other in zip(run(*given_), expected, strict=True):
            tolerance = TOLERANCE[other.dtype.name] if other.dtype.kind == "f" else 0.0
            assert_same(one, other, tolerance, f"native code at {sizes}")


@settings(max_examples=8, deadline=None)
@given(programs())
def test_random_programs_give_what_the_interpreter_gives(program):
    _programs_agree(program)


@pytest.mark.full
@settings(max_examples=500, deadline=None)
@given(programs())
def test_many_random_programs_give_what_the_interpreter_gives(program):
    _programs_agree(program)
