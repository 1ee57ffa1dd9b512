"""Every reduction along every axis: what a reference in float64 gives, at sizes around those of vectors, in vectors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.compile import machine, optimized
from plica.backend.native.loops.llvm import llvm_text
from plica.backend.native.loops.rows.reduce import REDUCE, SUMS
from plica.backend.native.loops.support import entry_text
from plica.errors import InputError, PlicaError
from plica.ir.program import Program
from tests.harness.programs import reference
from tests.harness.together import grouped

REDUCTIONS = [*SUMS, *REDUCE]
DTYPES = ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")
SIZES: Mapping[int, Sequence[tuple[int, ...]]] = {
    1: [(1,), (5,), (16,), (67,)],
    2: [(1, 1), (3, 67), (67, 3), (9, 16), (16, 9)],
    3: [(2, 17, 3), (3, 1, 8)],
}
FEW = {("float64", 2), ("float32", 1), ("int32", 3), ("bool", 2)}
"""Dtypes and ranks that are tried each time."""
NAMES = ("n", "m", "k")
EMPTY = {"max", "min", "argmax", "argmin"}
"""Reductions of nothing that are errors."""
IN_ORDER = {("prod", 1), ("cumulative_sum", 1), ("cumulative_prod", 1)}
"""Reductions along memory whose terms are taken one after the other."""
ROUNDING = {"float64": 1e-14, "float32": 1e-5, "float16": 4e-3}
"""Of a term of a sum in float32 (in which those of float16 are added up too), and of the result."""


def _axes(name: str, rank: int) -> list[dict[str, Any]]:
    """Parameters of a reduction: every axis, and for those that take several, all of them and none."""
    axes: list[Any] = list(range(rank))
    if name in ("sum", "prod", "mean", "max", "min", "any", "all", "logsumexp") and rank > 1:
        axes += [tuple(range(rank)), (0, rank - 1)]
    return [{"axis": axis} for axis in axes]


def _is_accepted(name: str, dtype: str) -> bool:
    try:
        _program([(name, {"axis": 0})], dtype, 2)
    except PlicaError:
        return False
    return True


def _cases(dtype: str, rank: int) -> list[tuple[str, dict[str, Any]]]:
    return [(name, axes) for name in REDUCTIONS if _is_accepted(name, dtype) for axes in _axes(name, rank)]


def _program(cases: Sequence[tuple[str, Mapping[str, Any]]], dtype: str, rank: int) -> Program:
    def function(x: Any) -> tuple[Any, ...]:
        return tuple(getattr(pnp, name)(x, **axes) for name, axes in cases)

    return plica.trace(function, plica.spec(NAMES[:rank], dtype))


def _arrays(dtype: str, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Numbers, ties, and of floats what is no number or infinite, alone and together with others."""
    generator = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind != "f":
        yield generator.integers(0, 2 if dtype == "bool" else 4, shape).astype(dtype)
        yield np.zeros(shape, dtype)
        return
    numbers = generator.normal(size=shape).astype(dtype)
    yield numbers
    yield np.round(numbers).astype(dtype)
    yield np.full(shape, -np.inf, dtype)
    for others in ([np.nan], [-np.inf], [np.inf], [-np.inf, np.nan, np.inf], [-0.0, 0.0]):
        places = generator.random(shape) < 0.3
        yield np.where(places, generator.choice(np.array(others), shape), numbers).astype(dtype)


def _reference(name: str, x: np.ndarray, axes: Mapping[str, Any]) -> np.ndarray:
    """What the reference of an operation gives, of floats in float64 where it adds up."""
    program = _program([(name, axes)], x.dtype.name, x.ndim)
    equation = next(one for one in program.equations if one.op.name == name)
    dtype = equation.inputs[0].type.dtype.numpy
    wide = np.float64 if dtype.kind == "f" and name in SUMS else dtype
    with np.errstate(all="ignore"):
        (found,) = reference(name, [x.astype(wide)], equation.params)
        return found.astype(program.results[0].type.dtype.numpy)


def _assert_same(found: np.ndarray, x: np.ndarray, name: str, axes: Mapping[str, Any]) -> None:
    wanted = _reference(name, x, axes)
    message = f"{name} {dict(axes)} of {x.dtype}{x.shape}"
    assert found.dtype == wanted.dtype, message
    if wanted.dtype.kind != "f" or name not in SUMS:
        np.testing.assert_array_equal(found, wanted, err_msg=message)
        return
    rounding = ROUNDING[wanted.dtype.name]
    terms = np.abs(x, dtype=np.float64)
    scale = max(np.sum(terms[np.isfinite(terms)]), 1.0)
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=rounding, atol=rounding * scale, err_msg=message)


def _few(dtype: str, rank: int) -> Any:
    is_few = (dtype, rank) in FEW
    return pytest.param(dtype, rank, id=f"{dtype}-{rank}", marks=[] if is_few else [pytest.mark.full])


@pytest.mark.parametrize(("dtype", "rank"), [_few(dtype, rank) for dtype in DTYPES for rank in SIZES])
def test_reductions_give_what_references_give(dtype: str, rank: int) -> None:
    cases = _cases(dtype, rank)
    run = compile_jit(_program(cases, dtype, rank))
    for shape in SIZES[rank]:
        for x in _arrays(dtype, shape):
            for (name, axes), found in zip(cases, run(x), strict=True):
                _assert_same(found, x, name, axes)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_reductions_of_no_entries(name: str) -> None:
    for axis in (0, 1):
        run = compile_jit(_program([(name, {"axis": axis})], "float64", 2))
        for shape in ((0, 3), (3, 0), (0, 0)):
            x = np.zeros(shape)
            if name in EMPTY and shape[axis] == 0:
                with pytest.raises(InputError, match="size 0"):
                    run(x)
                continue
            np.testing.assert_array_equal(run(x)[0], _reference(name, x, {"axis": axis}))


@grouped("axis", [0, 1])
@grouped("name", REDUCTIONS)
def test_reductions_are_vectors(name: str, axis: int) -> None:
    dtype = "bool" if name in ("any", "all") else "float64"
    program = plica.trace(lambda x: getattr(pnp, name)(x, axis=axis), plica.spec(("n", 40), dtype))
    nest = build_nest(program)
    text = llvm_text(nest, entry_text(nest), machine().registers, None).main
    written = str(optimized(machine().binding.parse_assembly(text), machine().target()))
    has_vectors = re.search(r"= (load <\d+ x (double|i8)>, ptr|call <\d+ x double> @llvm.masked.load)", written)
    assert bool(has_vectors) is ((name, axis) not in IN_ORDER)
