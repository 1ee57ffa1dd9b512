"""The positions of operands and results of control flow: captured ones, sizes, bounds of loops, carries and rows."""

from collections.abc import Iterator, Mapping

from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.sizes import Dim, Size, as_size
from plica.ops.regions import regions_of


def branch_programs(equation: Equation) -> tuple[Program, ...]:
    """The regions of branches and calls, whose outputs are those of the equation."""
    match equation.op.name:
        case "cond":
            return tuple(equation.params["branches"])
        case "call":
            return (equation.params["program"],)
        case _:
            return ()


def explicit_outputs(equation: Equation) -> tuple[Var, ...]:
    """The results of control flow that are no sizes."""
    return equation.outputs[equation.params["num_implicit_outputs"] :]


def carries(equation: Equation) -> Iterator[tuple[Var, Operand, Operand, Var]]:
    """For each value that a loop carries: the body's input, the first operand, the body's result, the output."""
    body: Program = equation.params["body"]
    outputs = explicit_outputs(equation)
    leading = 1 if equation.op.name == "for_loop" else 0
    inputs = body.inputs[body.num_implicit_inputs + leading :]
    if equation.op.name == "scan":
        count = equation.params["num_carries"]
        inputs, outputs = inputs[:count], outputs[:count]
    first = _explicit_operands(equation)
    return zip(inputs, first[: len(inputs)], body.results, outputs, strict=False)


def scanned(equation: Equation) -> list[tuple[Var, Operand]]:
    """The inputs of the body of a scan that are rows, and the arrays whose rows they are."""
    body, count = equation.params["body"], equation.params["num_carries"]
    return list(zip(body.inputs[body.num_implicit_inputs + count :], _explicit_operands(equation)[count:], strict=True))


def call_inputs(equation: Equation) -> list[tuple[Var, Operand]]:
    """The explicit inputs of a called Program, and their operands."""
    program = equation.params["program"]
    return list(zip(program.arguments, _explicit_operands(equation), strict=True))


def implicit_operands(equation: Equation) -> range:
    """The positions of operands that are sizes, which generated code reads off the arrays."""
    params = equation.params
    start = params.get("cond_nconsts", 0) + params.get("body_nconsts", 0)
    return range(start, start + params.get("num_implicit_inputs", 0))


def first_place(equation: Equation) -> int:
    """The position of the first operand that is neither captured, nor a size, nor a bound of a loop."""
    return implicit_operands(equation).stop + (3 if equation.op.name == "for_loop" else 0)


def _explicit_operands(equation: Equation) -> tuple[Operand, ...]:
    return equation.inputs[first_place(equation) :]


def implicit_operand(equation: Equation, position: int) -> Operand:
    """The operand that gives a loop one of its sizes."""
    return equation.inputs[implicit_operands(equation)[position]]


def kept_sizes(equation: Equation) -> list[tuple[Var, Operand]]:
    """The sizes that a loop takes and gives back unchanged: the body's inputs and the operands."""
    body: Program = equation.params["body"]
    sizes = zip(body.inputs[: body.num_implicit_inputs], body.outputs, strict=False)
    return [
        (var, implicit_operand(equation, position)) for position, (var, result) in enumerate(sizes) if var is result
    ]


def bounds_of(equation: Equation) -> tuple[Operand, ...]:
    """The lower bound, the upper bound and the step of a `for_loop`."""
    start = implicit_operands(equation).stop
    return equation.inputs[start : start + 3]


def known_in_turns(equation: Equation) -> list[Dim]:
    """The sizes that are 0 or more in each iteration of a `for_loop` that counts upwards, in the body's variables."""
    if equation.op.name != "for_loop":
        return []
    lower, upper, step = bounds_of(equation)
    by = as_size(step)
    if not isinstance(by, int) or by <= 0:
        return []
    body: Program = equation.params["body"]
    captured = zip(body.consts, equation.inputs, strict=False)
    inside = {outer: inner for inner, outer in (*captured, *kept_sizes(equation))}
    first, last = (
        as_size(inside.get(bound, bound)) if bound in inside or isinstance(bound, Literal) else None
        for bound in (lower, upper)
    )
    index = Size.of(body.arguments[0])
    return [*([] if first is None else [index - first]), *([] if last is None else [last - 1 - index])]


def handed_over(equation: Equation) -> Iterator[tuple[Var, Operand]]:
    """Variables of regions, and the operands whose values they have whenever they are read."""
    for program, operands in regions_of(equation):
        yield from zip(program.consts, operands, strict=False)
    if equation.op.name == "call":
        yield from call_inputs(equation)


def size_places(sizes: tuple[Var, ...], arrays: Mapping[Var, str]) -> Iterator[tuple[Var, str]]:
    """For each size, Python text that reads it off one of `arrays`, given with their text."""
    for size in sizes:
        for var, text in arrays.items():
            if Size.of(size) in var.type.shape:
                yield size, f"{text}.shape[{var.type.shape.index(Size.of(size))}]"
                break
