"""Exponents of rescaled rows, added one view at a time up to one row, become one sum over all of them.

Scales of circuits are sums of such exponents: each layer splits what it reads, adds it, and adds exponents of its own.
Those of a tree only add up, so that one sum of them all is as good, to the last bit: `log2` of what `rescale` divides
by is a whole number, or infinite, or NaN, and whole numbers add exactly in any order as long as no sum of them exceeds
what the dtype counts. Where that may be (for single precision from 131,072 rows on), where a row is added twice or not
at all, and where a scale is anything but a sum, as where layers are mixed, nothing is changed; nor where the new sum
would be more equations than it replaces, or one of more rows.

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
from plica.passes.replaced import names_of

_DTYPES = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)

Counts = Sequence[int]
"""How often each row of an array is added: integers in the order of its first axis."""


@dataclass(slots=True)
class _Sums:
    """Which values are sums of exponents.

    Args:
        made_by: The equation that makes each of them.
        divisors: For each exponent itself, what it is the logarithm of.
        added: How often each row of them is added to what is looked at.
    """

    made_by: dict[Operand, Equation]
    divisors: dict[Operand, Operand]
    added: dict[Operand, list[int]]

    def add(self, operand: Operand, first: int, step: int, counts: Counts) -> None:
        """Note that some rows of an operand, from the first at a step, are added some more times."""
        if isinstance(operand, Literal):
            return
        rows = self.added.setdefault(operand, [0] * _rows(operand))
        for place, count in enumerate(counts):
            rows[first + place * step] += count


def sum_exponents(program: Program) -> Program:
    """The Program with one sum in place of many; nested Programs stay, and what nothing reads any more does too."""
    divisors = dict(_exponents(program.equations))
    if not divisors:
        return program
    sums = _Sums(_linear(program.equations, divisors), divisors, {})
    total = _total(program, sums.made_by)
    if total is None:
        return program
    sums.add(total, 0, 1, [1])
    reached = [one for one in reversed(program.equations) if _pass_on(sums, one)]
    exponents = [one for one in sums.added if one in divisors]
    if not _are_exact(exponents, [sums.added[one] for one in exponents], total.type.dtype):
        return program
    dead = _dead(program, reached, total)
    if all(sums.made_by[one] in dead for one in exponents):
        powers = [divisors[one] for one in reversed(exponents)]
        made = tuple(_summed(powers, total, names_of(program), of_powers=True))
    else:  # what reads some of the logarithms on needs them anyway
        dead = {one: None for one in dead if one.outputs[0] not in divisors}
        made = tuple(_summed(exponents[::-1], total, names_of(program), of_powers=False))
    num_rows = sum(_rows(var) for one in dead for var in one.outputs)
    if len(dead) <= len(made) or num_rows < sum(map(_rows, exponents)):
        return program
    equations = [made if total in one.outputs else (one,) for one in program.equations]
    return replace(program, equations=tuple(one for group in equations for one in group))


def _exponents(equations: Sequence[Equation]) -> Iterator[tuple[Operand, Operand]]:
    """The logarithms of what rescales divide by, which are powers of two, and those powers."""
    powers = {one.outputs[1]: None for one in equations if one.op.name == "rescale"}
    for one in equations:
        if one.op.name == "log2" and one.inputs[0] in powers and _is_known(one.outputs[0]):
            yield one.outputs[0], one.inputs[0]


def _is_known(var: Operand) -> bool:
    """Whether it has a known number of rows, which are no columns."""
    return len(var.type.shape) > 1 and isinstance(var.type.shape[0], int)


def _rows(var: Operand) -> int:
    return int(var.type.shape[0])


def _linear(equations: Sequence[Equation], divisors: Mapping[Operand, Operand]) -> dict[Operand, Equation]:
    """What exponents are added up to, and what is made of such sums by views of rows."""
    found: dict[Operand, Equation] = {}
    for one in equations:
        is_sum = one.op.name in _ROWS and _ROWS[one.op.name].holds(one) and all(_is_sum(x, found) for x in one.inputs)
        if is_sum or any(var in divisors for var in one.outputs):
            found.update((var, one) for var in one.outputs)
    return found


def _is_sum(operand: Operand, found: Mapping[Operand, Equation]) -> bool:
    return operand in found or (isinstance(operand, Literal) and operand.value == 0)


def _total(program: Program, made_by: Mapping[Operand, Equation]) -> Var | None:
    """The last sum of one row that something else reads."""
    others = [one for one in program.equations if not any(var in made_by for var in one.outputs)]
    read = dict.fromkeys([*program.outputs, *(x for one in others for x in one.inputs)])
    found = [one for one in read if isinstance(one, Var) and one in made_by and _rows(one) == 1]
    order = {var: place for place, var in enumerate(made_by)}
    return max(found, key=lambda one: order[one], default=None)


def _pass_on(sums: _Sums, equation: Equation) -> bool:
    """Count the rows of operands that the rows of results are made of; whether any is."""
    counts = [sums.added.get(var) for var in equation.outputs]
    if not any(one is not None for one in counts):
        return False
    if equation.outputs[0] not in sums.divisors:
        _ROWS[equation.op.name].pass_on(sums, equation, [one or [] for one in counts])
    return True


def _are_exact(exponents: Sequence[Operand], counts: Sequence[Counts], dtype: DType) -> bool:
    """Whether each row of the exponents is added once, and no sum of some of them is rounded."""
    if dtype not in _DTYPES or any(count != 1 for one in counts for count in one):
        return False
    limits = np.finfo(dtype.numpy)
    most = sum(map(_rows, exponents)) * max(limits.maxexp, -limits.minexp)
    return most <= int(2 ** (limits.nmant + 1))


def _dead(program: Program, reached: Sequence[Equation], total: Var) -> dict[Equation, None]:
    """The equations, of those that a sum is made by, the last one first, that nothing reads once it is made anew."""
    readers: dict[Operand, list[Equation]] = {}
    for one in program.equations:
        for operand in dict.fromkeys(one.inputs):
            readers.setdefault(operand, []).append(one)
    results = dict.fromkeys(program.outputs)
    dead: dict[Equation, None] = {}
    for one in reached:
        read_on = [var for var in one.outputs if var is not total]
        if all(var not in results and all(x in dead for x in readers.get(var, ())) for var in read_on):
            dead[one] = None
    return dead


def _summed(operands: Sequence[Operand], total: Var, names: Names, *, of_powers: bool) -> Iterator[Equation]:
    """The equations that make a sum of all rows of exponents, or of the logarithms of powers."""
    _, *rest = total.type.shape

    def of_rows(count: int) -> Var:
        return Var(names.fresh(), array_type((count, *rest), total.type.dtype))

    whole = operands[0]
    if len(operands) > 1:
        joined = of_rows(sum(map(_rows, operands)))
        yield Equation(OpRef("concat"), tuple(operands), (joined,), {"axis": 0})
        whole = joined
    if of_powers:
        exponents = of_rows(_rows(whole))
        yield Equation(OpRef("log2"), (whole,), (exponents,))
        whole = exponents
    yield Equation(OpRef("sum"), (whole,), (total,), {"axis": (0,), "keepdims": True})


# What adds rows, and views of rows.


def _is_along_rows(equation: Equation) -> bool:
    known = all(_is_known(one) for one in (*equation.inputs, *equation.outputs))
    return known and equation.params["axis"] % len(equation.outputs[0].type.shape) == 0


def _adds_alike(equation: Equation) -> bool:
    result = equation.outputs[0]
    return _is_known(result) and all(isinstance(x, Literal) or x.type == result.type for x in equation.inputs)


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
class _Rows:
    """An operation whose results are sums of rows of its operands.

    Args:
        holds: `(equation)`: whether that is so of this equation.
        pass_on: `(sums, equation, counts)`: counts the rows of operands that are added, from those of the results.
    """

    holds: Callable[[Equation], bool]
    pass_on: Callable[[_Sums, Equation, Sequence[Counts]], Any]


_ROWS: Mapping[str, _Rows] = {
    "add": _Rows(_adds_alike, _of_add),
    "concat": _Rows(_is_along_rows, _of_concat),
    "slice": _Rows(_is_along_rows, _of_slice),
    "split": _Rows(_is_along_rows, _of_split),
}
