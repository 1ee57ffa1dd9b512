r"""Operations that expand constants move below elementwise operations, which can then be folded at the smaller size.

    f(expand(a))            -> expand(f(a))           expand: broadcast_to, full, and views of what they make, so that
    f(expand(a), b)         -> expand(f(a, b))        tile and repeat are meant too; b: a scalar, or expanded alike
    view(widen(a, s))       -> widen(view(a), v(s))   widen: a cast of a to a wider dtype, and elementwise operations of
                                                      it and of scalars and small arrays s (dequantization); where
                                                      nothing else reads it, and a view v of s does
    read(widen(a, s), i)    -> widen(read(a, i), v(s))    read: at indices, constant or not, that are not more than the
                                                      entries of a; so a call widens what it reads of a table

Blocked are operations whose result at one place depends on another place, that may raise an error, or, but for reads,
that read what is not constant. What else reads an expanded value goes on reading it. Blocked is also what a sum or a
product reads: libraries add in an order that depends on the strides of their operands.

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
from plica.ir.builder import Names
from plica.ir.op import Memory, View
from plica.ir.program import Equation, Operand, Program, Var
from plica.ir.types import SCALAR_SIZE, ArrayType
from plica.ops import ELEMENTWISE, OPS

_EACH = frozenset(row.name for row in ELEMENTWISE)
_BROADCAST = _EACH - {"isin"}  # whose operands broadcast
_EXPANDS = ("broadcast_to", "full")
_Way = tuple[tuple[str, Mapping[str, Any]], ...]  # operations on one array, one after the other
_MOST = 8  # steps that are done again behind one operation, so that the pass stays linear


@dataclass(frozen=True, slots=True)
class Postponed:
    """What the pass made.

    Args:
        program: The Program; what nothing reads any more is still there.
        moved: The values that are made by an operation that was moved.
    """

    program: Program
    moved: Mapping[Var, None]


@dataclass(frozen=True, slots=True)
class _Chain:
    """A value as what equations, each of one array, make of another one.

    Args:
        core: What the first equation reads.
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
        self.names = Names()
        made = (var for one in program.equations for var in one.outputs)
        for var in (*program.consts, *program.inputs, *made):
            self.names.fresh(var.name)
        self.num_readers: dict[Operand, int] = {}
        for one in (*(one for equation in program.equations for one in equation.inputs), *program.outputs):
            self.num_readers[one] = self.num_readers.get(one, 0) + 1

    def run(self) -> Postponed:
        """Each equation as it is, or in other terms."""
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
        """An equation at other operands; without `output`, its result is a new variable."""
        if output is None:
            (type_,) = OPS[equation.op.name].types([one.type for one in inputs], equation.params)
            output = Var(self.names.fresh(), type_)
        self.equations.append(replace(equation, inputs=tuple(inputs), outputs=(output,)))
        return output

    def _again(self, steps: Sequence[Equation], core: Operand, output: Var) -> None:
        """Steps done again from another core on; the last one makes `output`."""
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
        elif (row.name in _EXPANDS or before.steps) and len(before.steps) < _MOST and row.view is View.MOVED:
            self.expanded[output] = _Chain(before.core, (*before.steps, equation))

    def _is_alone(self, view: Equation, chain: _Chain) -> bool:
        """Whether nothing but a view reads a widened value, and the view makes no more work of what is done before."""
        if view.op.name in _EXPANDS or self.num_readers.get(view.inputs[0], 1) > 1:
            return False
        if len(view.inputs) > 1:
            sizes = [estimated(one, {}) for one in (view.outputs[0].type, chain.core.type)]
            return view.op.name in READS and sizes[0] <= sizes[1]
        return True

    def _beside(self, view: Equation, chain: _Chain) -> dict[Operand, _Way] | None:
        """What is done to the arrays beside a widened value so that they fit its view; None where nothing would do."""
        large = chain.core.type.shape
        along = {chain.core, *(step.outputs[0] for step in chain.steps)}
        found: dict[Operand, _Way] = {}
        for one in (one for step in chain.steps for one in step.inputs if one.type.shape and one not in along):
            small = (*(1,) * (len(large) - len(one.type.shape)), *one.type.shape)
            done = follow(view.op.name, large, small, view.params)
            if done is None:
                return None
            found[one] = (("reshape", {"shape": small}), done) if small != one.type.shape else (done,)
        return found

    def _below(self, equation: Equation, chain: _Chain, beside: Mapping[Operand, _Way]) -> None:
        """A view of a widened value: of the narrow one, and of what is beside it, and then widened."""
        (output,) = equation.outputs
        core = self._append(equation, (chain.core, *equation.inputs[1:]))
        viewed: dict[Operand, Operand] = {chain.core: core}
        for one, way in beside.items():
            viewed[one] = one
            for name, params in way:
                op = replace(equation.op, name=name)
                rest = equation.inputs[1:] if name == equation.op.name else ()
                viewed[one] = self._viewed(replace(equation, op=op, inputs=(viewed[one], *rest), params=params))
        steps = []
        for step in chain.steps:
            inputs = [viewed.get(one, one) for one in step.inputs]
            viewed[step.outputs[0]] = self._append(step, inputs, output if step is chain.steps[-1] else None)
            steps.append(self.equations[-1])
        self.widened[output] = _Chain(core, tuple(steps))

    def _viewed(self, equation: Equation) -> Var:
        """A view of what is beside a widened value, below its own casts where it has some."""
        (type_,) = OPS[equation.op.name].types([one.type for one in equation.inputs], equation.params)
        output = Var(self.names.fresh(), type_)
        self._view(replace(equation, outputs=(output,)))
        return output

    # Elementwise operations

    def _each(self, equation: Equation) -> None:
        is_movable = any(one in self.expanded for one in equation.inputs) and self._never_raises(equation)
        if is_movable and (self._alike(equation) or self._broadcast(equation)):
            return
        self.equations.append(equation)
        self._note_widened(equation)

    def _never_raises(self, equation: Equation) -> bool:
        """Whether it raises nowhere: at the smaller size it runs even where the larger one has no entry."""
        return equation.outputs[0].type.dtype.kind in OPS[equation.op.name].never_raises

    def _note_widened(self, equation: Equation) -> None:
        """Note a cast to a wider dtype, and what is elementwise behind one with nothing as large beside it."""
        (output,) = equation.outputs
        large = [one for one in dict.fromkeys(equation.inputs) if one.type.shape == output.type.shape]
        if self.widen or equation.op.name not in _BROADCAST or not output.type.shape or len(large) != 1:
            return
        before = self.widened.get(large[0], _Chain(large[0], ()))
        is_wider = _bits(output.type) > _bits(before.core.type) and self._never_raises(equation)
        if is_wider and (before.steps or equation.op.name == "astype") and len(before.steps) < _MOST:
            self.widened[output] = _Chain(before.core, (*before.steps, equation))

    def _alike(self, equation: Equation) -> bool:
        """Whether all arrays were expanded in the same way, so that this can be done once, afterwards."""
        chains = [self.expanded.get(one) for one in equation.inputs if one.type.shape]
        known = [chain for chain in chains if chain is not None]
        if not known or len(known) != len(chains) or any(_way(chain) != _way(known[0]) for chain in known):
            return False
        cores = [self.expanded[one].core if one.type.shape else one for one in equation.inputs]
        (output,) = equation.outputs
        if output in self.placed or any(chain.core.type.shape != known[0].core.type.shape for chain in known):
            return False
        core = self._append(equation, cores)
        self._again(known[0].steps, core, output)
        self.expanded[output] = _Chain(core, known[0].steps)
        self.moved[output] = None
        return True

    def _broadcast(self, equation: Equation) -> bool:
        """Whether all that is expanded is broadcast, so that the operation may be applied to what is broadcast."""
        chains = [self.expanded.get(one, _Chain(one, ())) for one in equation.inputs]
        if any(step.op.name not in _EXPANDS for chain in chains for step in chain.steps):
            return False
        cores = [chain.core for chain in chains]
        (output,) = equation.outputs
        try:
            (type_,) = OPS[equation.op.name].types([one.type for one in cores], equation.params)
        except PlicaError:  # whether the sizes meet is not known before the run
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
    found: dict[Operand, None] = {}
    for equation in reversed(program.equations):
        row, read = OPS[equation.op.name], equation.inputs
        is_placed = any(var in found for var in equation.outputs)
        if row.name in _EACH:
            first = read[0]  # decides how the result lies where it has all axes
            is_first = first.type.shape == equation.outputs[0].type.shape and first not in expanded
            found.update(dict.fromkeys(read[:1] if is_first else read) if is_placed else {})
        elif row.view is View.NONE:
            found.update(dict.fromkeys(one for one in read if one.type.dtype.kind in ("float", "complex")))
        elif is_placed and (row.view is View.MOVED or row.memory is Memory.VIEW):
            found.update(dict.fromkeys(read[:1]))
    return found


def _way(chain: _Chain) -> tuple[tuple[str, str], ...]:
    """How a chain expands, whatever it expands."""
    return tuple((step.op.name, repr(sorted(step.params.items()))) for step in chain.steps)


def _bits(type_: ArrayType) -> int:
    return type_.dtype.bits
