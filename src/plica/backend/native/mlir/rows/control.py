"""Control flow: nested Programs within `scf.if`, `scf.for` and `scf.while`, on tensors whose sizes may change.

Sizes are carried as numbers of the host. So are other scalars that it can compute from nothing but such: a counter of a
`while_loop` costs no array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.rows.row import Call, Row
from plica.backend.native.mlir.rows.shape import cut
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.types import HOST, Value
from plica.ir.dtypes import DType
from plica.ir.program import Program, rename
from plica.ir.types import ArrayType
from plica.ops.regions import split

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter

Step = Callable[[list[Value]], list[Value]]


def _call(emitter: Emitter, call: Call) -> list[Value]:
    consts, inputs = split(call.inputs, call.params["body_nconsts"])
    return emitter.inline(call.params["program"], consts, inputs)


def _cond(emitter: Emitter, call: Call) -> list[Value]:
    branches = call.params["branches"]
    predicates, *captured = split(call.inputs, len(branches) - 1, *call.params["branch_nconsts"])
    count = call.params["num_implicit_outputs"]
    kept = [place < count for place in range(len(call.outputs))]
    made = [_like(type_, is_scalar) for type_, is_scalar in zip(call.types, kept, strict=True)]

    def choose(place: int) -> list[Value]:
        def run() -> list[Value]:
            return emitter.inline(branches[place], captured[place], [])

        if place == len(predicates):
            return run()
        return _if(emitter, emitter.scalar(predicates[place]), made, run, lambda: choose(place + 1))

    return choose(0)


def _like(type_: ArrayType, is_scalar: bool) -> Value:
    return Value("", type_.shape, type_.dtype, is_scalar)


def _if(
    emitter: Emitter, holds: Value, made: Sequence[Value], then: Callable[[], list[Value]], other: Callable[[], list[Value]]
) -> list[Value]:
    """The values of one of two regions, as values like `made`."""
    code = emitter.code
    head = f"scf.if {holds.text} -> ({', '.join(one.type for one in made)}) {{"
    name = code.name() if made else ""
    code.put(f"{name}:{len(made)} = {head}" if made else head)
    for region in (then, other):
        if region is other:
            code.put("} else {")
        with emitter.region():
            _yield(emitter, "scf.yield", region(), made)
    code.put("}")
    return [Value(f"{name}#{place}", *one.array, one.is_scalar) for place, one in enumerate(made)]


def _yield(emitter: Emitter, line: str, values: Sequence[Value], made: Sequence[Value]) -> None:
    """The end of a region, which gives values like `made`."""
    given = [_as(emitter, one, like) for one, like in zip(values, made, strict=True)]
    emitter.checks.settle()
    types = f" : {', '.join(one.type for one in given)}" if given else ""
    emitter.code.put(f"{line} {', '.join(one.text for one in given)}{types}".rstrip())


def _as(emitter: Emitter, value: Value, like: Value) -> Value:
    """A value as a scalar or a tensor, as another is, of the same sizes."""
    if like.is_scalar:
        return emitter.scalar(value)
    found = Value("", *like.array)
    value = emitter.tensor(value)
    if value.type == found.type:
        return value
    return Value(emitter.code.op(f"tensor.cast {value.text} : {value.type} to {found.type}"), *like.array)


def _carried(emitter: Emitter, first: Sequence[Value], types: Sequence[ArrayType], sizes: int, write: Callable[[list[Value]], tuple[list[Value], list[Value]]]) -> list[Value]:
    """What a loop carries, with scalars on the host where each step leaves them there.

    Args:
        emitter: Where its lines go.
        first: What it starts from.
        types: The types within it.
        sizes: How many of the first are sizes, which are on the host whatever computes them.
        write: Writes the whole loop for values like these; gives its results, and what its step gave.
    """
    hosts = [
        place < sizes or (one.is_scalar and one.dtype in HOST) for place, one in enumerate(first)
    ]
    while True:
        mark = emitter.code.mark()
        made = [_like(type_, is_host) for type_, is_host in zip(types, hosts, strict=True)]
        results, given = write(made)
        kept = [place < sizes or (host and one.is_scalar) for place, (host, one) in enumerate(zip(hosts, given, strict=True))]
        if kept == hosts:
            return results
        emitter.code.reset(mark)
        hosts = kept
