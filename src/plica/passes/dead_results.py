"""Dead results of nested Programs: unread carries and stacks of loops, and unread results of branches and calls.

    >>> from plica.ir.types import spec
    >>> from plica.ops.control_operands import carries
    >>> from plica.passes.dead_code import eliminate_dead_code
    >>> from plica.tracing.control import trace_for
    >>> from plica.tracing.trace import trace
    >>> def first(x, y):
    ...     return trace_for((0, 3, 1), lambda i, a, b: (a * 2, a + b), (x, y), shared=True)[0]
    >>> (loop,) = eliminate_dead_code(trace(first, spec(3), spec(3))).equations
    >>> [output.name for _, _, _, output in carries(loop)]
    ['a']

A carry of a loop is alive if an equation after the loop reads it, or an equation of the body that a live result needs.
The pass starts from the results that are read, and adds carries until no more are needed. A live size keeps one array
that has it, from which it is read.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plica.ir.program import Equation, Operand, Program, Var, size_variables
from plica.ir.sizes import Size
from plica.ops.control_operands import bounds_of, branch_programs, carries, explicit_outputs, implicit_operand, scanned
from plica.ops.regions import read_by, regions_of, with_regions, without_unread

Clean = Callable[[Program], Program]


def without_dead_results(equation: Equation, needed: Container[Var], clean: Clean) -> Equation:
    """The equation without unread results, and without the equations of its nested Programs that only these need.

    Args:
        equation: Any equation.
        needed: The variables that are read after it, sizes in types among them.
        clean: Removes dead code from a Program.
    """
    if all(var in needed for var in explicit_outputs(equation)) if regions_of(equation) else True:
        return equation
    if "body" in equation.params:
        return _shorter_loop(equation, needed, clean)
    return _without_unread_results(equation, needed, clean)


def _with_programs(equation: Equation, programs: Sequence[Program]) -> Equation:
    """The equation with other nested Programs, without captured variables that they do not read."""
    captured = [operands for _, operands in regions_of(equation)]
    return with_regions(equation, [without_unread(*pair) for pair in zip(programs, captured, strict=True)])


def _sizes_of(variables: Iterable[Operand]) -> dict[Any, None]:
    return dict.fromkeys(size for var in variables for size in size_variables(var.type))


def _selected(items: Sequence[Any], indices: Iterable[int]) -> tuple[Any, ...]:
    return tuple(items[index] for index in sorted(indices))


# Branches and calls


def _without_unread_results(equation: Equation, needed: Container[Var], clean: Clean) -> Equation:
    count = equation.params["num_implicit_outputs"]
    explicit = [index for index, var in enumerate(equation.outputs) if index >= count and var in needed]
    used = _sizes_of(equation.outputs[index] for index in explicit)
    sizes = [index for index, var in enumerate(equation.outputs[:count]) if var in used]
    sizes += [index for index, var in enumerate(equation.outputs[:count]) if var in needed and var not in used]
    indices = [*sizes, *explicit]  # sizes of axes in the order of these, then those of no axis
    programs = [
        clean(
            replace(
                program, outputs=tuple(program.outputs[index] for index in indices), num_implicit_outputs=len(sizes)
            )
        )
        for program in branch_programs(equation)
    ]
    params = {**equation.params, "num_implicit_outputs": len(sizes)}
    outputs = tuple(equation.outputs[index] for index in indices)
    return _with_programs(replace(equation, outputs=outputs, params=params), programs)


# Loops


@dataclass(frozen=True, slots=True)
class _Alive:
    """The live parts of a loop, by index.

    Args:
        sizes: Its sizes.
        carried: Its carries.
        rows: The arrays that a scan reads row by row.
        stacks: The arrays that a scan makes row by row.
    """

    sizes: frozenset[int]
    carried: frozenset[int]
    rows: frozenset[int]
    stacks: frozenset[int]


def _shorter_loop(equation: Equation, needed: Container[Var], clean: Clean) -> Equation:
    """The loop with its live parts: those that are needed, and then those that they read, until no more are added."""
    body: Program = equation.params["body"]
    count = equation.params["num_implicit_outputs"]
    carried, rows = list(carries(equation)), scanned(equation) if equation.op.name == "scan" else []
    outputs = equation.outputs
    alive = _Alive(
        frozenset(index for index in range(count) if outputs[index] in needed),
        frozenset(index for index, (_, _, _, output) in enumerate(carried) if output in needed),
        frozenset(),
        frozenset(index for index, var in enumerate(outputs[count + len(carried) :]) if var in needed),
    )
    while True:
        shorter = clean(_body(body, carried, alive))
        grown = _read(equation, shorter, alive)
        if grown == alive:
            return _rebuilt(equation, shorter, alive, rows)
        alive = grown


def _body(body: Program, carried: Sequence[Any], alive: _Alive) -> Program:
    """The body with its live outputs; all its inputs stay."""
    results, stacks = body.results[: len(carried)], body.results[len(carried) :]
    outputs = (
        *_selected(body.outputs, alive.sizes),
        *_selected(results, alive.carried),
        *_selected(stacks, alive.stacks),
    )
    return replace(body, outputs=outputs, num_implicit_outputs=len(alive.sizes))


def _read(equation: Equation, shorter: Program, alive: _Alive) -> _Alive:
    """Add the carries, rows and sizes that the shorter body and the condition read."""
    count = equation.params["num_implicit_outputs"]
    carried, rows = list(carries(equation)), scanned(equation) if equation.op.name == "scan" else []
    read = read_by(shorter)
    condition_inputs: tuple[Var, ...] = ()
    if equation.op.name == "while_loop":
        condition: Program = equation.params["cond"]
        condition_reads, condition_inputs = read_by(condition), condition.inputs
        read |= {
            var: None
            for var, condition_input in zip(shorter.inputs, condition_inputs, strict=True)
            if condition_input in condition_reads
        }
    arrays = alive.carried | {index for index, (inner, _, _, _) in enumerate(carried) if inner in read}
    stacked = alive.rows | {index for index, (inner, _) in enumerate(rows) if inner in read}
    inputs = [*(carried[index][0] for index in arrays), *(rows[index][0] for index in stacked)]
    results = [carried[index][3] for index in arrays]
    inside, outside = {**read, **_sizes_of(inputs)}, _sizes_of(results)
    sizes = alive.sizes | {
        index
        for index, (inner, outer) in enumerate(zip(shorter.inputs[:count], equation.outputs[:count], strict=True))
        if inner in inside or outer in outside
    }
    for index in sizes:
        inner, outer = Size.of(shorter.inputs[index]), Size.of(equation.outputs[index])
        holders = [
            carry_index
            for carry_index, (inner_var, _, _, output) in enumerate(carried)
            if inner in inner_var.type.shape or outer in output.type.shape
        ]
        if not any(inner in operand.type.shape for operand in inputs):
            arrays |= frozenset(holders[:1])
            stacked |= {
                row_index
                for row_index, (row_input, _) in enumerate(rows)
                if not holders and inner in row_input.type.shape
            }
    return _Alive(sizes, frozenset(arrays), frozenset(stacked), alive.stacks)


def _rebuilt(equation: Equation, shorter: Program, alive: _Alive, rows: Sequence[tuple[Var, Operand]]) -> Equation:
    """The loop with its live parts alone."""
    count = equation.params["num_implicit_outputs"]
    carried = list(carries(equation))
    leading = shorter.arguments[:1] if equation.op.name == "for_loop" else ()
    arrays = [(inner, first) for inner, first, _, _ in carried]
    explicit = (*_selected(arrays, alive.carried), *_selected(rows, alive.rows))
    inputs = (*_selected(shorter.inputs, alive.sizes), *leading, *(inner for inner, _ in explicit))
    programs = [replace(shorter, inputs=inputs, num_implicit_inputs=len(alive.sizes))]
    if equation.op.name == "while_loop":
        condition: Program = equation.params["cond"]
        condition_inputs = (*_selected(condition.inputs, alive.sizes), *_selected(condition.arguments, alive.carried))
        programs.insert(0, replace(condition, inputs=condition_inputs, num_implicit_inputs=len(alive.sizes)))
    outputs = (
        *_selected(equation.outputs, alive.sizes),
        *_selected(explicit_outputs(equation)[: len(carried)], alive.carried),
        *_selected(explicit_outputs(equation)[len(carried) :], alive.stacks),
    )
    captured = [operand for _, operands in regions_of(equation) for operand in operands]
    sizes = [implicit_operand(equation, index) for index in sorted(alive.sizes)]
    bounds = bounds_of(equation) if equation.op.name == "for_loop" else ()
    operands = (*captured, *sizes, *bounds, *(first for _, first in explicit))
    params = {**equation.params, "num_implicit_inputs": len(alive.sizes), "num_implicit_outputs": len(alive.sizes)}
    if equation.op.name == "scan":
        params["num_carries"] = len(alive.carried)
    assert count == len(shorter.inputs[: equation.params["num_implicit_inputs"]]), "a loop returns the sizes it takes"
    return _with_programs(replace(equation, inputs=operands, outputs=outputs, params=params), programs)
