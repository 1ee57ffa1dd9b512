"""Layers of circuits as functions of vectors: against the interpreter in float64, for all kinds of registers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from plica.backend.native.circuits.operations import EXPONENTS, NATIVE_OPS, POWERS, PRIVATE, SLOT, Form, Run
from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.functions import Registers
from plica.backend.native.loops.shared_library import MACHINES, library
from plica.ir.builder import Builder
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program
from tests.harness.libraries import HOST, compile_library
from tests.harness.samples import Case, samples_of

Array = Any
_REGISTERS = (Registers(64, 8), Registers(32, 6), Registers(16, 6), Registers(16, 8))


def _program(op: str, inputs: Sequence[Array], rows: Sequence[int], params: Mapping[str, Any]) -> Program:
    """An operation whose inputs have any number of rows: `rows` has the axis of each, -1 for none."""
    builder = Builder(NATIVE_OPS)
    shapes = [
        ["b" if axis == along else size for axis, size in enumerate(np.shape(x))]
        for x, along in zip(inputs, rows, strict=True)
    ]
    operands = [builder.argument(None, shape, as_dtype(x.dtype)) for x, shape in zip(inputs, shapes, strict=True)]
    return builder.build(builder.add(op, *operands, **params))


def _assert_same(found: Sequence[Array], op: str, inputs: Sequence[Array], params: Mapping[str, Any]) -> None:
    """Results are those of the reference in float64; powers and exponents are the same numbers."""
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    expected = NATIVE_OPS[op].reference(*wide, **params)
    expected = expected if isinstance(expected, tuple) else (expected,)
    eps = np.finfo(found[0].dtype).eps
    np.testing.assert_allclose(found[0], expected[0], rtol=64 * eps, atol=0)
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", samples_of(PRIVATE), ids=str)
def test_samples(case: Case) -> None:
    run = compile_jit(_program(case.op, case.inputs, [-1] * len(case.inputs), case.params))
    _assert_same(run(*case.inputs), case.op, case.inputs, case.params)


class _Drawn:
    """Sources of layers: arrays and tables, of numbers that are not negative."""

    def __init__(self, rng: np.random.Generator, dtype: str, units: int, rows: int) -> None:
        self.rng, self.dtype, self.units, self.rows = rng, dtype, units, rows
        self.inputs: list[Array] = []
        self.axes: list[int] = []
        self.looked_up: list[bool] = []
        self.sizes: list[int] = []

    def numbers(self, *shape: int) -> Array:
        return self.rng.uniform(0.1, 1.0, shape).astype(self.dtype)

    def add(self, folds: int, is_table: bool) -> None:
        self.looked_up.append(is_table)
        self.sizes.append(folds)
        if not is_table:
            self.inputs.append(self.numbers(folds, self.rows, self.units))
            self.axes.append(1)
            return
        states = self.rng.integers(0, 3, (self.rows, 5)).astype(self.rng.choice(["int64", "int32", "uint8"]))
        columns, starts = self.rng.integers(0, 5, folds), self.rng.integers(0, folds, folds) * 3
        self.inputs += [self.numbers(3 * folds, self.units), states, columns, starts]
        self.axes += [-1, 0, -1, -1]


def _layer(
    rng: np.random.Generator, rows: int, dtype: str, rescaled: str
) -> tuple[list[Array], list[int], dict[str, Any]]:
    """A layer of one to four factors, each of which reads runs of several sources."""
    units, outputs, folds = (int(rng.choice(some)) for some in ((1, 3, 4, 16, 33), (1, 2, 7, 32, 45), (1, 2, 5)))
    drawn = _Drawn(rng, dtype, units, rows)
    for _ in range(rng.integers(1, 4)):
        drawn.add(int(rng.integers(folds, folds + 3)), bool(rng.random() < 0.5))
    factors = []
    for _ in range(rng.integers(1, 5)):
        cuts = sorted({0, folds, *rng.integers(0, folds + 1, 2).tolist()})
        runs = []
        for lower, upper in pairwise(cuts):
            source = int(rng.integers(len(drawn.sizes)))
            runs.append(Run(source, int(rng.integers(drawn.sizes[source] - (upper - lower) + 1)), upper - lower))
        factors.append(tuple(runs))
    params = {"looked_up": tuple(drawn.looked_up), "factors": tuple(factors), "rescaled": rescaled}
    return [drawn.numbers(folds, units, outputs), *drawn.inputs], [-1, *drawn.axes], params


def _tree(
    rng: np.random.Generator, rows: int, dtype: str, rescaled: bool
) -> tuple[list[Array], list[int], dict[str, Any]]:
    """Trees of three steps: two read sources, the third both of them."""
    units, roots = int(rng.choice([1, 4, 32, 37])), int(rng.integers(1, 4))
    drawn = _Drawn(rng, dtype, units, rows)
    for is_table in (True, False):
        drawn.add(4, is_table)
    forms = (Form(0, rescaled, (0,)), Form(0, False, (1, 0)), Form(0, rescaled, (SLOT, SLOT)))
    steps = []
    for root in range(roots):
        steps += [[0, root % 2, 0, root, 0], [1, 1, 1, root, 3 - root], [2, 0, 0, 0, 1]]
    inputs = [np.asarray(steps), np.arange(roots + 1) * 3, drawn.numbers(2, units, units), *drawn.inputs]
    params = {"looked_up": tuple(drawn.looked_up), "forms": forms, "num_slots": 2}
    return inputs, [-1, -1, -1, *drawn.axes], params


def _again(inputs: Sequence[Array], axes: Sequence[int], rows: int) -> Iterator[Array]:
    """The inputs with another number of rows."""
    for x, axis in zip(inputs, axes, strict=True):
        yield x if axis < 0 else np.take(x, np.resize(np.arange(max(x.shape[axis], 1)), rows), axis=axis)


def _check(op: str, drawn: tuple[list[Array], list[int], dict[str, Any]], compile_: Callable[..., Any]) -> None:
    inputs, axes, params = drawn
    run = compile_(_program(op, inputs, axes, params))
    for rows in (0, 1, 3, 8, 21, 130):
        some = list(_again(inputs, axes, rows))
        _assert_same(run(*some), op, some, params)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in [0, *range(2, 24)])])
def test_random_layers(seed: int) -> None:
    """Any number of rows, by this processor's registers in the process and as a library of others'."""
    rng = np.random.default_rng(seed)
    dtype, rescaled = ("float32", "float64")[seed % 2], ("", POWERS, EXPONENTS)[seed % 3]
    kind = replace(HOST, registers=_REGISTERS[seed % 4])
    _check("sum_of_products", _layer(rng, 7, dtype, rescaled), compile_jit)
    _check("sum_of_products", _layer(rng, 7, dtype, EXPONENTS), lambda program: compile_library(program, kind))
    _check("tree_of_sums", _tree(rng, 7, dtype, bool(seed % 2)), lambda program: compile_library(program, kind))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_at_the_ends_of_numbers(dtype: str) -> None:
    """Rows of zeros, of subnormal numbers and of the largest ones; powers are at most those with a normal inverse."""
    limits = np.finfo(dtype)
    tops = np.asarray([0.0, limits.smallest_subnormal, limits.tiny, 0.75, 1.0, 3.0, limits.max / 4, limits.max], dtype)
    x = np.stack([tops, tops / 2], axis=-1)[None]
    weight = np.eye(2, dtype=dtype)[None]
    found, powers = compile_jit(
        _program(
            "sum_of_products",
            [weight, x],
            [-1, 1],
            {"looked_up": (False,), "factors": ((Run(0, 0, 1),),), "rescaled": POWERS},
        )
    )(weight, x)
    assert np.array_equal(found.astype(np.longdouble) * powers, x)
    assert np.array_equal(np.log2(powers) % 1, np.zeros_like(powers))
    normal = (tops >= limits.tiny) & (tops < 2.0 ** (limits.maxexp - 2))
    assert ((found[0, normal, 0] >= 0.5) & (found[0, normal, 0] < 1.0)).all()
    assert (powers[0, ~normal & (tops < 1.0), 0] == 1.0).all()


def test_states_beyond_a_table_read_its_ends() -> None:
    table, states = np.arange(12.0).reshape(4, 3), np.asarray([[-7, 9]])
    columns, starts = np.asarray([0, 1]), np.asarray([0, 2])
    inputs = [table, states, columns, starts]
    (found,) = compile_jit(_program("look_up", inputs, [-1, 0, -1, -1], {}))(*inputs)
    np.testing.assert_array_equal(found, table[[0, 3]][:, None])


def test_other_machines_have_layers() -> None:
    """Whatever registers a machine has, it has all instructions."""
    inputs, axes, params = _layer(np.random.default_rng(0), 3, "float32", EXPONENTS)
    nest = build_nest(_program("sum_of_products", inputs, axes, params))
    for kind in MACHINES.values():
        assert library({"main": nest}, kind)[:4] == b"\x7fELF"
