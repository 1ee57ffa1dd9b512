"""Every row of loop nests gives what the numpy reference of its operation gives, on all of its samples and edges."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.decomposed import decomposed
from plica.backend.native.loops.rows import ROWS
from plica.backend.native.loops.rows.elementwise import elementwise
from plica.errors import UnsupportedError
from plica.ir.builder import Builder
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program, Var
from plica.ir.types import spec
from plica.ops import FACTORIZATIONS, OPS
from plica.tracing import namespace as xp
from plica.tracing.trace import trace
from tests.harness.programs import Array, assert_same, reference, unique
from tests.harness.samples import COMPLEX, EDGES, SAMPLES, SCALARS, Case


def _is_computed(case: Case) -> bool:
    return case.op in ROWS and not any(one.dtype.kind == "V" for one in [*case.inputs, *_expected(case)])


def _expected(case: Case) -> list[Array]:
    with np.errstate(all="ignore"):
        found = [np.asarray(one) for one in reference(case.op, case.inputs, case.params)]
    dtypes = [var.type.dtype.numpy for var in _program([case]).results]
    return [one.astype(dtype) for one, dtype in zip(found, dtypes, strict=True)]


def _program(cases: Sequence[Case]) -> Program:
    """All cases in one Program: machine code of many is made in little more time than that of one."""
    builder = Builder(OPS)
    results: list[Var] = []
    for case in cases:
        operands = [builder.argument(None, np.shape(one), as_dtype(one.dtype)) for one in case.inputs]
        results += builder.add(case.op, *operands, **case.params)
    return builder.build(results)


def _groups() -> Iterator[tuple[str, list[Case]]]:
    """Operations with all of their cases; those whose entries are scalar code, which has tests, with two each."""
    groups: dict[str, list[Case]] = {}
    for case in (*SAMPLES, *EDGES, *SCALARS, *COMPLEX):
        is_scalar = ROWS.get(case.op) is elementwise
        place = f"elementwise {case.op[0]}" if is_scalar else case.op
        least = [one for one in groups.get(place, []) if one.op == case.op]
        is_elsewhere = ROWS.get(case.op) is decomposed and ("float32" in str(case) or len(least) == 2)  # has tests
        if case.op in ROWS and not (is_scalar and len(least) == 2) and not is_elsewhere:
            groups.setdefault(place, []).append(case)
    yield from groups.items()


_LONG = {
    *(op.name for op in FACTORIZATIONS if ROWS[op.name] is decomposed),  # seconds of compilation
    *(
        "regression_matrix",
        "conditional_factor",
        "conditional_moments",
    ),  # decomposed too, beside "log_multivariate_normal"
}
# Of operations that have their row together with "fft" or with "solve", the cases that the usual suite has.
_SOME = {"ifft": (0, 3), "rfft": (1, 3), "irfft": (2, 3), "inv": (0, 2, 3), "slogdet": (1, 4, 5)}


def _param(number: int, name: str, cases: list[Case]) -> Iterator[Any]:
    """All cases of an operation; by default every second one."""
    if name in _SOME:
        yield pytest.param([cases[place] for place in _SOME[name]], id=f"{name}, some")
    is_full = name in _LONG or name in _SOME or (number % 2)
    yield pytest.param(cases, id=name, marks=[pytest.mark.full] if is_full else [])


_GROUPS = [one for number, (name, cases) in enumerate(_groups()) for one in _param(number, name, cases)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cases", _GROUPS)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_rows_give_what_references_give(cases):
    cases = [case for case in cases if _is_computed(case)]
    arguments = [one.item() if not one.ndim else one for case in cases for one in case.inputs]
    found = iter(compile_jit(_program(cases))(*arguments))
    for case in cases:
        expected = _expected(case)
        made = tuple(next(found) for _ in expected)
        for one, other in zip(unique(case.op, made), unique(case.op, tuple(expected)), strict=True):
            assert_same(one, other, OPS[case.op].tolerance)


def test_an_operation_without_a_nest_is_refused_by_name():
    case = next(case for case in SAMPLES if case.op == "exp")
    rows = {name: row for name, row in ROWS.items() if name != "exp"}
    with pytest.raises(UnsupportedError, match="no loop nest for the operation 'exp'"):
        build_nest(_program([case]), rows)


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_triangles_of_matrices_with_one_entry(k):
    """Their indices are known numbers, which the nest compares when it is built."""
    x = np.full((1, 1), 2.0)
    program = trace(lambda x: (xp.tril(x, k=k), xp.triu(x, k=k)), spec((1, 1), "float64"))
    for found, expected in zip(compile_jit(program)(x), (np.tril(x, k), np.triu(x, k)), strict=True):
        np.testing.assert_array_equal(found, expected)
