"""Random functions: compiled and plain, over torch and over numpy, they give the same values and gradients."""

from collections.abc import Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.ir.program import Program, nested
from tests.harness.function_runs import (
    TOLERANCE,
    assert_same,
    attempt,
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
        tensors = to_torch(arguments)
        plain_tensors = [one.detach() if isinstance(one, torch.Tensor) else one for one in to_torch(arguments)]
        expected = attempt(f"plain Python over numpy at {sizes}", eager_numpy, arguments)
        for what, one, given_ in (
            ("plain Python over torch", eager, tensors),
            ("the interpreter", interpreter, arguments),
            ("torch", run, tensors),
            ("torch without gradients", run, plain_tensors),  # where updates write over what nobody else reads
        ):
            assert_same(attempt(f"{what} at {sizes}", one, given_), expected, tolerance, f"{what} at {sizes}")
        for one, before in zip(plain_tensors, tensors, strict=True):
            assert not isinstance(one, torch.Tensor) or torch.equal(one, before), f"an argument changed at {sizes}"
    assert run.num_compilations == 1
    assert interpreter.num_compilations == 1


def _gradients_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    run, eager = compiled(function), plain(function)
    for sizes in drawn:
        arguments = function.draw(sizes, seed)
        found, expected = gradients(run, arguments), gradients(eager, arguments)
        assert (found is None) == (expected is None), f"one of the two has no gradients at {sizes}"
        assert_same(found, expected, _tolerance(function), f"gradients at {sizes}")


def _gradients_are_slopes(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    """Away from kinks: where the slopes before and behind a point are the same."""
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


def _is_written_well(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    arguments = to_torch(function.draw(drawn[0], seed))
    first, second = compiled(function), compiled(function)
    attempt("torch", first, arguments)
    attempt("torch", second, arguments)
    program = first.program
    assert str(program) == str(second.program)
    plica.verify(program)
    again = plica.parse(str(program))
    assert again == program
    assert str(again) == str(program)


FLOAT64 = functions(floats=(("float64",),)).filter(lambda function: "stop_gradient" not in function.source)


@given(functions(), SIZES, SEEDS)
def test_values_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _values_agree(function, drawn, seed)


@given(functions(), SIZES, SEEDS)
def test_gradients_agree(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _gradients_agree(function, drawn, seed)


@given(FLOAT64, SIZES, SEEDS)
def test_gradients_are_slopes(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _gradients_are_slopes(function, drawn, seed)


@given(functions(), SIZES, SEEDS)
def test_programs_verify_and_their_text_is_read_back(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _is_written_well(function, drawn, seed)


@pytest.mark.full
@settings(max_examples=600)
@given(functions(), SIZES, SEEDS)
def test_values_agree_on_many(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _values_agree(function, drawn, seed)


@pytest.mark.full
@settings(max_examples=600)
@given(functions(), SIZES, SEEDS)
def test_gradients_agree_on_many(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _gradients_agree(function, drawn, seed)


@pytest.mark.full
@settings(max_examples=600)
@given(FLOAT64, SIZES, SEEDS)
def test_gradients_are_slopes_on_many(function: Function, drawn: Sequence[Sizes], seed: int) -> None:
    _gradients_are_slopes(function, drawn, seed)


@pytest.mark.full
@settings(max_examples=600)
@given(functions(), SIZES, SEEDS)
def test_many_programs_verify_and_their_text_is_read_back(
    function: Function, drawn: Sequence[Sizes], seed: int
) -> None:
    _is_written_well(function, drawn, seed)


def test_captured_sizes_come_in_one_order() -> None:
    def function(x: Any, k: Any) -> Any:
        size = k + x.shape[0]
        return plica.cond(pnp.sum(x) > 0, lambda: size, lambda: size)

    texts, kept = [], []
    for _ in range(20):
        texts.append(str(plica.trace(function, plica.spec(("n",)), int)))
        kept.append(object())  # so that the next variables stand elsewhere in memory
    assert texts == texts[:1] * 20


@pytest.mark.full
def test_the_generator_reaches_every_kind_of_line() -> None:
    seen: set[str] = set()

    def visit(program: Program) -> None:
        for equation in program.equations:
            seen.add(equation.op.name)
            for one in nested(equation.params):
                visit(one)

    @settings(max_examples=1600)
    @given(functions(), SEEDS)
    def collect(function: Function, seed: int) -> None:
        run = compiled(function, "interpreter")
        run(*function.draw({"n": 2, "m": 1}, seed))
        visit(run.program)

    collect()
    wanted = (
        "for_loop while_loop cond scan call tanh add where less sum min mean sort cumulative_sum reshape permute_dims"
    )
    wanted += " broadcast_to concat stack slice index gather update full arange astype matmul einsum softmax nonzero"
    assert set(wanted.split()) - seen == set()
