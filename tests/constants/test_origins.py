"""Where values come from: the lattice, operations, sizes, regions; purity; and that no value is visited twice."""
# ruff: noqa: ARG001, ARG005 - bodies are given what they need not use

from dataclasses import replace

import pytest

import plica
import plica.numpy as pnp
from plica.constants.analysis.origins import Origin, find_origins, print_origins
from plica.ir.program import Literal, Var
from plica.ops import OPS

VECTOR = plica.spec((3,), "float32")
L, C, R, V = Origin.LITERAL, Origin.COMPILE_TIME, Origin.RUN_TIME, Origin.VARYING


def _origin(origins, operand):
    return L if isinstance(operand, Literal) else origins.of[operand]


def _results(fn, *specs, table=OPS):
    """The origins of the results of a function of x, which varies, c, at compile time, and r, at run time."""
    program = plica.trace(fn, *(specs or (VECTOR, VECTOR, VECTOR)))
    origins = find_origins(program, ("c",), ("r",), table)
    return [_origin(origins, one) for one in program.results]


def test_join_is_union_and_a_constant_has_no_varying_source() -> None:
    assert (L | C).is_constant
    assert (L | C).is_known
    assert (C | R).is_constant
    assert not (C | R).is_known
    assert not (L | V).is_constant
    assert str(L | R | V) == "literal | run-time | not constant"


FUNCTIONS = {
    "argument": (lambda x, c, r: (x, c, r), [V, C, R]),
    "literal": (lambda x, c, r: (c + 1.0, pnp.zeros(3), pnp.arange(3)), [L | C, L, L]),
    "join": (lambda x, c, r: (c * r, c * x, x * r), [C | R, C | V, R | V]),
    "called": (lambda x, c, r: plica.jit(lambda a, b: (a + c, b * 2.0))(r, x), [C | R, L | V]),
    "cond on a constant": (lambda x, c, r: plica.cond(c[0] > 0, lambda: r, lambda: c), [L | C | R]),
    "cond on what varies": (lambda x, c, r: plica.cond(x[0] > 0, lambda: r, lambda: c), [L | R | C | V]),
    "loop": (lambda x, c, r: plica.for_loop(0, 3, 1, lambda i, a: a * r, c), [L | C | R]),
    "loop around": (
        lambda x, c, r: plica.for_loop(0, 3, 1, lambda i, a, b: (b, a), c, r),
        [L | C | R, L | C | R],
    ),
    "loop that meets what varies": (
        lambda x, c, r: plica.for_loop(0, 3, 1, lambda i, a, b: (a + b, b * x), c, r),
        [L | C | R | V, L | R | V],
    ),
    "loop that hands on": (lambda x, c, r: plica.for_loop(0, 3, 1, lambda i, a, b: (a + x, b), c, r), [L | C | V, R]),
    "while on what varies": (
        lambda x, c, r: plica.while_loop(lambda a: pnp.sum(a) < pnp.sum(x), lambda a: a + 1.0, r),
        [L | R | V],
    ),
    "while on constants": (
        lambda x, c, r: plica.while_loop(lambda a: pnp.sum(a) < pnp.sum(c), lambda a: a + 1.0, r),
        [L | C | R],
    ),
    "scan": (lambda x, c, r: plica.scan(lambda a, row: (a + row, a * 2.0), c[0], r), [C | R, L | C | R]),
    "scan of what varies": (lambda x, c, r: plica.scan(lambda a, row: (a + 1.0, row), c[0], x), [L | C, V]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_join_of_what_they_come_from(name: str) -> None:
    fn, expected = FUNCTIONS[name]
    assert _results(fn) == expected


def test_random_numbers_come_from_their_key() -> None:
    def draws(x, c, r):
        return pnp.random.uniform(pnp.random.key(3), (2,)), pnp.random.uniform(pnp.random.key(x), (2,))

    assert _results(draws, int, VECTOR, VECTOR) == [L, V]


def test_a_size_of_a_constant_is_constant_and_one_of_the_batch_is_not() -> None:
    def sizes(x, r):
        return pnp.ones(r.shape), pnp.ones((x.shape[0],)), pnp.sum(r, axis=0)

    program = plica.trace(sizes, plica.spec(("b", "n")), plica.spec(("k", "n")))
    origins = find_origins(program, run_time=("r",))
    assert [_origin(origins, one) for one in program.results] == [L | R, L | V, R]


def test_an_impure_operation_is_not_constant_wherever_it_stands() -> None:
    table = {**OPS, "sin": replace(OPS["sin"], pure=False)}
    assert _results(lambda x, c, r: (pnp.sin(c), pnp.cos(c)), table=table) == [C | V, C]
    looped = _results(lambda x, c, r: plica.for_loop(0, 3, 1, lambda i, a: pnp.sin(a), c), table=table)
    assert looped == [L | C | V]
    (called,) = _results(lambda x, c, r: plica.jit(lambda a: (pnp.sin(a), a)[1])(c), table=table)
    assert not called.is_constant, "the call as a whole does something else beside"


def _num_values(program) -> int:
    own = len(program.consts) + len(program.inputs)
    for equation in program.equations:
        own += len(equation.outputs)
        for value in equation.params.values():
            for one in value if isinstance(value, tuple) else (value,):
                own += _num_values(one) if hasattr(one, "equations") else 0
    return own


def test_no_value_is_visited_twice() -> None:
    def nested(x, c, r):
        def outer(i, a, b):
            return plica.for_loop(0, 2, 1, lambda j, p, q: (q + x, p * r), a, b)

        return plica.for_loop(0, 3, 1, outer, c, r)

    program = plica.trace(nested, VECTOR, VECTOR, VECTOR)
    assert find_origins(program, ("c",), ("r",)).num_visits == _num_values(program)


def test_doubling_forty_times_and_long_chains_are_linear() -> None:
    def doubled(r):
        for _ in range(40):
            r = r + r
        return r

    program = plica.trace(doubled, VECTOR)
    assert find_origins(program, run_time=("r",)).num_visits == 41


def test_marks_are_printed_behind_the_lines_of_nested_programs_too() -> None:
    program = plica.trace(lambda x, c: plica.for_loop(0, 3, 1, lambda i, a: a * c, x) + (c + 1), VECTOR, VECTOR)
    text = print_origins(program, find_origins(program, compile_time=("c",)))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "{ lambda ; x:f32[3] c:f32[3] . let  # x: not constant, c: compile-time"
    assert any(line.endswith("add c 1.0:f32[]  # literal | compile-time") for line in lines)
    assert any("multiply" in line and line.endswith("# compile-time | not constant") for line in lines)
    assert sum("# " in line for line in lines) == 6


def test_variables_of_a_program_that_is_called_twice_have_the_join() -> None:
    inner = plica.jit(plica.parse("{ lambda ; a:f32[3] . let b:f32[3] = exp a in (b,) }"))
    program = plica.trace(lambda x, c: (inner(x), inner(c)), VECTOR, VECTOR)
    origins = find_origins(program, compile_time=("c",))
    assert [_origin(origins, one) for one in program.results] == [V, C]
    (made,) = program.equations[0].params["program"].equations[0].outputs
    assert isinstance(made, Var)
    assert origins.of[made] == V | C
