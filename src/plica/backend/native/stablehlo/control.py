"""Operations that run nested Programs, by StableHLO's `while` and `if`.

A loop carries arrays of one type: StableHLO has no form for a size that changes between iterations.
"""

from collections.abc import Mapping, Sequence

from plica.backend.native.stablehlo.emitter import ControlRow, Emitter
from plica.backend.native.stablehlo.values import Value, branches, loop
from plica.errors import UnsupportedError
from plica.ir.program import Equation, Operand, Program, Var
from plica.ir.sizes import Dim
from plica.ops.regions import split


def _bind(emitter: Emitter, variables: Sequence[Var], operands: Sequence[Operand]) -> None:
    emitter.bind(
        variables,
        [emitter.read(operand) for operand in operands],
        [emitter.known_operand(operand) for operand in operands],
    )


def _common_sizes(emitter: Emitter, equation: Equation, programs: Sequence[Program]) -> list[Value]:
    """The implicit outputs of an equation, which must be the same sizes in all of its Programs.

    Raises:
        UnsupportedError: The sizes differ, or depend on data.
    """
    common = []
    for index in range(equation.params["num_implicit_outputs"]):
        sizes = {emitter.known(program.size_of(program.outputs[index])) for program in programs}
        size = sizes.pop()
        if sizes or size is None:
            raise UnsupportedError(
                f"{_location(equation)}: the branches return results of different sizes, for which StableHLO has no "
                "type. Export with --to native."
            )
        emitter.learn(equation.outputs[index], size)
        common.append(emitter.size(size))
    return common


def _location(equation: Equation) -> str:
    return f"{equation.source}: {equation.op.name}" if equation.source else equation.op.name


def _call(emitter: Emitter, equation: Equation) -> Sequence[Value]:
    program = equation.params["program"]
    _bind(emitter, (*program.consts, *program.inputs), equation.inputs)
    results = _results(emitter, program)
    return [*_common_sizes(emitter, equation, [program]), *results]


def _cond(emitter: Emitter, equation: Equation) -> Sequence[Value]:
    programs: Sequence[Program] = equation.params["branches"]
    predicates, *captured = split(equation.inputs, len(programs) - 1, *equation.params["branch_nconsts"])
    for program, operands in zip(programs, captured, strict=False):
        _bind(emitter, program.consts, operands)

    def results(index: int) -> Sequence[Value]:
        program = programs[index]
        if index == len(programs) - 1:
            return _results(emitter, program)
        return branches(
            emitter.read(predicates[index]), [lambda: _results(emitter, program), lambda: results(index + 1)]
        )

    values = results(0)
    return [*_common_sizes(emitter, equation, programs), *values]


def _results(emitter: Emitter, program: Program) -> list[Value]:
    """The explicit results of a Program, whose inputs are bound."""
    values = emitter.run(program)[program.num_implicit_outputs :]
    return [emitter.as_type(value, result.type) for value, result in zip(values, program.results, strict=True)]


class _Loop:
    """The body of a loop: binds its sizes, and checks that no iteration changes them."""

    def __init__(self, emitter: Emitter, equation: Equation, body: Program, implicit: Sequence[Operand]) -> None:
        self.emitter = emitter
        self.body = body
        self._constant_sizes: list[Dim] = []
        sizes = body.inputs[: body.num_implicit_inputs]
        _bind(emitter, sizes, implicit)
        for var, operand in zip(sizes, implicit, strict=True):
            size = emitter.known_operand(operand)
            if size is None:
                raise UnsupportedError(
                    f"{_location(equation)}: the size {var.name} depends on the values of arrays; sizes in StableHLO "
                    "follow from the shapes of the arguments alone. Export with --to native."
                )
            self._constant_sizes.append(size)

    def results(self, equation: Equation, inputs: Sequence[Value]) -> list[Value]:
        """The results of an iteration for its explicit inputs."""
        body = self.body
        self.emitter.bind(body.arguments, inputs)
        values = self.emitter.run(body)[body.num_implicit_outputs :]
        for size, output in zip(self._constant_sizes, body.outputs, strict=False):
            if self.emitter.known(body.size_of(output)) != size:
                raise UnsupportedError(
                    f"{_location(equation)}: the size of a carried array changes between iterations, which StableHLO "
                    "does not support. Export with --to native, or allocate the array at its largest size."
                )
        return values

    def sizes(self, equation: Equation) -> list[Value]:
        """The implicit outputs of the loop."""
        implicit = equation.outputs[: equation.params["num_implicit_outputs"]]
        for var, size in zip(implicit, self._constant_sizes, strict=True):
            self.emitter.learn(var, size)
        return [self.emitter.size(size) for size in self._constant_sizes[: len(implicit)]]


def _carried(values: Sequence[Value], like: Sequence[Value]) -> list[Value]:
    """The values, reshaped to the shapes of the carried values `like`."""
    return [value.reshape(carried.shape) for value, carried in zip(values, like, strict=True)]


def _for_loop(emitter: Emitter, equation: Equation) -> Sequence[Value]:
    params = equation.params
    body: Program = params["body"]
    consts, implicit, bounds, carries = split(equation.inputs, params["body_nconsts"], params["num_implicit_inputs"], 3)
    _bind(emitter, body.consts, consts)
    loop_body = _Loop(emitter, equation, body, implicit)
    lower, upper, step = map(emitter.read, bounds)

    start = _first_values(emitter, body.arguments[1:], carries)

    def iteration(number: Value, *state: Value) -> list[Value]:
        return [number + 1, *_carried(loop_body.results(equation, [number * step + lower, *state]), state)]

    # XLA optimizes, and some of its versions accept, only loops that count from 0 by a constant
    count = _trip_count(lower, upper, step)
    _, *carried = loop([count.like(0), *start], lambda number, *_: number < count, iteration)
    return [*loop_body.sizes(equation), *carried]


def _trip_count(lower: Value, upper: Value, step: Value) -> Value:
    """How many values there are from `lower` to `upper`; 0 if the step is 0."""
    distance = (step > 0).where(upper - lower, lower - upper)
    step_size = step.absolute().maximum(1)
    return step.equals(0).where(0, ((distance + step_size - 1) / step_size).maximum(0))


def _first_values(emitter: Emitter, variables: Sequence[Var], operands: Sequence[Operand]) -> list[Value]:
    return [emitter.as_type(emitter.read(operand), var.type) for var, operand in zip(variables, operands, strict=True)]


def _while_loop(emitter: Emitter, equation: Equation) -> Sequence[Value]:
    params = equation.params
    cond, body = params["cond"], params["body"]
    counts = (params["cond_nconsts"], params["body_nconsts"], params["num_implicit_inputs"])
    cond_consts, consts, implicit, carries = split(equation.inputs, *counts)
    _bind(emitter, cond.consts, cond_consts)
    _bind(emitter, body.consts, consts)
    _bind(emitter, cond.inputs[: cond.num_implicit_inputs], implicit)
    loop_body = _Loop(emitter, equation, body, implicit)

    def going(*state: Value) -> Value:
        emitter.bind(cond.arguments, state)
        return emitter.run(cond)[0]

    start = _first_values(emitter, body.arguments, carries)
    carried = loop(start, going, lambda *state: _carried(loop_body.results(equation, state), state))
    return [*loop_body.sizes(equation), *carried]


def _scan(emitter: Emitter, equation: Equation) -> Sequence[Value]:
    params = equation.params
    body: Program = params["body"]
    counts = (params["body_nconsts"], params["num_implicit_inputs"], params["num_carries"])
    consts, implicit, carries, stacked = split(equation.inputs, *counts)
    _bind(emitter, body.consts, consts)
    loop_body = _Loop(emitter, equation, body, implicit)
    rows = [emitter.read(operand) for operand in stacked]
    count, reverse = emitter.known(params["length"]), params["reverse"]
    if count is None:
        raise UnsupportedError(
            f"{_location(equation)}: the number of steps depends on the values of arrays; sizes in StableHLO follow "
            "from the shapes of the arguments alone. Export with --to native."
        )
    length = emitter.size(count)
    sizes = loop_body.sizes(equation)
    types = [output.type for output in equation.outputs[len(sizes) + len(carries) :]]
    empty = [length.like(0, type_.dtype).spread(emitter.shape(type_, _location(equation))) for type_ in types]

    def step(iteration: Value, *state: Value) -> list[Value]:
        index = length - iteration - 1 if reverse else iteration
        rows_at_index = [array.take(index, 0) for array in rows]
        results = loop_body.results(equation, [*state[: len(carries)], *rows_at_index])
        carried = _carried(results[: len(carries)], state[: len(carries)])
        stacks = map(_with_row, state[len(carries) :], results[len(carries) :], [index] * len(empty))
        return [iteration + 1, *carried, *stacks]

    start = _first_values(emitter, body.arguments[: len(carries)], carries)
    first = length.like(0)
    _, *carried = loop([first, *start, *empty], lambda count, *_: count < length, step)
    return [*sizes, *carried]


def _with_row(stack: Value, row: Value, index: Value) -> Value:
    """A stack with a row at an index; a stack without rows is returned unchanged."""
    code, entry = stack.code, ((), stack.dtype)
    region = code.region([entry] * 2, lambda _, new: [new])
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {list(range(row.rank))}, inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 0>"
    )
    operands = [stack.tensor, index.expand(0).tensor, row.reshape(stack.shape[1:]).tensor]
    attributes = {"scatter_dimension_numbers": numbers}
    return Value(code, code.apply("scatter", operands, stack.shape, stack.dtype, attributes, [region]))


CONTROL: Mapping[str, ControlRow] = {
    "call": _call,
    "cond": _cond,
    "for_loop": _for_loop,
    "scan": _scan,
    "while_loop": _while_loop,
}
