"""Exponents of rescaled rows, added one view at a time up to one row, become one sum over all of them.

Scales of circuits are sums of such exponents: each layer splits its inputs, adds them, and adds exponents of its own.
In a tree, one sum of them all has the same bits. The `log2` of a divisor of `rescale` is a whole number, or infinite,
or NaN. Whole numbers add exactly in any order, as long as the dtype holds every sum of them.

The pass changes nothing in these cases: a sum may be too large (in single precision from 131,072 rows on); a row is
added twice or not at all; a scale is anything but a sum, for example where layers are mixed; the new sum would take
more equations than it replaces, or more rows.

>>> import plica.tracing.namespace as xp
>>> from plica.ir.types import spec
>>> from plica.passes.dead_code import eliminate_dead_code
>>> from plica.tracing.trace import trace
>>> def scale(x):
...     exponent = xp.log2(xp.rescale(x)[1])
...     pairs = exponent[:2] + exponent[2:]
...     return pairs[:1] + pairs[1:]
>>> print(eliminate_dead_code(sum_exponents(trace(scale, spec((4, 3), "float32")))))
{ lambda ; x:f32[4,3] . let
    a:f32[4,3] b:f32[4,1] = rescale x
    j:f32[4,1] = log2 b
    i:f32[1,1] = sum[axis=(0,) keepdims=True] j
  in (i,) }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plica.ir.builder import Names
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var
from plica.ir.types import array_type
from plica.passes.replacements import names_of

_DTYPES = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)

Counts = Sequence[int]
"""How often each row of an array is added: integers in the order of its first axis."""


@dataclass(slots=True)
class _Sums:
    """The values that are sums of exponents.

    Args:
        made_by: The equation that makes each of them.
        divisors: For each exponent, the divisor that it is the logarithm of.
        added: How often each row of a value is added into the total.
    """

    made_by: dict[Operand, Equation]
    divisors: dict[Operand, Operand]
    added: dict[Operand, list[int]]

    def add(self, operand: Operand, first: int, step: int, counts: Counts) -> None:
        """Count the rows `first`, `first + step`, ... of an operand as added `counts` more times."""
        if isinstance(operand, Literal):
            return
        rows = self.added.setdefault(operand, [0] * _rows(operand))
        for index, count in enumerate(counts):
            rows[first + index * step] += count


def sum_exponents(program: Program) -> Program:
    """The Program with one sum in place of many; nested Programs and equations that become unread stay."""
    divisors = dict(_exponents(program.equations))
    if not divisors:
        return program
    sums = _Sums(_linear(program.equations, divisors), divisors, {})
    total = _total(program, sums.made_by)
    if total is None:
        return program
    sums.add(total, 0, 1, [1])
    reached = [equation for equation in reversed(program.equations) if _pass_on(sums, equation)]
    exponents = [exponent for exponent in sums.added if exponent in divisors]
    if not _are_exact(exponents, [sums.added[exponent] for exponent in exponents], total.type.dtype):
        return program
    dead = _dead(program, reached, total)
    if all(sums.made_by[exponent] in dead for exponent in exponents):
        powers = [divisors[exponent] for exponent in reversed(exponents)]
        new_equations = tuple(_summed(powers, total, names_of(program), of_powers=True))
    else:  # other equations need some of the logarithms anyway
        dead = {equation: None for equation in dead if equation.outputs[0] not in divisors}
        new_equations = tuple(_summed(exponents[::-1], total, names_of(program), of_powers=False))
    num_rows = sum(_rows(var) for equation in dead for var in equation.outputs)
    if len(dead) <= len(new_equations) or num_rows < sum(map(_rows, exponents)):
        return program
    equations = [new_equations if total in equation.outputs else (equation,) for equation in program.equations]
    return replace(program, equations=tuple(equation for group in equations for equation in group))


def _exponents(equations: Sequence[Equation]) -> Iterator[tuple[Operand, Operand]]:
    """The logarithms of the divisors of rescales, which are powers of two, each with its divisor."""
    powers = {equation.outputs[1]: None for equation in equations if equation.op.name == "rescale"}
    for equation in equations:
        if equation.op.name == "log2" and equation.inputs[0] in powers and _is_known(equation.outputs[0]):
            yield equation.outputs[0], equation.inputs[0]


def _is_known(var: Operand) -> bool:
    """Whether an array has a first axis of known size, and further axes."""
    return len(var.type.shape) > 1 and isinstance(var.type.shape[0], int)


def _rows(var: Operand) -> int:
    return int(var.type.shape[0])


def _linear(equations: Sequence[Equation], divisors: Mapping[Operand, Operand]) -> dict[Operand, Equation]:
    """The sums of exponents, and views of rows of such sums, each with the equation that makes it."""
    makers: dict[Operand, Equation] = {}
    for equation in equations:
        is_sum = (
            equation.op.name in _ROW_SUMS
            and _ROW_SUMS[equation.op.name].holds(equation)
            and all(_is_sum(operand, makers) for operand in equation.inputs)
        )
        if is_sum or any(var in divisors for var in equation.outputs):
            makers.update((var, equation) for var in equation.outputs)
    return makers


def _is_sum(operand: Operand, makers: Mapping[Operand, Equation]) -> bool:
    return operand in makers or (isinstance(operand, Literal) and operand.value == 0)


def _total(program: Program, made_by: Mapping[Operand, Equation]) -> Var | None:
    """The last sum of one row that something else reads."""
    others = [equation for equation in program.equations if not any(var in made_by for var in equation.outputs)]
    read = dict.fromkeys([*program.outputs, *(operand for equation in others for operand in equation.inputs)])
    totals = [operand for operand in read if isinstance(operand, Var) and operand in made_by and _rows(operand) == 1]
    order = {var: index for index, var in enumerate(made_by)}
    return max(totals, key=lambda operand: order[operand], default=None)


def _pass_on(sums: _Sums, equation: Equation) -> bool:
    """Count how often rows of the operands are added into the results; return whether any result counts."""
    counts = [sums.added.get(var) for var in equation.outputs]
    if not any(counted is not None for counted in counts):
        return False
    if equation.outputs[0] not in sums.divisors:
        _ROW_SUMS[equation.op.name].pass_on(sums, equation, [counted or [] for counted in counts])
    return True


def _are_exact(exponents: Sequence[Operand], counts: Sequence[Counts], dtype: DType) -> bool:
    """Whether each row of the exponents is added once, and no sum of some of them is rounded."""
    if dtype not in _DTYPES or any(count != 1 for row_counts in counts for count in row_counts):
        return False
    limits = np.finfo(dtype.numpy)
    largest = sum(map(_rows, exponents)) * max(limits.maxexp, -limits.minexp)
    return largest <= int(2 ** (limits.nmant + 1))


def _dead(program: Program, reached: Sequence[Equation], total: Var) -> dict[Equation, None]:
    """The equations that become unread once the total is made anew, from the last to the first."""
    readers: dict[Operand, list[Equation]] = {}
    for equation in program.equations:
        for operand in dict.fromkeys(equation.inputs):
            readers.setdefault(operand, []).append(equation)
    results = dict.fromkeys(program.outputs)
    dead: dict[Equation, None] = {}
    for equation in reached:
        other_results = [var for var in equation.outputs if var is not total]
        if all(var not in results and all(reader in dead for reader in readers.get(var, ())) for var in other_results):
            dead[equation] = None
    return dead


def _summed(operands: Sequence[Operand], total: Var, names: Names, *, of_powers: bool) -> Iterator[Equation]:
    """The equations that make a sum of all rows of exponents, or of the logarithms of powers."""
    _, *dims = total.type.shape

    def of_rows(count: int) -> Var:
        return Var(names.fresh(), array_type((count, *dims), total.type.dtype))

    rows = operands[0]
    if len(operands) > 1:
        joined = of_rows(sum(map(_rows, operands)))
        yield Equation(OpRef("concat"), tuple(operands), (joined,), {"axis": 0})
        rows = joined
    if of_powers:
        exponents = of_rows(_rows(rows))
        yield Equation(OpRef("log2"), (rows,), (exponents,))
        rows = exponents
    yield Equation(OpRef("sum"), (rows,), (total,), {"axis": (0,), "keepdims": True})


# Operations that add rows, and views of rows.


def _is_along_rows(equation: Equation) -> bool:
    known = all(_is_known(operand) for operand in (*equation.inputs, *equation.outputs))
    return known and equation.params["axis"] % len(equation.outputs[0].type.shape) == 0


def _adds_alike(equation: Equation) -> bool:
    result = equation.outputs[0]
    return _is_known(result) and all(
        isinstance(operand, Literal) or operand.type == result.type for operand in equation.inputs
    )


def _of_add(sums: _Sums, equation: Equation, counts: Sequence[Counts]) -> None:
    for operand in equation.inputs:
        sums.add(operand, 0, 1, counts[0])


def _of_slice(sums: _Sums, equation: Equation, counts: Sequence[Counts]) -> None:
    sums.add(equation.inputs[0], equation.params["start"], equation.params["step"], counts[0])


def _of_split(sums: _Sums, equation: Equation, counts: Sequence[Counts]) -> None:
    first = 0
    for size, rows in zip(equation.params["sizes"], counts, strict=True):
        sums.add(equation.inputs[0], first, 1, rows)
        first += size


def _of_concat(sums: _Sums, equation: Equation, counts: Sequence[Counts]) -> None:
    first = 0
    for operand in equation.inputs:
        sums.add(operand, 0, 1, counts[0][first : first + _rows(operand)])
        first += _rows(operand)


@dataclass(frozen=True, slots=True)
class _RowSums:
    """An operation whose results are sums of rows of its operands.

    Args:
        holds: `(equation)`: whether the results of this equation are such sums.
        pass_on: `(sums, equation, counts)`: counts the rows of operands, given the counts of the results.
    """

    holds: Callable[[Equation], bool]
    pass_on: Callable[[_Sums, Equation, Sequence[Counts]], Any]


_ROW_SUMS: Mapping[str, _RowSums] = {
    "add": _RowSums(_adds_alike, _of_add),
    "concat": _RowSums(_is_along_rows, _of_concat),
    "slice": _RowSums(_is_along_rows, _of_slice),
    "split": _RowSums(_is_along_rows, _of_split),
}
