"""Entropies and divergences, in nats: natural logarithms. Circuits need not be normalized.

Logarithms are of deterministic circuits (`symbolic/operators/logarithms.py`).

Source: Vergari et al., "A compositional atlas of tractable circuit operations", 2021, table 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from plica.arguments import integer
from plica.errors import InputError
from plica.lower.queries.composed import Composition, Operands, Signed
from plica.lower.queries.query import Composed, Query, ask
from plica.symbolic.circuit import Circuit
from plica.symbolic.scope import Scope
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

OUTSIDE = 1e-9
"""The share of probability outside of a support from which on a divergence is infinite: rounding is below."""


def entropy(p: Any) -> Any:
    """The entropy of a deterministic circuit divided by its total, in nats: a number `()`.

    For densities it is the differential entropy, which may be negative. It takes time linear in the circuit.

    Args:
        p: A compiled circuit.

    Raises:
        StructuralPropertyError: The circuit is not smooth, decomposable and deterministic.
        ShapeError: More than one output or unit.
        UnsupportedError: For an input layer, the mean of its logarithm is not known.
        InputError: The total is no positive number.
    """
    return ask(p, "entropy")


def _entropy(operands: Operands, p: Circuit) -> Composition:
    operands.check_one_unit(p)
    return Composition(operands.mean_logarithm(operands.deterministic(p, "the circuit")), 1, _entropy_of)


def _entropy_of(total: Signed, mean_log: Signed) -> Tracer:
    """`log Z - (integral of p log p) / Z`."""
    return total.log - mean_log / total


ENTROPY = Query(entropy, "the entropy", Composed(_entropy, "a walk over p", "p"))


def cross_entropy(p: Any, q: Any) -> Any:
    """The mean of `-log q` under p in nats, both divided by their totals: a number `()`.

    It is infinite where p has a share of more than 1e-9 of its probability outside of the support of q. A smaller
    share cannot be told from rounding, and is left out.

    Args:
        p: A compiled circuit.
        q: A deterministic circuit of the same variables, as for `expectation`.

    Raises:
        StructuralPropertyError: The circuits have other variables, are not smooth, decomposable and compatible, or q
            is not deterministic.
        ShapeError, UnsupportedError, InputError: As for `expectation`.
    """
    return ask(p, "cross_entropy", (q,))


def _logs_of(operands: Operands, p: Circuit, q: Circuit) -> tuple[Circuit, Circuit]:
    """The integral of p over the support of q, and that of p log q."""
    logs = operands.logarithm(operands.deterministic(q, "the second circuit"))
    return operands.apart(operands.expectation(p, logs))


def _cross_entropy(operands: Operands, p: Circuit, q: Circuit) -> Composition:
    operands.check_one_unit(p, q)
    operands.check_same_scope(p, q)
    return Composition((operands.total(p), operands.total(q), *_logs_of(operands, p, q)), 2, _cross_entropy_of)


def _cross_entropy_of(p: Signed, q: Signed, inside: Signed, log: Signed) -> Tracer:
    return _unless_outside(p, inside, q.log - log / p)


def _unless_outside(p: Signed, inside: Signed, divergence: Tracer) -> Tracer:
    """Infinity where p has probability outside of the support."""
    return xp.where(xp.less(inside / p, 1.0 - OUTSIDE), float("inf"), divergence)


CROSS_ENTROPY = Query(
    cross_entropy,
    "the cross entropy",
    Composed(_cross_entropy, "`integrate(multiply(p, log q))`", "q"),
)


def kullback_leibler(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence of q from p in nats, the mean of `log p - log q` under p: a number `()`.

    Both are divided by their totals. It is infinite as `cross_entropy` is, from which the entropy of p is taken: where
    both are large, the error is a rounding of these.

    Args:
        p: A deterministic compiled circuit.
        q: A deterministic circuit of the same variables, as for `expectation`.

    Raises:
        StructuralPropertyError: As for `cross_entropy`, or p is not deterministic.
        ShapeError, UnsupportedError, InputError: As for `expectation`.
    """
    return ask(p, "kullback_leibler", (q,))


def _kullback_leibler(operands: Operands, p: Circuit, q: Circuit) -> Composition:
    operands.check_one_unit(p, q)
    operands.check_same_scope(p, q)
    total, mean_log = operands.mean_logarithm(operands.deterministic(p, "the first circuit"))
    return Composition((total, operands.total(q), *_logs_of(operands, p, q), mean_log), 2, _kullback_leibler_of)


def _kullback_leibler_of(p: Signed, q: Signed, inside: Signed, log: Signed, mean_log: Signed) -> Tracer:
    return _cross_entropy_of(p, q, inside, log) - _entropy_of(p, mean_log)


KULLBACK_LEIBLER = Query(
    kullback_leibler,
    "the Kullback-Leibler divergence",
    Composed(_kullback_leibler, "`cross_entropy(p, q) - entropy(p)`", "p and q"),
)


def renyi(p: Any, q: Any, n: int) -> Any:
    """The Renyi divergence of integer order n, `log(integral of p^n q^(1-n)) / (n - 1)`, in nats: a number `()`.

    Both circuits are divided by their totals. It is infinite as `cross_entropy` is. The order 1 is
    `kullback_leibler`. The size of the power of p grows as the power n of that of p, unless p is deterministic.

    Args:
        p: A compiled circuit.
        q: A deterministic circuit of the same variables, as for `expectation`.
        n: The order, at least 2.

    Raises:
        InputError: n is less than 2; or as for `expectation`.
        StructuralPropertyError, ShapeError, UnsupportedError: As for `cross_entropy`; or input layers of q have no
            negative powers: tables of states have.
    """
    order = integer("renyi", "n", n)
    if order < 2:
        raise InputError(f"renyi: n must be at least 2, found {order}; the order 1 is kullback_leibler(p, q).")
    return ask(p, "renyi", (q,), {"n": order})


def _renyi(operands: Operands, p: Circuit, q: Circuit, n: int) -> Composition:
    operands.check_one_unit(p, q)
    operands.check_same_scope(p, q)
    simple = operands.deterministic(q, "the second circuit")
    power = operands.power(p, n)
    inside = operands.expectation(p, operands.power_on_support(simple, 0))
    mean = operands.expectation(power, operands.power_on_support(simple, 1 - n))

    def read(p_total: Signed, q_total: Signed, inside: Signed, mean: Signed) -> Tracer:
        log = mean.log - n * p_total.log - (1 - n) * q_total.log
        return _unless_outside(p_total, inside, log / float(n - 1))

    return Composition((operands.total(p), operands.total(q), inside, mean), 2, read)


RENYI = Query(renyi, "the Renyi divergence", Composed(_renyi, "`integrate(multiply(power(p, n), q^(1 - n)))`", "q"))


def mutual_information(p: Any, first: Iterable[int], second: Iterable[int]) -> Any:
    """The mutual information of two sets of variables in nats, `H(first) + H(second) - H(both)`: a number `()`.

    Other variables are integrated out.

    Args:
        p: A compiled circuit whose marginals of the first variables, of the second, and of both are deterministic.
        first: Variables.
        second: Variables, none of them among the first.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or a marginal is not deterministic.
        InputError: No variables, variables that are none of the circuit's or in both sets; or a total that is no
            positive number.
        ShapeError, UnsupportedError: As for `entropy`.
    """
    return ask(p, "mutual_information", (), {"first": Scope(first), "second": Scope(second)})


def _mutual_information(operands: Operands, p: Circuit, first: Scope, second: Scope) -> Composition:
    operands.check_one_unit(p)
    scopes = operands.scope("first", p, first), operands.scope("second", p, second)
    if not first.isdisjoint(second):
        raise InputError(
            f"{operands.name}: {first & second!s} is in both sets of variables; leave it out of one of them."
        )
    logs = []
    for scope in (*scopes, first | second):
        marginal = operands.deterministic(operands.marginal(p, scope), f"the marginal of {scope!s}")
        logs.append(operands.mean_logarithm(marginal)[1])
    return Composition((operands.total(p), *logs), 1, _mutual_information_of)


def _mutual_information_of(total: Signed, *logs: Signed) -> Tracer:
    first, second, both = (_entropy_of(total, log) for log in logs)
    return first + second - both


MUTUAL_INFORMATION = Query(
    mutual_information,
    "the mutual information",
    Composed(_mutual_information, "`entropy` of `marginal(p, ...)`", "the marginals of p"),
)
