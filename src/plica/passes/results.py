"""Results of one's own: whoever calls a Program may write to what it returns, and changes nothing else by it.

A result is copied where it may lie in an argument, in a captured array or in another result, or may have one element
in many places. Branches and called Programs copy where this is so, each for itself; loops that may take no iteration
start with a copy of what they would return.

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
from plica.ops.control_operands import carries, explicit_outputs, first_place, returning
from plica.passes.ownership import CALLERS, Analysis, Held, memory_of_results
from plica.passes.replaced import names_of

_COPY = OpRef("copy")


def own_results(program: Program) -> Program:
    """`program` with copies of the results that would share memory with anything else."""
    return _owning(program, memory_of_results(program), range(len(program.results)), CALLERS)


def _owning(program: Program, known: Analysis, places: Sequence[int], taken: frozenset[int]) -> Program:
    """`program` with results at some places that lie apart from each other and from memory that is taken."""
    makers: dict[Var, Equation] = {
        var: one for one in program.equations for var in one.outputs if one in known.regions or one in known.origins
    }
    results, others = list(program.results), taken
    own = dict.fromkeys(one for place, one in enumerate(results) if place not in places and isinstance(one, Var))
    copied: list[int] = []
    asked: dict[Equation, list[int]] = {}
    for place in places:
        result = results[place]
        if not isinstance(result, Var):
            continue
        if result not in own and _is_free(known.where(result), taken):
            taken = taken | known.where(result).memory
        elif result not in own and (maker := makers.get(result)) is not None and _can_copy(maker, result, known):
            asked.setdefault(maker, []).append(explicit_outputs(maker).index(result))
        else:
            copied.append(place)
        own[result] = None
    if not copied and not asked:
        return program
    names = names_of(program)
    equations = []
    for equation in program.equations:
        if equation in asked:
            inside = [explicit_outputs(equation)[one] for one in asked[equation]]
            beside = others.union(*(known.where(one).memory for one in own if one not in inside))
            rewrite = _branches if equation in known.regions else _started
            equations += rewrite(equation, known, asked[equation], beside, names)
        else:
            equations.append(equation)
    for place in copied:
        made = _copy(results[place], names)
        equations.append(made)
        results[place] = made.outputs[0]
    outputs = (*program.outputs[: program.num_implicit_outputs], *results)
    return replace(program, equations=tuple(equations), outputs=outputs)


def _is_free(held: Held, taken: frozenset[int]) -> bool:
    return not held.is_repeated and held.memory.isdisjoint(taken)


def _can_copy(maker: Equation, result: Var, known: Analysis) -> bool:
    """Whether control flow may return another array there: no other result that stays as it is can be a view of it.

    A view of it would lie in the callers' memory too, or repeat elements, and be copied itself. A loop can if all
    iterations hand its results on apart.
    """
    held = known.where(result)
    if held.memory.isdisjoint(CALLERS) and not held.is_repeated:
        return False
    return maker in known.regions or explicit_outputs(maker).index(result) in known.origins[maker]


def _copy(operand: Operand, names: Names, source: str = "") -> Equation:
    return Equation(_COPY, (operand,), (Var(names.fresh(), operand.type),), source=source)


def _branches(
    equation: Equation, known: Analysis, places: Sequence[int], taken: frozenset[int], names: Names
) -> list[Equation]:
    """A branch or a call whose Programs return arrays of their own at some places."""
    del names
    programs = tuple(
        _owning(program, inside, places, taken)
        for program, inside in zip(returning(equation), known.regions[equation], strict=True)
    )
    changed = {"branches": programs} if equation.op.name == "cond" else {"program": programs[0]}
    return [replace(equation, params={**equation.params, **changed})]


def _started(
    equation: Equation, known: Analysis, places: Sequence[int], taken: frozenset[int], names: Names
) -> list[Equation]:
    """A loop that starts with copies of what it returns at some places if it takes no iteration."""
    origins = known.origins[equation]
    carried = list(carries(equation))
    inputs, copies = list(equation.inputs), []
    for place in sorted(frozenset().union(*origins.values())):
        held = known.where(carried[place][1])
        if _is_free(held, taken):
            taken = taken | held.memory
        elif any(place in origins[one] for one in places):
            copies.append(_copy(carried[place][1], names, equation.source))
            inputs[first_place(equation) + place] = copies[-1].outputs[0]
    return [*copies, replace(equation, inputs=tuple(inputs))]
