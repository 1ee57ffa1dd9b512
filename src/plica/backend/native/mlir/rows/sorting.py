"""Sorting, and searching in sorted arrays."""

from collections.abc import Sequence

from plica.backend.native.mlir.bounds import check_indices
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.entries import Entry
from plica.backend.native.mlir.merge_sort import before, bisected, ordered
from plica.backend.native.mlir.reading import clamped_index, loop_index, read_at
from plica.backend.native.mlir.structured import apart, entry_at, entrywise
from plica.backend.native.mlir.types import Value, limits_of
from plica.backend.native.scalars import Scalar
from plica.backend.native.scalars.values import words
from plica.ops.rules import normal_axis


def _argsort(emitter: Emitter, call: Call) -> Value:
    (x,), params = call.inputs, call.params
    return ordered(emitter, x, normal_axis(params["axis"], len(x.shape)), descending=params["descending"])


def _sort(emitter: Emitter, call: Call) -> Value:
    (x,), order = call.inputs, _argsort(emitter, call)
    axis, rank = normal_axis(call.params["axis"], len(x.shape)), len(x.shape)

    def indices_of(entries: Sequence[str]) -> list[str]:
        indices = [emitter.code.op(f"linalg.index {loop} : index") for loop in range(rank)]
        indices[axis] = emitter.code.op(f"arith.index_cast {entries[0]} : i64 to index")
        return indices

    return read_at(emitter, x, x.shape, [(order, range(rank))], indices_of)


def _searchsorted(emitter: Emitter, call: Call) -> Value:
    (table, values), (type_,) = call.inputs, call.types
    table = apart(emitter, table)
    size, is_left, code = emitter.size(table.shape[0]), call.params["side"] == "left", emitter.code

    def body(names: Sequence[str]) -> str:
        wanted = Entry(emitter.scalars, Scalar(names[0], values.dtype))

        def is_after(index: str) -> str:
            entry = Entry(emitter.scalars, Scalar(entry_at(emitter, table, [index]), table.dtype))
            if is_left:
                return before(entry, wanted, descending=False).scalar.text
            return (~before(wanted, entry, descending=False)).scalar.text

        index = bisected(emitter, code.op("arith.constant 0 : index"), size, is_after)
        return code.op(f"arith.index_cast {index} : index to i64")

    return entrywise(emitter, [emitter.tensor(values)], type_.shape, type_.dtype, body)


def _search_cumulative(emitter: Emitter, call: Call) -> Value:
    """By bisection, without reading whole rows of the table."""
    (table, rows, uniforms), (type_,), code = call.inputs, call.types, emitter.code
    table, (_, units, categories) = apart(emitter, table), table.shape
    check_indices(emitter, rows, units, None, call.source)
    number, size = emitter.size(units), emitter.size(categories)

    def body(names: Sequence[str]) -> str:
        fold, row = loop_index(emitter, 0), clamped_index(emitter, names[0], rows.dtype, number, wraps=False)
        zero = code.op("arith.constant 0 : index")
        end = code.op(f"arith.subi {size}, {code.op('arith.constant 1 : index')} : index")
        last = code.op(f"arith.maxsi {end}, {zero} : index")

        def at(category: str) -> Entry:
            return Entry(emitter.scalars, Scalar(entry_at(emitter, table, [fold, row, category]), table.dtype))

        total = at(last)
        target = _share(Entry(emitter.scalars, Scalar(names[1], uniforms.dtype)), total)
        total_bits = total.bits_as(target.dtype)

        def is_after(category: str) -> str:
            bits = at(category).bits_as(target.dtype)
            return ((bits <= target) & (bits < total_bits)).scalar.text

        return code.op(f"arith.index_cast {bisected(emitter, zero, last, is_after)} : index to i64")

    return entrywise(emitter, [rows, uniforms], type_.shape, type_.dtype, body)


def _share(uniform: Entry, total: Entry) -> Entry:
    """The bits of `uniform * total` for non-negative numbers, whose bits have the same order.

    IREE treats subnormal numbers as zeros; their bits count multiples of the smallest one.
    """
    word, digits = words(total.dtype), limits_of(total.dtype).nmant
    bits = total.bits_as(word)
    subnormal = (uniform * bits.astype(total.dtype)).round_even().astype(word)
    return (bits < (1 << digits)).where(subnormal, (uniform * total).bits_as(word))


SORTING = {
    "argsort": Row(_argsort),
    "search_cumulative": Row(_search_cumulative),
    "searchsorted": Row(_searchsorted),
    "sort": Row(_sort),
}
