r"""Operations that expand constants move below elementwise operations, so that values can be kept at the smaller size.

    f(expand(a))            -> expand(f(a))
    f(expand(a), b)         -> expand(f(a, b))              b: a scalar, or expanded alike
    view(widen(a, s))       -> widen(view(a), v(s))
    read(widen(a, s), i)    -> widen(read(a, i), v(s))      i: indices, constant or not

`f` is an elementwise operation. `expand` is broadcast_to, full, or views of their results: tile and repeat are made of
these. `widen` casts `a` to a wider dtype, and computes with scalars and with arrays `s` that broadcast. Dequantization
does this. `v(s)` is the view of `s` that broadcasts with the view of `a` (`broadcast_views.py`). The last two rules
need that nothing else reads the wide value, and `read` that it makes no more entries than `a` has. Then a call widens
only the entries that it reads.

An operation stays where it is if it may raise an error, or reads values that are not constant, unless it reads at
indices. Other readers of an expanded value still read it. A result stays too where a sum or a product adds it in the
order of its strides, which libraries do: moved, it would have other strides, and sums would round otherwise.

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

_ELEMENTWISE = frozenset(row.name for row in ELEMENTWISE)
_BROADCASTING = _ELEMENTWISE - {"isin"}  # operations whose operands broadcast
_EXPANDING = ("broadcast_to", "full")
_Operations = tuple[tuple[str, Mapping[str, Any]], ...]  # names and parameters; each reads the result of the one before
_MAX_STEPS = 8  # of a chain; so the pass stays linear


@dataclass(frozen=True, slots=True)
class Postponed:
    """The result of the pass.

    Args:
        program: The Program, still with equations that nothing reads any more.
        moved: The results of expanding operations that were moved.
    """

    program: Program
    moved: Mapping[Var, None]


@dataclass(frozen=True, slots=True)
class _Chain:
    """A value that a chain of equations computes from another value.

    Args:
        core: The value before the chain: the first operand of the first equation.
        steps: The equations in order.
    """

    core: Operand
    steps: tuple[Equation, ...]


def postpone(program: Program, foldable: Mapping[Equation, None], *, widen: bool = False) -> Postponed:
    """The Program with expanding operations of constants below elementwise ones.

    Args:
        program: The Program.
        foldable: The equations that read constants alone and are pure.
        widen: Whether constants may be kept in wider dtypes, so that the rules of `widen` are not needed.
    """
    return _Pass(program, foldable, widen).run()


class _Pass:
    """The Program under construction.

    Attributes:
        expanded: For each value that is expanded the chain of expanding operations.
        widened: For each value in a wider dtype the chain from the narrow one.
        order_sensitive: The values whose strides decide in which order a library adds numbers.
    """

    def __init__(self, program: Program, foldable: Mapping[Equation, None], widen: bool) -> None:
        self.program, self.foldable, self.widen = program, foldable, widen
        self.expanded: dict[Operand, _Chain] = {}
        self.widened: dict[Operand, _Chain] = {}
        self.moved: dict[Var, None] = {}
        self.order_sensitive = _order_sensitive(program)
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
            elif equation.op.name in _ELEMENTWISE:
                self._elementwise(equation)
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

    def _repeat(self, steps: Sequence[Equation], core: Operand, output: Var) -> None:
        """Append the steps of a chain again, for another core; the last one computes `output`."""
        value = core
        for step in steps[:-1]:
            value = self._append(step, (value, *step.inputs[1:]))
        self._append(steps[-1], (value, *steps[-1].inputs[1:]), output)

    # Views, and operations that expand

    def _view(self, equation: Equation) -> None:
        """Append a view: below the chain of a widened value if a rule applies. Note if its result is expanded."""
        row, (output,) = OPS[equation.op.name], equation.outputs
        first = equation.inputs[0] if equation.inputs else None
        if first is None or row.view not in (View.MOVED, View.SELECTED):
            self.equations.append(equation)
            return
        chain = self.widened.get(first)
        if chain is not None and self._is_only_reader(equation, chain):
            small_views = self._small_views(equation, chain)
            if small_views is not None:
                self._widen_view(equation, chain, small_views)
                return
        self.equations.append(equation)
        if len(equation.inputs) > 1:
            return
        chain = self.expanded.get(first, _Chain(first, ()))
        if row.name in _EXPANDING and all(step.op.name in _EXPANDING for step in chain.steps):
            self.expanded[output] = _Chain(chain.core, (equation,))  # a broadcast of a broadcast is one broadcast
        elif (row.name in _EXPANDING or chain.steps) and len(chain.steps) < _MAX_STEPS and row.view is View.MOVED:
            self.expanded[output] = _Chain(chain.core, (*chain.steps, equation))

    def _is_only_reader(self, view: Equation, chain: _Chain) -> bool:
        """Whether only this view reads a widened value; for a read at indices also whether the result is no larger."""
        if view.op.name in _EXPANDING or self.num_readers.get(view.inputs[0], 1) > 1:
            return False
        if len(view.inputs) > 1:
            sizes = [estimated(array_type, {}) for array_type in (view.outputs[0].type, chain.core.type)]
            return view.op.name in READS and sizes[0] <= sizes[1]
        return True

    def _small_views(self, view: Equation, chain: _Chain) -> dict[Operand, _Operations] | None:
        """For each small array of a widened value, operations that fit it to the view; None if one has none."""
        large = chain.core.type.shape
        large_values = {chain.core, *(step.outputs[0] for step in chain.steps)}
        operations: dict[Operand, _Operations] = {}
        small_arrays = (
            operand
            for step in chain.steps
            for operand in step.inputs
            if operand.type.shape and operand not in large_values
        )
        for operand in small_arrays:
            small = (*(1,) * (len(large) - len(operand.type.shape)), *operand.type.shape)
            followed = follow(view.op.name, large, small, view.params)
            if followed is None:
                return None
            reshape = ("reshape", {"shape": small})
            operations[operand] = (followed,) if small == operand.type.shape else (reshape, followed)
        return operations

    def _widen_view(self, equation: Equation, chain: _Chain, small_views: Mapping[Operand, _Operations]) -> None:
        """View the narrow value and its small arrays, and widen the result."""
        (output,) = equation.outputs
        core = self._append(equation, (chain.core, *equation.inputs[1:]))
        viewed: dict[Operand, Operand] = {chain.core: core}
        for operand, operations in small_views.items():
            viewed[operand] = operand
            for name, params in operations:
                op = replace(equation.op, name=name)
                indices = equation.inputs[1:] if name == equation.op.name else ()
                viewed[operand] = self._viewed(
                    replace(equation, op=op, inputs=(viewed[operand], *indices), params=params)
                )
        steps = []
        for step in chain.steps:
            inputs = [viewed.get(operand, operand) for operand in step.inputs]
            viewed[step.outputs[0]] = self._append(step, inputs, output if step is chain.steps[-1] else None)
            steps.append(self.equations[-1])
        self.widened[output] = _Chain(core, tuple(steps))

    def _viewed(self, equation: Equation) -> Var:
        """The view of a small array of a widened value. If that array is widened itself, the rules apply to it too."""
        (type_,) = OPS[equation.op.name].types([operand.type for operand in equation.inputs], equation.params)
        output = Var(self.names.fresh(), type_)
        self._view(replace(equation, outputs=(output,)))
        return output

    # Elementwise operations

    def _elementwise(self, equation: Equation) -> None:
        """Append an elementwise operation, before its operands are expanded if a rule applies."""
        is_movable = any(operand in self.expanded for operand in equation.inputs) and self._never_raises(equation)
        if is_movable and (self._expand_result(equation) or self._broadcast_result(equation)):
            return
        self.equations.append(equation)
        self._note_widened(equation)

    def _never_raises(self, equation: Equation) -> bool:
        """Whether an operation never raises; before it is expanded it would run even if the expanded array is empty."""
        return equation.outputs[0].type.dtype.kind in OPS[equation.op.name].never_raises

    def _note_widened(self, equation: Equation) -> None:
        """Note the result of a cast to a wider dtype, or of an operation on such a result and smaller arrays alone."""
        (output,) = equation.outputs
        large = [operand for operand in dict.fromkeys(equation.inputs) if operand.type.shape == output.type.shape]
        if self.widen or equation.op.name not in _BROADCASTING or not output.type.shape or len(large) != 1:
            return
        chain = self.widened.get(large[0], _Chain(large[0], ()))
        is_wider = _bits(output.type) > _bits(chain.core.type) and self._never_raises(equation)
        if is_wider and (chain.steps or equation.op.name == "astype") and len(chain.steps) < _MAX_STEPS:
            self.widened[output] = _Chain(chain.core, (*chain.steps, equation))

    def _expand_result(self, equation: Equation) -> bool:
        """Apply an operation before its arrays are expanded, if all are expanded alike. Returns whether it did."""
        chains = [self.expanded.get(operand) for operand in equation.inputs if operand.type.shape]
        expanded = [chain for chain in chains if chain is not None]
        if not expanded or len(expanded) != len(chains):
            return False
        first = expanded[0]
        if any(_operations(chain) != _operations(first) for chain in expanded):
            return False
        cores = [self.expanded[operand].core if operand.type.shape else operand for operand in equation.inputs]
        (output,) = equation.outputs
        if output in self.order_sensitive or any(chain.core.type.shape != first.core.type.shape for chain in expanded):
            return False
        core = self._append(equation, cores)
        self._repeat(first.steps, core, output)
        self.expanded[output] = _Chain(core, first.steps)
        self.moved[output] = None
        return True

    def _broadcast_result(self, equation: Equation) -> bool:
        """Apply an operation before its operands are broadcast, if they are only broadcast. Returns whether it did."""
        chains = [self.expanded.get(operand, _Chain(operand, ())) for operand in equation.inputs]
        if any(step.op.name not in _EXPANDING for chain in chains for step in chain.steps):
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
        if output in self.order_sensitive:
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


def _order_sensitive(program: Program) -> dict[Operand, None]:
    """The values whose strides decide in which order a later sum or product adds numbers."""
    expanded: dict[Operand, None] = {}
    for equation in program.equations:
        row = OPS[equation.op.name]
        if row.name in _EXPANDING or (row.view is View.MOVED and equation.inputs[0] in expanded):
            expanded.update(dict.fromkeys(equation.outputs))
    sensitive: dict[Operand, None] = {}
    for equation in reversed(program.equations):
        row, read = OPS[equation.op.name], equation.inputs
        is_sensitive = any(var in sensitive for var in equation.outputs)
        if row.name in _ELEMENTWISE:
            first = read[0]  # the result has its strides if it has all axes
            is_first = first.type.shape == equation.outputs[0].type.shape and first not in expanded
            sensitive.update(dict.fromkeys(read[:1] if is_first else read) if is_sensitive else {})
        elif row.view is View.NONE:  # it may add numbers
            numbers = (operand for operand in read if operand.type.dtype.kind in ("float", "complex"))
            sensitive.update(dict.fromkeys(numbers))
        elif is_sensitive and (row.view is View.MOVED or row.memory is Memory.VIEW):
            sensitive.update(dict.fromkeys(read[:1]))
    return sensitive


def _operations(chain: _Chain) -> tuple[tuple[str, str], ...]:
    """The operations of a chain, to compare them with those of another chain."""
    return tuple((step.op.name, repr(sorted(step.params.items()))) for step in chain.steps)


def _bits(type_: ArrayType) -> int:
    return type_.dtype.bits
