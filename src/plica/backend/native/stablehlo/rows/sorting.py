"""Sorting, with NaN after all numbers (before them in descending order), and searches in sorted arrays."""

from plica.backend.native.stablehlo.call import Row, of
from plica.backend.native.stablehlo.code import Tensor
from plica.backend.native.stablehlo.values import Value
from plica.ir.dtypes import DType


def _before(first: Value, second: Value) -> Value:
    """Whether a number comes before another: NaN comes last."""
    if first.dtype.kind != "float":
        return first < second
    return (first < second) | (second.is_nan() & ~first.is_nan())


def in_order(x: Value, axis: int, descending: bool = False) -> tuple[Value, Value]:
    """Sorted entries and the original index of each; the sort is stable."""
    code = x.code
    numbers = x.astype(DType.UINT8) if x.dtype.kind == "bool" else x
    operands = [numbers.tensor, x.iota(axis % x.rank).tensor]

    def compare(*entries: Tensor) -> list[Tensor]:
        first, second = (Value(code, tensor) for tensor in entries[:2])
        return [(_before(second, first) if descending else _before(first, second)).tensor]

    region = code.region([((), operand.dtype) for operand in operands for _ in range(2)], compare)
    types = [(operand.shape, operand.dtype) for operand in operands]
    attributes = {"dimension": f"{axis % x.rank} : i64", "is_stable": "true"}
    tensors = code.apply_all("sort", operands, types, attributes, [region])
    entries, positions = (Value(code, tensor) for tensor in tensors)
    return (entries.differs(0) if x.dtype.kind == "bool" else entries), positions


def _searchsorted(ordered: Value, values: Value, *, side: str) -> Value:
    wanted = values.expand(-1)
    counted = _before(ordered, wanted) if side == "left" else ~_before(wanted, ordered)
    return counted.astype(DType.INT64).sum((-1,))


SORTING: dict[str, Row] = {
    "argsort": of(lambda x, *, axis, descending: in_order(x, axis, descending)[1]),
    "searchsorted": of(_searchsorted),
    "sort": of(lambda x, *, axis, descending: in_order(x, axis, descending)[0]),
}
