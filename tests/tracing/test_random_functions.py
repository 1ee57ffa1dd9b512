"""Random functions: compiled and plain, over torch and over numpy, they give the same values and gradients."""

from collections.abc import Mapping, Sequence

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

import plica
from tests.harness.function_runs import (
    TOLERANCE,
    assert_same,
    compiled,
    gradients,
    plain,
    plain_numpy,
    slopes,
    to_torch,
)
from tests.harness.random_functions import LARGEST_SIZE, Function, functions

Sizes = Mapping[str, int]
_SIZE = st.integers(0, LARGEST_SIZE)
# without and with one element, and a size drawn
SIZES = st.tuples(
    st.fixed_dictionaries({"n": st.integers(2, LARGEST_SIZE), "m": _SIZE}),
    st.fixed_dictionaries({"n": st.just(0), "m": _SIZE}),
    st.fixed_dictionaries({"n": st.just(1), "m": _SIZE}),
)
SEEDS = st.integers(0, 2**16)


def _tolerance(function: Function) -> float:
    return max(TOLERANCE[dtype] for dtype in function.floats)


def _values_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    run, interpreter = compiled(function), compiled(function, "interpreter")
    eager, eager_numpy = plain(function), plain_numpy(function)
    for sizes in drawn:
        arguments, tolerance = function.draw(sizes, seed), _tolerance(function)
        with np.errstate(all="ignore"):
            expected = eager_numpy(*arguments)
        assert_same(eager(*to_torch(arguments)), expected, tolerance, f"plain over torch at {sizes}")
        assert_same(interpreter(*arguments), expected, tolerance, f"the interpreter at {sizes}")
        assert_same(run(*to_torch(arguments)), expected, tolerance, f"compiled at {sizes}")
    assert run.num_compilations == 1
    assert interpreter.num_compilations == 1


def _gradients_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    run, eager = compiled(function), plain(function)
    for sizes in drawn:
        arguments = function.draw(sizes, seed)
        found, expected = gradients(run, arguments), gradients(eager, arguments)
        assert (found is None) == (expected is None), f"which of the two has gradients, at {sizes}"
        assert_same(found, expected, _tolerance(function), f"gradients at {sizes}")


def _slopes_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    """Where the slopes before and behind a point are the same, they are the gradient."""
    run = compiled(function)
    for sizes in drawn:
        arguments = function.draw(sizes, seed)
        found = gradients(run, arguments)
        if found is None:
            continue
        for place, entry, before, behind in slopes(run, arguments, 2):
            scale = max(1.0, abs(before), abs(behind))
            if np.isfinite(before) and np.isfinite(behind) and abs(before - behind) < 1e-4 * scale:
                assert abs(found[place].flat[entry] - behind) < 1e-3 * scale, (sizes, place, entry, found, behind)


def _is_written_well(function: Function, sizes: Sizes, seed: int) -> None:
    arguments = function.draw(sizes, seed)
    first, second = compiled(function), compiled(function)
    first(*to_torch(arguments))
    second(*to_torch(arguments))
    program = first.program
    assert str(program) == str(second.program)
    plica.verify(program)
    again = plica.parse(str(program))
    assert again == program
    assert str(again) == str(program)


@settings(max_examples=60)
@given(functions(), SIZES, SEEDS)
def test_values_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _values_agree(function, drawn, seed)


@settings(max_examples=60)
@given(functions(), SIZES, SEEDS)
def test_gradients_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _gradients_agree(function, drawn, seed)


@settings(max_examples=40)
@given(functions(floats=(("float64",),)).filter(lambda one: "stop_gradient" not in one.source), SIZES, SEEDS)
def test_gradients_are_slopes(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _slopes_agree(function, drawn, seed)


@settings(max_examples=60)
@given(functions(), SIZES, SEEDS)
def test_programs_verify_and_their_text_is_read_back(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _is_written_well(function, drawn[0], seed)
