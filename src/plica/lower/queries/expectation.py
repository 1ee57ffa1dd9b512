"""Expectations of circuits under circuits, moments, overlaps, and the probability of formulas.

Source: Vergari et al., "A compositional atlas of tractable circuit operations", 2021; Khosravi et al., "On tractable
computation of expected predictions", 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from plica.arguments import found, integer
from plica.errors import DTypeError, InputError, StructuralPropertyError
from plica.lower.queries.composed import Composition, Operands, Signed, has_complex_parameters
from plica.lower.queries.query import Composed, Query, ask
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, Layer, PolynomialLayer
from plica.symbolic.parameters import ConstantParameter
from plica.symbolic.scope import Scope
from plica.tracing.tracer import Tracer


def expectation(p: Any, f: Any) -> Any:
    """The mean of a circuit f under a circuit p, which is divided by its total: a number `()`.

    It is the integral of their product. Differentiable with respect to the parameters of both.

    Args:
        p: A compiled circuit whose values are not negative.
        f: A circuit of some of p's variables, with values of any sign, or complex ones: compiled in the context of p,
            or described by constants alone.

    Raises:
        StructuralPropertyError: The circuits are not smooth, decomposable and compatible, or f has further variables.
        ShapeError: More than one output or unit.
        UnsupportedError: Two input layers have no product, or f was compiled in another context.
        InputError: The total of p is no positive number, or f is not defined for some states of p.
    """
    return ask(p, "expectation", (f,))


def _expectation(operands: Operands, p: Circuit, f: Circuit) -> Composition:
    operands.check_one_unit(p, f)
    further = f.scope - p.scope
    if further:
        raise StructuralPropertyError(
            f"{operands.name} needs a function of variables of the distribution, {p.scope!s}, but f also has "
            f"{further!s}; integrate them, or give them values by `evidence`."
        )
    for variable in f.scope:
        own, other = p.domains[variable], f.domains[variable]
        if own.meet(other) != own:
            raise InputError(
                f"{operands.name} needs a function of all values of variable {variable}, {own.name} in the "
                f"distribution, found {other.name}; give f a value for each."
            )
    circuits = operands.total(p), operands.expectation(p, f)
    return Composition(circuits, 1, _ratio, is_complex=has_complex_parameters(f))


def _ratio(total: Signed, integral: Signed) -> Tracer:
    return integral / total


EXPECTATION = Query(expectation, "the expectation", Composed(_expectation, "`integrate(multiply(p, f))`"))


def moment(p: Any, orders: Mapping[int, int]) -> Any:
    """The mean of a product of powers of variables under a circuit divided by its total: a number `()`.

    For example, `{0: 2, 3: 1}` asks for the mean of `x0^2 x3`. Variables with states have the numbers of their states.

    Args:
        p: A compiled circuit.
        orders: The power of each variable, at least 0.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit, or a negative power.
        InputError: A variable that is none of the circuit's, or a total that is no positive number.
        UnsupportedError: A layer of the variables has neither finitely many states nor a rule for its moments.
    """
    if not isinstance(orders, Mapping):
        raise DTypeError(f"moment: orders are powers of variables, such as {{0: 2}}, {found(orders)}")
    powers = tuple(
        (integer("moment", "a variable", v), integer("moment", f"the power of variable {v}", n, least=0))
        for v, n in orders.items()
    )
    return ask(p, "moment", (), {"powers": tuple(sorted(powers))})


def _moment(operands: Operands, p: Circuit, powers: tuple[tuple[int, int], ...]) -> Composition:
    if any(variable not in p.scope for variable, _ in powers):
        raise InputError(
            f"{operands.name} of {dict(powers)}: the circuit has the variables {p.scope!s}; name some of these."
        )
    operands.check_one_unit(p)
    factors: list[Layer] = []
    for variable, power in powers:
        coeff = ConstantParameter(1, power + 1, value=[[0.0] * power + [1.0]])
        factors.append(PolynomialLayer([variable], 1, degree=power, coeff=coeff))
    if not factors:
        total = operands.total(p)
        return Composition((total, total), 1, _ratio)
    output, edges = factors[0], dict[Layer, list[Layer]]()
    if len(factors) > 1:
        output = HadamardLayer(1, len(factors))
        edges = {output: factors}
    powers_of_variables = Circuit([*factors, *edges], edges, [output])
    return Composition((operands.total(p), operands.expectation(p, powers_of_variables)), 1, _ratio)


MOMENT = Query(moment, "the moment", Composed(_moment, "`integrate(multiply(p, x^n))`"))


def overlap(p: Any, q: Any) -> Any:
    """The integral of the product of two circuits, each divided by its total: a number `()`.

    For states it is the probability that independent draws from p and q are equal. It is 0 where it is too small for
    the dtype: `integrate(multiply(p, q))` in `lse-sum` has its logarithm.

    Args:
        p: A compiled circuit.
        q: A circuit of the same variables, as for `expectation`.

    Raises:
        StructuralPropertyError: The circuits have other variables, or are not smooth, decomposable and compatible.
        ShapeError, UnsupportedError, InputError: As for `expectation`.
    """
    return ask(p, "overlap", (q,))


def _overlap(operands: Operands, p: Circuit, q: Circuit) -> Composition:
    operands.check_one_unit(p, q)
    operands.check_same_scope(p, q)
    circuits = operands.total(p), operands.total(q), operands.expectation(p, q)
    return Composition(circuits, 2, lambda first, second, product: product / (first * second))


OVERLAP = Query(
    overlap,
    "the overlap",
    Composed(_overlap, "`integrate(multiply(p, q))`"),
)


@runtime_checkable
class Formula(Protocol):
    """What is asked of a formula, such as a `plica.templates.logic.LogicalCircuit`."""

    @property
    def scope(self) -> Scope:
        """The variables."""

    @property
    def is_decomposable(self) -> bool:
        """Whether the inputs of every conjunction have no variable in common."""

    @property
    def is_deterministic(self) -> bool:
        """Whether no two inputs of a disjunction are true at once."""

    def build_circuit(self, *, scope: Scope) -> Circuit:
        """The circuit that is 1 at models and 0 elsewhere."""


def probability_of(p: Any, formula: Formula) -> Any:
    """The probability that a formula is true under a circuit divided by its total: a number `()`.

    Args:
        p: A compiled circuit. The variables of the formula have the states 0 and 1.
        formula: A formula of some of p's variables, deterministic and decomposable, that splits variables as p does.

    Raises:
        DTypeError: `formula` is no `LogicalCircuit`.
        StructuralPropertyError: The formula is not deterministic or decomposable, has other variables, or is not
            compatible with p.
        InputError: A variable of the formula has other states than 0 and 1.
        ShapeError, UnsupportedError: As for `expectation`.
    """
    if not isinstance(formula, Formula):
        raise DTypeError(f"probability_of: expected a LogicalCircuit of plica.templates.logic, {found(formula)}")
    return ask(p, "probability_of", (), {"formula": formula})


def _probability_of(operands: Operands, p: Circuit, formula: Formula) -> Composition:
    name = operands.name
    for holds, kind in ((formula.is_decomposable, "decomposable"), (formula.is_deterministic, "deterministic")):
        if not holds:
            raise StructuralPropertyError(
                f"{name} needs a formula that is {kind}, and this one is not known to be; compile it, for example by "
                "LogicalCircuit.from_cnf(clauses)."
            )
    used = formula.scope or Scope(list(p.scope)[:1])  # a constant is a circuit of some variable
    if not used <= p.scope:
        raise StructuralPropertyError(
            f"{name} needs a formula of variables of the circuit, {p.scope!s}, found {used - p.scope!s} too; rename "
            "the variables of the circuit, or give the others values by `formula.condition(...)`."
        )
    for variable in used:
        if p.domains[variable].num_states != 2:
            raise InputError(
                f"{name} needs variables of the states 0 and 1, but variable {variable} has "
                f"{p.domains[variable].name}; leave it out of the formula, or describe it by several "
                "variables of two states."
            )
    return _expectation(operands, p, formula.build_circuit(scope=used))


PROBABILITY_OF = Query(
    probability_of, "the probability of a formula", Composed(_probability_of, "`integrate(multiply(p, formula))`")
)
