"""Which operands and results of a control-flow equation are sizes, loop bounds, carries and scanned rows.

The operands of a loop or a call stand in this order: captured constants, implicit sizes, explicit operands.

    for_loop     captured.. sizes.. lower upper step carries..     the body takes sizes.. index carries..
    while_loop   captured.. sizes.. carries..                      `cond` and `body` take sizes.. carries..
    scan         captured.. sizes.. carries.. arrays..             the body takes sizes.. carries.. rows..
    call         captured.. sizes.. arguments..                    the Program takes sizes.. arguments..
    cond         predicates.. captured..                           the branches take nothing

An implicit size is a scalar that only says how long an axis is. Results are implicit sizes first, then explicit ones.
"""

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
    """The results that the user's code returns, without the implicit sizes before them."""
    return equation.outputs[equation.params["num_implicit_outputs"] :]


def carries(equation: Equation) -> Iterator[tuple[Var, Operand, Operand, Var]]:
    """For each carry of a loop: the input of the body, the first operand, the result of the body, the final result."""
    body: Program = equation.params["body"]
    outputs = explicit_outputs(equation)
    leading = 1 if equation.op.name == "for_loop" else 0
    inputs = body.inputs[body.num_implicit_inputs + leading :]
    if equation.op.name == "scan":
        count = equation.params["num_carries"]
        inputs, outputs = inputs[:count], outputs[:count]
    operands = _explicit_operands(equation)
    # a scan's body returns the rows that it stacks after its carries
    return zip(inputs, operands[: len(inputs)], body.results, outputs, strict=False)


def scanned(equation: Equation) -> list[tuple[Var, Operand]]:
    """The inputs of a scan's body that are rows of an array, each with the array: one row for each iteration."""
    body, count = equation.params["body"], equation.params["num_carries"]
    return list(zip(body.inputs[body.num_implicit_inputs + count :], _explicit_operands(equation)[count:], strict=True))


def call_inputs(equation: Equation) -> list[tuple[Var, Operand]]:
    """The explicit inputs of a called Program, each with its operand."""
    program = equation.params["program"]
    return list(zip(program.arguments, _explicit_operands(equation), strict=True))


def implicit_operands(equation: Equation) -> range:
    """The positions of the implicit sizes among the operands; generated code reads these sizes off the arrays."""
    params = equation.params
    start = params.get("cond_nconsts", 0) + params.get("body_nconsts", 0)
    return range(start, start + params.get("num_implicit_inputs", 0))


def first_explicit_operand(equation: Equation) -> int:
    """The position of the first operand that is neither captured, nor an implicit size, nor a bound of a loop."""
    return implicit_operands(equation).stop + (3 if equation.op.name == "for_loop" else 0)


def _explicit_operands(equation: Equation) -> tuple[Operand, ...]:
    return equation.inputs[first_explicit_operand(equation) :]


def implicit_operand(equation: Equation, position: int) -> Operand:
    """The operand that is a loop's implicit size number `position`, counted from 0 among its implicit sizes."""
    return equation.inputs[implicit_operands(equation)[position]]


def unchanged_sizes(equation: Equation) -> list[tuple[Var, Operand]]:
    """The implicit sizes that no iteration of a loop changes: for each, the body's input and the loop's operand."""
    body: Program = equation.params["body"]
    sizes = zip(body.inputs[: body.num_implicit_inputs], body.outputs, strict=False)
    return [
        (var, implicit_operand(equation, position)) for position, (var, result) in enumerate(sizes) if var is result
    ]


def bounds_of(equation: Equation) -> tuple[Operand, ...]:
    """The lower bound, the upper bound and the step of a `for_loop`."""
    start = implicit_operands(equation).stop
    return equation.inputs[start : start + 3]


def nonnegative_in_body(equation: Equation) -> list[Dim]:
    """Sizes that are 0 or more in the body of a `for_loop` whose step is constant and positive.

    They are `index - lower` and `upper - 1 - index`, without those whose bound the body has no variable for. Other
    equations have none.
    """
    if equation.op.name != "for_loop":
        return []
    lower, upper, step = bounds_of(equation)
    step_size = as_size(step)
    if not isinstance(step_size, int) or step_size <= 0:
        return []
    body: Program = equation.params["body"]
    captured = zip(body.consts, equation.inputs, strict=False)
    body_var = {outer: inner for inner, outer in (*captured, *unchanged_sizes(equation))}
    start, stop = (
        as_size(body_var.get(bound, bound)) if bound in body_var or isinstance(bound, Literal) else None
        for bound in (lower, upper)
    )
    index = Size.of(body.arguments[0])
    return [*([] if start is None else [index - start]), *([] if stop is None else [stop - 1 - index])]


def constant_bindings(equation: Equation) -> Iterator[tuple[Var, Operand]]:
    """Variables of nested Programs, each with the operand that it always equals: captures, and arguments of a call."""
    for program, operands in regions_of(equation):
        yield from zip(program.consts, operands, strict=False)
    if equation.op.name == "call":
        yield from call_inputs(equation)


def size_expressions(sizes: tuple[Var, ...], arrays: Mapping[Var, str]) -> Iterator[tuple[Var, str]]:
    """Sizes with Python code that reads each off an array, such as `x.shape[0]`; without sizes that no array has.

    Args:
        sizes: The variables of the sizes.
        arrays: The arrays, each with the Python code of its name.
    """
    for size in sizes:
        for var, text in arrays.items():
            if Size.of(size) in var.type.shape:
                yield size, f"{text}.shape[{var.type.shape.index(Size.of(size))}]"
                break
