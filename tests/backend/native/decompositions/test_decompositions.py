"""Decompositions of native code compute what the operations do, at sizes that are known and at others."""

from collections.abc import Callable
from typing import Any

import pytest

from plica.backend.native.decompositions import DECOMPOSITIONS
from plica.frontend.programs import interpret, trace
from plica.ir.types import spec
from plica.tracing import namespace
from tests.harness.programs import Array, assert_same, one_equation, unique
from tests.harness.samples import CASES, Case, over

# Two algorithms for one factorization of a small matrix differ by some roundings more than two for one function.
_SCALE = 20.0


def _decomposed(op: str, params: Any) -> Callable[..., Any]:
    return lambda *arrays: DECOMPOSITIONS[op](namespace, *arrays, **params)


def _assert_agrees(case: Case, specs: list[Any]) -> None:
    program = trace(_decomposed(case.op, case.params), *specs)
    expected = unique(case.op, interpret(one_equation(case.op, case.inputs, case.params), *case.inputs))
    found = unique(case.op, interpret(program, *case.inputs))
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other, _SCALE)


@over(case for case in CASES if case.op in DECOMPOSITIONS)
def test_they_are_what_they_stand_for(case: Case) -> None:
    _assert_agrees(case, [spec(array.shape, array.dtype) for array in case.inputs])


# what is one step beyond another decomposition, with as many loops
_BEYOND = ("eigvalsh", "inv", "det", "matrix_rank", "pinv", "svdvals")


@over(case for case in CASES if case.op in DECOMPOSITIONS and case.op not in _BEYOND)
def test_sizes_may_be_unknown(case: Case) -> None:
    _assert_agrees(case, list(map(_unknown, case.inputs)))


@pytest.mark.full
@over(case for case in CASES if case.op in _BEYOND)
def test_other_sizes_may_be_unknown_too(case: Case) -> None:
    _assert_agrees(case, list(map(_unknown, case.inputs)))


def _unknown(array: Array) -> Any:
    """Arrays of as many axes, of any sizes; those that are equal here are of one name."""
    return spec([1 if size == 1 else f"n{size}" for size in array.shape], array.dtype)
