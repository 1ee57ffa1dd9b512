"""The policy that passes derivatives down: the derivatives of the circuit's logarithm with respect to each unit.

The flow of a unit (`flows.py`) is its number times the derivative of the circuit's logarithm with respect to it. So
derivatives need no division by the value of each layer. Any layer whose body is multilinear in its inputs passes them
on, fused ones too: its equations are followed backwards, by a table of the derivatives of operations.

Values are scaled numbers. The exponents of a value and the divisors of `normalize` count as constants. That is right: a
number may be written with any power of two. The largest derivative of a result whose bound holds is `eps / tiny`
(`symbolic/semirings/scaled.py`). So no derivative is infinite there, and numbers below the smallest normal one have no
flow that counts.

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
        read: The values that every group has read, one for each of its H inputs.
        count: B, the number of rows.

    Attributes:
        inputs: Of each group of input layers, the flow of each unit, `(F, B, K)`.
        signed: The numbers of layers that may be negative, which have no flow, `(F, B, K)`.
        terms: Empty: the circuit may have other sums than the described one.
        invalid: Of sums with custom rows, whether a weight is negative, `()`.
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
        """The ratio of parts to totals, as ordinary numbers."""
        return SCALED_NUMBERS.ratio

    def start(self) -> Tracer:
        """The derivative of the logarithm of the output; 0 in rows of probability zero."""
        mantissa = self.scope.read(list(self.up), list(self.scope.folded.out_fold_idx))[0]
        positive = SCALED_NUMBERS.positive((mantissa,))
        return xp.where(positive, 1.0 / xp.where(positive, mantissa, 1.0), 0.0)

    def nothing(self, group: FoldedLayer) -> Tracer:
        """No derivative."""
        return xp.zeros((1, self.count, group.representative.num_output_units), dtype=self.scope.dtype)

    def merge(self, first: Tracer, second: Tracer) -> Tracer:
        """Add the derivatives of two readers of a unit."""
        return first + second

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        """Pass the derivatives of a group on to the values that it has read.

        Raises:
            UnsupportedError: Its body uses an operation that has no rule here.
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
            self._check(group, row)
        read = [value[0] for value in self.read[number]]
        derivatives = self._operand_derivatives(mantissa.operand, message.content, [values.operand for values in read])
        rows = (group.num_folds, self.count)
        return [
            Message(xp.zeros((*rows, values.dims[2]), dtype=values.dtype) if change is None else change, always=True)
            for values, change in zip(read, derivatives, strict=True)
        ]

    def are_flows(self) -> list[Tracer]:
        """Conditions of the bound, `(B,)` or `(1,)` each: no number is negative, which a product of two would hide."""
        return [xp.all(xp.greater_equal(mantissas, 0.0), axis=(0, 2)) for mantissas in self.signed]

    def _check(self, group: FoldedLayer, row: LayerRow) -> None:
        """Check a group for negative numbers: a custom row need not say which of its parameters are weights."""
        if isinstance(row, SumRow) and isinstance(row.choose, Choice):
            log_weights = row.choose.log_weights(xp, group.representative, self.scope.parameters(group))
            self.invalid.append(xp.any(xp.isnan(log_weights)))
        else:
            self.signed.append(self.up[self.scope.folded.groups.index(group)][0])

    def _operand_derivatives(self, result: Operand, change: Tracer, ends: Sequence[Operand]) -> list[Tracer | None]:
        """The derivatives with respect to the operands `ends` of a body, given the one with respect to its result."""
        active = dict.fromkeys(ends)
        followed = []
        for equation in self._before(result, active):
            indices = [index for index, operand in enumerate(equation.inputs) if operand in active]
            if indices:
                if equation.op.name not in _RULES:
                    raise UnsupportedError(f"the operation {equation.op.name} has no rule for derivatives.")
                active.update(dict.fromkeys(equation.outputs[:1]))  # the divisor of `rescale` counts as a constant
                followed.append((equation, indices))
        changes = {result: change}
        for equation, indices in reversed(followed):
            derivative = changes.pop(equation.outputs[0])
            for index in indices:
                operand = equation.inputs[index]
                operands = [Tracer(input_operand, self.scope.trace) for input_operand in equation.inputs]
                contribution = _RULES[equation.op.name](_Step(equation, operands, index), derivative)
                changes[operand] = changes[operand] + contribution if operand in changes else contribution
        return [changes.pop(end, None) for end in ends]

    def _before(self, result: Operand, ends: Mapping[Operand, None]) -> list[Equation]:
        """The equations that a result is computed by, without those before `ends`, in order."""
        equations: dict[int, Equation] = {}
        unvisited = [result]
        while unvisited:
            operand = unvisited.pop()
            number, equation = self._makers.get(operand, (-1, None))
            if operand not in ends and equation is not None and number not in equations:
                equations[number] = equation
                unvisited.extend(equation.inputs)
        return [equations[number] for number in sorted(equations)]

    @cached_property
    def _makers(self) -> dict[Operand, tuple[int, Equation]]:
        equations = enumerate(self.scope.builder.equations)
        return {equation.outputs[0]: (number, equation) for number, equation in equations}


@dataclass(frozen=True, slots=True)
class _Step:
    """The derivative of one equation with respect to one of its operands.

    Args:
        equation: The equation.
        operands: Its operands.
        index: The index of the operand.
    """

    equation: Equation
    operands: Sequence[Tracer]
    index: int

    @property
    def own(self) -> Tracer:
        """The operand."""
        return self.operands[self.index]

    def like_own(self, derivative: Tracer) -> Tracer:
        """Sum a derivative along axes of units that the operand broadcasts along; rows are not summed."""
        dims = self.own.dims
        axes = tuple(axis for axis in range(2, len(dims)) if dims[axis] == 1 != derivative.dims[axis])
        return xp.sum(derivative, axis=axes, keepdims=True) if axes else derivative

    def laid_out(self, derivative: Tracer) -> Tracer:
        """Reshape a derivative to the operand's shape; folds and rows stay first."""
        return xp.reshape(derivative, (derivative.dims[0], derivative.dims[1], *self.own.dims[2:]))

    def refused(self) -> UnsupportedError:
        """The error that there is no rule for this operand."""
        return UnsupportedError(
            f"the operation {self.equation.op.name} has no rule for derivatives by operand {self.index}."
        )


def _multiply(step: _Step, derivative: Tracer) -> Tracer:
    return step.like_own(derivative * step.operands[1 - step.index])


def _matmul(step: _Step, derivative: Tracer) -> Tracer:
    if step.index == 1:
        raise step.refused()
    return xp.matmul(derivative, xp.matrix_transpose(step.operands[1]))


def _einsum(step: _Step, derivative: Tracer) -> Tracer:
    # A weight, which has no rows, stands second and begins with the operand's axes: see `symbolic/semirings/linear.py`
    terms, _, result = step.equation.params["equation"].partition("->")
    names = terms.split(",")
    own = names.pop(step.index)
    others = [operand for index, operand in enumerate(step.operands) if index != step.index]
    known = {*result, *"".join(names)}
    if own[:2] != result[:2] or not known.issuperset(own) or len({*own}) < len(own):
        raise step.refused()
    rowless = [index for index, name in enumerate(names) if own[1] not in name]
    order = [*rowless, *(index for index in range(len(names)) if index not in rowless)]
    ordered, arrays = [result], [derivative]
    for index in order:
        name, array = names[index], others[index]
        if index in rowless:
            reordered = "".join(sorted(name, key=lambda letter: (own + result).find(letter) % (len(own + result) + 1)))
            array = xp.permute_dims(array, tuple(name.index(letter) for letter in reordered))
            name = reordered
        ordered.append(name)
        arrays.append(array)
    return xp.einsum(f"{','.join(ordered)}->{own}", *arrays)


_RULES: Mapping[str, Callable[[_Step, Tracer], Tracer]] = {
    "add": lambda step, derivative: step.like_own(derivative),
    "einsum": _einsum,
    "expand_dims": lambda step, derivative: step.laid_out(derivative),
    "matmul": _matmul,
    "multiply": _multiply,
    "rescale": lambda step, derivative: derivative / Tracer(step.equation.outputs[1], derivative.trace),
    "reshape": lambda step, derivative: step.laid_out(derivative),
    "squeeze": lambda step, derivative: step.laid_out(derivative),
}
"""For each operation of bodies the derivative with respect to an operand, from that with respect to the result."""
