"""Queries as compositions of operators: the circuits that they make, and the Program that reads the answer off.

A query says which circuits it needs (`Composition`), by operators from circuit to circuit. All of them become the
outputs of one circuit. Its Program computes in log space with signs, in float64, and ends with the query's own
function of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import nan
from typing import Any, final

from plica.errors import InputError, ShapeError, StructuralPropertyError
from plica.ir.dtypes import DType
from plica.lower.data import InputData, input_width
from plica.lower.fold.groups import FoldedCircuit, single_groups
from plica.lower.fold.settings import LayerRows
from plica.lower.leaves import Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.determinism import first_not_deterministic
from plica.lower.queries.score import Lowered
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import Layer, OperatorRegistry
from plica.symbolic.operators.expectations import expected
from plica.symbolic.operators.joining import joined
from plica.symbolic.operators.logarithms import logarithm, mean_logarithm, power_on_support, with_constants
from plica.symbolic.operators.multiply import product_of
from plica.symbolic.operators.unary import checked_scope, integral
from plica.symbolic.operators.zeros import without_zeros
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import COMPLEX_LSE_SUM, SIGNED_LSE_SUM, Semiring
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

_ROUNDING = 1e-8


@final
@dataclass(frozen=True, slots=True)
class Signed:
    """Numbers `direction * exp(size)`: of a circuit without variables `()`, else of each row `(B,)`.

    Directions are complex if a circuit has complex parameters.
    """

    direction: Tracer
    size: Tracer

    def __mul__(self, other: Signed) -> Signed:
        return Signed(self.direction * other.direction, self.size + other.size)

    def __truediv__(self, other: Signed) -> Tracer:
        """The quotient, as ordinary numbers."""
        quotient: Tracer = self.direction / other.direction * xp.exp(self.size - other.size)
        return quotient

    @property
    def log(self) -> Tracer:
        """The logarithm: -inf of 0, NaN of numbers that are negative, or complex by more than rounding."""
        direction = xp.where(xp.less(xp.abs(xp.imag(self.direction)), _ROUNDING), xp.real(self.direction), nan)
        log: Tracer = xp.safe_log(direction) + self.size
        return log


@final
@dataclass(frozen=True, slots=True)
class Composition:
    """The circuits from which an answer is read.

    Args:
        circuits: Circuits of one output of one unit.
        totals: How many of the first ones are totals: numbers that must be positive and finite.
        read: Computes the answer from the values of the circuits, one argument for each.
        is_complex: Whether the answer may be complex; else its real part is taken.
    """

    circuits: tuple[Circuit, ...]
    totals: int
    read: Callable[..., Tracer]
    is_complex: bool = False


@final
@dataclass(frozen=True, slots=True)
class Operands:
    """The operators as a query applies them, by the rules of a context.

    Args:
        name: The name of the query in messages.
        registry: The rules of operators.
        rows: The registry entries of layers that a context has of its own.
    """

    name: str
    registry: OperatorRegistry
    rows: LayerRows = field(default_factory=dict)

    @property
    def _operation(self) -> CircuitOperation:
        return CircuitOperation(self.name, ())

    def check_one_unit(self, *circuits: Circuit) -> None:
        """Refuse circuits of several outputs or units.

        Raises:
            ShapeError: There is one.
        """
        for circuit in circuits:
            (output, *others) = circuit.outputs
            if others or output.num_output_units != 1:
                raise ShapeError(
                    f"{self.name} needs circuits of one output of one unit, found {len(circuit.outputs)} of "
                    f"{output.num_output_units}; choose one with circuit.subgraph(...) and a SumLayer of one unit."
                )

    def check_same_scope(self, first: Circuit, second: Circuit) -> None:
        """Refuse two circuits of different variables.

        Raises:
            StructuralPropertyError: They are.
        """
        if first.scope != second.scope:
            raise StructuralPropertyError(
                f"{self.name} needs two circuits of the same variables, found {first.scope!s} and {second.scope!s}; "
                "take the marginal of the larger one, or add the variables to the other."
            )

    def deterministic(self, circuit: Circuit, which: str) -> Circuit:
        """A circuit, of which logarithms and powers may be taken: layers without variables are constants.

        Raises:
            StructuralPropertyError: A sum may have two terms above zero at once.
        """
        simple = without_zeros(with_constants(circuit, self.name, self.registry), self._operation)
        layer = self._first_not_deterministic(simple)
        if layer is not None:
            raise StructuralPropertyError(
                f"{self.name} needs {which} to be deterministic, but constants do not prove that the terms of "
                f"{simple.layer_name(layer)}, with scope {simple.layer_scope(layer)!s}, exclude each other. Let each "
                "term have a state of some variable that the others give the constant 0, as in decision trees and "
                "circuits of formulas."
            )
        return simple

    def _first_not_deterministic(self, circuit: Circuit) -> Layer | None:
        return first_not_deterministic(single_groups(circuit, circuit, rows=self.rows))

    def scope(self, name: str, circuit: Circuit, variables: Any) -> Scope:
        """Some of the variables of a circuit.

        Raises:
            InputError: There are none, or one that the circuit does not have.
        """
        scope = checked_scope(self.name, circuit, variables)
        if not scope:
            raise InputError(f"{self.name}: {name} has no variables; name at least one of {circuit.scope!s}.")
        return scope

    def total(self, circuit: Circuit) -> Circuit:
        """The integral over all variables."""
        return integral(circuit, circuit.scope, self.registry, self._operation)

    def marginal(self, circuit: Circuit, scope: Scope) -> Circuit:
        """The circuit of some variables alone."""
        return integral(circuit, circuit.scope - scope, self.registry, self._operation)

    def product(self, first: Circuit, second: Circuit) -> Circuit:
        """The product, without terms that constants make 0."""
        return without_zeros(product_of(first, second, self.registry, self._operation), self._operation)

    def power(self, circuit: Circuit, exponent: int) -> Circuit:
        """A positive power: of linear size for a circuit that constants prove to be deterministic."""
        if self._first_not_deterministic(circuit) is None:
            return self.power_on_support(circuit, exponent)
        power = circuit
        for _ in range(exponent - 1):
            power = self.product(power, circuit)
        return power

    def expectation(self, weighting: Circuit, function: Circuit) -> Circuit:
        """The integral of the product."""
        return expected(weighting, function, self.registry, self._operation)

    def power_on_support(self, circuit: Circuit, exponent: int) -> Circuit:
        """An integer power of a deterministic circuit, 0 where the circuit is."""
        return power_on_support(circuit, exponent, self.name, self.registry, self._operation)

    def logarithm(self, circuit: Circuit) -> Circuit:
        """The support of a deterministic circuit, and its logarithm there: two outputs, to be integrated."""
        return logarithm(circuit, self.name, self.registry, self._operation)

    def mean_logarithm(self, circuit: Circuit) -> tuple[Circuit, Circuit]:
        """The integrals of a deterministic circuit, and of it times its logarithm."""
        return self.apart(mean_logarithm(circuit, self.name, self.registry, self._operation))

    def apart(self, circuit: Circuit) -> tuple[Circuit, Circuit]:
        """The two outputs of a circuit as circuits."""
        first, second = (circuit.subgraph(output) for output in circuit.outputs)
        return first, second


def composed(composition: Composition, name: str) -> Circuit:
    """The circuit whose outputs are those of a composition."""
    return joined(composition.circuits, CircuitOperation(name, ()))


def has_complex_parameters(circuit: Circuit) -> bool:
    """Whether a number of a circuit may be complex."""
    return any(
        parameter.dtype == DataType.COMPLEX
        for layer in circuit.live_layers
        for parameter in layer.all_evaluated_params.values()
    )


def carrier_of(circuit: Circuit) -> Semiring:
    """The number format in which a composition is computed: in log space, with signs or complex directions."""
    return COMPLEX_LSE_SUM if has_complex_parameters(circuit) else SIGNED_LSE_SUM


def lower_composed(folded: FoldedCircuit, composition: Composition, owners: Owners | None = None) -> Lowered:
    """The Program of an answer, and of the logarithms of the totals, in float64.

    Its argument is data `(B, D)`, if the circuit has variables. Then the results are `(B,)` and `(totals, B)`, else
    `()` and `(totals,)`.
    """
    scope = LoweringScope(folded, carrier_of(folded.described), DType.FLOAT64, owners or {})
    with scope.trace.active():
        data = None
        if folded.scope:
            x = scope.argument("x", ("b", input_width(folded.described)), DType.FLOAT64)
            data = InputData(scope, x)
        values = layer_values(scope, data)
        numbers = []
        for output in folded.out_fold_idx:
            direction, size = (array[0, :, 0] for array in scope.read(values, [output]))
            numbers.append(Signed(direction, size) if folded.scope else Signed(direction[0], size[0]))
        answer = composition.read(*numbers)
        answer = answer if composition.is_complex else xp.real(answer)
        logs = xp.stack([number.log for number in numbers[: composition.totals]])
    return Lowered.of(scope, [answer, logs])
