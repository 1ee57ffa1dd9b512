"""Einstein sums as nests: each axis of an operand has a label, and axes of one label share a loop."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.structured import apart, collapse, entry_at, entrywise, generic, indexed
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim

_WIDE = {DType.FLOAT16: DType.FLOAT32, DType.BFLOAT16: DType.FLOAT32}


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand, with the label of each of its axes."""

    value: Value
    labels: str


def contract(emitter: Emitter, factors: Sequence[Factor], result: str) -> Value:
    """The sum of products over the labels that are not in `result`; pairs are contracted from the left.

    Sums of halves are computed in float32 and rounded once.
    """
    dtype = factors[0].value.dtype
    wide = _WIDE.get(dtype, dtype)
    pending = [_simplified(emitter, factor) for factor in factors]
    while len(pending) > 1:
        first, second, *others = pending
        wanted = {*result, *(label for factor in others for label in factor.labels)}
        labels = [label for label in dict.fromkeys(first.labels + second.labels) if label in wanted]
        order = result if not others else "".join(labels)
        pending = [
            _sum(
                emitter,
                [_own(emitter, factor, labels, pair) for factor, pair in ((first, second), (second, first))],
                order,
                wide,
            ),
            *others,
        ]
    last = _sum(emitter, pending, result, wide) if len(factors) == 1 else pending[0]
    return converted(emitter, last.value, dtype)


def converted(emitter: Emitter, value: Value, dtype: DType) -> Value:
    """Numbers in another dtype."""
    if value.dtype == dtype:
        return value
    scalars = emitter.scalars

    def body(entries: Sequence[str]) -> str:
        return scalars.convert(Scalar(entries[0], value.dtype), dtype).text

    return entrywise(emitter, [value], value.shape, dtype, body)


def _own(emitter: Emitter, factor: Factor, labels: Iterable[str], other: Factor) -> Factor:
    """A factor without the labels that neither `labels` nor the other factor has: they are summed out first."""
    alone = [label for label in factor.labels if label not in labels and label not in other.labels]
    if not alone:
        return factor
    order = "".join(label for label in factor.labels if label not in alone)
    return _sum(emitter, [factor], order, factor.value.dtype)


def _simplified(emitter: Emitter, factor: Factor) -> Factor:
    """A factor each label of which occurs once; a repeated label reads the diagonal."""
    labels = "".join(dict.fromkeys(factor.labels))
    value = emitter.tensor(factor.value)
    if labels == factor.labels:
        return Factor(value, labels)
    value = apart(emitter, value)
    shape = [value.shape[factor.labels.index(label)] for label in labels]
    result = indexed(
        emitter,
        shape,
        value.dtype,
        lambda indices: entry_at(emitter, value, [indices[labels.index(label)] for label in factor.labels]),
    )
    return Factor(result, labels)


def _sum(emitter: Emitter, factors: Sequence[Factor], result: str, dtype: DType) -> Factor:
    """One nest over all labels of some factors, each of which has each of its labels once."""
    sizes = label_sizes(factors)
    loops = result + "".join(label for label in sizes if label not in result)
    shape = [sizes[label] for label in result]
    operands = []
    for operand in factors:
        kept_axes = [
            axis
            for axis, label in enumerate(operand.labels)
            if not (operand.value.shape[axis] == 1 and sizes[label] != 1)
        ]
        value = operand.value if len(kept_axes) == len(operand.labels) else collapse(emitter, operand.value, kept_axes)
        operands.append((value, [loops.index(operand.labels[axis]) for axis in kept_axes]))
    start = emitter.full(shape, emitter.constant(0, dtype)) if len(loops) > len(result) else emitter.empty(shape, dtype)
    scalars = emitter.scalars

    def body(names: Sequence[str]) -> str:
        *entries, total = names
        terms = [Scalar(name, factor.value.dtype) for name, factor in zip(entries, factors, strict=True)]
        term, *others = (term if term.dtype == dtype else scalars.convert(term, dtype) for term in terms)
        for other in others:
            term = scalars.multiply(term, other)
        return scalars.add(Scalar(total, dtype), term).text if len(loops) > len(result) else term.text

    reduced = [label not in result for label in loops]
    (reduced_value,) = generic(emitter, operands, [(start, range(len(result)))], reduced, body)
    return Factor(reduced_value, result)


def label_sizes(factors: Sequence[Factor]) -> Mapping[str, Dim]:
    """The size of each label, where axes of size 1 are broadcast."""
    sizes: dict[str, Dim] = {}
    for factor in factors:
        for label, dim in zip(factor.labels, factor.value.shape, strict=True):
            if sizes.setdefault(label, dim) == 1 or (isinstance(dim, int) and dim != 1):
                sizes[label] = dim
    return sizes
