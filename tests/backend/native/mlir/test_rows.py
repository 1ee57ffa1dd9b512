"""Rows of MLIR against the interpreter: the samples of operations at sizes that are not known before they run."""

from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest

from plica.backend.native.mlir.rows import ROWS
from plica.ir.program import Program
from plica.ir.sizes import evaluate
from plica.ops import CONTROL, OPS, REDUCE, SHAPE
from tests.harness.native import NativePrograms, assert_interpreted, with_unknown_sizes
from tests.harness.programs import Array, one_equation
from tests.harness.samples import CASES, Case, over

BATCHES = (0, 1, 7)
# the scalar code of each elementwise operation has tests of its own: these are those of the writer around it
_ELEMENTWISE = ("add", "floor_divide", "where", "less", "clip", "astype")
_SCANS = ("cumulative_sum", "cumulative_prod", "rescale")
_OWN = {*(op.name for op in (*SHAPE, *REDUCE, *CONTROL)), *_ELEMENTWISE}.difference(_SCANS)


def _is_complex(case: Case) -> bool:
    return any(array.dtype.kind == "c" for array in case.inputs) or "complex" in str(case.params.get("dtype"))


def _program(case: Case) -> Program:
    return with_unknown_sizes(case) or one_equation(case.op, case.inputs, case.params)


class _Rows:
    """The Programs of some cases, of which equal ones are one function."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._programs = {id(case): _program(case) for case in cases}
        names: dict[Program, str] = {}
        for program in self._programs.values():
            names.setdefault(program, f"f{len(names)}")
        self._names = names
        self._modules = NativePrograms({name: program for program, name in names.items()})

    def check(self, case: Case) -> None:
        """A case gives what the interpreter gives, as it is and with each of `BATCHES` for its first size."""
        program = self._programs[id(case)]
        name = self._names[program]
        assert_interpreted(self._modules, name, case.inputs, case.op)
        for batch in BATCHES if program.num_implicit_inputs else ():
            assert_interpreted(self._modules, name, _resized(program, case, batch), case.op)


def _resized(program: Program, case: Case, batch: int) -> list[Array]:
    sizes: dict[object, int] = {}
    for var, array in zip(program.arguments, case.inputs, strict=True):
        for dim, size in zip(var.type.shape, array.shape, strict=True):
            sizes.update((var, size) for var in program.inputs[: program.num_implicit_inputs] if str(dim) == var.name)
    sizes[program.inputs[0]] = batch
    return [
        np.resize(array, [evaluate(dim, sizes.__getitem__) for dim in var.type.shape])
        if array.size
        else np.zeros([evaluate(dim, sizes.__getitem__) for dim in var.type.shape], array.dtype)
        for var, array in zip(program.arguments, case.inputs, strict=True)
    ]


OWN = tuple(case for case in CASES if case.op in _OWN and not _is_complex(case))
REST = tuple(case for case in CASES if case.op not in _OWN and not _is_complex(case) and case.op in ROWS)


@cache
def _own() -> _Rows:
    return _Rows(OWN)


@over(OWN)
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_native_is_the_interpreter(each) -> None:
    each(_own().check)


@pytest.mark.full
@over(REST)
def test_every_other_row_too(each) -> None:
    cases: list[Case] = []
    each(cases.append)
    each(_Rows(cases).check)


def test_every_operation_is_written_or_decomposed() -> None:
    assert set(ROWS) <= set(OPS)
