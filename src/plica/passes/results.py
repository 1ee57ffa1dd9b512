"""Copies results of a Program that share memory, so that a caller who writes to a result changes no other array.

A result is copied where it may share memory with an argument, a captured array or another result, or may have one
element at many indices, as a broadcast array has. Branches, calls and loops make such copies inside, so that only the
path that shares memory pays for them: a branch copies its own results, and a loop the operands that it returns after
no iteration. `ownership.py` has the analysis: in `Analysis`, `regions` are branches and calls, `origins` are loops.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> print(own_results(trace(lambda x: (x, x * 2, x[:2]), spec(3))))
{ lambda ; x:f32[3] . let
    a:f32[3] = multiply x 2.0:f32[]
    b:f32[2] = slice[axis=0 start=0 stop=2 step=1] x
    c:f32[3] = copy x
    d:f32[2] = copy b
  in (c, a, d) }
"""

from collections.abc import Sequence
from dataclasses import replace

from plica.ir.builder import Names
from plica.ir.program import Equation, Operand, OpRef, Program, Var
from plica.ops.control_operands import branch_programs, carries, explicit_outputs, first_explicit_operand
from plica.passes.ownership import CALLERS, Analysis, Storage, memory_of_results
from plica.passes.replacements import names_of

_COPY = OpRef("copy")


def own_results(program: Program) -> Program:
    """`program` with copies of the results that would share memory with anything else."""
    return _with_own_results(program, memory_of_results(program), range(len(program.results)), CALLERS)


def _with_own_results(
    program: Program, analysis: Analysis, indices: Sequence[int], reserved: frozenset[int]
) -> Program:
    """`program` with copies of those results at `indices` that share memory with each other, or that is `reserved`.

    Args:
        program: The Program.
        analysis: The memory of its variables.
        indices: The positions of results, among the explicit ones, that must have memory of their own.
        reserved: The memory that belongs to other arrays.
    """
    control_flow: dict[Var, Equation] = {
        var: equation
        for equation in program.equations
        for var in equation.outputs
        if equation in analysis.regions or equation in analysis.origins
    }
    results, reserved_outside = list(program.results), reserved
    visited = dict.fromkeys(
        result for index, result in enumerate(results) if index not in indices and isinstance(result, Var)
    )
    copied: list[int] = []
    delegated: dict[Equation, list[int]] = {}
    for index in indices:
        result = results[index]
        if not isinstance(result, Var):
            continue
        is_first, source = result not in visited, control_flow.get(result)
        if is_first and _is_free(analysis.storage(result), reserved):
            reserved = reserved | analysis.storage(result).memory  # a later result in this memory is copied
        elif is_first and source is not None and _can_copy(source, result, analysis):
            delegated.setdefault(source, []).append(explicit_outputs(source).index(result))
        else:
            copied.append(index)
        visited[result] = None
    if not copied and not delegated:
        return program
    names = names_of(program)
    equations = []
    for equation in program.equations:
        if equation in delegated:
            copied_inside = [explicit_outputs(equation)[index] for index in delegated[equation]]
            others = (analysis.storage(var).memory for var in visited if var not in copied_inside)
            rewrite = _copying_branches if equation in analysis.regions else _copying_loop
            equations += rewrite(equation, analysis, delegated[equation], reserved_outside.union(*others), names)
        else:
            equations.append(equation)
    for index in copied:
        copy = _copy(results[index], names)
        equations.append(copy)
        results[index] = copy.outputs[0]
    outputs = (*program.outputs[: program.num_implicit_outputs], *results)
    return replace(program, equations=tuple(equations), outputs=outputs)


def _is_free(storage: Storage, reserved: frozenset[int]) -> bool:
    """Whether an array has each element once, in memory that no other array has."""
    return not storage.is_repeated and storage.memory.isdisjoint(reserved)


def _can_copy(equation: Equation, result: Var, analysis: Analysis) -> bool:
    """Whether a branch, a call or a loop can copy its `result` inside, and no other result is still a view of it then.

    The result must lie in a caller's memory or repeat elements: then a view of it does too, and gets a copy of its own.
    A loop also must pass the result from one iteration to the next in memory that no other carry has.
    """
    storage = analysis.storage(result)
    if storage.memory.isdisjoint(CALLERS) and not storage.is_repeated:
        return False
    return equation in analysis.regions or explicit_outputs(equation).index(result) in analysis.origins[equation]


def _copy(operand: Operand, names: Names, source: str = "") -> Equation:
    return Equation(_COPY, (operand,), (Var(names.fresh(), operand.type),), source=source)


def _copying_branches(
    equation: Equation, analysis: Analysis, indices: Sequence[int], reserved: frozenset[int], names: Names
) -> list[Equation]:
    """The equation of a branch or a call, whose Programs copy the results at `indices` where they need to."""
    del names  # each nested Program names its own copies
    programs = tuple(
        _with_own_results(program, program_analysis, indices, reserved)
        for program, program_analysis in zip(branch_programs(equation), analysis.regions[equation], strict=True)
    )
    changed = {"branches": programs} if equation.op.name == "cond" else {"program": programs[0]}
    return [replace(equation, params={**equation.params, **changed})]


def _copying_loop(
    equation: Equation, analysis: Analysis, indices: Sequence[int], reserved: frozenset[int], names: Names
) -> list[Equation]:
    """Copies of operands, and a loop that starts from them.

    They are the operands that the loop would return at `indices` after no iteration, and that share memory.
    """
    origins = analysis.origins[equation]
    carried = list(carries(equation))
    inputs, copies = list(equation.inputs), []
    for index in sorted(frozenset().union(*origins.values())):
        storage = analysis.storage(carried[index][1])
        if _is_free(storage, reserved):
            reserved = reserved | storage.memory
        elif any(index in origins[result_index] for result_index in indices):
            copies.append(_copy(carried[index][1], names, equation.source))
            inputs[first_explicit_operand(equation) + index] = copies[-1].outputs[0]
    return [*copies, replace(equation, inputs=tuple(inputs))]
