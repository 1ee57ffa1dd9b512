"""Program text: what is printed is read back, and what is no Program is refused with its place."""

import math
import re
from itertools import product
from typing import Any

import pytest

from plica.errors import ParseError, VerifyError
from plica.frontend.programs import parse
from plica.ir.dtypes import DType
from plica.ir.op import PRIMITIVE, Op
from plica.ir.program import Equation, Literal, OpRef, Program, Var, print_program
from plica.ir.sizes import Size, floor_divide, opaque
from plica.ir.text import parse_program
from plica.ir.types import ShapedArray, array_type
from plica.ops import OPS
from tests.harness.together import grouped


# An operation that takes any parameters: what the grammar allows and no operation needs yet.
def _first(*operands, **_):
    return operands[0]


ANYTHING = Op("anything", _first, _first, list, PRIMITIVE)
TABLE = {**OPS, "anything": ANYTHING}
N = Var("n", ShapedArray((), DType.INT64))
X = Var("x", array_type((Size.of(N), 3), DType.FLOAT32))
n = Size.of(N)


def _program(operand: Any = X, **params: object) -> Program:
    inner = parse("{ lambda w:f32[3] ; x:f32[3] . let a:f32[3] = multiply x w in (a,) }")
    values = {name: inner if value == "PROGRAM" else value for name, value in params.items()}
    out = Var("out", X.type)
    return Program((), (N, X), (Equation(OpRef("anything"), (X, operand), (out,), values),), (out,), 1)


PARTS = (0.0, -0.0, 1.0, -1e-20, math.inf, -math.inf, math.nan)
LITERALS = (
    (1.5, DType.FLOAT32),
    (-0.0, DType.FLOAT64),
    (math.inf, DType.FLOAT32),
    (-math.inf, DType.FLOAT32),
    (math.nan, DType.FLOAT32),
    (1e-30, DType.FLOAT64),
    (-1e30, DType.FLOAT64),
    (5e-324, DType.FLOAT64),
    (3, DType.UINT8),
    (-(2**63), DType.INT64),
    (True, DType.BOOL),
    (False, DType.BOOL),
    (1 + 2j, DType.COMPLEX64),
    (-1j, DType.COMPLEX64),
    (1j, DType.COMPLEX128),
    (complex(-0.0, 1e-20), DType.COMPLEX128),
    (complex(math.nan, -math.inf), DType.COMPLEX128),
    *((complex(real, imag), DType.COMPLEX128) for real, imag in product(PARTS, PARTS)),
)


@grouped(("value", "dtype"), LITERALS)
def test_literals(value: complex, dtype: DType) -> None:
    program = _program(Literal(value, ShapedArray((), dtype)))
    assert parse_program(print_program(program), TABLE) == program
    (equation,) = parse_program(print_program(program), TABLE).equations
    assert repr(equation.inputs[1].value) == repr(value)
    assert equation.inputs[1].type.dtype == dtype


VALUES = (
    None,
    True,
    -3,
    0.25,
    -0.0,
    math.nan,
    -math.inf,
    1e22,
    2 - 3j,
    "text",
    'it\'s "quoted" \\ and\nlong, ünïcode [](){}',
    "",
    DType.BOOL,
    DType.FLOAT32,
    (),
    (1,),
    (1, (2.5, "a"), None, False, DType.INT8, (n,)),
    *(complex(real, imag) for real, imag in product(PARTS, PARTS)),
    n,
    -n,
    n * n * 3 - 2 * n + 7,
    floor_divide(n, 2) * n,
    opaque("min", n + 1, floor_divide(n, 3)),
    opaque("mod", n, 5) + opaque("max", n, 4),
    (n + 1, -1, n),
    "PROGRAM",
    ("PROGRAM", "PROGRAM")[:1],
)


@grouped("value", VALUES, ids=repr)
def test_parameters(value: object) -> None:
    program = _program(first=value, second=1)
    again = parse_program(print_program(program), TABLE)
    assert again == program
    if isinstance(value, float | complex):  # the signs of zeros, which equality ignores
        assert repr(again.equations[0].params["first"]) == repr(value)
    assert print_program(again) == print_program(program)
    assert type(again.equations[0].params["first"]) is type(program.equations[0].params["first"])


TEXTS = (
    "{ lambda ; . let\n  in () }",
    "{ lambda ; x:f32[] . let\n  in (x,) }",
    "{ lambda ; {n:i64[]} {m:i64[]} x:f32[n,m] y:bool[m+n,m^2*n] . let\n  in ({m}, {n}, y, x, 1.0:f32[]) }",
    "{ lambda {k:i64[]} w:f32[k] ; {n:i64[]} x:f32[n,k] . let\n    {a:i64[]} b:i64[a] = nonzero x\n  in ({a}, b) }",
    "{ lambda w:f32[3] v:i64[4] ; {n:i64[]} x:f32[n,3] . let\n    a:f32[n,3] = multiply x w\n  in (a, v) }",
    "{ lambda ; x:f32[3] . let\n    a:f32[] = sum[axis=(0,) keepdims=False] x\n"
    "    b:f32[1] = reshape[shape=(1,)] a\n  in (b,) }",
    "{ lambda ; . let\n    a:i64[4] = arange[size=4 dtype=i64]\n    b:i64[4] = add a 1:i64[]\n  in (b,) }",
)


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_its_own_normal_form(text: str) -> None:
    program = parse_program(text, TABLE)
    assert str(program) == text
    assert parse_program(" ".join(text.split()), TABLE) == program


def test_nested_programs_are_indented() -> None:
    assert str(_program(body="PROGRAM")) == (
        "{ lambda ; {n:i64[]} x:f32[n,3] . let\n"
        "    out:f32[n,3] = anything[body={ lambda w:f32[3] ; x:f32[3] . let\n"
        "          a:f32[3] = multiply x w\n"
        "        in (a,) }] x x\n"
        "  in (out,) }"
    )


GOOD = "{ lambda ; {n:i64[]} x:f32[n,3] . let\n  a:f32[n,3] = exp x\n in (a,) }"
# (what is replaced, by what, line, column, message)
BROKEN = (
    ("{ lambda", "lambda", 1, 1, "expected '{', found 'lambda'"),
    ("lambda", "lamda", 1, 3, "expected 'lambda', found 'lamda'"),
    ("; ", "", 1, 31, "expected the name of a variable, found '.'"),
    ("{n:", "{3:", 1, 13, "expected the name of a variable, found '3'"),
    ("n:i64[]}", "n i64[]}", 1, 15, "expected ':', found 'i64'"),
    ("x:f32[n", "x:float[n", 1, 24, "expected a data type (bool, i8, i16"),
    ("[n,3] .", "[n;3] .", 1, 29, "expected ',', found ';'"),
    ("[n,3] .", "[m,3] .", 1, 28, "expected a variable that is defined before its use, and 'm' is not, found 'm'"),
    ("[n,3] .", "[n,-3] .", 1, 32, "expected sizes that are not negative"),
    ("[n,3] .", "[n^n,3] .", 1, 30, "expected an exponent, found 'n'"),
    ("[n,3] .", "[sqrt(n),3] .", 1, 28, "expected a function of sizes (floordiv, mod, min, max), found 'sqrt'"),
    ("[n,3] .", "[min(n),3] .", 1, 33, "expected ',', found ')'"),
    ("[n,3] .", "[max(n,2,3),3] .", 1, 35, "expected ')', found ','"),
    ("[n,3] .", "[n,3.5] .", 1, 30, "expected a size, found '3.5'"),
    (" x:f32[n,3] .", " n:f32[n,3] .", 1, 22, "expected a new name, since 'n' is defined already"),
    (". let", "let", 2, 3, "expected ':', found 'a'"),
    ("= exp", "= explode", 2, 16, "expected the name of an operation in the table, found 'explode'"),
    ("= exp", "exp", 2, 3, "expected an equation `name:type = operation operands` or `in`"),
    ("exp x", "exp y", 2, 20, "expected a variable that is defined before its use, and 'y' is not"),
    ("exp x", "exp 1.5", 3, 2, "expected ':', found 'in'"),
    ("exp x", "exp 1.5:f32[3]", 2, 29, "expected the type of a scalar, such as f32[]"),
    ("exp x", "exp -x", 2, 21, "expected a number, found 'x'"),
    ("exp x", "exp[axis] x", 2, 24, "expected '=', found ']'"),
    ("exp x", "exp[axis=(1,2 x", 2, 30, "expected ',', found 'x'"),
    ("exp x", "exp[axis=;] x", 2, 25, "expected a size, found ';'"),
    ("exp x", "exp x $", 2, 22, "expected an equation `name:type = operation operands` or `in`"),
    ("(a,)", "(a,", 3, 9, "expected a number"),
    ("(a,)", "(a, {n})", 3, 9, "expected the sizes before the other results, found '{'"),
    ("(a,)", "a", 3, 5, "expected '(', found 'a'"),
    (" }", " } more", 3, 12, "expected the end of the text, found 'more'"),
)


@grouped(("old", "new", "line", "column", "message"), BROKEN)
def test_errors_show_the_place(old: str, new: str, line: int, column: int, message: str) -> None:
    place = GOOD.rindex(old) if old in (" }",) else GOOD.index(old)
    text = GOOD[:place] + new + GOOD[place + len(old) :]
    with pytest.raises(ParseError) as caught:
        parse(text)
    shown = str(caught.value)
    assert shown.startswith(f"line {line}, column {column}: "), shown
    assert message in shown
    assert shown.split("\n")[1] == f"  {text.splitlines()[line - 1]}"
    assert shown.split("\n")[2].index("^") == column + 1


@grouped("length", range(len(GOOD)))
def test_every_beginning_of_a_text_is_refused(length: int) -> None:
    with pytest.raises(ParseError, match=r"line \d, column \d+: expected"):
        parse(GOOD[:length])


@pytest.mark.parametrize("line_end", ["", "\n", "\n\n", "\x0b", "\u2028"])
def test_the_end_of_a_text_is_a_place(line_end: str) -> None:
    with pytest.raises(ParseError, match=re.escape("found 'the end'")):
        parse("{ lambda ; x:f32[2] . let" + line_end)


def test_the_public_parser_verifies() -> None:
    with pytest.raises(VerifyError, match="has type"):
        parse("{ lambda ; x:f32[2] . let a:f32[3] = exp x in (a,) }")
