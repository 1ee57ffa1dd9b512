"""Lookups in the softmax of a table become one operation, whose derivative has no array of zeros for the table.

The derivative of a lookup is an array of the table's size, zeros but for what was looked up; that of a softmax reads
all of it again. The rule fires where one lookup is all that reads the softmax.

>>> import plica.numpy as pnp
>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> table, index = spec((4, 3, 8)), spec((4, 5), "int64")
>>> print(look_up_softmax(trace(lambda x, i: pnp.lookup(pnp.softmax(x), i), table, index)))
{ lambda ; x:f32[4,3,8] i:i64[4,5] . let
    b:f32[4,5,3] = lookup_softmax x i
  in (b,) }
"""

from collections import Counter
from dataclasses import replace

from plica.backend.torch.operations.private import TORCH_OPS
from plica.ir.program import Equation, Operand, OpRef, Program
from plica.passes.dead_code import eliminate_dead_code

_LOOKUP_SOFTMAX = OpRef("lookup_softmax")


def look_up_softmax(program: Program) -> Program:
    """The Program with `lookup_softmax` for a lookup in a softmax that nobody else reads; nested Programs stay."""
    readers: Counter[Operand] = Counter(one for equation in program.equations for one in equation.inputs)
    readers.update(program.results)
    tables = {
        one.outputs[0]: one.inputs[0]
        for one in program.equations
        if one.op.name == "softmax" and one.params["axis"] % 3 == 2 and readers[one.outputs[0]] == 1
    }

    def found(equation: Equation) -> Equation:
        if equation.op.name != "lookup" or equation.inputs[0] not in tables:
            return equation
        return replace(equation, op=_LOOKUP_SOFTMAX, inputs=(tables[equation.inputs[0]], equation.inputs[1]))

    equations = tuple(map(found, program.equations))
    if equations == program.equations:
        return program
    return eliminate_dead_code(replace(program, equations=equations), TORCH_OPS)
