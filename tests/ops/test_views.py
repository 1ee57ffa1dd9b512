"""The column `view`: an operation on each entry commutes with every view, and whole views leave no entry out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from plica.ir.op import Op, View
from plica.ops import INDEXING, OPS, SHAPE, SORTING
from tests.harness.programs import reference

VIEWS = [op for op in OPS.values() if op.view is not View.NONE]
Array = Any


def entrywise(x: Array) -> Array:
    """Neither monotone nor 0 at 0; other numbers for other numbers of the samples."""
    return np.logical_not(x) if x.dtype == bool else (x * x * 3 - x + 1).astype(x.dtype)


def applied(op: Op, inputs: tuple[Array, ...], function: Callable[[Array], Array]) -> tuple[Array, ...]:
    """The operands, those whose entries the results are by `function`."""
    viewed = range(len(inputs))[op.view.operands]
    return tuple(function(one) if place in viewed else one for place, one in enumerate(inputs))


@pytest.mark.parametrize("op", VIEWS, ids=lambda op: op.name)
def test_an_operation_on_each_entry_may_come_before_a_view(op: Op) -> None:
    for sample in op.samples():
        after = [entrywise(np.asarray(one)) for one in reference(op.name, sample.inputs, sample.params)]
        before = reference(op.name, applied(op, sample.inputs, entrywise), sample.params)
        for found, expected in zip(before, after, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", VIEWS, ids=lambda op: op.name)
def test_whole_views_leave_no_entry_out(op: Op) -> None:
    left_out = 0
    for sample in op.samples():
        given: list[Array] = []

        def numbered(x: Array, given: list[Array] = given) -> Array:
            given.append(np.arange(x.size, dtype=float).reshape(x.shape) + sum(one.size for one in given))
            return given[-1]

        results = reference(op.name, applied(op, sample.inputs, numbered), sample.params)
        left_out += sum(one.size for one in given) - len({number for one in results for number in np.ravel(one)})
    assert (left_out == 0) == op.view.is_whole


@pytest.mark.parametrize(
    "op", [op for op in (*SHAPE, *INDEXING, *SORTING) if op.view is View.NONE], ids=lambda op: op.name
)
def test_what_is_no_view_computes_entries(op: Op) -> None:
    def commutes(inputs: tuple[Array, ...], params: Any) -> bool:
        if not inputs:
            return False
        after = [entrywise(np.asarray(one)) for one in reference(op.name, inputs, params)]
        before = reference(op.name, (entrywise(np.asarray(inputs[0])), *inputs[1:]), params)
        return all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))

    assert not all(commutes(sample.inputs, sample.params) for sample in op.samples())
