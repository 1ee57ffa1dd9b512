"""One Program of many cases: what compiles slowly compiles once."""

from collections.abc import Sequence

from plica.ir.builder import Builder
from plica.ir.dtypes import as_dtype
from plica.ir.program import Operand, Program
from plica.ops import OPS
from tests.harness.programs import Array, literal
from tests.harness.samples import Case


def is_size(case: Case, array: Array) -> bool:
    """Whether an input of control flow is a size, or the bound of a loop."""
    return OPS[case.op].regions and array.dtype == "int64" and not array.shape


def given(case: Case) -> list[Array]:
    """What a Program of a case takes: sizes are written in it."""
    return [one for one in case.inputs if not is_size(case, one)]


def one_program(cases: Sequence[Case]) -> Program:
    """A Program that takes what all cases are given and returns all their results, one after the other."""
    builder = Builder(OPS)
    results: list[Operand] = []
    for case in cases:
        operands: list[Operand] = [
            literal(one) if is_size(case, one) else builder.argument(None, one.shape, as_dtype(one.dtype))
            for one in case.inputs
        ]
        results += builder.add(case.op, *operands, **case.params)
    return builder.build(results)
