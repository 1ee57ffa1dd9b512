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
from plica.ir.types import ArrayType
from plica.ops.regions import split

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter

Step = Callable[[str, list[Value]], list[Value]]
Loop = Callable[[Sequence[bool]], tuple[list[Value], list[Value]]]


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
    return _results(name, made)


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


def _carried(first: Sequence[Value], sizes: int, emitter: Emitter, write: Loop) -> list[Value]:
    """What a loop carries, with scalars on the host where each step leaves them there.

    Args:
        first: What it starts from.
        sizes: How many of the first are sizes, which are on the host whatever computes them.
        emitter: Where its lines go.
        write: Writes the whole loop where some values are on the host; gives its results, and what its step gave.
    """
    hosts = [place < sizes or (one.is_scalar and one.dtype in HOST) for place, one in enumerate(first)]
    while True:
        mark = emitter.code.mark()
        results, given = write(hosts)
        kept = [
            place < sizes or (host and one.is_scalar) for place, (host, one) in enumerate(zip(hosts, given, strict=True))
        ]
        if kept == hosts:
            return results
        emitter.code.reset(mark)
        hosts = kept


def _fresh(emitter: Emitter, types: Sequence[ArrayType], hosts: Sequence[bool]) -> list[Value]:
    """Names for the arguments of a region."""
    return [
        Value(emitter.code.name(), type_.shape, type_.dtype, host) for type_, host in zip(types, hosts, strict=True)
    ]


def _for(emitter: Emitter, first: Sequence[Value], types: Sequence[ArrayType], count: str, sizes: int, step: Step) -> list[Value]:
    """A loop of `count` steps; a step is given its number and what is carried."""
    code = emitter.code
    zero, one = index_constant(code, 0), index_constant(code, 1)

    def write(hosts: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        inside = _fresh(emitter, types, hosts)
        start = [_as(emitter, value, like) for value, like in zip(first, inside, strict=True)]
        name, place = code.name(), code.name()
        made = ", ".join(value.type for value in inside)
        given = ", ".join(f"{value.text} = {begin.text}" for value, begin in zip(inside, start, strict=True))
        code.put(
            f"{name}:{len(inside)} = scf.for {place} = {zero} to {count} step {one} iter_args({given}) -> ({made}) {{"
        )
        with emitter.region():
            found = step(place, inside)
            _yield(emitter, "scf.yield", found, inside)
        code.put("}")
        return _results(name, inside), found

    return _carried(first, sizes, emitter, write)


def _results(name: str, like: Sequence[Value]) -> list[Value]:
    return [Value(f"{name}#{place}", *one.array, one.is_scalar) for place, one in enumerate(like)]


def _for_loop(emitter: Emitter, call: Call) -> list[Value]:
    params, code = call.params, emitter.code
    body, sizes = params["body"], params["num_implicit_inputs"]
    consts, implicit, bounds, carries = split(call.inputs, params["body_nconsts"], sizes, 3)
    lower, upper, by = (emitter.scalar(one) for one in bounds)
    count = _steps(emitter, lower, upper, by, call.source)

    def step(place: str, inside: list[Value]) -> list[Value]:
        number = code.op(f"arith.index_cast {place} : index to i64")
        text = code.op(f"arith.addi {lower.text}, {code.op(f'arith.muli {number}, {by.text} : i64')} : i64")
        index = Value(text, (), DType.INT64, is_scalar=True)
        return emitter.inline(body, consts, [*inside[:sizes], index, *inside[sizes:]])

    types = [var.type for var in (*body.inputs[:sizes], *body.inputs[sizes + 1 :])]
    if not types:  # nothing is carried, nothing comes of it
        return []
    return _for(emitter, [*implicit, *carries], types, count, sizes, step)


def _steps(emitter: Emitter, lower: Value, upper: Value, by: Value, source: str) -> str:
    """How many numbers there are from `lower` to before `upper`, as Python's `range` counts them."""
    code, zero, one = emitter.code, emitter.constant(0, DType.INT64), emitter.constant(1, DType.INT64)

    def i64(line: str, first: str, second: str) -> str:
        return code.op(f"{line} {first}, {second} : i64")

    fits = Value(i64("arith.cmpi ne,", by.text, zero.text), (), DType.BOOL, is_scalar=True)
    message = "a loop from {0} to {1} has step 0; take a positive or a negative step."
    emitter.checks.require(fits, Fault("InputError", message, lambda: [lower, upper], source))
    safe = code.op(f"arith.select {fits.text}, {by.text}, {one.text} : i64")
    forward = i64("arith.cmpi sgt,", safe, zero.text)
    minus = emitter.constant(-1, DType.INT64)
    short = code.op(f"arith.select {forward}, {one.text}, {minus.text} : i64")
    span = i64("arith.addi", i64("arith.subi", upper.text, lower.text), i64("arith.subi", safe, short))
    count = i64("arith.maxsi", i64("arith.floordivsi", span, safe), zero.text)
    return code.op(f"arith.index_cast {count} : i64 to index")


def _scan(emitter: Emitter, call: Call) -> list[Value]:
    params, code = call.params, emitter.code
    body, sizes, length = params["body"], params["num_implicit_inputs"], params["length"]
    kept = sizes + params["num_carries"]
    consts, state, arrays = split(call.inputs, params["body_nconsts"], kept)
    arrays = [emitter.tensor(one) for one in arrays]
    made = call.types[kept:]
    stacks = [emitter.empty(type_.shape, type_.dtype) for type_ in made]
    count = emitter.size(length)
    last = code.op(f"arith.subi {count}, {index_constant(code, 1)} : index")

    def step(number: str, inside: list[Value]) -> list[Value]:
        place = code.op(f"arith.subi {last}, {number} : index") if params["reverse"] else number
        rows = [cut(emitter, one, 0, place, one.shape[1:]) for one in arrays]
        results = emitter.inline(body, consts, [*inside[:kept], *rows])
        written = zip(inside[kept:], results[kept:], strict=True)
        return [*results[:kept], *(_put(emitter, stack, place, row) for stack, row in written)]

    types = [*(var.type for var in body.inputs[:kept]), *made]
    if not types:
        return []
    return _for(emitter, [*state, *stacks], types, count, sizes, step)


def _put(emitter: Emitter, stack: Value, place: str, row: Value) -> Value:
    """An array with another row."""
    row = emitter.tensor(row)
    zeros, ones = ("".join(f", {one}" for _ in row.shape) for one in "01")
    sizes = "".join(f", {emitter.size_text(dim)}" for dim in row.shape)
    text = f"tensor.insert_slice {row.text} into {stack.text}[{place}{zeros}] [1{sizes}] [1{ones}]"
    return Value(emitter.code.op(f"{text} : {row.type} into {stack.type}"), *stack.array)


def _while_loop(emitter: Emitter, call: Call) -> list[Value]:
    params, code = call.params, emitter.code
    body, sizes = params["body"], params["num_implicit_inputs"]
    asked, consts, first = split(call.inputs, params["cond_nconsts"], params["body_nconsts"])
    types = [var.type for var in body.inputs]

    def write(hosts: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        before, inside = _fresh(emitter, types, hosts), _fresh(emitter, types, hosts)
        start = [_as(emitter, value, like) for value, like in zip(first, before, strict=True)]
        name, made = code.name(), ", ".join(one.type for one in inside)
        given = ", ".join(f"{one.text} = {begin.text}" for one, begin in zip(before, start, strict=True))
        head = f"{name}:{len(inside)} = " if inside else ""
        code.put(f"{head}scf.while ({given}) : ({made}) -> ({made}) {{")
        with emitter.region():
            (goes,) = emitter.inline(params["cond"], asked, before)
            _yield(emitter, f"scf.condition({emitter.scalar(goes).text})", before, before)
        code.put("} do {")
        with emitter.region():
            code.put(f"^bb0({', '.join(f'{one.text}: {one.type}' for one in inside)}):")
            found = emitter.inline(body, consts, inside)
            _yield(emitter, "scf.yield", found, inside)
        code.put("}")
        return _results(name, inside), found

    return _carried(first, sizes, emitter, write)


CONTROL = {
    "call": Row(_call),
    "cond": Row(_cond),
    "for_loop": Row(_for_loop),
    "scan": Row(_scan),
    "while_loop": Row(_while_loop),
}
