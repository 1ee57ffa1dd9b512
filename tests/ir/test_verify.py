"""The verifier: each rule broken once, and the message that shows where."""

import pytest

from plica.errors import VerifyError
from plica.frontend.programs import parse, verify
from plica.ir.dtypes import DType
from plica.ir.op import OpTable
from plica.ir.program import Equation, Literal, OpRef, Program, Var
from plica.ir.sizes import Size
from plica.ir.types import ShapedArray, array_type
from plica.ir.verify import verify_program
from plica.ops import OPS

I64, F32 = ShapedArray((), DType.INT64), ShapedArray((2,), DType.FLOAT32)
X, N = Var("x", F32), Var("n", I64)
GOOD = parse("{ lambda ; x:f32[2] . let a:f32[2] = exp x b:f32[2] = exp a c:f32[2] = exp b d:f32[2] = exp c in (d,) }")


def _equation(op: str, *inputs, name: str = "y", type_=F32, source: str = "", **params) -> Equation:
    return Equation(OpRef(op), inputs, (Var(name, type_),), params, source)


def _program(*equations: Equation, inputs=(X,), outputs=(X,), implicit: int = 0, implicit_outputs: int = 0) -> Program:
    return Program((), inputs, equations, outputs, implicit, implicit_outputs)


def _sized(*dims) -> Var:
    return Var("y", array_type(dims, DType.FLOAT32))


_BAD_BODY = _program(_equation("exp", Var("z", F32)))
BROKEN = (
    ("unknown operation", _program(_equation("frob", X)), "equation 0: the table has no operation 'frob'"),
    ("operand not defined", _program(_equation("exp", Var("z", F32))), "equation 0: an operand, z, is used before"),
    ("result not defined", _program(outputs=(Var("z", F32),)), "the signature: the results, z, is used before"),
    ("wrong type", _program(_equation("exp", X, type_=I64)), r"has type f32\[2\], but is declared as i64\[\]"),
    (
        "operands refused",
        _program(_equation("add", X, N), inputs=(X, N)),
        "add does not take its operands: dtypes differ",
    ),
    ("too many operands", _program(_equation("exp", X, X)), "exp does not take its operands: the operation takes 1"),
    ("too few operands", _program(_equation("take", X, axis=0)), "take does not take its operands: .*missing"),
    ("parameter missing", _program(_equation("softmax", X)), "softmax does not take its operands: .*missing.*'axis'"),
    (
        "parameter unknown",
        _program(_equation("exp", X, axis=0)),
        "exp does not take its operands: .*unexpected.*'axis'",
    ),
    (
        "parameter strange",
        _program(_equation("softmax", X, axis="last")),
        "softmax does not take its operands: .*found 'last'",
    ),
    ("name twice", _program(_equation("exp", X, name="x")), "equation 0: the name 'x' is defined twice"),
    ("variable twice", _program(inputs=(X, X)), "the signature: the name 'x' is defined twice"),
    ("no name", _program(inputs=(Var("3x", F32),), outputs=()), "the signature: '3x' cannot name a variable"),
    ("reserved name", _program(inputs=(Var("let", F32),), outputs=()), "the signature: 'let' cannot name a variable"),
    ("size not defined", _program(inputs=(_sized(Size.of(N)),), outputs=()), "the size n is used before it is defined"),
    (
        "size in a parameter not defined",
        _program(_equation("full", Literal(1.0, ShapedArray((), DType.FLOAT32)), shape=(Size.of(N),))),
        "equation 0: the size n is used before it is defined",
    ),
    ("size without a source", _program(inputs=(N, X), implicit=1), "no argument has an axis of size n alone"),
    (
        "size within another",
        _program(inputs=(N, _sized(Size.of(N) + 1)), outputs=(), implicit=1),
        "no argument has an axis of size n alone, from which it could be read",
    ),
    ("size of another type", _program(implicit=1), r"the implicit size x:f32\[2\] is no i64\[\]"),
    ("implicit result of another type", _program(implicit_outputs=1), r"the implicit size x:f32\[2\] is no i64\[\]"),
    ("const that is a size of another type", "{ lambda {n:f32[]} ; . let in () }", r"the size n:f32\[\] is no i64\[\]"),
    (
        "result that is a size of another type",
        "{ lambda ; x:f32[2] . let {a:f32[2]} = exp x in (a,) }",
        r"equation 0: the size a:f32\[2\] is no i64\[\]",
    ),
    ("too many implicit inputs", _program(implicit=2), "2 of 1 inputs cannot be implicit"),
    ("too many implicit outputs", _program(implicit_outputs=-1), "-1 of 1 outputs cannot be implicit"),
    ("nested program", _program(_equation("exp", X, body=_BAD_BODY)), "an operand, z, is used before it is defined"),
    ("nested in a tuple", _program(_equation("exp", X, body=(1, _BAD_BODY))), "an operand, z, is used before"),
)


@pytest.mark.parametrize(("program", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken_rules(program: Program | str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(parse(program) if isinstance(program, str) else program)


def test_what_is_right_passes() -> None:
    verify(GOOD)
    verify(_program(inputs=(N, X, _sized(Size.of(N), Size.of(N) * 2)), implicit=1))


def test_the_equation_is_shown_between_its_neighbours() -> None:
    equations = list(GOOD.equations)
    equations[2] = _equation("exp", equations[1].outputs[0], name="c", type_=I64, source="model.py:7")
    with pytest.raises(VerifyError) as caught:
        verify(Program((), GOOD.inputs, tuple(equations), GOOD.outputs))
    assert str(caught.value).split("\n") == [
        "equation 2 (from model.py:7): the result of exp has type f32[2], but is declared as i64[]",
        "      0: a:f32[2] = exp x",
        "      1: b:f32[2] = exp a",
        "  --> 2: c:i64[] = exp b",
        "      3: d:f32[2] = exp c",
    ]


def test_the_table_is_an_argument() -> None:
    few: OpTable = {"add": OPS["add"]}
    with pytest.raises(VerifyError, match="the table has no operation 'exp'"):
        verify_program(GOOD, few)
