"""Control flow: nested Programs as blocks with branches between them (`cf`), on tensors whose sizes may change.

Not as `scf.for` and `scf.if`: if such a loop carries two tensors in one allocation, IREE 3.13 reads one of them at the
wrong offset (adr/0026). Sizes are carried as numbers of the host. So are other scalars that the host can compute from
such numbers alone: a counter of a `while_loop` costs no array.
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
    are_sizes = [index < count for index in range(len(call.outputs))]
    like = [_like(type_, is_size) for type_, is_size in zip(call.types, are_sizes, strict=True)]

    def choose(branch: int) -> list[Value]:
        def run() -> list[Value]:
            values = emitter.inline(branches[branch], captured[branch], [])
            if branch == len(predicates):
                return values
            # hidden, so that no two blocks are equal: IREE 3.13 merges equal blocks into an `arith.select`, and takes
            # the size of its first operand for that of the selected tensor
            return [*(emitter.hidden(emitter.scalar(value)) for value in values[:count]), *values[count:]]

        if branch == len(predicates):
            return run()
        return either(emitter, emitter.scalar(predicates[branch]), like, run, lambda: choose(branch + 1))

    return choose(0)


def _like(type_: ArrayType, is_scalar: bool) -> Value:
    return Value("", type_.shape, type_.dtype, is_scalar)


def _carried(first: Sequence[Value], sizes: int, emitter: Emitter, write: Loop) -> list[Value]:
    """The results of a loop; scalars stay on the host if each step computes them there.

    Args:
        first: The values before the first step.
        sizes: How many of the first are sizes, which are always on the host.
        emitter: Where its lines go.
        write: Writes the loop, given the values before the first step and whether each is on the host; returns its
            results, and the results of its step.
    """
    first = [emitter.scalar(value) if index < sizes else value for index, value in enumerate(first)]
    hosts = [value.is_scalar and value.dtype in HOST for value in first]
    while True:
        mark = emitter.code.mark()
        results, stepped = write(first, hosts)
        on_host = [
            index < sizes or (host and value.is_scalar)
            for index, (host, value) in enumerate(zip(hosts, stepped, strict=True))
        ]
        if on_host == hosts:
            return results
        emitter.code.reset(mark)
        hosts = on_host


def _fresh(emitter: Emitter, types: Sequence[ArrayType], hosts: Sequence[bool]) -> list[Value]:
    """Names for the arguments of a region."""
    return [
        Value(emitter.code.name(), type_.shape, type_.dtype, host) for type_, host in zip(types, hosts, strict=True)
    ]


def _for(
    emitter: Emitter, first: Sequence[Value], types: Sequence[ArrayType], count: str, sizes: int, step: Step
) -> list[Value]:
    """A loop of `count` iterations; `step` takes the number of the iteration and the carried values."""
    code = emitter.code
    zero, one = index_constant(code, 0), index_constant(code, 1)

    def write(first: Sequence[Value], hosts: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        inside, iteration = _fresh(emitter, types, hosts), code.name()
        head, body, end = (code.label() for _ in range(3))
        leave(emitter, head, first, inside, zero)
        code.start(head, inside, iteration)
        goes = code.op(f"arith.cmpi slt, {iteration}, {count} : index")
        code.put(f"cf.cond_br {goes}, {body}, {end}")
        code.start(body)
        with emitter.region():
            values = step(iteration, inside)
            emitter.checks.settle()
            leave(emitter, head, values, inside, code.op(f"arith.addi {iteration}, {one} : index"))
        code.start(end)
        return inside, values

    return _carried(first, sizes, emitter, write)


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a loop: its carried values, and the sizes that no step changes.

    Args:
        program: The body, with the sizes substituted that are known outside.
        consts: The values that it captures.
        first: The values before the first step: the sizes that change, then the other values.
        fixed_sizes: The values of sizes that no step changes, by the position of the input.
    """

    program: Program
    consts: tuple[Value, ...]
    first: tuple[Value, ...]
    fixed_sizes: Mapping[int, Value]

    @staticmethod
    def of(program: Program, consts: Sequence[Value], implicit: Sequence[Value], carries: Sequence[Value]) -> _Body:
        """The body of an equation, given the values of its operands."""
        triples = zip(program.inputs, program.outputs, implicit, strict=False)
        fixed = {index: value for index, (var, output, value) in enumerate(triples) if var is output}
        known = [
            *zip(program.consts, consts, strict=True),
            *((program.inputs[index], value) for index, value in fixed.items()),
        ]
        changing = tuple(value for index, value in enumerate(implicit) if index not in fixed)
        return _Body(with_sizes(program, known), tuple(consts), (*changing, *carries), fixed)

    @property
    def sizes(self) -> int:
        """How many sizes change."""
        return self.program.num_implicit_inputs - len(self.fixed_sizes)

    def types(self, leading: int) -> list[ArrayType]:
        """The types of the carried values; the `leading` inputs after the sizes are not carried."""
        sizes, count = self.program.num_implicit_inputs, len(self.first) - self.sizes
        inputs = self.program.inputs
        changing = [var for index, var in enumerate(inputs[:sizes]) if index not in self.fixed_sizes]
        return [var.type for var in (*changing, *inputs[sizes + leading :][:count])]

    def step(
        self, emitter: Emitter, carried: Sequence[Value], leading: Sequence[Value] = (), rows: Sequence[Value] = ()
    ) -> list[Value]:
        """The results of one step: the sizes that change, then the other values."""
        sizes = self.all_sizes(carried)
        results = emitter.inline(self.program, self.consts, [*sizes, *leading, *carried[self.sizes :], *rows])
        return [value for index, value in enumerate(results) if index not in self.fixed_sizes]

    def all_sizes(self, carried: Sequence[Value]) -> list[Value]:
        """All sizes; those that change come from the carried values."""
        changing = iter(carried)
        indices = range(self.program.num_implicit_inputs)
        return [self.fixed_sizes[index] if index in self.fixed_sizes else next(changing) for index in indices]

    def results(self, carried: Sequence[Value]) -> list[Value]:
        """The results of the equation, from the values that the loop carries at its end."""
        return [*self.all_sizes(carried), *carried[self.sizes :]]


def _for_loop(emitter: Emitter, call: Call) -> list[Value]:
    params, code = call.params, emitter.code
    consts, implicit, bounds, carries = split(call.inputs, params["body_nconsts"], params["num_implicit_inputs"], 3)
    body = _Body.of(params["body"], consts, implicit, carries)
    lower, upper, by = (emitter.scalar(bound) for bound in bounds)
    count = _steps(emitter, lower, upper, by, call.source)

    def step(iteration: str, inside: list[Value]) -> list[Value]:
        number = code.op(f"arith.index_cast {iteration} : index to i64")
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
    num_carried = len(body.first)
    arrays = [emitter.tensor(array) for array in arrays]
    stacked = call.types[len(call.types) - (len(params["body"].results) - len(carries)) :]
    # zeros, since IREE may share the memory of a `tensor.empty` that a loop carries with other tensors
    stacks = [emitter.full(type_.shape, emitter.constant(0, type_.dtype)) for type_ in stacked]
    count = emitter.size(params["length"])
    last = code.op(f"arith.subi {count}, {index_constant(code, 1)} : index")

    def step(iteration: str, inside: list[Value]) -> list[Value]:
        index = code.op(f"arith.subi {last}, {iteration} : index") if params["reverse"] else iteration
        rows = [cut(emitter, array, 0, index, array.shape[1:]) for array in arrays]
        results = body.step(emitter, inside[:num_carried], rows=rows)
        stacked_rows = zip(inside[num_carried:], results[num_carried:], strict=True)
        return [*results[:num_carried], *(_put(emitter, stack, index, row) for stack, row in stacked_rows)]

    types = [*body.types(0), *stacked]
    values = _for(emitter, [*body.first, *stacks], types, count, body.sizes, step)
    return [*body.results(values[:num_carried]), *values[num_carried:]]


def _put(emitter: Emitter, stack: Value, index: str, row: Value) -> Value:
    """An array with the row at an index replaced."""
    if 0 in row.shape:
        return stack
    row = emitter.tensor(row)
    zeros, ones = ("".join(f", {number}" for _ in row.shape) for number in "01")
    sizes = "".join(f", {emitter.size_text(dim)}" for dim in row.shape)
    text = f"tensor.insert_slice {row.text} into {stack.text}[{index}{zeros}] [1{sizes}] [1{ones}]"
    return Value(emitter.code.op(f"{text} : {row.type} into {stack.type}"), *stack.array)


def _while_loop(emitter: Emitter, call: Call) -> list[Value]:
    params, code, sizes = call.params, emitter.code, call.params["num_implicit_inputs"]
    cond_consts, consts, implicit, carries = split(call.inputs, params["cond_nconsts"], params["body_nconsts"], sizes)
    body = _Body.of(params["body"], consts, implicit, carries)
    types = body.types(0)

    def write(first: Sequence[Value], hosts: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        inside = _fresh(emitter, types, hosts)
        head, step, end = (code.label() for _ in range(3))
        leave(emitter, head, first, inside)
        code.start(head, inside)
        with emitter.region():
            (goes,) = emitter.inline(params["cond"], cond_consts, body.results(inside))
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
    """A loop as one dispatch if that is possible, else as blocks of the host."""

    def write(emitter: Emitter, call: Call) -> Value | Sequence[Value]:
        loop = dispatch_of(emitter, call)
        if loop is None:
            return host(emitter, call)
        values = {**loop.unchanged, **loop.written()}
        return [values[var] for var in call.outputs]

    return write


CONTROL = {
    "call": Row(_call),
    "cond": Row(_cond),
    "for_loop": Row(_one_dispatch(_for_loop)),
    "scan": Row(_one_dispatch(_scan)),
    "while_loop": Row(_one_dispatch(_while_loop)),
}
