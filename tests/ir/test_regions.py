"""Programs within equations: text, scopes, equality, copies and renaming."""

import copy
import pickle

import pytest
from hypothesis import given, settings

import plica
from plica.errors import ParseError, VerifyError
from plica.frontend.programs import interpret, parse, trace, verify
from plica.ir.program import Equation, OpRef, Program, nested
from plica.ir.rewrite import rename, rewrite
from plica.ir.sizes import Size
from plica.ir.types import spec
from tests.harness.functions import ramp
from tests.harness.random_functions import Function, functions

LOOP = """{ lambda c:f32[] ; {n:i64[]} x:f32[n] . let
    s:i64[] y:f32[s] = for_loop[body={ lambda c:f32[] ; {m:i64[]} i:i64[] a:f32[m] . let
          b:f32[m] = multiply a c
          d:f32[2*m] = concat[axis=0] b a
          e:i64[] = add m m
        in ({e}, d) } body_nconsts=1 num_implicit_inputs=1 num_implicit_outputs=1 preserve_dimensions=True] \
c n 0:i64[] 3:i64[] 1:i64[] x
  in ({s}, y) }"""
PROGRAM = parse(LOOP)
(EQUATION,) = PROGRAM.equations
BODY = EQUATION.params["body"]


def test_the_text_is_indented_by_depth() -> None:
    def function(x):
        return plica.for_loop(0, 2, 1, lambda i, a: plica.cond(i > 0, lambda: a, lambda: a * x), x)

    assert str(trace(function, spec("n"))).splitlines() == [
        "{ lambda ; {n:i64[]} x:f32[n] . let",
        "    a:f32[n] = for_loop[body={ lambda {n_1:i64[]} x:f32[n_1] ; i:i64[] a:f32[n_1] . let",
        "          b:bool[] = greater i 0:i64[]",
        "          c:f32[n_1] = cond[branches=({ lambda {n:i64[]} a:f32[n] ; . let",
        "              in (a,) },{ lambda {n:i64[]} a:f32[n] x:f32[n] ; . let",
        "                c:f32[n] = multiply a x",
        "              in (c,) }) branch_nconsts=(2,3) num_implicit_inputs=0 num_implicit_outputs=0 "
        "preserve_dimensions=True] b n_1 a n_1 a x",
        "        in (c,) } body_nconsts=2 num_implicit_inputs=0 num_implicit_outputs=0 preserve_dimensions=True] "
        "n x 0:i64[] 2:i64[] 1:i64[] x",
        "  in (a,) }",
    ]


def test_regions_have_names_of_their_own() -> None:
    same_names = (
        LOOP.replace("m:i64", "n:i64").replace("[m]", "[n]").replace("2*m", "2*n").replace("add m m", "add n n")
    )
    assert parse(same_names) == PROGRAM


SCOPES = (
    # what is replaced within the body, by what, the error, part of the message
    ("multiply a c", "multiply a x", ParseError, "'x' is not, found 'x'"),
    ("d:f32[2*m]", "d:f32[2*n]", ParseError, "'n' is not, found 'n'"),
    ("in ({s}, y)", "in ({s}, d)", ParseError, "'d' is not, found 'd'"),
    ("b:f32[m] = multiply a c", "a:f32[m] = multiply a c", ParseError, "'a' is defined already"),
    ("multiply a c", "multiply a e", ParseError, "'e' is not, found 'e'"),
    (
        "b:f32[m] = multiply",
        "b:f64[m] = multiply",
        VerifyError,
        r"equation 0: the result of multiply has type f32\[m\]",
    ),
)


@pytest.mark.parametrize(("old", "new", "error", "message"), SCOPES, ids=[row[1] for row in SCOPES])
def test_nothing_leaks_into_or_out_of_a_region(old: str, new: str, error, message: str) -> None:
    assert old in LOOP
    with pytest.raises(error, match=message):
        parse(LOOP.replace(old, new))


def test_the_verifier_looks_into_regions_that_were_built_by_hand() -> None:
    (first, *others) = BODY.equations
    strange = Equation(first.op, (PROGRAM.arguments[0], first.inputs[1]), first.outputs, source="model.py:7")
    body = Program(BODY.consts, BODY.inputs, (strange, *others), BODY.outputs, 1, 1)
    broken = Equation(EQUATION.op, EQUATION.inputs, EQUATION.outputs, {**EQUATION.params, "body": body})
    with pytest.raises(
        VerifyError, match=r"equation 0 \(from model.py:7\): an operand, x, is used before it is defined"
    ):
        verify(Program(PROGRAM.consts, PROGRAM.inputs, (broken,), PROGRAM.outputs, 1, 1))


def test_the_sizes_of_a_region_need_no_axis_alone() -> None:
    text = """{ lambda ; {n:i64[]} x:f32[n,n+1] . let
        a:f32[n+1] = index[axis=0] x 0:i64[]
        b:f32[n+1] = call[program={ lambda ; {m:i64[]} y:f32[m+1] . let
              z:f32[m+1] = multiply y y
            in (z,) } body_nconsts=0 num_implicit_inputs=1 num_implicit_outputs=0 name='square'] n a
      in (b,) }"""
    program = parse(text)
    assert interpret(program, ramp(2, 3))[0].tolist() == (ramp(2, 3)[0] ** 2).tolist()
    (region,) = nested(program.equations[1].params)
    with pytest.raises(VerifyError, match="no argument has an axis of size m alone"):
        verify(region)


def test_equality_looks_into_regions() -> None:
    for old, new in (("b a", "a b"), ("multiply", "add"), ("i:i64[] a", "place:i64[] a"), ("3:i64[]", "4:i64[]")):
        other = parse(LOOP.replace(old, new))
        assert (other == PROGRAM) == (hash(other) == hash(PROGRAM)) == (old == "i:i64[] a")
    assert parse(LOOP.replace("preserve_dimensions=True", "preserve_dimensions=False")) != PROGRAM


@pytest.mark.parametrize(
    "again", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy, copy.copy], ids=["pickle", "deepcopy", "copy"]
)
def test_copies_are_equal(again) -> None:
    other = again(PROGRAM)
    verify(other)
    assert other == PROGRAM
    assert str(other) == str(PROGRAM)


def test_renaming_reaches_regions() -> None:
    other = rename(PROGRAM, lambda var: f"{var.name}_other")
    verify(other)
    assert other == PROGRAM
    (region,) = nested(other.equations[0].params)
    assert [var.name for var in (*region.consts, *region.inputs)] == ["c_other", "m_other", "i_other", "a_other"]


def test_a_size_may_be_put_in_the_place_of_another() -> None:
    program = parse(
        """{ lambda ; n:i64[] m:i64[] . let
        a:f32[m+1] = full[shape=(m+1,)] 0.5:f32[]
        b:f32[m,m+1] = broadcast_to[shape=(m,m+1)] a
      in (b, m) }"""
    )
    n, m = program.inputs
    again = rewrite(program, lambda var: var.name, {m: 2 * Size.of(n)})
    assert str(again) == (
        "{ lambda ; n:i64[] m:i64[] . let\n"
        "    a:f32[2*n+1] = full[shape=(2*n+1,)] 0.5:f32[]\n"
        "    b:f32[2*n,2*n+1] = broadcast_to[shape=(2*n,2*n+1)] a\n"
        "  in (b, m) }"
    )
    static = rewrite(again, lambda var: var.name, {again.inputs[0]: 3})
    assert static.results[0].type.shape == (6, 7)


def test_many_levels() -> None:
    def grow(level: int, x):
        return plica.for_loop(0, 1, 1, lambda _, a: grow(level - 1, a) + x if level else a, x)

    program = trace(lambda x: grow(12, x), spec("n"))
    verify(program)
    assert parse(str(program)) == program
    assert pickle.loads(pickle.dumps(program)) == program
    assert interpret(program, ramp(3))[0].tolist() == (ramp(3) * 13).tolist()


def test_the_operation_of_a_region_is_a_name() -> None:
    assert EQUATION.op == OpRef("for_loop")
    assert list(nested(EQUATION.params)) == [BODY]


@settings(max_examples=25)
@given(functions(floats=(("float64",),)))
def test_random_functions_are_copied_and_renamed(function: Function) -> None:
    import plica.numpy as pnp

    specs = [spec(one.shape or (), one.dtype) for one in function.arguments]
    program = trace(function.load({"plica": plica, "pnp": pnp, "jit": plica.jit}), *specs)
    for other in (
        parse(str(program)),
        pickle.loads(pickle.dumps(program)),
        copy.deepcopy(program),
        rename(program, lambda var: f"{var.name}_other"),
    ):
        verify(other)
        assert other == program
        assert hash(other) == hash(program)
