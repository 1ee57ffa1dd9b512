"""The backdoor adjustment: what an outcome is probable to be after an intervention, from observations alone.

Source: Pearl, "Causality", 2009, theorem 3.3.2; Wang and Kwiatkowska, "Compositional probabilistic and causal inference
using tractable circuit models", 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plica.arguments import found
from plica.errors import DTypeError, InputError
from plica.lower.queries.composed import Composition, Operands, Signed
from plica.lower.queries.information import OUTSIDE
from plica.lower.queries.query import Composed, Query, ask
from plica.symbolic.circuit import Circuit
from plica.symbolic.scope import Scope
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def backdoor(p: Any, treatment: Mapping[int, Any], outcome: Mapping[int, Any], adjustment: Iterable[int]) -> Any:
    """The probability, or density, of an outcome y after the intervention that sets the treatment to t.

    It is the sum over all values z of the adjustment variables of `p(z) p(y | t, z)`. That it is the effect of the
    intervention is an assumption about causes, which p does not tell: the adjustment blocks all backdoor paths.

    Args:
        p: A compiled circuit whose marginal of treatment and adjustment is deterministic.
        treatment: For each variable that is set, a value or an array of values `(B,)`.
        outcome: For each variable of the outcome, the same.
        adjustment: The variables z.

    Returns:
        `()`, or `(B,)` if a value is an array. NaN where some z of positive probability never occurs together with t,
        so that `p(y | t, z)` is not known: more than 1e-9 of the probability.

    Raises:
        StructuralPropertyError: The circuit is not smooth, decomposable and compatible with itself, or the marginal is
            not deterministic.
        InputError: A variable that is none of the circuit's or in two of the sets, no variables, a value outside of
            its domain, or a total that is no positive number.
        ShapeError: Arrays of unequal lengths, or more than one output or unit.
        UnsupportedError: An input layer of the treatment or the adjustment has no powers: tables of states have.
    """
    for name, values in (("treatment", treatment), ("outcome", outcome)):
        if not isinstance(values, Mapping):
            raise DTypeError(f"backdoor: expected values of variables as {name}, such as {{0: 1}}, {found(values)}")
    scopes = {"treatment": Scope(treatment), "outcome": Scope(outcome), "adjustment": Scope(adjustment)}
    return ask(p, "backdoor", (), scopes, {**treatment, **outcome})


def _backdoor(operands: Operands, p: Circuit, treatment: Scope, outcome: Scope, adjustment: Scope) -> Composition:
    operands.check_one_unit(p)
    sets = {"treatment": treatment, "outcome": outcome, "adjustment": adjustment}
    for name, scope in sets.items():
        operands.scope(name, p, scope)
        for other, others in sets.items():
            if name < other and not scope.isdisjoint(others):
                raise InputError(
                    f"{operands.name}: {scope & others!s} is in {name} and in {other}; leave it out of one of them."
                )
    given = operands.deterministic(
        operands.marginal(p, treatment | adjustment),
        f"the marginal of treatment and adjustment, {treatment | adjustment!s},",
    )
    adjusted = operands.marginal(p, adjustment)
    joint = operands.marginal(p, treatment | outcome | adjustment)
    conditional = operands.product(joint, operands.power_on_support(given, -1))  # p(y | t, z)
    effect = operands.marginal(operands.product(adjusted, conditional), treatment | outcome)
    inside = operands.marginal(operands.product(adjusted, operands.power_on_support(given, 0)), treatment)
    return Composition((operands.total(p), effect, inside), 1, _read)


def _read(total: Signed, effect: Signed, inside: Signed) -> Tracer:
    return xp.where(xp.less(inside / total, 1.0 - OUTSIDE), float("nan"), effect / total)


BACKDOOR = Query(
    backdoor,
    "the backdoor adjustment",
    Composed(
        _backdoor,
        "`integrate(multiply(p(z), p(t, y, z), p(t, z)^-1), z)`",
        "the marginal of treatment and adjustment",
    ),
)
