"""Dead results of nested Programs: what a loop carries or stacks, and what branches and calls return, for nobody.

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

What a loop carries is alive if it is read after the loop, or read in the body by what is alive: the smallest such set
is found by adding until nothing is missing. A size that is alive keeps one array that has it, from which it is read.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plica.ir.program import Equation, Operand, Program, Var, size_variables
from plica.ir.sizes import Size
from plica.ops.control_operands import bounds_of, carries, explicit_outputs, implicit_operand, returning, scanned
from plica.ops.regions import read_by, regions_of, with_regions, without_unread

Clean = Callable[[Program], Program]


def without_dead_results(equation: Equation, needed: Container[Var], clean: Clean) -> Equation:
    """The equation without results that nothing reads, and what they alone need in its nested Programs.

    Args:
        equation: Any equation.
        needed: The variables that are read after it, sizes in types among them.
        clean: Takes dead code out of a Program.
    """
    if all(var in needed for var in explicit_outputs(equation)) if regions_of(equation) else True:
        return equation
    if "body" in equation.params:
        return _shorter_loop(equation, needed, clean)
    return _fewer(equation, needed, clean)


def _with_programs(equation: Equation, programs: Sequence[Program]) -> Equation:
    """The equation with other nested Programs, without what they capture and do not read."""
    captured = [operands for _, operands in regions_of(equation)]
    return with_regions(equation, [without_unread(*one) for one in zip(programs, captured, strict=True)])


def _sizes_of(variables: Iterable[Operand]) -> dict[Any, None]:
    return dict.fromkeys(one for var in variables for one in size_variables(var.type))


def _kept(items: Sequence[Any], places: Iterable[int]) -> tuple[Any, ...]:
    return tuple(items[place] for place in sorted(places))


# Branches and calls


def _fewer(equation: Equation, needed: Container[Var], clean: Clean) -> Equation:
    count = equation.params["num_implicit_outputs"]
    explicit = [place for place, var in enumerate(equation.outputs) if place >= count and var in needed]
    used = _sizes_of(equation.outputs[place] for place in explicit)
    sizes = [place for place, var in enumerate(equation.outputs[:count]) if var in used]
    sizes += [place for place, var in enumerate(equation.outputs[:count]) if var in needed and var not in used]
    places = [*sizes, *explicit]  # where axes share no sizes, each has the next one: those that none has come last
    programs = [
        clean(replace(one, outputs=tuple(one.outputs[place] for place in places), num_implicit_outputs=len(sizes)))
        for one in returning(equation)
    ]
    params = {**equation.params, "num_implicit_outputs": len(sizes)}
    outputs = tuple(equation.outputs[place] for place in places)
    return _with_programs(replace(equation, outputs=outputs, params=params), programs)


# Loops


@dataclass(frozen=True, slots=True)
class _Alive:
    """What stays of a loop, by place.

    Args:
        sizes: Its sizes.
        carried: What it carries.
        rows: The arrays that a scan reads.
        stacks: Those that it makes.
    """

    sizes: frozenset[int]
    carried: frozenset[int]
    rows: frozenset[int]
    stacks: frozenset[int]


def _shorter_loop(equation: Equation, needed: Container[Var], clean: Clean) -> Equation:
    body: Program = equation.params["body"]
    count = equation.params["num_implicit_outputs"]
    carried, rows = list(carries(equation)), scanned(equation) if equation.op.name == "scan" else []
    outputs = equation.outputs
    alive = _Alive(
        frozenset(place for place in range(count) if outputs[place] in needed),
        frozenset(place for place, (_, _, _, output) in enumerate(carried) if output in needed),
        frozenset(),
        frozenset(place for place, var in enumerate(outputs[count + len(carried) :]) if var in needed),
    )
    while True:
        shorter = clean(_body(body, carried, alive))
        found = _read(equation, shorter, alive)
        if found == alive:
            return _rebuilt(equation, shorter, alive, rows)
        alive = found


def _body(body: Program, carried: Sequence[Any], alive: _Alive) -> Program:
    """The body with the outputs that are alive; all its inputs stay."""
    results, stacks = body.results[: len(carried)], body.results[len(carried) :]
    outputs = (
        *_kept(body.outputs, alive.sizes),
        *_kept(results, alive.carried),
        *_kept(stacks, alive.stacks),
    )
    return replace(body, outputs=outputs, num_implicit_outputs=len(alive.sizes))


def _read(equation: Equation, shorter: Program, alive: _Alive) -> _Alive:
    """What is alive, and what that reads."""
    count = equation.params["num_implicit_outputs"]
    carried, rows = list(carries(equation)), scanned(equation) if equation.op.name == "scan" else []
    read = read_by(shorter)
    asking: tuple[Var, ...] = ()
    if equation.op.name == "while_loop":
        condition: Program = equation.params["cond"]
        asked, asking = read_by(condition), condition.inputs
        read |= {var: None for var, again in zip(shorter.inputs, asking, strict=True) if again in asked}
    arrays = alive.carried | {place for place, (inner, _, _, _) in enumerate(carried) if inner in read}
    stacked = alive.rows | {place for place, (inner, _) in enumerate(rows) if inner in read}
    inputs = [*(carried[place][0] for place in arrays), *(rows[place][0] for place in stacked)]
    results = [carried[place][3] for place in arrays]
    inside, outside = {**read, **_sizes_of(inputs)}, _sizes_of(results)
    sizes = alive.sizes | {
        place
        for place, (inner, outer) in enumerate(zip(shorter.inputs[:count], equation.outputs[:count], strict=True))
        if inner in inside or outer in outside
    }
    for place in sizes:
        inner, outer = Size.of(shorter.inputs[place]), Size.of(equation.outputs[place])
        holding = [
            at
            for at, (one, _, _, output) in enumerate(carried)
            if inner in one.type.shape or outer in output.type.shape
        ]
        if not any(inner in one.type.shape for one in inputs):
            arrays |= frozenset(holding[:1])
            stacked |= {at for at, (one, _) in enumerate(rows) if not holding and inner in one.type.shape}
    return _Alive(sizes, frozenset(arrays), frozenset(stacked), alive.stacks)


def _rebuilt(equation: Equation, shorter: Program, alive: _Alive, rows: Sequence[tuple[Var, Operand]]) -> Equation:
    """The loop of what is alive."""
    count = equation.params["num_implicit_outputs"]
    carried = list(carries(equation))
    leading = shorter.arguments[:1] if equation.op.name == "for_loop" else ()
    arrays = [(inner, first) for inner, first, _, _ in carried]
    explicit = (*_kept(arrays, alive.carried), *_kept(rows, alive.rows))
    inputs = (*_kept(shorter.inputs, alive.sizes), *leading, *(inner for inner, _ in explicit))
    programs = [replace(shorter, inputs=inputs, num_implicit_inputs=len(alive.sizes))]
    if equation.op.name == "while_loop":
        condition: Program = equation.params["cond"]
        asking = (*_kept(condition.inputs, alive.sizes), *_kept(condition.arguments, alive.carried))
        programs.insert(0, replace(condition, inputs=asking, num_implicit_inputs=len(alive.sizes)))
    outputs = (
        *_kept(equation.outputs, alive.sizes),
        *_kept(explicit_outputs(equation)[: len(carried)], alive.carried),
        *_kept(explicit_outputs(equation)[len(carried) :], alive.stacks),
    )
    captured = [one for _, operands in regions_of(equation) for one in operands]
    sizes = [implicit_operand(equation, place) for place in sorted(alive.sizes)]
    bounds = bounds_of(equation) if equation.op.name == "for_loop" else ()
    operands = (*captured, *sizes, *bounds, *(first for _, first in explicit))
    params = {**equation.params, "num_implicit_inputs": len(alive.sizes), "num_implicit_outputs": len(alive.sizes)}
    if equation.op.name == "scan":
        params["num_carries"] = len(alive.carried)
    assert count == len(shorter.inputs[: equation.params["num_implicit_inputs"]]), "a loop returns the sizes it takes"
    return _with_programs(replace(equation, inputs=operands, outputs=outputs, params=params), programs)
