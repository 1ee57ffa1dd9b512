r"""Operations that expand constants move below elementwise operations, which can then be folded at the smaller size.

    f(expand(a))            -> expand(f(a))           expand: broadcast_to, full, and views of their results, as tile
                                                      and repeat are
    f(expand(a), b)         -> expand(f(a, b))        b: a scalar, or expanded alike
    view(widen(a, s))       -> widen(view(a), v(s))   widen: a cast of a to a wider dtype, and elementwise operations of
                                                      it and of scalars and small arrays s (dequantization); where
                                                      nothing else reads it, and there is such a view v of s
    read(widen(a, s), i)    -> widen(read(a, i), v(s))    read: at indices, constant or not, that are not more than the
                                                      entries of a; so a call widens only the entries that it reads

An operation stays where it is if it is not elementwise, or may raise an error. It also stays if it reads values that
are not constant, unless it reads at indices. Other readers of an expanded value still read it. Operands of sums and
products are not moved: libraries add in an order that depends on the strides of their operands.

>>> import plica.tracing.namespace as xp
>>> from plica.ir.types import spec
>>> from plica.passes.dead_code import eliminate_dead_code
>>> from plica.tracing.trace import trace
>>> program = trace(lambda w: xp.exp(xp.broadcast_to(w, (5, 3)) * 2), spec(3))
>>> print(eliminate_dead_code(postpone(program, dict.fromkeys(program.equations)).program))
{ lambda ; w:f32[3] . let
    d:f32[3] = multiply w 2.0:f32[]
    e:f32[3] = exp d
    c:f32[5,3] = broadcast_to[shape=(5,3)] e
  in (c,) }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plica.constants.analysis.facts import estimated
from plica.constants.rewrites.broadcast_views import READS, follow
from plica.errors import PlicaError
from plica.ir.op import Memory, View
from plica.ir.program import Equation, Operand, Program, Var
from plica.ir.types import SCALAR_SIZE, ArrayType
from plica.ops import ELEMENTWISE, OPS
from plica.passes.replacements import names_of

_EACH = frozenset(row.name for row in ELEMENTWISE)
_BROADCAST = _EACH - {"isin"}  # whose operands broadcast
_EXPANDS = ("broadcast_to", "full")
_Way = tuple[tuple[str, Mapping[str, Any]], ...]  # operations in order, each on the result of the one before
_MAX_STEPS = 8  # operations that are repeated behind a moved one; so the pass stays linear


@dataclass(frozen=True, slots=True)
class Postponed:
    """The result of the pass.

    Args:
        program: The Program, still with equations that nothing reads any more.
        moved: The results of operations that were moved.
    """

    program: Program
    moved: Mapping[Var, None]


@dataclass(frozen=True, slots=True)
class _Chain:
    """A value that a chain of equations makes of another one.

    Args:
        core: The operand of the first equation.
        steps: The equations in order.
    """

    core: Operand
    steps: tuple[Equation, ...]


def postpone(program: Program, foldable: Mapping[Equation, None], *, widen: bool = False) -> Postponed:
    """The Program with expanding operations of constants below elementwise ones.

    Args:
        program: The Program.
        foldable: The equations that read constants alone and are pure.
        widen: Whether constants may be kept in wider dtypes, so that casts need not move.
    """
    return _Pass(program, foldable, widen).run()


class _Pass:
    """The Program under construction."""

    def __init__(self, program: Program, foldable: Mapping[Equation, None], widen: bool) -> None:
        self.program, self.foldable, self.widen = program, foldable, widen
        self.expanded: dict[Operand, _Chain] = {}
        self.widened: dict[Operand, _Chain] = {}
        self.moved: dict[Var, None] = {}
        self.placed = _placed(program)
        self.equations: list[Equation] = []
        self.names = names_of(program)
        self.num_readers: dict[Operand, int] = {}
        for operand in (*(operand for equation in program.equations for operand in equation.inputs), *program.outputs):
            self.num_readers[operand] = self.num_readers.get(operand, 0) + 1

    def run(self) -> Postponed:
        """Append each equation, rewritten where a rule applies."""
        for equation in self.program.equations:
            is_array = len(equation.outputs) == 1 and equation.outputs[0].type != SCALAR_SIZE
            if is_array and equation.op.name in READS:
                self._view(equation)
            elif not is_array or equation not in self.foldable:
                self.equations.append(equation)
            elif equation.op.name in _EACH:
                self._each(equation)
            else:
                self._view(equation)
        return Postponed(replace(self.program, equations=tuple(self.equations)), self.moved)

    def _append(self, equation: Equation, inputs: Sequence[Operand], output: Var | None = None) -> Var:
        """Append an equation with other operands; without `output`, its result is a new variable."""
        if output is None:
            (type_,) = OPS[equation.op.name].types([operand.type for operand in inputs], equation.params)
            output = Var(self.names.fresh(), type_)
        self.equations.append(replace(equation, inputs=tuple(inputs), outputs=(output,)))
        return output

    def _again(self, steps: Sequence[Equation], core: Operand, output: Var) -> None:
        """Append steps again, from another core on; the last one makes `output`."""
        value = core
        for step in steps[:-1]:
            value = self._append(step, (value, *step.inputs[1:]))
        self._append(steps[-1], (value, *steps[-1].inputs[1:]), output)

    # Views, those that expand among them

    def _view(self, equation: Equation) -> None:
        row, (output,) = OPS[equation.op.name], equation.outputs
        first = equation.inputs[0] if equation.inputs else None
        if first is None or row.view not in (View.MOVED, View.SELECTED):
            self.equations.append(equation)
            return
        chain = self.widened.get(first)
        if chain is not None and self._is_alone(equation, chain):
            beside = self._beside(equation, chain)
            if beside is not None:
                self._below(equation, chain, beside)
                return
        self.equations.append(equation)
        if len(equation.inputs) > 1:
            return
        before = self.expanded.get(first, _Chain(first, ()))
        if row.name in _EXPANDS and all(step.op.name in _EXPANDS for step in before.steps):
            self.expanded[output] = _Chain(before.core, (equation,))  # a broadcast of a broadcast is one
        elif (row.name in _EXPANDS or before.steps) and len(before.steps) < _MAX_STEPS and row.view is View.MOVED:
            self.expanded[output] = _Chain(before.core, (*before.steps, equation))

    def _is_alone(self, view: Equation, chain: _Chain) -> bool:
        """Whether only this view reads a widened value; a read at indices also makes no more entries than there are."""
        if view.op.name in _EXPANDS or self.num_readers.get(view.inputs[0], 1) > 1:
            return False
        if len(view.inputs) > 1:
            sizes = [estimated(array_type, {}) for array_type in (view.outputs[0].type, chain.core.type)]
            return view.op.name in READS and sizes[0] <= sizes[1]
        return True

    def _beside(self, view: Equation, chain: _Chain) -> dict[Operand, _Way] | None:
        """The operations that make the small arrays of a widened value fit its view; None where there are none."""
        large = chain.core.type.shape
        along = {chain.core, *(step.outputs[0] for step in chain.steps)}
        ways: dict[Operand, _Way] = {}
        for operand in (
            operand for step in chain.steps for operand in step.inputs if operand.type.shape and operand not in along
        ):
            small = (*(1,) * (len(large) - len(operand.type.shape)), *operand.type.shape)
            followed = follow(view.op.name, large, small, view.params)
            if followed is None:
                return None
            ways[operand] = (("reshape", {"shape": small}), followed) if small != operand.type.shape else (followed,)
        return ways

    def _below(self, equation: Equation, chain: _Chain, beside: Mapping[Operand, _Way]) -> None:
        """View the narrow value and its small arrays, and widen the result."""
        (output,) = equation.outputs
        core = self._append(equation, (chain.core, *equation.inputs[1:]))
        viewed: dict[Operand, Operand] = {chain.core: core}
        for operand, way in beside.items():
            viewed[operand] = operand
            for name, params in way:
                op = replace(equation.op, name=name)
                others = equation.inputs[1:] if name == equation.op.name else ()
                viewed[operand] = self._viewed(
                    replace(equation, op=op, inputs=(viewed[operand], *others), params=params)
                )
        steps = []
        for step in chain.steps:
            inputs = [viewed.get(operand, operand) for operand in step.inputs]
            viewed[step.outputs[0]] = self._append(step, inputs, output if step is chain.steps[-1] else None)
            steps.append(self.equations[-1])
        self.widened[output] = _Chain(core, tuple(steps))

    def _viewed(self, equation: Equation) -> Var:
        """View a small array of a widened value, below the array's own casts where it has some."""
        (type_,) = OPS[equation.op.name].types([operand.type for operand in equation.inputs], equation.params)
        output = Var(self.names.fresh(), type_)
        self._view(replace(equation, outputs=(output,)))
        return output

    # Elementwise operations

    def _each(self, equation: Equation) -> None:
        is_movable = any(operand in self.expanded for operand in equation.inputs) and self._never_raises(equation)
        if is_movable and (self._alike(equation) or self._broadcast(equation)):
            return
        self.equations.append(equation)
        self._note_widened(equation)

    def _never_raises(self, equation: Equation) -> bool:
        """Whether an operation never raises: at the smaller size it runs even if the larger array is empty."""
        return equation.outputs[0].type.dtype.kind in OPS[equation.op.name].never_raises

    def _note_widened(self, equation: Equation) -> None:
        """Note a cast to a wider dtype, and elementwise operations on its result and smaller arrays alone."""
        (output,) = equation.outputs
        large = [operand for operand in dict.fromkeys(equation.inputs) if operand.type.shape == output.type.shape]
        if self.widen or equation.op.name not in _BROADCAST or not output.type.shape or len(large) != 1:
            return
        before = self.widened.get(large[0], _Chain(large[0], ()))
        is_wider = _bits(output.type) > _bits(before.core.type) and self._never_raises(equation)
        if is_wider and (before.steps or equation.op.name == "astype") and len(before.steps) < _MAX_STEPS:
            self.widened[output] = _Chain(before.core, (*before.steps, equation))

    def _alike(self, equation: Equation) -> bool:
        """Apply an operation before its operands are expanded, if all arrays are expanded alike; return whether so."""
        chains = [self.expanded.get(operand) for operand in equation.inputs if operand.type.shape]
        known = [chain for chain in chains if chain is not None]
        if not known or len(known) != len(chains) or any(_way(chain) != _way(known[0]) for chain in known):
            return False
        cores = [self.expanded[operand].core if operand.type.shape else operand for operand in equation.inputs]
        (output,) = equation.outputs
        if output in self.placed or any(chain.core.type.shape != known[0].core.type.shape for chain in known):
            return False
        core = self._append(equation, cores)
        self._again(known[0].steps, core, output)
        self.expanded[output] = _Chain(core, known[0].steps)
        self.moved[output] = None
        return True

    def _broadcast(self, equation: Equation) -> bool:
        """Apply an operation before its operands are broadcast, if none is expanded otherwise; return whether so."""
        chains = [self.expanded.get(operand, _Chain(operand, ())) for operand in equation.inputs]
        if any(step.op.name not in _EXPANDS for chain in chains for step in chain.steps):
            return False
        cores = [chain.core for chain in chains]
        (output,) = equation.outputs
        try:
            (type_,) = OPS[equation.op.name].types([operand.type for operand in cores], equation.params)
        except PlicaError:  # only the run knows whether the sizes are equal
            return False
        if type_ == output.type:
            self._append(equation, cores, output)
            self._note_widened(self.equations[-1])
            return True
        if output in self.placed:
            return False
        step = next(step for chain in chains for step in chain.steps)
        core = self._append(equation, cores)
        broadcast = replace(
            step,
            op=replace(step.op, name="broadcast_to"),
            inputs=(core,),
            outputs=(output,),
            params={"shape": output.type.shape},
        )
        self.equations.append(broadcast)
        self.expanded[output] = _Chain(core, (broadcast,))
        self.moved[output] = None
        return True


def _placed(program: Program) -> dict[Operand, None]:
    """The values whose strides decide in which order sums and products add numbers."""
    expanded: dict[Operand, None] = {}
    for equation in program.equations:
        row = OPS[equation.op.name]
        if row.name in _EXPANDS or (row.view is View.MOVED and equation.inputs[0] in expanded):
            expanded.update(dict.fromkeys(equation.outputs))
    placed: dict[Operand, None] = {}
    for equation in reversed(program.equations):
        row, read = OPS[equation.op.name], equation.inputs
        is_placed = any(var in placed for var in equation.outputs)
        if row.name in _EACH:
            first = read[0]  # decides how the result lies where it has all axes
            is_first = first.type.shape == equation.outputs[0].type.shape and first not in expanded
            placed.update(dict.fromkeys(read[:1] if is_first else read) if is_placed else {})
        elif row.view is View.NONE:
            placed.update(dict.fromkeys(operand for operand in read if operand.type.dtype.kind in ("float", "complex")))
        elif is_placed and (row.view is View.MOVED or row.memory is Memory.VIEW):
            placed.update(dict.fromkeys(read[:1]))
    return placed


def _way(chain: _Chain) -> tuple[tuple[str, str], ...]:
    """The operations of a chain, for comparison with those of others."""
    return tuple((step.op.name, repr(sorted(step.params.items()))) for step in chain.steps)


def _bits(type_: ArrayType) -> int:
    return type_.dtype.bits
