"""Reading the text of Programs: `parse_program` is the inverse of `print_program` (`program.py`).

    { lambda w:f32[3] ; {b:i64[]} x:f32[b,3] . let
        a:f32[b,3] = multiply x w
        c:f32[b] = sum[axis=(1,) keepdims=False] a
      in (c,) }

Braces mark sizes of axes, which are never negative: implicit inputs, read off the shapes of the arguments, captured
ones, and results that later results have as their size. The grammar is in `docs/ir.md`.
"""

import ast
import re
from collections.abc import Callable
from typing import Any, NoReturn

from plica.errors import ParseError, ShapeError
from plica.ir.dtypes import FROM_SHORT, DType
from plica.ir.op import OpTable
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var
from plica.ir.sizes import SIZE_FUNCTIONS, Dim, Size, opaque
from plica.ir.types import ArrayType, ShapedArray, array_type

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<complex>\([+-]?(?:[\d.]+(?:e[+-]?\d+)?|inf|nan)[+-](?:[\d.]+(?:e[+-]?\d+)?|inf|nan)j\)
        |(?:\d+\.?\d*(?:e[+-]?\d+)?|\binf|\bnan)j\b)
    |(?P<float>(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\binf\b|\bnan\b))
    |(?P<int>\d+)
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<name>[^\W\d]\w*)
    |(?P<mark>//|[-+*^=:;.,(){}\[\]])
    |(?P<bad>.)""",
    re.VERBOSE,
)


class _Parser:
    """A recursive-descent parser; recursion is as deep as Programs are nested."""

    def __init__(self, text: str, table: OpTable) -> None:
        self._text = text
        self._table = table
        self._tokens = [(m.lastgroup or "", m.group(), m.start()) for m in _TOKEN.finditer(text)]
        self._tokens = [token for token in self._tokens if token[0] != "space"]
        self._tokens.append(("end", "the end", len(text)))
        self._at = 0
        self._scope: dict[str, Var] = {}

    # Tokens

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)][1]

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _next(self) -> str:
        text = self._peek()
        self._at += 1
        return text

    def _accept(self, text: str) -> bool:
        if self._peek() == text and self._kind() not in ("string", "end"):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail(f"expected {text!r}")

    def _name(self, what: str) -> str:
        if self._kind() != "name":
            self._fail(f"expected {what}")
        return self._next()

    def _fail(self, expected: str) -> NoReturn:
        _, token, start = self._tokens[self._at]
        line = self._text.count("\n", 0, start)
        column = start - (self._text.rfind("\n", 0, start) + 1)
        shown = self._text.split("\n")[line]
        raise ParseError(
            f"line {line + 1}, column {column + 1}: {expected}, found {token!r}\n  {shown}\n  {' ' * column}^"
        )

    # Grammar

    def program(self) -> Program:
        outer, self._scope = self._scope, {}
        self._expect("{")
        self._expect("lambda")
        consts = self._binders(";")
        implicit: list[Var] = []
        arguments: list[Var] = []
        while not self._accept("."):
            binder = self._binder()
            (implicit if binder.is_size else arguments).append(binder)
        self._expect("let")
        equations = []
        while not self._accept("in"):
            equations.append(self._equation())
        outputs, num_implicit = self._results()
        self._expect("}")
        self._scope = outer
        inputs = (*implicit, *arguments)
        return Program(consts, inputs, tuple(equations), outputs, len(implicit), num_implicit)

    def end(self) -> None:
        if self._kind() != "end":
            self._fail("expected the end of the text")

    def _binders(self, end: str) -> tuple[Var, ...]:
        binders = []
        while not self._accept(end):
            binders.append(self._binder())
        return tuple(binders)

    def _binder(self) -> Var:
        is_size = self._accept("{")
        name = self._name("the name of a variable")
        if name in self._scope:
            self._at -= 1
            self._fail(f"expected a new name, since {name!r} is defined already")
        self._expect(":")
        var = Var(name, self._type(), is_size)
        if is_size:
            self._expect("}")
        self._scope[name] = var
        return var

    def _type(self) -> ArrayType:
        dtype = self._dtype()
        self._expect("[")
        dims = []
        while not self._accept("]"):
            dims.append(self._size())
            if self._peek() != "]":
                self._expect(",")
        try:
            return array_type(dims, dtype)
        except ShapeError as error:
            self._at -= 1
            self._fail(f"expected sizes that are not negative ({error})")

    def _dtype(self) -> DType:
        if self._peek() not in FROM_SHORT:
            self._fail(f"expected a data type ({', '.join(FROM_SHORT)})")
        return FROM_SHORT[self._next()]

    def _size(self) -> Dim:
        result = self._term()
        while self._peek() in ("+", "-"):
            result = result + self._term() if self._next() == "+" else result - self._term()
        return result

    def _term(self) -> Dim:
        if self._accept("-"):
            return -self._term()
        result = self._factor()
        while self._accept("*"):
            result = result * self._factor()
        return result

    def _factor(self) -> Dim:
        if self._kind() == "int":
            return int(self._next())
        base = self._atom()
        if self._accept("^"):
            if self._kind() != "int":
                self._fail("expected an exponent")
            power, result = int(self._next()), base
            for _ in range(power - 1):
                result = result * base
            return result
        return base

    def _atom(self) -> Dim:
        name = self._name("a size")
        if self._peek() != "(":
            return Size.of(self._variable(name))
        if name not in SIZE_FUNCTIONS:
            self._at -= 1
            self._fail(f"expected a function of sizes ({', '.join(SIZE_FUNCTIONS)})")
        self._expect("(")
        first = self._size()
        self._expect(",")
        second = self._size()
        self._expect(")")
        return opaque(name, first, second)

    def _variable(self, name: str) -> Var:
        if name not in self._scope:
            self._at -= 1
            self._fail(f"expected a variable that is defined before its use, and {name!r} is not")
        return self._scope[name]

    def _equation(self) -> Equation:
        start = self._at
        while self._peek() != "=":  # operands may use names that the binders define, so binders come last
            if self._kind() == "end":
                self._at = start
                self._fail("expected an equation `name:type = operation operands` or `in`")
            self._at += 1
        binders_end = self._at
        self._at += 1
        op = self._name("the name of an operation")
        if op not in self._table:
            self._at -= 1
            self._fail("expected the name of an operation in the table")
        params = self._params()
        inputs = []
        while self._is_operand():
            inputs.append(self._operand())
        after, self._at = self._at, start
        outputs = []
        while self._at < binders_end:
            outputs.append(self._binder())
        self._at = after
        return Equation(OpRef(op), tuple(inputs), tuple(outputs), params)

    def _is_operand(self) -> bool:
        if self._kind() in ("int", "float", "complex") or self._peek() in ("-", "True", "False"):
            return True
        return self._kind() == "name" and self._peek() != "in" and self._peek(1) != ":"

    def _operand(self) -> Operand:
        if self._kind() == "name" and self._peek() not in ("True", "False", "inf", "nan"):
            return self._variable(self._next())
        value = self._number()
        self._expect(":")
        type_ = self._type()
        if type_.shape:
            self._at -= 1
            self._fail("expected the type of a scalar, such as f32[]")
        return Literal(value, ShapedArray((), type_.dtype))

    def _number(self) -> bool | int | float | complex:
        if self._peek() in ("True", "False"):
            return self._next() == "True"
        sign = "-" if self._accept("-") else ""  # goes to the constructor: -(1j) would have a real part of -0.0
        kinds: dict[str, Callable[[str], int | float | complex]] = {"int": int, "float": float, "complex": complex}
        kind = self._kind()
        if kind not in kinds:
            self._fail("expected a number")
        return kinds[kind](f"{sign}{self._next()}")

    def _params(self) -> dict[str, Any]:
        params = {}
        if self._accept("["):
            while not self._accept("]"):
                name = self._name("the name of a parameter")
                self._expect("=")
                params[name] = self._value()
        return params

    def _value(self) -> Any:
        if self._accept("("):
            entries = []
            while not self._accept(")"):
                entries.append(self._value())
                if self._peek() != ")":
                    self._expect(",")
            return tuple(entries)
        if self._peek() == "{":
            return self.program()
        if self._kind() == "string":
            text = self._next()
            return ast.literal_eval(text)
        if self._peek() in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[self._next()]
        if self._peek() in FROM_SHORT:
            return self._dtype()
        numbers = ("float", "complex")
        if self._kind() in numbers or (self._peek() == "-" and self._tokens[self._at + 1][0] in numbers):
            return self._number()
        return self._size()

    def _results(self) -> tuple[tuple[Operand, ...], int]:
        self._expect("(")
        outputs: list[Operand] = []
        implicit = 0
        while not self._accept(")"):
            if self._peek() == "{" and implicit < len(outputs):
                self._fail("expected the sizes before the other results")
            if self._accept("{"):
                implicit += 1
                outputs.append(self._operand())
                self._expect("}")
            else:
                outputs.append(self._operand())
            if self._peek() != ")":
                self._expect(",")
        return tuple(outputs), implicit


def parse_program(text: str, table: OpTable) -> Program:
    """The Program that `text` writes down.

    Raises:
        ParseError: The text does not follow the grammar; the message shows the place.
    """
    parser = _Parser(text, table)
    program = parser.program()
    parser.end()
    return program
