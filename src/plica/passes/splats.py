r"""Operations read the number of a splat (one number, repeated) in place of the array, which need not be made.

    f(splat(a), splat(b))   -> splat(f(a, b))       f: arithmetic that every backend rounds alike
    f(splat(a), x)          -> f(a, x)              f: elementwise; where the result is as large without it
    view(splat(a))          -> splat(a)             parts of splats, and splats of one number joined, among them
    where(m, splat(a), splat(a))   -> splat(a)

Operations without a rule still read the array. Equations that check sizes stay as they are. The pass follows
small arrays of several numbers too, because a part of one may be a splat again.

>>> from plica.ir.types import spec
>>> from plica.passes.dead_code import eliminate_dead_code
>>> from plica.tracing import namespace as xp
>>> from plica.tracing.trace import trace
>>> program = trace(lambda x: x * (xp.full((3, 1), 2.0, dtype="float32")[1:] + 1.0), spec((2, "b")))
>>> print(eliminate_dead_code(read_splats(program)))
{ lambda ; {b:i64[]} x:f32[2,b] . let
    e:f32[2,b] = multiply x 3.0:f32[]
  in (e,) }
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import PlicaError
from plica.ir.op import View
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var, nested
from plica.ir.types import ArrayType, ShapedArray
from plica.ops import ELEMENTWISE, OPS
from plica.passes.dead_code import checks_sizes

_ENTRYWISE = frozenset(row.name for row in ELEMENTWISE)
_ROUNDED = ("add", "subtract", "multiply", "negative", "abs", "maximum", "minimum", "clip")
"""Operations that every backend rounds alike, so that the pass can compute them."""
_SMALL = 2**12  # the most entries of an array of several numbers that the pass follows


def read_splats(program: Program) -> Program:
    """The Program with numbers in place of splats; nested Programs and equations that become unread stay."""
    splats = _Splats()
    return replace(program, equations=tuple(map(splats.rewritten, program.equations)))


@dataclass(slots=True)
class _Splats:
    """The values known so far: the numbers of splats, and small arrays of several numbers."""

    numbers: dict[Operand, Literal] = field(default_factory=dict)
    arrays: dict[Operand, NDArray[Any]] = field(default_factory=dict)

    def rewritten(self, equation: Equation) -> Equation:
        """An equation with numbers for operands; a splat is made by `full` of its number."""
        if any(nested(equation.params)) or not equation.outputs or checks_sizes(equation):
            return equation
        number = self._number(equation)
        if number is not None:
            self.numbers.update((var, number) for var in equation.outputs if var.type.shape)
        else:
            self._follow(equation)
        number = self.numbers.get(equation.outputs[0])
        if number is not None and len(equation.outputs) == 1:
            shape = {"shape": equation.outputs[0].type.shape}
            is_made = equation.op.name == "full"
            return equation if is_made else replace(equation, op=OpRef("full"), inputs=(number,), params=shape)
        return self._reading(equation) if number is None and equation.op.name in _ENTRYWISE else equation

    def _of(self, operand: Operand) -> Literal | None:
        return operand if isinstance(operand, Literal) else self.numbers.get(operand)

    def _number(self, equation: Equation) -> Literal | None:
        """The one number of all results of an equation."""
        row = OPS[equation.op.name]
        if row.view is View.NONE:
            return self._computed(equation)
        entries = [self._of(operand) for operand in equation.inputs[row.view.operands]]
        first = entries[0] if entries else None
        return first if first is not None and all(_is_same(first, operand) for operand in entries) else None

    def _computed(self, equation: Equation) -> Literal | None:
        """The number that an elementwise operation makes of numbers."""
        operands = [self._of(operand) for operand in equation.inputs]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands) or not known or not _is_exact(equation):
            return None
        (value,) = _evaluated(equation, [np.asarray(operand.value, operand.type.dtype.numpy) for operand in known])
        return _literal(value, equation.outputs[0])

    def _follow(self, equation: Equation) -> None:
        """Note the results of an equation, where they are small and known."""
        if any(_entries(var) > _SMALL for var in (*equation.inputs, *equation.outputs)):
            return
        operands = [self._array(operand) for operand in equation.inputs]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands) or not known or not (_is_exact(equation) or _moves(equation)):
            return
        for var, value in zip(equation.outputs, _evaluated(equation, known), strict=True):
            if value.ndim and value.size and value.tobytes() == value.flat[:1].tobytes() * value.size:
                self.numbers[var] = _literal(value.flat[0], var)
            else:
                self.arrays[var] = value

    def _array(self, operand: Operand) -> NDArray[Any] | None:
        """The entries of an operand that is small and known."""
        number = self._of(operand)
        if number is None:
            return self.arrays.get(operand)
        return np.full(operand.type.shape, number.value, operand.type.dtype.numpy)

    def _reading(self, equation: Equation) -> Equation:
        """An elementwise operation that reads numbers instead of splats, where its result keeps its shape."""
        inputs: list[Operand] = list(equation.inputs)
        for index, operand in enumerate(equation.inputs):
            number = self.numbers.get(operand)
            candidate: Sequence[Operand] = [*inputs[:index], number or operand, *inputs[index + 1 :]]
            if number is not None and _types(equation, candidate) == [var.type for var in equation.outputs]:
                inputs = list(candidate)
        return replace(equation, inputs=tuple(inputs)) if tuple(inputs) != equation.inputs else equation


def _is_exact(equation: Equation) -> bool:
    """Whether every backend computes the same numbers, and none raises an error."""
    row = OPS[equation.op.name]
    return row.name in _ROUNDED and equation.outputs[0].type.dtype.kind in row.never_raises


def _moves(equation: Equation) -> bool:
    """Whether an equation only moves entries of its operands."""
    return OPS[equation.op.name].view not in (View.NONE, View.CHOSEN)


def _evaluated(equation: Equation, operands: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    with np.errstate(all="ignore"):
        returned = OPS[equation.op.name].reference(*operands, **equation.params)
    results = returned if len(equation.outputs) > 1 else (returned,)
    return [
        np.asarray(result).astype(var.type.dtype.numpy) for result, var in zip(results, equation.outputs, strict=True)
    ]


def _literal(value: Any, var: Var) -> Literal:
    return Literal(value.item(), ShapedArray((), var.type.dtype))


def _entries(operand: Operand) -> float:
    """How many entries an operand has; infinitely many where a size is not known."""
    return prod(operand.type.shape) if isinstance(operand.type, ShapedArray) else inf


def _is_same(number: Literal, other: Literal | None) -> bool:
    """Whether two numbers are the same; NaN equals NaN, and 0.0 differs from -0.0."""
    return other is not None and number.type == other.type and repr(number.value) == repr(other.value)


def _types(equation: Equation, inputs: Sequence[Operand]) -> list[ArrayType]:
    try:
        return list(OPS[equation.op.name].types([operand.type for operand in inputs], equation.params))
    except PlicaError:
        return []
