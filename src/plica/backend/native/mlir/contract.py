"""Einstein sums as nests: each axis of an operand has a label, and axes of one label are walked together."""

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
    rest = [_simplified(emitter, one) for one in factors]
    while len(rest) > 1:
        first, second, *others = rest
        wanted = {*result, *(label for one in others for label in one.labels)}
        kept = [label for label in dict.fromkeys(first.labels + second.labels) if label in wanted]
        order = result if not others else "".join(kept)
        rest = [
            _sum(
                emitter,
                [_own(emitter, one, kept, pair) for one, pair in ((first, second), (second, first))],
                order,
                wide,
            ),
            *others,
        ]
    found = _sum(emitter, rest, result, wide) if len(factors) == 1 else rest[0]
    return converted(emitter, found.value, dtype)


def converted(emitter: Emitter, value: Value, dtype: DType) -> Value:
    """Numbers in another dtype."""
    if value.dtype == dtype:
        return value
    scalars = emitter.scalars

    def body(entries: Sequence[str]) -> str:
        return scalars.convert(Scalar(entries[0], value.dtype), dtype).text

    return entrywise(emitter, [value], value.shape, dtype, body)


def _own(emitter: Emitter, factor: Factor, kept: Iterable[str], other: Factor) -> Factor:
    """A factor without the labels that nothing else has: they are summed out first."""
    alone = [label for label in factor.labels if label not in kept and label not in other.labels]
    if not alone:
        return factor
    order = "".join(label for label in factor.labels if label not in alone)
    return _sum(emitter, [factor], order, factor.value.dtype)


def _simplified(emitter: Emitter, factor: Factor) -> Factor:
    """A factor each label of which occurs once: diagonals are read first."""
    labels = "".join(dict.fromkeys(factor.labels))
    value = emitter.tensor(factor.value)
    if labels == factor.labels:
        return Factor(value, labels)
    value = apart(emitter, value)
    shape = [value.shape[factor.labels.index(label)] for label in labels]
    found = indexed(
        emitter,
        shape,
        value.dtype,
        lambda places: entry_at(emitter, value, [places[labels.index(label)] for label in factor.labels]),
    )
    return Factor(found, labels)


def _sum(emitter: Emitter, factors: Sequence[Factor], result: str, dtype: DType) -> Factor:
    """One nest over all labels of some factors, each of which has each of its labels once."""
    sizes = label_sizes(factors)
    loops = result + "".join(label for label in sizes if label not in result)
    shape = [sizes[label] for label in result]
    operands = []
    for one in factors:
        kept = [axis for axis, label in enumerate(one.labels) if not (one.value.shape[axis] == 1 and sizes[label] != 1)]
        value = one.value if len(kept) == len(one.labels) else collapse(emitter, one.value, kept)
        operands.append((value, [loops.index(one.labels[axis]) for axis in kept]))
    start = emitter.full(shape, emitter.constant(0, dtype)) if len(loops) > len(result) else emitter.empty(shape, dtype)
    scalars = emitter.scalars

    def body(names: Sequence[str]) -> str:
        *entries, total = names
        terms = [Scalar(name, one.value.dtype) for name, one in zip(entries, factors, strict=True)]
        term, *others = (one if one.dtype == dtype else scalars.convert(one, dtype) for one in terms)
        for other in others:
            term = scalars.multiply(term, other)
        return scalars.add(Scalar(total, dtype), term).text if len(loops) > len(result) else term.text

    reduced = [label not in result for label in loops]
    (found,) = generic(emitter, operands, [(start, range(len(result)))], reduced, body)
    return Factor(found, result)


def label_sizes(factors: Sequence[Factor]) -> Mapping[str, Dim]:
    """The size of each label, where axes of size 1 are broadcast."""
    sizes: dict[str, Dim] = {}
    for one in factors:
        for label, dim in zip(one.labels, one.value.shape, strict=True):
            if sizes.setdefault(label, dim) == 1 or (isinstance(dim, int) and dim != 1):
                sizes[label] = dim
    return sizes
