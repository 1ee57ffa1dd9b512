"""Operations that native code of circuits has beside Plica's own: `look_up` and `sum_of_products`.

    y[f, b, o] = sum over i of w[f, i, o] * product over factors of x[f, b, i]

`sum_of_products` is one layer of products and weighted sums, in linear or scaled numbers. A factor is made of runs:
neighbours along the first axis of a source, which is an array `(G, B, I)`, or rows of a table `(N, I)` that states
`(B, D)` tell: fold g has row `states[b, columns[g]] + starts[g]`. So nothing is copied before it is multiplied, and a
looked-up row is read where it is needed, by data that lies as it was given. `look_up` gives such rows themselves.

With `rescaled` the rows of the result are divided by powers of two as `rescale` does; the second result is these powers
("powers"), or their exponents ("exponents"). They are at most the largest power whose reciprocal is a normal number.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from plica.errors import ShapeError
from plica.ir.op import Array, Op, Sample, op_table, sample
from plica.ir.types import ArrayType, array_type
from plica.ops import OPS
from plica.ops.rules import require_equal_sizes, require_kind, require_same_dtype


class Run(NamedTuple):
    """Neighbours along the first axis of a source.

    Args:
        source: Which source.
        start: Where they begin there.
        length: How many they are.
    """

    source: int
    start: int
    length: int


LOOKED_UP = 4
"""Operands of a source that is looked up: table, states, columns, starts."""

POWERS, EXPONENTS = "powers", "exponents"
"""What the second result of `sum_of_products` is."""

Factors = Sequence[Sequence[tuple[int, int, int]]]


def sources_of(operands: Sequence[Any], looked_up: Sequence[bool]) -> Iterator[tuple[Any, ...]]:
    """The operands of each source, after the weight: an array, or a table, states, columns and starts."""
    rest = iter(operands[1:])
    for is_looked_up in looked_up:
        yield tuple(islice(rest, LOOKED_UP if is_looked_up else 1))


def _folds(source: tuple[ArrayType, ...]) -> Any:
    return source[-1].shape[0]


def _rows(source: tuple[ArrayType, ...]) -> Any:
    return source[1].shape[0] if len(source) == LOOKED_UP else source[0].shape[1]


def _type(*types: ArrayType, looked_up: Sequence[bool], factors: Factors, rescaled: str) -> Any:
    weight = types[0]
    if len(types) != 1 + len(looked_up) + (LOOKED_UP - 1) * sum(looked_up) or len(weight.shape) != 3:
        raise ShapeError(
            f"sum_of_products takes a weight (F, I, O) and its sources, found {', '.join(map(str, types))}."
        )
    require_kind([weight], ("float",))
    folds, units, outputs = weight.shape
    sources = list(sources_of(types, looked_up))
    rows = _rows(sources[0])
    for source in sources:
        require_same_dtype(weight, source[0])
        found = _rows(source), source[0].shape[-1]
        message = f"sum_of_products: {', '.join(map(str, source))} has not {rows} rows of {units} units."
        for size, wanted in zip(found, (rows, units), strict=True):
            require_equal_sizes(wanted, size, message)
    for factor in factors:
        if sum(length for _, _, length in factor) != folds:
            raise ShapeError(f"sum_of_products: the runs {factor} are not {folds} folds together.")
        for place, start, length in factor:
            size = _folds(sources[place])
            if not isinstance(size, int) or not 0 <= start <= start + length <= size:
                raise ShapeError(f"sum_of_products: source {place} has no {length} folds from {start} on.")
    made = array_type((folds, rows, outputs), weight.dtype)
    return (made, array_type((folds, rows, 1), weight.dtype)) if rescaled else made


def _reference(*arrays: Array, looked_up: Sequence[bool], factors: Factors, rescaled: str) -> Any:
    values = [_values(*source) for source in sources_of(arrays, looked_up)]
    product: Any = 1.0
    for factor in factors:
        product = product * np.concatenate([values[place][at : at + length] for place, at, length in factor])
    made = np.matmul(product, arrays[0])
    if not rescaled:
        return made
    mantissas, powers = OPS["rescale"].reference(made)
    return mantissas, powers if rescaled == POWERS else np.log2(powers)


def _values(array: Array, *lookup: Array) -> Array:
    if not lookup:
        return array
    states, columns, starts = lookup
    found: Array = array[states[:, columns].T + starts[:, None]]
    return found


def _samples() -> Iterable[Sample]:
    weight = np.linspace(0.1, 1.0, 2 * 3 * 2, dtype="float32").reshape(2, 3, 2)
    table = np.linspace(0.0, 2.0, 12, dtype="float32").reshape(4, 3)
    states = np.asarray([[0, 1], [1, 1]])
    columns, starts = np.asarray([1, 0, 1]), np.asarray([0, 2, 2])
    x = np.linspace(1.0, 3.0, 18, dtype="float32").reshape(3, 2, 3)
    for rescaled in ("", POWERS, EXPONENTS):
        yield sample(weight, x, looked_up=(False,), factors=(((0, 1, 2),),), rescaled=rescaled)
        factors = (((0, 1, 1), (1, 0, 1)), ((1, 1, 2),))
        yield sample(
            weight, x, table, states, columns, starts, looked_up=(False, True), factors=factors, rescaled=rescaled
        )


def _look_up_type(table: ArrayType, states: ArrayType, columns: ArrayType, starts: ArrayType) -> ArrayType:
    require_kind([table], ("float",))
    require_kind([states, columns, starts], ("int",))
    return array_type((columns.shape[0], states.shape[0], table.shape[1]), table.dtype)


def _look_up_samples() -> Iterable[Sample]:
    table = np.linspace(0.0, 2.0, 12, dtype="float32").reshape(4, 3)
    yield sample(table, np.asarray([[0, 1], [1, 1], [0, 0]]), np.asarray([1, 0]), np.asarray([0, 2]))


LOOK_UP = Op("look_up", _look_up_type, _values, _look_up_samples)
SUM_OF_PRODUCTS = Op("sum_of_products", _type, _reference, _samples)

NATIVE_OPS = op_table(OPS.values(), (LOOK_UP, SUM_OF_PRODUCTS))
"""The operations of Programs that become native code."""
