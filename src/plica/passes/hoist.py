"""Loop-invariant code: equations of a loop that read only captured values run before the loop.

    >>> import plica.tracing.namespace as xp
    >>> from plica.ir.types import spec
    >>> from plica.tracing.control import trace_for
    >>> from plica.tracing.trace import trace
    >>> def powers(x, w):
    ...     return trace_for((0, 10, 1), lambda i, a: a * xp.softmax(w), (x,), shared=True)
    >>> [equation.op.name for equation in hoist(trace(powers, spec(3), spec(3))).equations]
    ['softmax', 'for_loop']

A loop may run no iteration, so only operations that never raise are moved. Equations move out of a call within a loop
too. For example, the softmax of a circuit's weights is computed once, and not in each iteration.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plica.ir.builder import Names
from plica.ir.program import Equation, Operand, Program, Var, nested, size_variables
from plica.ir.sizes import Dim, Size, substitute
from plica.ir.types import SCALAR_SIZE, array_type
from plica.ops import OPS
from plica.ops.regions import regions_of, with_regions, without_unread
from plica.passes.replacements import names_of


def hoist(program: Program) -> Program:
    """The Program with loop-invariant equations before their loops; recursion is as deep as Programs are nested."""
    return _hoist(program, is_repeated=False)


def _hoist(program: Program, *, is_repeated: bool) -> Program:
    if not any(any(nested(equation.params)) for equation in program.equations):
        return program
    mover = _Mover(program)
    for equation in program.equations:
        is_loop = OPS[equation.op.name].repeats
        regions = regions_of(equation)
        inner = [_hoist(region, is_repeated=is_repeated or is_loop) for region, _ in regions]
        regions = [(region, operands) for region, (_, operands) in zip(inner, regions, strict=True)]
        if is_loop or (is_repeated and equation.op.name == "call"):
            regions = [mover.move(region, operands) for region, operands in regions]
        mover.equations.append(with_regions(equation, regions) if regions else equation)
    return replace(program, equations=tuple(mover.equations))


@dataclass(slots=True)
class _Mover:
    """Moves equations from regions of a Program into the Program.

    Args:
        program: The Program around the regions.
    """

    program: Program
    equations: list[Equation] = field(default_factory=list)
    _names: Names = field(init=False)

    def __post_init__(self) -> None:
        self._names = names_of(self.program)

    def move(self, region: Program, operands: tuple[Operand, ...]) -> tuple[Program, tuple[Operand, ...]]:
        """The region without its invariant equations, whose results it captures."""
        outer: dict[Any, Operand] = dict(zip(region.consts, operands, strict=True))
        new: dict[Var, Operand] = {}
        inside = []
        for equation in region.equations:
            if _is_invariant(equation, outer):
                self._append(equation, outer)
                new.update((var, outer[var]) for var in equation.outputs)
            else:
                inside.append(equation)
        if not new:
            return region, operands
        region = replace(region, consts=(*region.consts, *new), equations=tuple(inside))
        return without_unread(region, (*operands, *new.values()))

    def _append(self, equation: Equation, outer: dict[Any, Operand]) -> None:
        """Append `equation` to the Program around, in terms of the variables there."""

        def size(atom: Any) -> Dim:
            return self.program.size_of(outer[atom])

        def moved(value: Any) -> Any:
            if isinstance(value, Size):
                return substitute(value, size)
            return tuple(map(moved, value)) if isinstance(value, tuple) else value

        outputs = []
        for var in equation.outputs:
            type_ = array_type(moved(var.type.shape), var.type.dtype)
            outputs.append(Var(self._names.fresh(var.name), type_, var.is_size))
        inputs = tuple(outer[operand] if isinstance(operand, Var) else operand for operand in equation.inputs)
        params = {name: moved(value) for name, value in equation.params.items()}
        self.equations.append(Equation(equation.op, inputs, tuple(outputs), params, equation.source))
        outer.update(zip(equation.outputs, outputs, strict=True))


def _is_invariant(equation: Equation, outer: dict[Any, Operand]) -> bool:
    """Whether an equation moves before the loop: it reads captured values, never raises, and is more than a scalar."""
    safe = OPS[equation.op.name].never_raises
    if not safe or equation.outputs[0].type.dtype.kind not in safe:
        return False
    if all(not operand.type.shape for operand in (*equation.inputs, *equation.outputs)):
        return False
    if any(var.type == SCALAR_SIZE for var in equation.outputs):
        return False
    variables = [operand for operand in equation.inputs if isinstance(operand, Var)]
    sizes = [*size_variables(tuple(equation.params.values())), *_type_sizes(equation.outputs)]
    return bool(variables) and all(operand in outer for operand in (*variables, *sizes))


def _type_sizes(variables: Sequence[Var]) -> Iterator[Var]:
    for var in variables:
        yield from size_variables(var.type)
