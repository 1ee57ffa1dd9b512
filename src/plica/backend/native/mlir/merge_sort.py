"""Orders along an axis: a merge sort whose passes are nests over the entries of the result.

A pass merges neighbouring runs. All entries of a merged run are computed at once. Bisection finds how many of the
entries before an index come from the first of both runs. Equal entries keep their order.

Source: Odeh, Green, Mwassi, Shmueli, Birk: Merge path, parallel merging made simple (IPDPS Workshops 2012).
"""

from collections.abc import Callable, Sequence

from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.entries import Entry
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import apart, entry_at, indexed
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar
from plica.ir.dtypes import DType


def ordered(emitter: Emitter, x: Value, axis: int, *, descending: bool) -> Value:
    """The indices that sort entries along an axis; NaN comes last, or first in descending order."""
    x, code, size = apart(emitter, x), emitter.code, emitter.size(x.shape[axis])
    one = index_constant(code, 1)
    # the compiler must not know this zero: it refuses a loop whose initial indices are read elsewhere too
    zero = code.op(f"util.optimization_barrier {index_constant(code, 0)} : index")
    first = indexed(emitter, x.shape, DType.INT64, lambda indices: _i64(emitter, _sum(emitter, indices[axis], zero)))
    if x.shape[axis] in (0, 1):
        return first
    name, types = code.name(), f"index, {first.type}"
    width, indices, run, order = (code.name() for _ in range(4))
    code.branches = True
    code.put(f"{name}:2 = scf.while ({width} = {one}, {indices} = {first.text}) : ({types}) -> ({types}) {{")
    with emitter.region():
        going = code.op(f"arith.cmpi slt, {width}, {size} : index")
        code.put(f"scf.condition({going}) {width}, {indices} : {types}")
    code.put("} do {")
    with emitter.region():
        code.put(f"^bb0({run}: index, {order}: {first.type}):")
        merged = _merged(emitter, x, Value(order, *first.array), axis, run, size, descending=descending)
        code.put(f"scf.yield {code.op(f'arith.addi {run}, {run} : index')}, {merged.text} : {types}")
    code.put("}")
    return Value(f"{name}#1", *first.array)


def _sum(emitter: Emitter, first: str, second: str) -> str:
    return emitter.code.op(f"arith.addi {first}, {second} : index")


def _i64(emitter: Emitter, index: str) -> str:
    return emitter.code.op(f"arith.index_cast {index} : index to i64")


def before(first: Entry, second: Entry, *, descending: bool) -> Entry:
    """Whether an entry comes before another one."""
    if first.dtype.kind != "float":
        return first > second if descending else first < second
    if descending:
        return (first > second) | ((first != first) & (second == second))
    return (first < second) | ((first == first) & (second != second))


def bisected(emitter: Emitter, low: str, high: str, is_after: Callable[[str], str]) -> str:
    """The first index in `low`, ..., `high - 1` for which `is_after` is false; `high` if it is true for all.

    `is_after` is true up to that index. Indices are values of type `index`.
    """
    code, name = emitter.code, emitter.code.name()
    least, most, left, right = (code.name() for _ in range(4))
    code.put(f"{name}:2 = scf.while ({least} = {low}, {most} = {high}) : (index, index) -> (index, index) {{")
    with code.block():
        going = code.op(f"arith.cmpi slt, {least}, {most} : index")
        code.put(f"scf.condition({going}) {least}, {most} : index, index")
    code.put("} do {")
    with code.block():
        code.put(f"^bb0({left}: index, {right}: index):")
        one = code.op("arith.constant 1 : index")
        middle = code.op(f"arith.shrui {code.op(f'arith.addi {left}, {right} : index')}, {one} : index")
        after, next_ = is_after(middle), code.op(f"arith.addi {middle}, {one} : index")
        lower = code.op(f"arith.select {after}, {next_}, {left} : index")
        upper = code.op(f"arith.select {after}, {right}, {middle} : index")
        code.put(f"scf.yield {lower}, {upper} : index, index")
    code.put("}")
    return f"{name}#0"


def _merged(emitter: Emitter, x: Value, order: Value, axis: int, run: str, size: str, *, descending: bool) -> Value:
    """The order after runs of length `run` have been merged in pairs."""
    code = emitter.code

    def put(line: str, *operands: str) -> str:
        return code.op(f"arith.{line} {', '.join(operands)} : index")

    def body(indices: Sequence[str]) -> str:
        index, zero, one = indices[axis], put("constant 0"), put("constant 1")
        pair = put("addi", run, run)
        first = put("muli", put("divui", index, pair), pair)
        middle = put("minsi", put("addi", first, run), size)
        end = put("minsi", put("addi", first, pair), size)
        count, other = put("subi", middle, first), put("subi", end, middle)
        offset = put("subi", index, first)

        def at(number: str) -> tuple[str, Entry]:
            """The entry of `order` at an index, and the entry of `x` that it refers to."""
            source = entry_at(emitter, order, [*indices[:axis], number, *indices[axis + 1 :]])
            where = code.op(f"arith.index_cast {source} : i64 to index")
            entry = entry_at(emitter, x, [*indices[:axis], where, *indices[axis + 1 :]])
            return source, Entry(emitter.scalars, Scalar(entry, x.dtype))

        def second_first(left: str, right: str) -> Entry:
            """Whether an entry of the second run comes before one of the first."""
            return before(at(put("addi", middle, right))[1], at(put("addi", first, left))[1], descending=descending)

        def is_in_first(left: str) -> str:
            right = put("subi", put("subi", offset, left), one)
            return (~second_first(left, right)).scalar.text

        low = put("maxsi", zero, put("subi", offset, other))
        left = bisected(emitter, low, put("minsi", offset, count), is_in_first)
        right = put("subi", offset, left)
        # indices within their runs: both entries are read, also where one run is exhausted
        safe_left = put("minsi", left, put("subi", count, one))
        safe_right = put("maxsi", zero, put("minsi", right, put("subi", other, one)))
        left_entry, right_entry = (
            at(put("addi", first, safe_left)),
            at(put("minsi", put("addi", middle, safe_right), put("subi", size, one))),
        )
        earlier = before(right_entry[1], left_entry[1], descending=descending).scalar.text
        exhausted = code.op(f"arith.cmpi sge, {left}, {count} : index")
        has_second = code.op(f"arith.cmpi slt, {right}, {other} : index")
        of_second = code.op(f"arith.ori {exhausted}, {code.op(f'arith.andi {has_second}, {earlier} : i1')} : i1")
        return code.op(f"arith.select {of_second}, {right_entry[0]}, {left_entry[0]} : i64")

    return indexed(emitter, x.shape, DType.INT64, body)
