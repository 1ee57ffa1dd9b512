"""The plan of generated code: what is needed, which scalars are Python numbers, and what everything is called."""
# ruff: noqa: ARG005 - bodies are given what they need not use

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.torch import kernels
from plica.backend.torch.emit import number_arguments, source
from plica.backend.torch.names import RESERVED, with_python_names
from plica.backend.torch.operations import ROWS
from plica.backend.torch.plan import Plan
from plica.errors import DTypeError, VerifyError
from plica.frontend.programs import parse, trace
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program, Var, nested
from plica.ir.types import array_type, spec
from plica.ops import OPS

N = spec("n")


def _programs(program: Program) -> Iterator[Program]:
    yield program
    for equation in program.equations:
        for one in nested(equation.params):
            yield from _programs(one)


def _scalars(function, *specs) -> dict[str, bool]:
    """For every scalar that an equation makes, within loops too, whether it is a Python number."""
    plan = Plan.of(trace(function, *specs))
    return {
        var.name: plan.is_host(var)
        for program in _programs(plan.program)
        for equation in program.equations
        if equation in plan.live
        for var in equation.outputs
        if not var.type.shape
    }


HOSTS = (
    # arithmetic on sizes and indices
    (lambda x: x * (x.shape[0] * 2 + 1), (N,), True),
    (lambda x: pnp.where(x.shape[0] > 2, x.shape[0], 5), (N,), True),
    (lambda x: pnp.minimum(x.shape[0], 3) % 2 == 0, (N,), True),
    (lambda x: plica.for_loop(0, x.shape[0], 1, lambda i, s: s + i * i, 0), (N,), True),
    (lambda n: plica.for_loop(0, n, 1, lambda i, a, b: (b, a + b), 0, 1), (int,), True),
    (lambda n: plica.while_loop(lambda a: a < 9, lambda a: a + n, 0) + pnp.sum(pnp.ones([n])), (int,), None),
    (lambda x: plica.cond(x.shape[0] > 2, lambda: 1, lambda: x.shape[0]), (N,), True),
    (lambda x: plica.jit(lambda k: k + 1)(x.shape[0]), (N,), True),
    # what comes out of arrays
    (lambda x: pnp.sum(x) + 1, (N,), False),
    (lambda x: pnp.sum(pnp.astype(x, "int64")) * 2, (N,), False),
    (lambda x: plica.for_loop(0, 3, 1, lambda i, a: a + i, pnp.sum(pnp.astype(x, "int64"))), (N,), False),
    (lambda x: plica.cond(x[0] > 2, lambda: pnp.astype(x[0], "int64"), lambda: 1), (N,), False),
    (lambda a, b: (a + b) * a, (spec((), "int64"),) * 2, False),
)


@pytest.mark.parametrize(("function", "specs", "host"), HOSTS, ids=range(len(HOSTS)))
def test_scalars_that_count_are_python_numbers(function, specs, host) -> None:
    scalars = _scalars(function, *specs)
    assert scalars
    if host is None:  # some are and some are not
        assert set(scalars.values()) == {True, False}
    else:
        assert set(scalars.values()) == {host}


def test_a_scalar_that_a_shape_needs_is_converted_once() -> None:
    text = source(trace(lambda k: (pnp.ones([k[0]]), pnp.zeros([k[0], 2])), spec((2,), "int64")))
    assert text.count("int(") == 2, "two reads of one element are two scalars, each converted where it is made"
    once = source(trace(lambda k: _twice(k[0]), spec((2,), "int64")))
    assert once.count("int(") == 1


def _twice(k):
    return pnp.ones([k]), pnp.zeros([k, 2])


def test_a_carry_is_a_number_only_if_every_iteration_makes_it_one() -> None:
    text = source(trace(lambda x: plica.for_loop(0, 3, 1, lambda i, a: pnp.astype(pnp.sum(x), "int64") + a, 0), N))
    assert "a = torch.full((), 0, dtype=torch.int64, device=device)" in text
    assert "int(" not in text, "no number is taken out of an array"


NEEDED = (
    (lambda x: (pnp.exp(x), x + 1)[1], ["add"]),
    (lambda x: (plica.for_loop(0, 3, 1, lambda i, a: a + 1, x), x * 2)[1], ["multiply"]),
    (lambda x: pnp.ones([pnp.concat([x, x]).shape[0]]), ["full"]),
    (lambda x: pnp.concat([x, x]), ["concat"]),
    # the size of a part, which the body of a loop reads or not
    (lambda x: plica.for_loop(0, 3, 1, lambda i, a: a + 1, x[: x.shape[0] // 2]), ["slice", "for_loop"]),
    (
        lambda x: plica.for_loop(0, 3, 1, lambda i, a: a + a.shape[0], x[: x.shape[0] // 2]),
        ["slice", "floor_divide", "for_loop"],
    ),
)


@pytest.mark.parametrize(("function", "operations"), NEEDED, ids=range(len(NEEDED)))
def test_only_what_results_need_is_live(function, operations) -> None:
    plan = Plan.of(trace(function, N))
    assert [one.op.name for one in plan.program.equations if one in plan.live] == operations


def test_arguments_that_are_taken_as_numbers() -> None:
    assert number_arguments(trace(lambda x, k: x[:k], N, int)) == {1}
    assert number_arguments(trace(lambda x, k: x * k, N, int)) == frozenset()
    assert number_arguments(trace(lambda x, k: x * k, N, int), frozenset({1})) == {1}
    assert number_arguments(trace(lambda x, k: x * k, N, float), frozenset({1})) == frozenset(), "may need a gradient"
    assert number_arguments(trace(lambda n, k: plica.for_loop(k, n, 1, lambda i, a: a, 0), int, int)) == {0, 1}


def test_names_are_pythons_and_each_value_has_its_own() -> None:
    program = parse(
        """{ lambda ; while:i64[] torch:f32[3] . let
        a:i64[] b:f32[3] = for_loop[body={ lambda torch:f32[3] ; {while:i64[]} i:i64[] a:f32[3] . let
              b:f32[3] = add a torch
            in ({while}, b) } body_nconsts=1 num_implicit_inputs=1 num_implicit_outputs=1 preserve_dimensions=True] \
torch while 0:i64[] 3:i64[] 1:i64[] torch
      in (b,) }"""
    )
    named = with_python_names(program)
    names = [var.name for one in _programs(named) for var in _defined(one)]
    assert not RESERVED & {*names}
    (loop,) = named.equations
    body = loop.params["body"]
    assert body.consts[0].name == named.arguments[1].name, "a captured value is called what it captures"
    assert body.arguments[1].name == loop.outputs[1].name, "what is carried is called as the result"


def _defined(program: Program) -> Iterator[Var]:
    yield from (*program.consts, *program.inputs)
    for equation in program.equations:
        yield from equation.outputs


def test_a_program_whose_names_are_good_is_left_alone() -> None:
    program = trace(lambda x: pnp.exp(x) + 1, N)
    assert with_python_names(program) is program


TRUTHS = (True, False)
NUMBERS = (-3, -1, 0, 2, 5, 2**62)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.host is not None])
def test_what_is_written_on_numbers_is_the_operation(name: str) -> None:
    """On scalars of int64 and of truth values, wherever the operation takes them."""
    host, row = ROWS[name].host, OPS[name]
    assert host is not None
    operands = [*product(TRUTHS, NUMBERS, NUMBERS), *product(NUMBERS, repeat=2), *product(TRUTHS, repeat=2)]
    operands += [(one,) for one in (*NUMBERS, *TRUTHS)]
    tried = 0
    for values in operands:
        arrays = [np.asarray(one) for one in values]
        try:
            row.types([array_type((), as_dtype(one.dtype)) for one in arrays], {})
        except (DTypeError, VerifyError):
            continue
        if name in ("floor_divide", "remainder") and values[1] == 0:
            continue  # an error either way
        if name in ("add", "subtract") and values == (2**62, 2**62):
            continue  # sums of sizes are not wrapped: arrays are not so large
        with np.errstate(over="ignore"):
            expected = row.reference(*arrays)
        found = eval(host.format(*map(repr, values)), {"kernels": kernels})
        assert found == expected, values
        assert isinstance(found, bool) == (expected.dtype == bool)
        tried += 1
    assert tried
