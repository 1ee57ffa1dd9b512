"""What decompositions of native code compute: what the operations do, at sizes that are known and at sizes that are not."""

from collections.abc import Callable
from typing import Any

import numpy as np
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
def test_they_are_what_they_stand_for(each) -> None:
    each(lambda case: _assert_agrees(case, [spec(array.shape, array.dtype) for array in case.inputs]))


@over(case for case in CASES if case.op in DECOMPOSITIONS)
def test_sizes_may_be_unknown(each) -> None:
    each(lambda case: _assert_agrees(case, list(map(_unknown, case.inputs))))


def _unknown(array: Array) -> Any:
    """Arrays of as many axes, of any sizes; those that are equal here are of one name."""
    return spec([1 if size == 1 else f"n{size}" for size in array.shape], array.dtype)
