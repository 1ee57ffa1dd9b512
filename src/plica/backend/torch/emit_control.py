"""Emission of control flow: a `for_loop` is a `for`, a `cond` an `if`, a call stands in its place.

A carry has the name of the body's input. At the end of each iteration the results are assigned to these names.
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
    kept_sizes,
    known_in_turns,
    scanned,
    size_places,
)
from plica.ops.regions import regions_of
from plica.passes.ownership import Owned

INDENT = "    "


class Emitter(Protocol):
    """Writes the equations of a block; the interface that rows of control flow see."""

    @property
    def plan(self) -> Plan:
        """The plan: live equations, and scalars that are Python numbers."""

    @property
    def owned(self) -> Owned:
        """The arrays that may be updated in place where no gradient is needed."""

    @property
    def bounds(self) -> Bounds:
        """The bounds of slices that have names."""

    def block(
        self, program: Program, indent: str, sizes: Iterable[Operand] = (), known: Iterable[Dim] = ()
    ) -> Iterator[str]:
        """The equations of a Program; its inputs have their values."""

    def text(self, operand: Operand) -> str:
        """An operand as it is."""

    def tensor(self, operand: Operand) -> str:
        """An operand as a tensor."""

    def host(self, operand: Operand) -> str:
        """An operand as a Python number."""


def sizes_made(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    """The sizes that control flow makes, and scalars that it carried as tensors and that are sizes afterwards."""
    sizes = tuple(
        var for var in equation.outputs[: equation.params["num_implicit_outputs"]] if var in emitter.plan.reads
    )
    arrays = {var: var.name for var in explicit_outputs(equation) if var in emitter.plan.reads}
    yield from (f"{indent}{size.name} = {text}" for size, text in size_places(sizes, arrays))
    if "body" in equation.params:
        for index, var in emitter.plan.unread_sizes(equation):
            yield f"{indent}{var.name} = {emitter.host(implicit_operand(equation, index))}"
        for inner, _, _, output in carries(equation):
            if emitter.plan.is_host(output) and not emitter.plan.is_host(inner):
                yield f"{indent}{output.name} = {emitter.plan.dtype_of_size(output)}({output.name})"


def _as(emitter: Emitter, operand: Operand, var: Var) -> str:
    """`operand` as a Python number or a tensor, whichever `var` is."""
    return emitter.host(operand) if emitter.plan.is_host(var) else emitter.tensor(operand)


def _assign(emitter: Emitter, pairs: list[tuple[Var, Operand]], indent: str, *, wrapped: bool = False) -> Iterator[str]:
    """Simultaneous assignment, without assignments of a name to itself."""
    moved = [(var, _as(emitter, operand, var)) for var, operand in pairs if var in emitter.plan.reads]
    moved = [(var, text) for var, text in moved if text != var.name]
    if wrapped:
        moved = [(var, f"kernels.wrap({text})" if _may_overflow(emitter, var) else text) for var, text in moved]
    if moved:
        yield f"{indent}{', '.join(var.name for var, _ in moved)} = {', '.join(text for _, text in moved)}"


def _may_overflow(emitter: Emitter, var: Var) -> bool:
    return emitter.plan.is_host(var) and var.type.dtype == "int64"


def _sizes(
    emitter: Emitter, program: Program, arrays: Mapping[Var, str], indent: str, known: Container[str] = ()
) -> Iterator[str]:
    """Lines that read the sizes of a region's inputs off its arrays; sizes named in `known` are there already."""
    needed = (var for var in program.inputs[: program.num_implicit_inputs] if var in emitter.plan.reads)
    sizes = tuple(var for var in needed if var.name not in known)
    assigned = {var: text for var, text in arrays.items() if var in emitter.plan.reads}
    yield from (f"{indent}{size.name} = {text}" for size, text in size_places(sizes, assigned))


def _literals(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    """Names for the literals that regions capture."""
    for program, operands in regions_of(equation):
        for var, operand in zip(program.consts, operands, strict=False):
            if isinstance(operand, Literal) and var in emitter.plan.reads:
                yield f"{indent}{var.name} = {emitter.text(operand)}"


def _for(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    body: Program = equation.params["body"]
    lower, upper, step = bounds_of(equation)
    first, last, by = (emitter.host(bound) for bound in (lower, upper, step))
    counted = f"range({first}, {last}, {by})" if isinstance(step, Literal) else f"kernels.steps({first}, {last}, {by})"
    if by == "1":
        counted = f"range({last})" if first == "0" else f"range({first}, {last})"
    yield from _starts(emitter, equation, indent)
    yield f"{indent}for {body.arguments[0].name} in {counted}:"
    yield from _loop_body(emitter, equation, indent + INDENT)


def _starts(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    """The lines before a loop, whose body must be written next."""
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
    body: Program = equation.params["body"]
    lines = list(_sizes(emitter, body, {var: var.name for var in body.arguments}, indent, _constant_sizes(equation)))
    lines += emitter.block(body, indent, known=known_in_turns(equation))
    lines += extra
    emitter.bounds.leave(equation)
    lines += _assign(emitter, [(inner, result) for inner, _, result, _ in carries(equation)], indent, wrapped=True)
    yield from lines or [f"{indent}pass"]


def _constant_sizes(equation: Equation) -> list[str]:
    return [inner.name for inner, outer in kept_sizes(equation) if isinstance(outer, Var)]


def _while(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    cond: Program = equation.params["cond"]
    inner = indent + INDENT
    yield from _starts(emitter, equation, indent)
    lines = list(_sizes(emitter, cond, {var: var.name for var in cond.arguments}, inner, _constant_sizes(equation)))
    lines += emitter.block(cond, inner)
    (holds,) = cond.results
    yield f"{indent}while True:"
    yield from lines
    yield f"{inner}if not {emitter.text(holds)}:"
    yield f"{inner}{INDENT}break"
    yield from _loop_body(emitter, equation, inner)


def _cond(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    branches: tuple[Program, ...] = equation.params["branches"]
    outputs = explicit_outputs(equation)
    yield from _literals(emitter, equation, indent)
    for number, program in enumerate(branches):
        word = "else" if number == len(branches) - 1 else f"elif {emitter.text(equation.inputs[number])}"
        yield f"{indent}{'if' + word[4:] if number == 0 and word != 'else' else word}:"
        sizes = [(var, program.outputs[at]) for at, var in emitter.plan.unread_sizes(equation)]
        lines = list(emitter.block(program, indent + INDENT, [size for _, size in sizes]))
        lines += _assign(emitter, [*sizes, *zip(outputs, program.results, strict=True)], indent + INDENT)
        yield from lines or [f"{indent}{INDENT}pass"]


def _scan(emitter: Emitter, equation: Equation, indent: str) -> Iterator[str]:
    params, body = equation.params, equation.params["body"]
    rows = scanned(equation)
    stacks = explicit_outputs(equation)[params["num_carries"] :]
    stacked = list(zip(stacks, body.results[params["num_carries"] :], strict=True))
    stacked = [(stack, result) for stack, result in stacked if stack in emitter.plan.reads]
    yield from _starts(emitter, equation, indent)
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
"""The operations that are statements, and their lines."""
