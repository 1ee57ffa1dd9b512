"""Algebra on Programs: each rule on values, special ones among them, and near misses that keep their equations."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
import plica.tracing.namespace as xp
from plica.frontend.programs import interpret, trace, verify
from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.ir.dtypes import DType
from plica.ir.program import Literal, Program, Var
from plica.ir.types import array_type, spec
from plica.passes.algebra import ALGEBRA, Fired, simplify
from plica.passes.dead_code import eliminate_dead_code
from tests.harness.algebra_cases import ALGEBRA_CASES, AlgebraCase
from tests.harness.together import grouped

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


FIRES = [case for case in ALGEBRA_CASES if not case.near]
STAYS = [case for case in ALGEBRA_CASES if case.near]


def alone(case: AlgebraCase, program: Program) -> Program:
    """The Program after the one rule of a case."""
    (rule,) = (rule for rule in ALGEBRA if rule.name == case.rule)
    return simplify(program, [rule])


@grouped("case", FIRES, ids=str)
def test_a_rule_fires_and_changes_no_number(case: AlgebraCase) -> None:
    program = of(case.function, dtype=case.dtype)
    assert operations(alone(case, program)) != operations(program)
    simpler = clean(program)
    assert operations(simpler) == list(case.left)
    for x in (X, X[:1]):
        given = x.astype(case.dtype)
        np.testing.assert_allclose(interpret(simpler, given)[0], interpret(program, given)[0], rtol=1e-12)
    if case.dtype == "float64" and not case.rule.startswith(("log", "exp")):  # those change what had left the floats
        before, after = interpret(program, SPECIAL)[0], interpret(simpler, SPECIAL)[0]
        np.testing.assert_array_equal(after, before)
        if before.dtype.kind == "f":
            assert (np.signbit(after) == np.signbit(before)).all()


@grouped("case", STAYS, ids=str)
def test_a_near_miss_stays(case: AlgebraCase) -> None:
    program = of(case.function, dtype=case.dtype)
    assert alone(case, program) is program
    assert operations(clean(program)) == list(case.left)


def test_every_rule_has_a_case_a_near_miss_an_equation_and_a_source() -> None:
    names = [rule.name for rule in ALGEBRA]
    assert sorted({case.rule for case in FIRES}) == sorted({case.rule for case in STAYS}) == sorted(names)
    assert all(rule.equation and rule.source for rule in ALGEBRA)


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
    for case in FIRES:
        of_sizes = of(case.function, dtype=case.dtype)
        assert all(isinstance(var, Var) for var in clean(of_sizes).inputs)


def test_a_program_without_matches_is_itself() -> None:
    program = of(lambda x: xp.tanh(x))
    assert simplify(program) is program
    assert simplify(replace(program, equations=())).equations == ()


def test_no_rules_do_nothing() -> None:
    program = of(lambda x: x * 1)
    assert simplify(program, []) is program


def test_what_fired_is_noted_by_rule_and_place() -> None:
    (one,) = (rule for rule in ALGEBRA if rule.equation == "x * 1 -> x")
    fired: Fired = {}
    program = of(lambda x: (x * 1, -(x * 1), xp.exp(x)))
    simplify(program, [replace(one, name="own")], fired=fired)
    assert fired == {"own: x * 1 -> x": [equation.source for equation in program.equations[:2]]}
    simplify(of(lambda x: xp.negative(xp.negative(x))), fired=fired)
    assert [text.partition(": ")[2] for text in fired] == ["x * 1 -> x", "-(-x) -> x"]


def test_one_number_may_stand_in_several_places() -> None:
    to_zero = Rule(
        "minus-itself",
        "x - x -> 0",
        Pattern(Entry("difference", "subtract", ("x", "x"))),
        lambda match: Replacement.chain((), Literal(0.0, match.root.outputs[0].type)),
        laws=ORDINARY,
    )
    program = trace(lambda x, y: (x - x) + (y - y) * 2.0, spec(()), spec(()))
    assert "subtract" not in str(simplify(program, [to_zero]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 1 / (xp.astype(xp.minimum(x, -1e-60), "float32") + 0.0),  # -1e-60 is -0.0 there
        lambda x: xp.abs(
            1.4 - (xp.clip(xp.astype(x, "float32"), 0.0, 0.86) + xp.clip(xp.astype(x, "float32"), 0.0, 0.54))
        ),
    ],
)
def test_what_is_known_of_zero_holds_where_digits_are_few(function: Callable[..., Any]) -> None:
    program = trace(function, spec(2, "float64"))
    x = np.asarray([5.0, -1e-50])
    np.testing.assert_array_equal(interpret(simplify(program), x), interpret(program, x))


def test_loops_that_are_there_for_a_check_alone_stay_beside_what_is_rewritten() -> None:
    def checked(x: Any, y: Any) -> Any:
        def body(i: Any, grown: Any) -> Any:
            plica.scan(lambda carry, row: (carry, row), y, y, preserve_dimensions=False)
            return pnp.concat([grown, pnp.full((i, 2, y.shape[2]), 0.5)])

        plica.for_loop(0, 2, 1, body, y, preserve_dimensions=False)
        return pnp.exp(pnp.log(pnp.exp(x)))

    program = eliminate_dead_code(trace(checked, spec(("n",), "float64"), spec(("n", 2, "m"), "float64")))
    loops = [one for one in program.equations if not one.outputs]
    assert loops, "a loop has no results"
    simpler = clean(program)
    assert len(simpler.equations) < len(program.equations)
    assert [one for one in simpler.equations if not one.outputs] == loops
