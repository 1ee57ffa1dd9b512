"""Algebra on Programs: each rule on values, special ones among them, and near misses that keep their equations."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import plica.tracing.namespace as xp
from plica.frontend.programs import interpret, trace, verify
from plica.ir.dtypes import DType
from plica.ir.program import Program, Var
from plica.ir.types import array_type, spec
from plica.passes.algebra import ALGEBRA, simplify
from plica.passes.dead_code import eliminate_dead_code

X = np.array([[0.5, -1.5, 2.0], [0.0, -0.0, 3.0]])
SPECIAL = np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 1e300]])


def clean(program: Program) -> Program:
    simpler = eliminate_dead_code(simplify(program))
    verify(simpler)
    return simpler


def operations(program: Program) -> list[str]:
    return [equation.op.name for equation in program.equations]


def of(function: Callable, shape=("n", 3), dtype: str = "float64") -> Program:
    return trace(function, spec(shape, dtype))


# name of the rule, function, what is left
FIRES = [
    ("log(softmax(x)) -> log_softmax(x)", lambda x: xp.log(xp.softmax(x)), ["log_softmax"]),
    ("log(softmax(x)) -> log_softmax(x)", lambda x: xp.safe_log(xp.softmax(x, axis=0)), ["log_softmax"]),
    ("exp(log_softmax(x)) -> softmax(x)", lambda x: xp.exp(xp.log_softmax(x)), ["softmax"]),
    ("log(exp(x)) -> x", lambda x: xp.log(xp.exp(x)) + x, ["add"]),
    ("exp(log(x)) -> x, x >= 0", lambda x: xp.exp(xp.log(xp.sigmoid(x))), ["sigmoid"]),
    ("abs(x) -> x, x >= 0", lambda x: xp.abs(xp.softmax(x)), ["softmax"]),
    ("-(-x) -> x", lambda x: xp.negative(xp.negative(x)) * x, ["multiply"]),
    ("not not x -> x", lambda x: xp.logical_not(xp.logical_not(x > 1)), ["greater"]),
    ("x * 1 -> x", lambda x: x * 1 + x, ["add"]),
    ("x * 1 -> x", lambda x: 1.0 * x + x, ["add"]),
    ("x / 1 -> x", lambda x: x / 1 + x, ["add"]),
    ("x + 0 -> x", lambda x: xp.exp(x) + 0.0, ["exp"]),
    ("x + 0 -> x", lambda x: 0 + xp.exp(x), ["exp"]),
    ("x + 0 -> x", lambda x: (x + -0.0) * x, ["multiply"]),
    ("x - 0 -> x", lambda x: (x - 0.0) * x, ["multiply"]),
    ("where(c, x, x) -> x", lambda x: xp.where(x > 0, x, x) * x, ["multiply"]),
    ("squeeze(expand_dims(x, a), a) -> x", lambda x: xp.squeeze(xp.expand_dims(x, axis=1), 1) * x, ["multiply"]),
    (
        "expand_dims(squeeze(x, a), a) -> x",
        lambda x: xp.expand_dims(xp.squeeze(xp.sum(x, axis=1, keepdims=True), 1), axis=1),
        ["sum"],
    ),
    (
        "permute(permute(x, p), q) -> permute(x, p[q])",
        lambda x: xp.permute_dims(xp.permute_dims(xp.expand_dims(x, axis=0), (1, 2, 0)), (1, 2, 0)),
        ["expand_dims", "permute_dims"],
    ),
    ("permute(x, identity) -> x", lambda x: xp.permute_dims(x, (0, 1)) * x, ["multiply"]),
    (
        "reshape(reshape(x, s), t) -> reshape(x, t)",
        lambda x: xp.reshape(xp.reshape(x, (3, x.shape[0])), (1, x.shape[0], 3)),
        ["reshape"],
    ),
    (
        "change(x) to its own type -> x",
        lambda x: x.trace.apply("reshape", x.operand, shape=x.dims)[0] * x,
        ["multiply"],
    ),
]
STAYS = [
    ("exp of log of anything", lambda x: xp.exp(xp.log(x)), ["log", "exp"]),
    ("log of something else", lambda x: xp.log(xp.sigmoid(x)), ["sigmoid", "log"]),
    ("x + 0.0 may be -0.0", lambda x: x + 0.0, ["add"]),
    ("x - -0.0 may be -0.0", lambda x: x - -0.0, ["subtract"]),
    ("0 - x", lambda x: 0.0 - x, ["subtract"]),
    ("1 / x", lambda x: 1 / x, ["divide"]),
    ("x * 0 may be NaN", lambda x: x * 0, ["multiply"]),
    ("x - x may be NaN", lambda x: x - x, ["subtract"]),
    ("x * 2", lambda x: x * 2, ["multiply"]),
    ("where(c, x, y)", lambda x: xp.where(x > 0, x, -x), ["greater", "negative", "where"]),
    ("other axes", lambda x: xp.squeeze(xp.expand_dims(xp.expand_dims(x, axis=0), axis=3), 0), 3),
    ("one transposition", lambda x: xp.matrix_transpose(x), ["permute_dims"]),
    ("negative of something else", lambda x: -xp.exp(x), ["exp", "negative"]),
    ("rounding", lambda x: xp.astype(xp.astype(x, "float32"), "float64"), ["astype", "astype"]),
]


@pytest.mark.parametrize(("name", "function", "left"), FIRES, ids=[row[0] for row in FIRES])
def test_a_rule_fires_and_changes_no_number(name: str, function: Callable, left: list[str]) -> None:
    program = of(function)
    (rule,) = (rule for rule in ALGEBRA if rule.name == name)
    assert operations(simplify(program, [rule])) != operations(program)
    simpler = clean(program)
    assert operations(simpler) == left
    for x in (X, X[:1]):
        np.testing.assert_allclose(interpret(simpler, x)[0], interpret(program, x)[0], rtol=1e-12)
    if not name.startswith(("log", "exp")):  # those change infinities where floats had overflowed
        before, after = interpret(program, SPECIAL)[0], interpret(simpler, SPECIAL)[0]
        np.testing.assert_array_equal(after, before)
        if before.dtype.kind == "f":
            assert (np.signbit(after) == np.signbit(before)).all()


@pytest.mark.parametrize(("function", "left"), [row[1:] for row in STAYS], ids=[row[0] for row in STAYS])
def test_what_looks_alike_stays(function: Callable, left) -> None:
    program = of(function)
    kept = operations(clean(program))
    assert (len(kept) if isinstance(left, int) else kept) == left


def test_every_rule_has_a_case_an_equation_and_a_source() -> None:
    assert {rule.name for rule in ALGEBRA} == {row[0] for row in FIRES}
    assert all(rule.equation and rule.source for rule in ALGEBRA)


def test_integers_have_no_negative_zero() -> None:
    assert operations(clean(of(lambda x: (x + 0) * x, dtype="int32"))) == ["multiply"]


def test_broadcasting_by_a_neutral_operand_stays() -> None:
    program = trace(lambda x: xp.reshape(x, (1, 3)) * 1.0 + xp.reshape(x, (3, 1)), spec((3,), "float64"))
    assert "multiply" not in operations(clean(program))
    types = [array_type((3,), DType.FLOAT64), array_type((), DType.FLOAT64)]
    assert types[0] != types[1]
    scalar = trace(lambda x, y: x * xp.reshape(y, ()), spec((3,), "float64"), spec((1,), "float64"))
    assert "multiply" in operations(clean(scalar))


def test_a_shared_inner_equation_stays_for_its_other_reader() -> None:
    program = of(lambda x: (xp.log(xp.softmax(x)), xp.softmax(x)))
    assert sorted(operations(clean(program))) == ["log_softmax", "softmax"]


def test_results_that_are_arguments_or_literals_are_kept() -> None:
    program = of(lambda x: (x * 1, x))
    simpler = clean(program)
    assert operations(simpler) == []
    assert simpler.results == (program.arguments[0], program.arguments[0])


def test_sizes_are_left_alone() -> None:
    program = of(lambda x: xp.reshape(x, (x.shape[0] * 3,)) * 1)
    assert operations(clean(program)) == ["reshape", "multiply"], "the multiplication computes the size of the result"
    for row in FIRES:
        of_sizes = of(row[1])
        assert all(isinstance(var, Var) for var in clean(of_sizes).inputs)


def test_a_program_without_matches_is_itself() -> None:
    program = of(lambda x: xp.tanh(x))
    assert simplify(program) is program
    assert simplify(replace(program, equations=())).equations == ()


def test_no_rules_do_nothing() -> None:
    program = of(lambda x: x * 1)
    assert simplify(program, []) is program
