"""The private operations of native code of circuits: `look_up`, `sum_of_products` and `tree_of_sums`.

    y[f, b, o] = sum over i of w[f, i, o] * product over factors of x[f, b, i]

`sum_of_products` is one layer of products and weighted sums, in linear or scaled numbers. A factor consists of runs: a
run is consecutive folds of a source. A source is an array `(G, B, I)`, or rows of a table `(N, I)` that states `(B, D)`
select: fold g has row `states[b, columns[g]] + starts[g]`. So no factor is copied before it is multiplied, and data
keeps its layout. `look_up` returns the selected rows themselves.

With `rescaled` the rows of the result are divided by powers of two as `rescale` does. The second result is these powers
("powers"), or their exponents ("exponents"). They are at most the largest power whose reciprocal is a normal number.

`tree_of_sums` is many folds of such layers, each of which has one reader, in an order that needs few slots:

    for each step: slot[f] = sum over i of w[g, i, o] * product over factors of (slot[h] or a row of a source)

A step has a form: its weight, whether its rows are rescaled, and what each factor reads. A factor reads a source, or
the result that an earlier step left in a slot (`SLOT`). The second result is the sum of exponents of a root's steps.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from plica.errors import ShapeError
from plica.ir.op import Array, Op, Sample, sample
from plica.ir.types import ArrayType, array_type
from plica.ops import OPS, with_private
from plica.ops.rules import require_equal_sizes, require_kind, require_same_dtype


class Run(NamedTuple):
    """Consecutive folds of a source.

    Args:
        source: The index of the source.
        start: The first fold.
        length: The number of folds.
    """

    source: int
    start: int
    length: int


LOOKED_UP = 4
"""The number of operands of a lookup: table, states, columns, starts."""

POWERS, EXPONENTS = "powers", "exponents"
"""The second result of `sum_of_products`."""

SLOT = -1
"""In the factors of a `Form`, in place of a source: the factor reads a slot, where an earlier step left its result."""

STEP = 3
"""The numbers of a step of `tree_of_sums` before those of its factors: form, fold of the weight, slot of the result."""


class Form(NamedTuple):
    """The properties that many steps of a tree share; each form becomes code of its own.

    Args:
        weight: The index of the weight.
        rescaled: Whether rows of the result are divided by powers of two.
        factors: The source of each factor, or `SLOT`.
    """

    weight: int
    rescaled: bool
    factors: tuple[int, ...]


Factors = Sequence[Sequence[tuple[int, int, int]]]


def sources_of(operands: Sequence[Any], looked_up: Sequence[bool]) -> Iterator[tuple[Any, ...]]:
    """The operands of each source, after the weight: an array, or a table, states, columns and starts."""
    remaining = iter(operands[1:])
    for is_looked_up in looked_up:
        yield tuple(islice(remaining, LOOKED_UP if is_looked_up else 1))


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
        sizes = _rows(source), source[0].shape[-1]
        message = (
            f"sum_of_products: {', '.join(map(str, source))} differs from the expected {rows} rows of {units} units."
        )
        for size, wanted in zip(sizes, (rows, units), strict=True):
            require_equal_sizes(wanted, size, message)
    for factor in factors:
        if sum(length for _, _, length in factor) != folds:
            raise ShapeError(f"sum_of_products: the runs of a factor must have {folds} folds in all, found {factor}.")
        for number, start, length in factor:
            size = _folds(sources[number])
            if not isinstance(size, int) or not 0 <= start <= start + length <= size:
                raise ShapeError(
                    f"sum_of_products: source {number} has no folds {start} to {start + length - 1}; it has {size}."
                )
    result = array_type((folds, rows, outputs), weight.dtype)
    return (result, array_type((folds, rows, 1), weight.dtype)) if rescaled else result


def _reference(*arrays: Array, looked_up: Sequence[bool], factors: Factors, rescaled: str) -> Any:
    values = [_values(*source) for source in sources_of(arrays, looked_up)]
    product: Any = 1.0
    for factor in factors:
        product = product * np.concatenate([values[source][start : start + length] for source, start, length in factor])
    result = np.matmul(product, arrays[0])
    if not rescaled:
        return result
    mantissas, powers = OPS["rescale"].reference(result)
    return mantissas, powers if rescaled == POWERS else np.log2(powers)


def _values(array: Array, *lookup: Array) -> Array:
    if not lookup:
        return array
    states, columns, starts = lookup
    rows: Array = array[states[:, columns].T + starts[:, None]]
    return rows


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


def _tree_type(
    *types: ArrayType, looked_up: Sequence[bool], forms: Sequence[tuple[int, bool, tuple[int, ...]]], num_slots: int
) -> Any:
    num_weights = 1 + max(weight for weight, _, _ in forms)
    steps, root_starts, *weights = types[: 2 + num_weights]
    sources = list(sources_of(types[1 + num_weights :], looked_up))
    require_kind([steps, root_starts], ("int",))
    require_kind(weights, ("float",))
    step_length = STEP + max(len(factors) for _, _, factors in forms)
    if num_slots < 1:
        raise ShapeError(f"tree_of_sums needs at least one slot, found {num_slots}.")
    if len(steps.shape) != 2 or steps.shape[1] != step_length or len(root_starts.shape) != 1:
        raise ShapeError(
            f"tree_of_sums takes steps (S, {step_length}) and starts of roots (R,), found {steps} and {root_starts}."
        )
    (outputs,) = {weight.shape[2] for weight in weights}
    rows = _rows(sources[0])
    for source in sources:
        require_same_dtype(weights[0], source[0])
        require_equal_sizes(
            rows, _rows(source), f"tree_of_sums: {', '.join(map(str, source))} differs from {rows} rows."
        )
    roots = root_starts.shape[0] - 1
    result = array_type((roots, rows, outputs), weights[0].dtype)
    is_rescaled = any(rescaled for _, rescaled, _ in forms)
    return (result, array_type((roots, rows, 1), weights[0].dtype)) if is_rescaled else result


def _tree(
    steps: Array,
    root_starts: Array,
    *arrays: Array,
    looked_up: Sequence[bool],
    forms: Sequence[tuple[int, bool, tuple[int, ...]]],
    num_slots: int,
) -> Any:
    num_weights = 1 + max(weight for weight, _, _ in forms)
    weights, values = (
        arrays[:num_weights],
        [_values(*source) for source in sources_of(arrays[num_weights - 1 :], looked_up)],
    )
    slots: list[Any] = [None] * num_slots
    results, exponents = [], []
    for first, last in pairwise(root_starts):
        exponent = np.zeros_like(values[0][0, :, :1])
        for form, fold, slot, *read in steps[first:last]:
            weight, rescaled, factors = forms[form]
            product: Any = 1.0
            for source, index in zip(factors, read, strict=False):
                product = product * (slots[index] if source == SLOT else values[source][index])
            slots[slot] = np.matmul(product, weights[weight][fold])
            if rescaled:
                slots[slot], powers = OPS["rescale"].reference(slots[slot])
                exponent = exponent + np.log2(powers)
        results.append(slots[0])
        exponents.append(exponent)
    result = np.stack(results)
    return (result, np.stack(exponents)) if any(rescaled for _, rescaled, _ in forms) else result


def _tree_samples() -> Iterable[Sample]:
    weight = np.linspace(0.1, 1.0, 3 * 2 * 2, dtype="float32").reshape(3, 2, 2)
    table = np.linspace(0.5, 2.0, 12, dtype="float32").reshape(6, 2)
    states = np.asarray([[0, 1, 1], [1, 1, 0], [0, 0, 0]])
    columns, starts = np.asarray([2, 0, 1]), np.asarray([0, 2, 4])
    x = np.linspace(1.0, 3.0, 12, dtype="float32").reshape(2, 3, 2)
    steps = np.asarray([[0, 1, 0, 0, 2], [0, 0, 1, 1, 0], [1, 2, 0, 0, 1], [2, 0, 0, 1, 0]])
    for last in (3, 4):
        root_starts = np.asarray([0, 3, 4][: last - 1])
        for rescaled in (False, True):
            forms = (Form(0, False, (0, 0)), Form(0, rescaled, (SLOT, SLOT)), Form(0, rescaled, (1, 0)))
            arrays = (steps[:last], root_starts, weight, table, states, columns, starts, x)
            yield sample(*arrays, looked_up=(True, False), forms=forms, num_slots=2)


LOOK_UP = Op("look_up", _look_up_type, _values, _look_up_samples)
SUM_OF_PRODUCTS = Op("sum_of_products", _type, _reference, _samples)
TREE_OF_SUMS = Op("tree_of_sums", _tree_type, _tree, _tree_samples)

PRIVATE = (LOOK_UP, SUM_OF_PRODUCTS, TREE_OF_SUMS)
NATIVE_OPS = with_private(PRIVATE)
"""The operations of Programs that become native code."""
