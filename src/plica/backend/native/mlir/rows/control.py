"""Control flow: nested Programs as blocks with branches between them (`cf`), on tensors whose sizes may change.

Not as `scf.for` and `scf.if`: IREE 3.13 reads one of two tensors that such a loop carries at the wrong place, where
both lie in one piece of memory (adr/0026). Sizes are carried as numbers of the host. So are other scalars that it can
compute from nothing but such: a counter of a `while_loop` costs no array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plica.backend.native.mlir.blocks import either, leave
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.emitter import Emitter, Row, Write
from plica.backend.native.mlir.nested import with_sizes
from plica.backend.native.mlir.rows.nests import dispatch_of
from plica.backend.native.mlir.rows.shape import cut
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.types import HOST, Value
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.ir.types import ArrayType
from plica.ops.regions import split

Step = Callable[[str, list[Value]], list[Value]]
Loop = Callable[[Sequence[Value], Sequence[bool]], tuple[list[Value], list[Value]]]


def _call(emitter: Emitter, call: Call) -> list[Value]:
    consts, inputs = split(call.inputs, call.params["body_nconsts"])
    return emitter.inline(call.params["program"], consts, inputs, is_called=True)


def _cond(emitter: Emitter, call: Call) -> list[Value]:
    branches = call.params["branches"]
    predicates, *captured = split(call.inputs, len(branches) - 1, *call.params["branch_nconsts"])
    count = call.params["num_implicit_outputs"]
    kept = [index < count for index in range(len(call.outputs))]
    like = [_like(type_, is_scalar) for type_, is_scalar in zip(call.types, kept, strict=True)]

    def choose(place: int) -> list[Value]:
        def run() -> list[Value]:
            values = emitter.inline(branches[place], captured[place], [])
            if place == len(predicates):
                return values
            # so that no two blocks are equal, which become one, of what `arith.select` chooses: IREE 3.13 takes the
            # size of a tensor that is chosen for that of the first
            return [*(emitter.hidden(emitter.scalar(value)) for value in values[:count]), *values[count:]]

        if place == len(predicates):
            return run()
        return either(emitter, emitter.scalar(predicates[place]), like, run, lambda: choose(place + 1))

    return choose(0)


def _like(type_: ArrayType, is_scalar: bool) -> Value:
    return Value("", type_.shape, type_.dtype, is_scalar)


def _carried(first: Sequence[Value], sizes: int, emitter: Emitter, write: Loop) -> list[Value]:
    """The results of a loop, with scalars on the host where each step leaves them there.

    Args:
        first: The values before the first step.
        sizes: How many of the first are sizes, which are on the host whatever computes them.
        emitter: Where its lines go.
        write: Writes the whole loop from what it starts from, where some values are on the host; gives its results, and
            what its step gave.
    """
    first = [emitter.scalar(value) if index < sizes else value for index, value in enumerate(first)]
    hosts = [value.is_scalar and value.dtype in HOST for value in first]
    while True:
        mark = emitter.code.mark()
        results, given = write(first, hosts)
        kept = [
            index < sizes or (host and value.is_scalar)
            for index, (host, value) in enumerate(zip(hosts, given, strict=True))
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


def _for(
    emitter: Emitter, first: Sequence[Value], types: Sequence[ArrayType], count: str, sizes: int, step: Step
) -> list[Value]:
    """A loop of `count` steps; a step is given its number and what is carried."""
    code = emitter.code
    zero, one = index_constant(code, 0), index_constant(code, 1)

    def write(first: Sequence[Value], hosts: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        inside, place = _fresh(emitter, types, hosts), code.name()
        head, body, end = (code.label() for _ in range(3))
        leave(emitter, head, first, inside, zero)
        code.start(head, inside, place)
        goes = code.op(f"arith.cmpi slt, {place}, {count} : index")
        code.put(f"cf.cond_br {goes}, {body}, {end}")
        code.start(body)
        with emitter.region():
            values = step(place, inside)
            emitter.checks.settle()
            leave(emitter, head, values, inside, code.op(f"arith.addi {place}, {one} : index"))
        code.start(end)
        return inside, values

    return _carried(first, sizes, emitter, write)


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a loop where it is written: what it carries, and the sizes that every step leaves as they are.

    Args:
        program: The body, with sizes that are known outside in the place of its own.
        consts: The values that it captures.
        first: The values before the first step: the sizes that change, then the rest.
        kept: By the place of an input that is a size which no step changes: its value.
    """

    program: Program
    consts: tuple[Value, ...]
    first: tuple[Value, ...]
    kept: Mapping[int, Value]

    @staticmethod
    def of(program: Program, consts: Sequence[Value], implicit: Sequence[Value], carries: Sequence[Value]) -> _Body:
        """A body and what the equation gives it."""
        triples = zip(program.inputs, program.outputs, implicit, strict=False)
        kept = {index: value for index, (var, output, value) in enumerate(triples) if var is output}
        given = [
            *zip(program.consts, consts, strict=True),
            *((program.inputs[at], value) for at, value in kept.items()),
        ]
        changing = tuple(value for index, value in enumerate(implicit) if index not in kept)
        return _Body(with_sizes(program, given), tuple(consts), (*changing, *carries), kept)

    @property
    def sizes(self) -> int:
        """How many sizes change."""
        return self.program.num_implicit_inputs - len(self.kept)

    def types(self, leading: int) -> list[ArrayType]:
        """The types of what is carried; `leading` inputs after the sizes are not."""
        sizes, count = self.program.num_implicit_inputs, len(self.first) - self.sizes
        inputs = self.program.inputs
        changing = [var for index, var in enumerate(inputs[:sizes]) if index not in self.kept]
        return [var.type for var in (*changing, *inputs[sizes + leading :][:count])]

    def step(
        self, emitter: Emitter, carried: Sequence[Value], leading: Sequence[Value] = (), rows: Sequence[Value] = ()
    ) -> list[Value]:
        """The results of one step: the sizes that change, then the rest."""
        given = self.all_sizes(carried)
        results = emitter.inline(self.program, self.consts, [*given, *leading, *carried[self.sizes :], *rows])
        return [value for index, value in enumerate(results) if index not in self.kept]

    def all_sizes(self, carried: Sequence[Value]) -> list[Value]:
        """The sizes, those that change taken from what is carried."""
        changing = iter(carried)
        places = range(self.program.num_implicit_inputs)
        return [self.kept[place] if place in self.kept else next(changing) for place in places]

    def results(self, carried: Sequence[Value]) -> list[Value]:
        """The results of the equation, from what is carried at last."""
        return [*self.all_sizes(carried), *carried[self.sizes :]]


def _for_loop(emitter: Emitter, call: Call) -> list[Value]:
    params, code = call.params, emitter.code
    consts, implicit, bounds, carries = split(call.inputs, params["body_nconsts"], params["num_implicit_inputs"], 3)
    body = _Body.of(params["body"], consts, implicit, carries)
    lower, upper, by = (emitter.scalar(bound) for bound in bounds)
    count = _steps(emitter, lower, upper, by, call.source)

    def step(place: str, inside: list[Value]) -> list[Value]:
        number = code.op(f"arith.index_cast {place} : index to i64")
        text = code.op(f"arith.addi {lower.text}, {code.op(f'arith.muli {number}, {by.text} : i64')} : i64")
        return body.step(emitter, inside, [Value(text, (), DType.INT64, is_scalar=True)])

    return body.results(_for(emitter, body.first, body.types(1), count, body.sizes, step))


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
    params, code, nconsts = call.params, emitter.code, call.params["body_nconsts"]
    consts, implicit, carries, arrays = split(
        call.inputs, nconsts, params["num_implicit_inputs"], params["num_carries"]
    )
    body = _Body.of(params["body"], consts, implicit, carries)
    kept = len(body.first)
    arrays = [emitter.tensor(array) for array in arrays]
    stacked = call.types[len(call.types) - (len(params["body"].results) - len(carries)) :]
    # zeros, since IREE gives the memory of a `tensor.empty` that a loop carries to others as well
    stacks = [emitter.full(type_.shape, emitter.constant(0, type_.dtype)) for type_ in stacked]
    count = emitter.size(params["length"])
    last = code.op(f"arith.subi {count}, {index_constant(code, 1)} : index")

    def step(number: str, inside: list[Value]) -> list[Value]:
        place = code.op(f"arith.subi {last}, {number} : index") if params["reverse"] else number
        rows = [cut(emitter, array, 0, place, array.shape[1:]) for array in arrays]
        results = body.step(emitter, inside[:kept], rows=rows)
        written = zip(inside[kept:], results[kept:], strict=True)
        return [*results[:kept], *(_put(emitter, stack, place, row) for stack, row in written)]

    types = [*body.types(0), *stacked]
    values = _for(emitter, [*body.first, *stacks], types, count, body.sizes, step)
    return [*body.results(values[:kept]), *values[kept:]]


def _put(emitter: Emitter, stack: Value, place: str, row: Value) -> Value:
    """An array with another row."""
    if 0 in row.shape:
        return stack
    row = emitter.tensor(row)
    zeros, ones = ("".join(f", {number}" for _ in row.shape) for number in "01")
    sizes = "".join(f", {emitter.size_text(dim)}" for dim in row.shape)
    text = f"tensor.insert_slice {row.text} into {stack.text}[{place}{zeros}] [1{sizes}] [1{ones}]"
    return Value(emitter.code.op(f"{text} : {row.type} into {stack.type}"), *stack.array)


def _while_loop(emitter: Emitter, call: Call) -> list[Value]:
    params, code, sizes = call.params, emitter.code, call.params["num_implicit_inputs"]
    asked, consts, implicit, carries = split(call.inputs, params["cond_nconsts"], params["body_nconsts"], sizes)
    body = _Body.of(params["body"], consts, implicit, carries)
    types = body.types(0)

    def write(first: Sequence[Value], hosts: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        inside = _fresh(emitter, types, hosts)
        head, step, end = (code.label() for _ in range(3))
        leave(emitter, head, first, inside)
        code.start(head, inside)
        with emitter.region():
            (goes,) = emitter.inline(params["cond"], asked, body.results(inside))
            emitter.checks.settle()
            code.put(f"cf.cond_br {emitter.scalar(goes).text}, {step}, {end}")
            code.start(step)
            values = body.step(emitter, inside)
            emitter.checks.settle()
            leave(emitter, head, values, inside)
        code.start(end)
        return inside, values

    return body.results(_carried(body.first, body.sizes, emitter, write))


def _one_dispatch(host: Write) -> Write:
    """A loop as one dispatch where that is possible, else as blocks of the host."""

    def write(emitter: Emitter, call: Call) -> Value | Sequence[Value]:
        loop = dispatch_of(emitter, call)
        if loop is None:
            return host(emitter, call)
        values = {**loop.kept, **loop.written()}
        return [values[var] for var in call.outputs]

    return write


CONTROL = {
    "call": Row(_call),
    "cond": Row(_cond),
    "for_loop": Row(_one_dispatch(_for_loop)),
    "scan": Row(_one_dispatch(_scan)),
    "while_loop": Row(_one_dispatch(_while_loop)),
}
