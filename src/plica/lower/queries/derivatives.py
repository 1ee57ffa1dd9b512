"""The policy that passes derivatives down: how much the circuit's logarithm changes with each number of a layer.

The flow of a unit (`flows.py`) is its number times the derivative of the circuit's logarithm with respect to it, so
that derivatives need no division by the value of each layer on the way down, and any layer whose body is multilinear in
its inputs hands them on, fused ones too: a body is followed backwards, equation by equation, by a table of what each
operation hands on to its operands.

Values are scaled numbers. The exponents of a value and what `normalize` divides by count as constants, which changes
nothing: a number stands for the same whatever the power of two beside it. The largest derivative of a result that is
proven right is `eps / tiny` (`symbolic/semirings/scaled.py`), so that no derivative is infinite there and numbers below
the smallest normal one have no flow that counts.

Source: Darwiche, "A differential approach to inference in Bayesian networks", 2003.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from plica.errors import UnsupportedError
from plica.forks import cached_property
from plica.ir.program import Equation, Operand
from plica.ir.sizes import Dim
from plica.lower.fold.groups import FoldedLayer
from plica.lower.lowering import LoweringScope
from plica.lower.queries.shares import SCALED_NUMBERS
from plica.lower.queries.top_down import Message
from plica.lower.queries.units import Ratio
from plica.symbolic.layers import LAYER_ROWS, Choice, InputRow, LayerRow, SumRow
from plica.symbolic.semirings import Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass
class Derivatives:
    """The policy for one Program, and the flows that it found.

    Args:
        scope: The Program under construction, in scaled numbers.
        up: The value of every group, `(F, B, K)`.
        read: What every group has read, a value for each of its H inputs.
        count: B, the number of rows.

    Attributes:
        inputs: Of each group of input layers, the flow of each unit, `(F, B, K)`.
        signed: The numbers of layers that may be negative, which have no flow, `(F, B, K)`.
        terms: Nothing: sums as they were described are not looked at, nor are their weights.
        invalid: Of sums whose rows are not Plica's own, whether a weight is negative, `()`.
    """

    scope: LoweringScope
    up: Sequence[Value]
    read: Sequence[Sequence[Value]]
    count: Dim
    inputs: list[tuple[FoldedLayer, Tracer]] = field(default_factory=list)
    signed: list[Tracer] = field(default_factory=list)
    terms: Sequence[tuple[FoldedLayer, Tracer]] = ()
    invalid: list[Tracer] = field(default_factory=list)

    @property
    def ratio(self) -> Ratio:
        """Parts of totals, as ordinary numbers."""
        return SCALED_NUMBERS.ratio

    def start(self) -> Tracer:
        """The derivative of the logarithm of the output, 0 in rows that cannot be."""
        mantissa = self.scope.read(list(self.up), list(self.scope.folded.out_fold_idx))[0]
        positive = SCALED_NUMBERS.positive((mantissa,))
        return xp.where(positive, 1.0 / xp.where(positive, mantissa, 1.0), 0.0)

    def nothing(self, group: FoldedLayer) -> Tracer:
        """No derivative."""
        return xp.zeros((1, self.count, group.representative.num_output_units), dtype=self.scope.dtype)

    def merge(self, one: Tracer, other: Tracer) -> Tracer:
        """Whatever reads a unit adds to its derivative."""
        return one + other

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        """Hand on what the numbers of a group change by to those that it has read.

        Raises:
            UnsupportedError: Its body computes its numbers in a way that has no rule here.
        """
        number = self.scope.folded.groups.index(group)
        mantissa = self.up[number][0]
        row = self.scope.folded.row(group.representative)
        if isinstance(row, InputRow):
            self.inputs.append((group, mantissa * message.content))
            if row.distribution is None:
                self.signed.append(mantissa)
            return ()
        if row is not LAYER_ROWS.get(type(group.representative)):
            self._look_at(group, row)
        read = [value[0] for value in self.read[number]]
        told = self._handed_on(mantissa.operand, message.content, [one.operand for one in read])
        silent = (group.num_folds, self.count)
        return [
            Message(xp.zeros((*silent, one.dims[2]), dtype=one.dtype) if change is None else change, always=True)
            for one, change in zip(read, told, strict=True)
        ]

    def are_flows(self) -> list[Tracer]:
        """Where numbers that may be negative are not, `(B,)` or `(1,)` each: two of them have a positive product."""
        return [xp.all(xp.greater_equal(one, 0.0), axis=(0, 2)) for one in self.signed]

    def _look_at(self, group: FoldedLayer, row: LayerRow) -> None:
        """Look for negative numbers in a group whose row need not say which of its parameters are weights."""
        if isinstance(row, SumRow) and isinstance(row.choose, Choice):
            log_weights = row.choose.log_weights(xp, group.representative, self.scope.parameters(group))
            self.invalid.append(xp.any(xp.isnan(log_weights)))
        else:
            self.signed.append(self.up[self.scope.folded.groups.index(group)][0])

    def _handed_on(self, result: Operand, change: Tracer, ends: Sequence[Operand]) -> list[Tracer | None]:
        """By how much the logarithm changes with the numbers that a body has read, given that for its result."""
        active = dict.fromkeys(ends)
        followed = []
        for equation in self._before(result, active):
            places = [place for place, operand in enumerate(equation.inputs) if operand in active]
            if places:
                if equation.op.name not in _RULES:
                    raise UnsupportedError(f"no derivative is handed on by {equation.op.name}.")
                active.update(dict.fromkeys(equation.outputs[:1]))  # what `rescale` divides by is a constant
                followed.append((equation, places))
        changes = {result: change}
        for equation, places in reversed(followed):
            told = changes.pop(equation.outputs[0])
            for place in places:
                operand = equation.inputs[place]
                operands = [Tracer(one, self.scope.trace) for one in equation.inputs]
                one = _RULES[equation.op.name](_Step(equation, operands, place), told)
                changes[operand] = changes[operand] + one if operand in changes else one
        return [changes.pop(end, None) for end in ends]

    def _before(self, result: Operand, ends: Mapping[Operand, None]) -> list[Equation]:
        """The equations on the ways from `ends` to a result, and those of what else it is computed from, in order."""
        found: dict[int, Equation] = {}
        open_ = [result]
        while open_:
            operand = open_.pop()
            place, equation = self._made.get(operand, (-1, None))
            if operand not in ends and equation is not None and place not in found:
                found[place] = equation
                open_.extend(equation.inputs)
        return [found[place] for place in sorted(found)]

    @cached_property
    def _made(self) -> dict[Operand, tuple[int, Equation]]:
        equations = enumerate(self.scope.builder.equations)
        return {equation.outputs[0]: (place, equation) for place, equation in equations}


@dataclass(frozen=True, slots=True)
class _Step:
    """One equation, backwards, to one of its operands.

    Args:
        equation: The equation.
        operands: Its operands.
        place: That of the operand.
    """

    equation: Equation
    operands: Sequence[Tracer]
    place: int

    @property
    def own(self) -> Tracer:
        """The operand."""
        return self.operands[self.place]

    def like_own(self, told: Tracer) -> Tracer:
        """Added up along the axes of units where the operand has one entry for many; rows stay apart."""
        dims = self.own.dims
        axes = tuple(axis for axis in range(2, len(dims)) if dims[axis] == 1 != told.dims[axis])
        return xp.sum(told, axis=axes, keepdims=True) if axes else told

    def laid_out(self, told: Tracer) -> Tracer:
        """As the operand is laid out, whose folds and rows come first."""
        return xp.reshape(told, (told.dims[0], told.dims[1], *self.own.dims[2:]))

    def refused(self) -> UnsupportedError:
        """That there is no rule for this operand."""
        return UnsupportedError(f"no derivative is handed on by {self.equation.op.name} to operand {self.place}.")


def _multiply(step: _Step, told: Tracer) -> Tracer:
    return step.like_own(told * step.operands[1 - step.place])


def _matmul(step: _Step, told: Tracer) -> Tracer:
    if step.place == 1:
        raise step.refused()
    return xp.matmul(told, xp.matrix_transpose(step.operands[1]))


def _einsum(step: _Step, told: Tracer) -> Tracer:
    # A weight, which has no rows, stands second and begins with the operand's axes: see `symbolic/semirings/linear.py`
    terms, _, result = step.equation.params["equation"].partition("->")
    names = terms.split(",")
    own = names.pop(step.place)
    others = [one for place, one in enumerate(step.operands) if place != step.place]
    known = {*result, *"".join(names)}
    if own[:2] != result[:2] or not known.issuperset(own) or len({*own}) < len(own):
        raise step.refused()
    rowless = [place for place, name in enumerate(names) if own[1] not in name]
    order = [*rowless, *(place for place in range(len(names)) if place not in rowless)]
    ordered, arrays = [result], [told]
    for place in order:
        name, array = names[place], others[place]
        if place in rowless:
            turned = "".join(sorted(name, key=lambda letter: (own + result).find(letter) % (len(own + result) + 1)))
            array = xp.permute_dims(array, tuple(name.index(letter) for letter in turned))
            name = turned
        ordered.append(name)
        arrays.append(array)
    return xp.einsum(f"{','.join(ordered)}->{own}", *arrays)


_RULES: Mapping[str, Callable[[_Step, Tracer], Tracer]] = {
    "add": lambda step, told: step.like_own(told),
    "einsum": _einsum,
    "expand_dims": lambda step, told: step.laid_out(told),
    "matmul": _matmul,
    "multiply": _multiply,
    "rescale": lambda step, told: told / Tracer(step.equation.outputs[1], told.trace),
    "reshape": lambda step, told: step.laid_out(told),
    "squeeze": lambda step, told: step.laid_out(told),
}
"""What each operation that bodies are made of hands on to an operand, from what its result was told."""
