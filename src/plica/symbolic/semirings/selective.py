"""Semirings whose sum chooses one of its terms: max-product in linear and in log space, min-plus, truth values.

    y[o] = max over h and i of W[o, h*I + i] x_h[i]

A contraction makes an array of all its terms, `(F, B, O, I)` for each input: such queries run in chunks of rows.

Source: Goodman, "Semiring parsing", 1999; Poon and Domingos, "Sum-product networks: a new deep architecture", 2011, for
the most probable explanation as an evaluation in another semiring.
"""

from collections.abc import Callable, Sequence

from plica.symbolic.semirings.algebra import BOOLEAN as TRUTH
from plica.symbolic.semirings.algebra import MAX_PRODUCT as LARGEST
from plica.symbolic.semirings.algebra import MIN_PLUS as LEAST
from plica.symbolic.semirings.semiring import (
    Array,
    Namespace,
    Semiring,
    Value,
    accumulate,
    outer_of,
    unchanged,
)
from plica.symbolic.semirings.weights import Weight

FromWeight = Callable[[Namespace, Weight], Value]


def _product(multiply: str) -> Callable[[Namespace, Value, Value], Value]:
    return lambda xp, a, b: (getattr(xp, multiply)(a[0], b[0]),)


def _total(choose: str) -> Callable[[Namespace, Sequence[Value]], Value]:
    return lambda xp, values: accumulate(lambda a, b: (getattr(xp, choose)(a[0], b[0]),), values)


def _contract(multiply: str, reduce: str, choose: str, from_weight: FromWeight) -> Callable[..., Value]:
    """One input after another: all its terms, then the choice among them; at last the choice among inputs."""

    def contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
        (numbers,), units = from_weight(xp, Weight.of(weight)), values[0][0].shape[2]
        chosen = []
        for place, (x,) in enumerate(values):
            columns = numbers[:, :, place * units : (place + 1) * units]
            terms = getattr(xp, multiply)(xp.expand_dims(x, axis=2), xp.expand_dims(columns, axis=1))  # (F, B, O, I)
            chosen.append((getattr(xp, reduce)(terms, axis=3),))
        return _total(choose)(xp, chosen)

    return contract


def _einsum(multiply: str, reduce: str, from_weight: FromWeight) -> Callable[..., Value]:
    """All terms on axes of their own, then the choice among those that are not in the result."""

    def einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
        terms, _, result = equation.partition("->")
        names = terms.split(",")
        summed = "".join(dict.fromkeys(letter for name in names for letter in name if letter not in result))
        arrays = [value[0] for value in [*values, from_weight(xp, Weight.of(weight))]]
        factors = [(_spread(xp, x, name, result + summed),) for name, x in zip(names, arrays, strict=True)]
        (product,) = accumulate(lambda a, b: _product(multiply)(xp, a, b), factors)
        axes = tuple(range(len(result), len(result + summed)))
        return (getattr(xp, reduce)(product, axis=axes) if axes else product,)

    return einsum


def _spread(xp: Namespace, x: Array, term: str, letters: str) -> Array:
    """`x` with its axes in the order of `letters`, and axes of size 1 for those that it lacks."""
    order = sorted(range(len(term)), key=lambda axis: letters.index(term[axis]))
    x = xp.permute_dims(x, tuple(order))
    for place, letter in enumerate(letters):
        if letter not in term:
            x = xp.expand_dims(x, axis=place)
    return x


def _linear_weight(_: Namespace, weight: Weight) -> Value:
    return (weight.linear,)


def _log_weight(xp: Namespace, weight: Weight) -> Value:
    return (weight.log(xp),)


def _cost(xp: Namespace, weight: Weight) -> Value:
    return (-weight.log(xp),)


def _truth(xp: Namespace, possible: Array, like: Array) -> Value:
    return (xp.astype(possible, like.dtype),)


MAX_PRODUCT = Semiring(
    name="max-product",
    algebra=LARGEST,
    logarithmic=False,
    negative=False,
    from_linear=lambda _, x: (x,),
    from_log=lambda xp, x: (xp.exp(x),),
    from_weight=_linear_weight,
    to_log=lambda xp, value: xp.safe_log(value[0]),
    to_linear=lambda _, value: value[0],
    result=lambda _, value: value[0],
    product=_product("multiply"),
    outer=outer_of("multiply"),
    total=_total("maximum"),
    contract=_contract("multiply", "max", "maximum", _linear_weight),
    einsum=_einsum("multiply", "max", _linear_weight),
    normalise=unchanged,
    zero=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.ones(shape, dtype=dtype),),
)

MAX_SUM = Semiring(
    name="max-sum",
    algebra=LARGEST,
    logarithmic=True,
    negative=False,
    from_linear=lambda xp, x: (xp.safe_log(x),),
    from_log=lambda _, x: (x,),
    from_weight=_log_weight,
    to_log=lambda _, value: value[0],
    to_linear=lambda xp, value: xp.exp(value[0]),
    result=lambda _, value: value[0],
    product=_product("add"),
    outer=outer_of("add"),
    total=_total("maximum"),
    contract=_contract("add", "max", "maximum", _log_weight),
    einsum=_einsum("add", "max", _log_weight),
    normalise=unchanged,
    zero=lambda xp, shape, dtype: (xp.full(shape, float("-inf"), dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
)

MIN_PLUS = Semiring(
    name="min-plus",
    algebra=LEAST,
    logarithmic=True,
    negative=False,
    from_linear=lambda xp, x: (-xp.safe_log(x),),
    from_log=lambda _, x: (-x,),
    from_weight=_cost,
    to_log=lambda _, value: -value[0],
    to_linear=lambda xp, value: xp.exp(-value[0]),
    result=lambda _, value: value[0],
    product=_product("add"),
    outer=outer_of("add"),
    total=_total("minimum"),
    contract=_contract("add", "min", "minimum", _cost),
    einsum=_einsum("add", "min", _cost),
    normalise=unchanged,
    zero=lambda xp, shape, dtype: (xp.full(shape, float("inf"), dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
)


def _possible_weight(xp: Namespace, weight: Weight) -> Value:
    # where a weight underflows its logarithm still tells that it is not zero
    if weight.in_logs is None:
        return _truth(xp, xp.not_equal(weight.linear, 0.0), weight.linear)
    logs = weight.log(xp)
    return _truth(xp, xp.greater(logs, float("-inf")), logs)


BOOLEAN = Semiring(
    name="boolean",
    algebra=TRUTH,
    logarithmic=False,
    negative=False,
    from_linear=lambda xp, x: _truth(xp, xp.not_equal(x, 0.0), x),
    from_log=lambda xp, x: _truth(xp, xp.greater(x, float("-inf")), x),
    from_weight=_possible_weight,
    to_log=lambda xp, value: xp.safe_log(value[0]),
    to_linear=lambda _, value: value[0],
    result=lambda _, value: value[0],
    product=_product("multiply"),
    outer=outer_of("multiply"),
    total=_total("maximum"),
    contract=_contract("multiply", "max", "maximum", _possible_weight),
    einsum=_einsum("multiply", "max", _possible_weight),
    normalise=unchanged,
    zero=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.ones(shape, dtype=dtype),),
)
