"""Each pass, and all of them, on random functions of extreme shapes, dtypes and numbers, against the interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.ir.interpret import interpret_program
from plica.ir.program import Program
from plica.ops import OPS
from plica.passes.algebra import simplify
from plica.passes.clean import clean
from plica.passes.cse import share_equations
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.exponents import sum_exponents
from plica.passes.hoist import hoist
from plica.passes.results import own_results
from plica.passes.splats import read_splats
from plica.passes.splits import split_slices
from plica.tracing.trace import captured_values
from tests.harness.extreme_functions import Array, Extreme, draw_extreme

PASSES: dict[str, Callable[..., Program]] = {
    "none": lambda program: program,
    "hoist": hoist,
    "share_equations": share_equations,
    "eliminate_dead_code": eliminate_dead_code,
    "sum_exponents": sum_exponents,
    "read_splats": read_splats,
    "split_slices": split_slices,
    "own_results": own_results,
    "simplify": simplify,
    "clean": clean,
}
FINITE = ("log-exp", "exp-log", "log-softmax", "exp-log-softmax", "through-views")  # rules that may be more exact
EPS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "complex64": 1.2e-7}


def assert_near(found: Array, expected: Array, message: str, *, is_exact: bool, is_loose: bool = False) -> None:
    """Assert that arrays are the same, or near where they are rounded; where rules fired, also finite for infinite."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), message
    if is_exact or expected.dtype.kind in "biu":
        np.testing.assert_array_equal(_wide(found), _wide(expected), err_msg=message)
        return
    eps, wide = EPS.get(expected.dtype.name, 2.3e-16), _wide(expected)
    compared = np.isfinite(wide) if is_loose or expected.dtype.kind == "c" else np.ones(wide.shape, bool)
    most = 2000 * eps
    np.testing.assert_allclose(_wide(found)[compared], wide[compared], rtol=most, atol=most * 1e-2, err_msg=message)


def _wide(array: Array) -> Array:
    return array if array.dtype.kind in "biu" else array.astype("complex128" if array.dtype.kind == "c" else "float64")


def traced(f: Extreme) -> tuple[Program, list[Array], list[Array]]:
    """The Program of a function, its arguments, and the values of all its variables."""
    assert not f.faults, f"{f.faults}\n{f.source}"
    given = [f.values[name] for name in f.arguments]
    program = plica.trace(f.load(), *(plica.spec(one.shape, one.dtype.name) for one in given))
    return program, given, [f.values[f"v{index}"] for index in range(len(f.lines))]


def _run(program: Program, given: list[Array], known: dict[str, Any]) -> tuple[Array, ...]:
    return interpret_program(program, OPS, given, [known[var.name] for var in program.consts])


SEEDS = [*range(25), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1000, 1400))]


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_leave_the_values_as_they_are(seed: int) -> None:
    f = draw_extreme(seed)
    program, given, expected = traced(f)
    known = captured_values(program)
    for name, run_pass in PASSES.items():
        fired: dict[str, list[str]] = {}
        after = run_pass(program, fired=fired) if name in ("simplify", "clean") else run_pass(program)
        plica.verify(after)
        is_loose = any(rule.startswith(FINITE) for rule in fired)
        for index, (found, value) in enumerate(zip(_run(after, given, known), expected, strict=True)):
            message = f"{name}, v{index}:\n{f.source}"
            assert_near(found, value, message, is_exact=not is_loose, is_loose=is_loose)


def _tensor(array: Array) -> torch.Tensor:
    is_stored = array.dtype.name == "bfloat16"
    tensor = torch.from_numpy(np.array(array, "float32" if is_stored else array.dtype))
    return tensor.bfloat16() if is_stored else tensor


@pytest.mark.parametrize("backend", ["torch", pytest.param("native", marks=pytest.mark.full)])
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(50, 250))])
def test_backends_give_the_values_of_the_interpreter(seed: int, backend: str) -> None:
    f = draw_extreme(seed)
    _, given, expected = traced(f)
    function = f.load()
    found = plica.jit(function, backend=backend)(*(map(np.copy, given)))
    for index, (one, value) in enumerate(zip(found, expected, strict=True)):
        assert_near(one, value, f"{backend}, v{index}:\n{f.source}", is_exact=f"v{index}" in f.exact)


@pytest.mark.parametrize("seed", range(6))
def test_results_belong_to_the_caller(seed: int) -> None:
    f = draw_extreme(seed)
    tensors = [_tensor(f.values[name]) for name in f.arguments]
    before = [tensor.clone() for tensor in tensors]
    for result in plica.jit(f.load())(*tensors):
        result.zero_()
    for tensor, copy in zip(tensors, before, strict=True):
        torch.testing.assert_close(tensor, copy, rtol=0, atol=0, equal_nan=True)
