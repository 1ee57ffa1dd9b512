"""The private operations of native code of circuits (`circuits/operations.py`)."""

import math

from plica.backend.native.circuits.operations import EXPONENTS, Factors, sources_of
from plica.backend.native.stablehlo.call import Row, of
from plica.backend.native.stablehlo.rows.linalg import product
from plica.backend.native.stablehlo.rows.reduce import rescale
from plica.backend.native.stablehlo.values import Value, joined


def _look_up(table: Value, states: Value, columns: Value, starts: Value) -> Value:
    states_of_columns = states.take(columns, 1).transpose([1, 0])
    return table.take(states_of_columns.astype(starts.dtype) + starts.expand(1), 0)


def _sum_of_products(
    *operands: Value, looked_up: tuple[bool, ...], factors: Factors, rescaled: str
) -> Value | tuple[Value, Value]:
    values = [_look_up(*source) if len(source) > 1 else source[0] for source in sources_of(operands, looked_up)]
    total = None
    for factor in factors:
        operand = joined([values[number].part(0, start, start + length) for number, start, length in factor], 0)
        total = operand if total is None else total * operand
    assert total is not None, "a layer has factors"
    sums = product(total, operands[0], [(0, 0)], [(2, 1)])
    if not rescaled:
        return sums
    mantissas, powers = rescale(sums)
    # the logarithm to base 2 of a power of two is an integer, except for rounding
    return mantissas, (powers.log() * (1 / math.log(2))).map("round_nearest_even") if rescaled == EXPONENTS else powers


LAYERS: dict[str, Row] = {"look_up": of(_look_up), "sum_of_products": of(_sum_of_products)}
