"""Contractions of ordinary numbers, for several carriers: matrix products and Einstein sums with a weight."""

from collections.abc import Sequence

from plica.symbolic.semirings.semiring import Array, Namespace, Value, accumulate
from plica.symbolic.semirings.weights import Weight


def contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
    """Y = sum over h of x_h @ W_h.T, where W_h are the columns h*I to (h+1)*I of W."""
    numbers, units = Weight.of(weight).linear, values[0][0].shape[2]
    multiply = xp.multiply if units == 1 else xp.matmul  # (F, B, 1) and (F, 1, O)
    products = [
        (multiply(x, xp.matrix_transpose(numbers[:, :, index * units : (index + 1) * units])),)
        for index, (x,) in enumerate(values)
    ]
    return accumulate(lambda a, b: (xp.add(a[0], b[0]),), products)


def einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
    """Values and, last, a weight multiplied and summed."""
    terms, _, result = equation.partition("->")
    *names, weighted = terms.split(",")
    factors: dict[str, Array] = {}
    for name, (x,) in zip(names, values, strict=True):
        factors[name] = xp.multiply(factors[name], x) if name in factors else x
    first, *others = factors
    # the weight comes second: pairs are contracted from the left, so that no product of two values is built
    order = ",".join([first, weighted, *others])
    numbers = Weight.of(weight).linear
    return (xp.einsum(f"{order}->{result}", factors[first], numbers, *[factors[name] for name in others]),)
