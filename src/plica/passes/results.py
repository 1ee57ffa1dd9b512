"""Copies of results: a caller of a Program may write to its results, and changes no other array by that.

A result is copied where it may share memory with an argument, a captured array or another result, or may have one
element at many indices. Each branch and each called Program copies its own results where needed. A loop that may take
no iteration starts with copies of the operands that it would return.

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
from plica.ops.control_operands import branch_programs, carries, explicit_outputs, first_place
from plica.passes.ownership import CALLERS, Analysis, Storage, memory_of_results
from plica.passes.replacements import names_of

_COPY = OpRef("copy")


def own_results(program: Program) -> Program:
    """`program` with copies of the results that would share memory with anything else."""
    return _owning(program, memory_of_results(program), range(len(program.results)), CALLERS)


def _owning(program: Program, known: Analysis, indices: Sequence[int], reserved: frozenset[int]) -> Program:
    """`program` with results at some indices that share no memory with each other, nor with reserved memory."""
    makers: dict[Var, Equation] = {
        var: equation
        for equation in program.equations
        for var in equation.outputs
        if equation in known.regions or equation in known.origins
    }
    results, others = list(program.results), reserved
    visited = dict.fromkeys(
        result for index, result in enumerate(results) if index not in indices and isinstance(result, Var)
    )
    copied: list[int] = []
    delegated: dict[Equation, list[int]] = {}
    for index in indices:
        result = results[index]
        if not isinstance(result, Var):
            continue
        if result not in visited and _is_free(known.storage(result), reserved):
            reserved = reserved | known.storage(result).memory
        elif result not in visited and (maker := makers.get(result)) is not None and _can_copy(maker, result, known):
            delegated.setdefault(maker, []).append(explicit_outputs(maker).index(result))
        else:
            copied.append(index)
        visited[result] = None
    if not copied and not delegated:
        return program
    names = names_of(program)
    equations = []
    for equation in program.equations:
        if equation in delegated:
            inside = [explicit_outputs(equation)[index] for index in delegated[equation]]
            reserved_here = others.union(*(known.storage(var).memory for var in visited if var not in inside))
            rewrite = _branches if equation in known.regions else _started
            equations += rewrite(equation, known, delegated[equation], reserved_here, names)
        else:
            equations.append(equation)
    for index in copied:
        copy = _copy(results[index], names)
        equations.append(copy)
        results[index] = copy.outputs[0]
    outputs = (*program.outputs[: program.num_implicit_outputs], *results)
    return replace(program, equations=tuple(equations), outputs=outputs)


def _is_free(storage: Storage, reserved: frozenset[int]) -> bool:
    return not storage.is_repeated and storage.memory.isdisjoint(reserved)


def _can_copy(maker: Equation, result: Var, known: Analysis) -> bool:
    """Whether control flow can copy this result itself, so that no other result remains a view of it.

    A view of the result would share the callers' memory too, or repeat elements, and so be copied itself. A loop can
    if its iterations pass the result on in memory of its own.
    """
    storage = known.storage(result)
    if storage.memory.isdisjoint(CALLERS) and not storage.is_repeated:
        return False
    return maker in known.regions or explicit_outputs(maker).index(result) in known.origins[maker]


def _copy(operand: Operand, names: Names, source: str = "") -> Equation:
    return Equation(_COPY, (operand,), (Var(names.fresh(), operand.type),), source=source)


def _branches(
    equation: Equation, known: Analysis, indices: Sequence[int], reserved: frozenset[int], names: Names
) -> list[Equation]:
    """A branch or a call whose Programs return arrays of their own at some indices."""
    del names
    programs = tuple(
        _owning(program, inside, indices, reserved)
        for program, inside in zip(branch_programs(equation), known.regions[equation], strict=True)
    )
    changed = {"branches": programs} if equation.op.name == "cond" else {"program": programs[0]}
    return [replace(equation, params={**equation.params, **changed})]


def _started(
    equation: Equation, known: Analysis, indices: Sequence[int], reserved: frozenset[int], names: Names
) -> list[Equation]:
    """A loop that starts with copies of the operands that it returns at some indices if it takes no iteration."""
    origins = known.origins[equation]
    carried = list(carries(equation))
    inputs, copies = list(equation.inputs), []
    for index in sorted(frozenset().union(*origins.values())):
        storage = known.storage(carried[index][1])
        if _is_free(storage, reserved):
            reserved = reserved | storage.memory
        elif any(index in origins[result_index] for result_index in indices):
            copies.append(_copy(carried[index][1], names, equation.source))
            inputs[first_place(equation) + index] = copies[-1].outputs[0]
    return [*copies, replace(equation, inputs=tuple(inputs))]
