"""Semirings whose sum chooses one of its terms: max-product in linear and in log space, min-plus, truth values.

    y[o] = max over h and i of W[o, h*I + i] x_h[i]

A contraction makes an array of all its terms, `(F, B, O, I)` for each input: such queries run in chunks of rows.

Source: Goodman, "Semiring parsing", 1999; Poon and Domingos, "Sum-product networks: a new deep architecture", 2011, for
the most probable explanation as an evaluation in another semiring.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from plica.symbolic.semirings.algebra import BOOLEAN as TRUTH
from plica.symbolic.semirings.algebra import MAX_PRODUCT as LARGEST
from plica.symbolic.semirings.algebra import MIN_PLUS as LEAST
from plica.symbolic.semirings.algebra import Algebra
from plica.symbolic.semirings.semiring import (
    Array,
    Namespace,
    Semiring,
    Value,
    accumulate,
    outer_of,
    spread,
    unchanged,
)
from plica.symbolic.semirings.weights import Weight

FromWeight = Callable[[Namespace, Weight], Value]


_CHOICE_ALONG_AXIS = {"maximum": "max", "minimum": "min"}  # for each choice between two arrays


def selective(
    name: str, algebra: Algebra, *, multiply: str, choose: str, from_weight: FromWeight, **columns: Any
) -> Semiring:
    """A semiring of one array whose sum chooses one of its terms.

    Args:
        name: The name of the row.
        algebra: Its algebra.
        multiply: The function of the namespace that is the product: `add` of logarithms, `multiply` of numbers.
        choose: The function of the namespace that is the sum: `maximum` or `minimum`.
        from_weight: Makes a value of the numbers of a parameter.
        columns: The other columns of the row: conversions, neutral elements and flags.
    """

    def product(xp: Namespace, a: Value, b: Value) -> Value:
        return (getattr(xp, multiply)(a[0], b[0]),)

    def total(xp: Namespace, values: Sequence[Value]) -> Value:
        return accumulate(lambda a, b: (getattr(xp, choose)(a[0], b[0]),), values)

    def chosen(xp: Namespace, terms: Array, axes: tuple[int, ...]) -> Array:
        return getattr(xp, _CHOICE_ALONG_AXIS[choose])(terms, axis=axes) if axes else terms

    def contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
        """The choice among the terms of each input, one input after another; then the choice among inputs."""
        (numbers,), units = from_weight(xp, Weight.of(weight)), values[0][0].shape[2]
        choices = []
        for index, (x,) in enumerate(values):
            columns = numbers[:, :, index * units : (index + 1) * units]
            (terms,) = product(xp, (xp.expand_dims(x, axis=2),), (xp.expand_dims(columns, axis=1),))  # (F, B, O, I)
            choices.append((chosen(xp, terms, (3,)),))
        return total(xp, choices)

    def einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
        """All terms, with an axis for each letter; then the choice along the axes that the result lacks."""
        left, _, result = equation.partition("->")
        names = left.split(",")
        summed = "".join(dict.fromkeys(letter for term in names for letter in term if letter not in result))
        arrays = [value[0] for value in [*values, from_weight(xp, Weight.of(weight))]]
        factors = [(spread(xp, x, term, result + summed),) for term, x in zip(names, arrays, strict=True)]
        (terms,) = accumulate(partial(product, xp), factors)
        return (chosen(xp, terms, tuple(range(len(result), len(result + summed)))),)

    return Semiring(
        name=name,
        algebra=algebra,
        negative=False,
        from_weight=from_weight,
        result=lambda _, value: value[0],
        product=product,
        outer=outer_of(multiply),
        total=total,
        contract=contract,
        einsum=einsum,
        normalize=unchanged,
        **columns,
    )


def _truth(xp: Namespace, possible: Array, like: Array) -> Value:
    return (xp.astype(possible, like.dtype),)


def _possible_weight(xp: Namespace, weight: Weight) -> Value:
    # where a weight underflows, its logarithm shows that it is not zero
    if weight.in_logs is None:
        return _truth(xp, xp.not_equal(weight.linear, 0.0), weight.linear)
    logs = weight.log(xp)
    return _truth(xp, xp.greater(logs, float("-inf")), logs)


MAX_PRODUCT = selective(
    "max-product",
    LARGEST,
    multiply="multiply",
    choose="maximum",
    logarithmic=False,
    from_linear=lambda _, x: (x,),
    from_log=lambda xp, x: (xp.exp(x),),
    from_weight=lambda _, weight: (weight.linear,),
    to_log=lambda xp, value: xp.safe_log(value[0]),
    to_linear=lambda _, value: value[0],
    zero=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.ones(shape, dtype=dtype),),
)

MAX_SUM = selective(
    "max-sum",
    LARGEST,
    multiply="add",
    choose="maximum",
    logarithmic=True,
    from_linear=lambda xp, x: (xp.safe_log(x),),
    from_log=lambda _, x: (x,),
    from_weight=lambda xp, weight: (weight.log(xp),),
    to_log=lambda _, value: value[0],
    to_linear=lambda xp, value: xp.exp(value[0]),
    zero=lambda xp, shape, dtype: (xp.full(shape, float("-inf"), dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
)

MIN_PLUS = selective(
    "min-plus",
    LEAST,
    multiply="add",
    choose="minimum",
    logarithmic=True,
    from_linear=lambda xp, x: (-xp.safe_log(x),),
    from_log=lambda _, x: (-x,),
    from_weight=lambda xp, weight: (-weight.log(xp),),
    to_log=lambda _, value: -value[0],
    to_linear=lambda xp, value: xp.exp(-value[0]),
    zero=lambda xp, shape, dtype: (xp.full(shape, float("inf"), dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
)

BOOLEAN = selective(
    "boolean",
    TRUTH,
    multiply="multiply",
    choose="maximum",
    logarithmic=False,
    from_linear=lambda xp, x: _truth(xp, xp.not_equal(x, 0.0), x),
    from_log=lambda xp, x: _truth(xp, xp.greater(x, float("-inf")), x),
    from_weight=_possible_weight,
    to_log=lambda xp, value: xp.safe_log(value[0]),
    to_linear=lambda _, value: value[0],
    zero=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.ones(shape, dtype=dtype),),
)
