"""Emits control flow as Python statements: loops are `for` and `while`, a `cond` is `if`, a call is inlined.

A carry, what one iteration passes to the next, has the name of the body's input. Each iteration ends with one
simultaneous assignment to the carries. A loop `x -> 2 * x` of three iterations, with its start `a`:

    x = a
    for i in range(3):
        y = x * 2.0
        x = y
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Protocol

from plica.backend.torch.bounds import Bounds
from plica.backend.torch.operations.call import axis_source, dtype_source, shape_source
from plica.backend.torch.plan import Plan
from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.sizes import Dim
from plica.ops.control_operands import (
    bounds_of,
    call_inputs,
    carries,
    explicit_outputs,
    implicit_operand,
    nonnegative_in_body,
    scanned,
    size_expressions,
    unchanged_sizes,
)
from plica.ops.regions import regions_of
from plica.passes.ownership import Owned

INDENT = "    "


class Emitter(Protocol):
    """What the functions of this file need of the emitter of a whole Program (`emit.py`)."""

    @property
    def plan(self) -> Plan:
        """Which equations are live, and which scalars are Python numbers."""

    @property
    def owned(self) -> Owned:
        """The arrays that may be updated in place where no gradient is needed."""

    @property
    def bounds(self) -> Bounds:
        """The bounds of slices that are computed once, before the loop that does not change them."""

    def block(
        self, program: Program, indent: str, sizes: Iterable[Operand] = (), known: Iterable[Dim] = ()
    ) -> Iterator[str]:
        """The lines of a Program's equations, whose inputs are assigned before.

        Args:
            program: The Program.
            indent: The indentation of its lines.
            sizes: Operands that later lines read.
            known: Sizes that are not negative.
        """

    def text(self, operand: Operand) -> str:
        """The Python code of an operand, a number or a tensor as the plan says."""

    def tensor(self, operand: Operand) -> str:
        """The Python code of an operand as a tensor."""

    def host(self, operand: Operand) -> str:
        """The Python code of an operand as a Python number."""


def assigned_sizes(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    """Lines after control flow that assign the implicit sizes among its results, where something reads them.

    A size is read off a result that has it. A loop's size that no result has is the one before the loop. A scalar that
    the loop carries as a tensor, and that is a size afterwards, is converted to a Python number.
    """
    sizes = tuple(
        var for var in equation.outputs[: equation.params["num_implicit_outputs"]] if var in emitter.plan.reads
    )
    arrays = {var: var.name for var in explicit_outputs(equation) if var in emitter.plan.reads}
    yield from (f"{indent}{size.name} = {text}" for size, text in size_expressions(sizes, arrays))
    if "body" in equation.params:
        for index, var in emitter.plan.unread_sizes(equation):
            yield f"{indent}{var.name} = {emitter.host(implicit_operand(equation, index))}"
        for inner, _, _, output in carries(equation):
            if emitter.plan.is_host(output) and not emitter.plan.is_host(inner):
                yield f"{indent}{output.name} = {emitter.plan.python_type(output)}({output.name})"


def _as(emitter: Emitter, operand: Operand, var: Var) -> str:
    """`operand` as a Python number or a tensor, whichever `var` is."""
    return emitter.host(operand) if emitter.plan.is_host(var) else emitter.tensor(operand)


def _assign(emitter: Emitter, pairs: list[tuple[Var, Operand]], indent: str, *, wrapped: bool = False) -> Iterator[str]:
    """One simultaneous assignment of operands to the variables that are read, without any of a name to itself.

    With `wrapped`, integers that are Python numbers stay within 64 bits, modulo 2**64 as tensors do.
    """
    assigned = [(var, _as(emitter, operand, var)) for var, operand in pairs if var in emitter.plan.reads]
    assigned = [(var, text) for var, text in assigned if text != var.name]
    if wrapped:
        assigned = [(var, f"kernels.wrap({text})" if _may_overflow(emitter, var) else text) for var, text in assigned]
    if assigned:
        yield f"{indent}{', '.join(var.name for var, _ in assigned)} = {', '.join(text for _, text in assigned)}"


def _may_overflow(emitter: Emitter, var: Var) -> bool:
    return emitter.plan.is_host(var) and var.type.dtype == "int64"


def _sizes(
    emitter: Emitter, program: Program, arrays: Mapping[Var, str], indent: str, known: Container[str] = ()
) -> Iterator[str]:
    """Lines that read a nested Program's implicit sizes off `arrays`, without those that have a name in `known`."""
    needed = (var for var in program.inputs[: program.num_implicit_inputs] if var in emitter.plan.reads)
    sizes = tuple(var for var in needed if var.name not in known)
    assigned = {var: text for var, text in arrays.items() if var in emitter.plan.reads}
    yield from (f"{indent}{size.name} = {text}" for size, text in size_expressions(sizes, assigned))


def _literals(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    """Lines that give names to the numbers that nested Programs capture."""
    for program, operands in regions_of(equation):
        for var, operand in zip(program.consts, operands, strict=False):
            if isinstance(operand, Literal) and var in emitter.plan.reads:
                yield f"{indent}{var.name} = {emitter.text(operand)}"


def _for(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    body: Program = equation.params["body"]
    lower, upper, step = bounds_of(equation)
    start, stop, by = (emitter.host(bound) for bound in (lower, upper, step))
    # a step that is known only at run time may be 0: `kernels.steps` refuses it with an error of Plica
    steps = f"range({start}, {stop}, {by})" if isinstance(step, Literal) else f"kernels.steps({start}, {stop}, {by})"
    if by == "1":
        steps = f"range({stop})" if start == "0" else f"range({start}, {stop})"
    yield from _loop_head(emitter, equation, indent)
    yield f"{indent}for {body.arguments[0].name} in {steps}:"
    yield from _loop_body(emitter, equation, indent + INDENT)


def _loop_head(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    """The lines before a loop: captured numbers, constant bounds of slices, and the first value of each carry.

    `_loop_body` must follow: it drops the names of the bounds.
    """
    yield from _literals(emitter, equation, indent)
    yield from (f"{indent}{name} = {text}" for name, text in emitter.bounds.enter(equation))
    copied = emitter.owned.copied.get(equation, ())
    for index, (inner, first, _, output) in enumerate(carries(equation)):
        if inner in emitter.plan.reads or output in emitter.plan.reads:
            text = _as(emitter, first, inner)
            if index in copied:
                text = f"{text}.clone() if in_place else {text}"
            if text != inner.name:
                yield f"{indent}{inner.name} = {text}"


def _loop_body(emitter: Emitter, equation: Equation, indent: str, extra: Iterable[str] = ()) -> Iterator[str]:
    """The lines of one iteration; `extra` stands between the equations and the assignment to the carries."""
    body: Program = equation.params["body"]
    lines = list(_sizes(emitter, body, {var: var.name for var in body.arguments}, indent, _constant_sizes(equation)))
    lines += emitter.block(body, indent, known=nonnegative_in_body(equation))
    lines += extra
    emitter.bounds.leave(equation)
    lines += _assign(emitter, [(inner, result) for inner, _, result, _ in carries(equation)], indent, wrapped=True)
    yield from lines or [f"{indent}pass"]


def _constant_sizes(equation: Equation) -> list[str]:
    """The names of the sizes that are assigned before a loop and that no iteration changes."""
    return [inner.name for inner, outer in unchanged_sizes(equation) if isinstance(outer, Var)]


def _while(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    cond: Program = equation.params["cond"]
    inner = indent + INDENT
    yield from _loop_head(emitter, equation, indent)
    lines = list(_sizes(emitter, cond, {var: var.name for var in cond.arguments}, inner, _constant_sizes(equation)))
    lines += emitter.block(cond, inner)
    (condition,) = cond.results
    yield f"{indent}while True:"
    yield from lines
    yield f"{inner}if not {emitter.text(condition)}:"
    yield f"{inner}{INDENT}break"
    yield from _loop_body(emitter, equation, inner)


def _cond(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    branches: tuple[Program, ...] = equation.params["branches"]
    outputs = explicit_outputs(equation)
    yield from _literals(emitter, equation, indent)
    for number, program in enumerate(branches):
        if number < len(branches) - 1:
            yield f"{indent}{'elif' if number else 'if'} {emitter.text(equation.inputs[number])}:"
        else:
            yield f"{indent}else:"
        # sizes that no result has are assigned with the results
        sizes = [(var, program.outputs[index]) for index, var in emitter.plan.unread_sizes(equation)]
        lines = list(emitter.block(program, indent + INDENT, [size for _, size in sizes]))
        lines += _assign(emitter, [*sizes, *zip(outputs, program.results, strict=True)], indent + INDENT)
        yield from lines or [f"{indent}{INDENT}pass"]


def _scan(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    """A `for` over the rows of arrays, whose results are appended to lists and stacked after the loop."""
    params, body = equation.params, equation.params["body"]
    rows = scanned(equation)
    stacks = explicit_outputs(equation)[params["num_carries"] :]
    stacked = list(zip(stacks, body.results[params["num_carries"] :], strict=True))
    stacked = [(stack, result) for stack, result in stacked if stack in emitter.plan.reads]
    yield from _loop_head(emitter, equation, indent)
    yield from (f"{indent}{stack.name} = []" for stack, _ in stacked)
    arrays = [f"{emitter.tensor(array)}.unbind(0)" for _, array in rows]
    names = [row.name for row, _ in rows]
    if params["reverse"]:
        arrays = [f"{array}[::-1]" for array in arrays]
    if not rows:
        yield f"{indent}for _ in range({axis_source(params['length'])}):"
    elif len(rows) == 1:
        yield f"{indent}for {names[0]} in {arrays[0]}:"
    else:
        yield f"{indent}for {', '.join(names)} in zip({', '.join(arrays)}, strict=True):"
    inner = indent + INDENT
    converted = [f"{inner}{row.name} = int({row.name})" for row, _ in rows if row in emitter.plan.sizes]
    appended = (f"{inner}{stack.name}.append({emitter.tensor(result)})" for stack, result in stacked)
    yield from converted
    yield from _loop_body(emitter, equation, inner, appended)
    for stack, _ in stacked:
        shape, dtype = shape_source(stack.type.shape), dtype_source(stack.type.dtype)
        reverse = "[::-1]" if params["reverse"] else ""
        empty = f"torch.empty({shape}, dtype={dtype}, device=device)"
        yield f"{indent}{stack.name} = torch.stack({stack.name}{reverse}) if {stack.name} else {empty}"


def _call(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    program: Program = equation.params["program"]
    yield from _literals(emitter, equation, indent)
    yield from _assign(emitter, [(inner, outer) for inner, outer in call_inputs(equation)], indent)
    yield from _sizes(emitter, program, {var: var.name for var in program.arguments}, indent)
    sizes = [(var, program.outputs[index]) for index, var in emitter.plan.unread_sizes(equation)]
    yield from emitter.block(program, indent, [size for _, size in sizes])
    yield from _assign(emitter, [*sizes, *zip(explicit_outputs(equation), program.results, strict=True)], indent)


CONTROL: Mapping[str, Callable[[Emitter, Equation, str], Iterator[str]]] = {
    "for_loop": _for,
    "while_loop": _while,
    "cond": _cond,
    "scan": _scan,
    "call": _call,
}
"""For each operation of control flow: from an equation and an indentation to the lines of its statement."""
