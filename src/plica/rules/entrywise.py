"""Entrywise rules, for Programs and for the graphs of parameters, each under its equation.

A rule that holds only for some numbers fires where ranges show that there are no others. So rules change no NaN and no
sign of a zero. They change infinities only where a logarithm or an exponential had left the range of floats.

>>> [rule.name for rule in ENTRYWISE if "softmax" in rule.equation]
['log-softmax', 'exp-log-softmax']
"""

from collections.abc import Callable

import numpy as np

from plica.graph.optimize import ORDINARY, Rule
from plica.graph.pattern import Entry, Pattern
from plica.rules.view import (
    Match,
    New,
    chain,
    every,
    is_positive_zero,
    is_x,
    made,
    no_negative_zero,
    not_complex,
    real,
    real_not_negative,
    same_type,
    view_of,
    with_constant,
)


def rule(
    name: str,
    equation: str,
    pattern: Pattern,
    replacement: Callable[[Match], New] = is_x,
    condition: Callable[[Match], str | None] | None = same_type,
    *,
    source: str,
) -> Rule:
    """A rule on ordinary arithmetic, which by default puts x in place of the match."""
    return Rule(name, equation, pattern, replacement, condition, source, ORDINARY)


def _along_its_axis(operation: str) -> Callable[[Match], New]:
    """An operation on x along the axis of the inner one."""
    return lambda match: made(match, operation, "x", axis=match.graph.config(match["inner"])["axis"])


def _not_below(match: Match) -> str | None:
    """For the maximum of x and a constant: x is not below it, nor the zero of another sign."""
    view = view_of(match)
    low, most = view.range(match["x"]), np.max(view.config(match["constant"])["value"])
    if low is None or not (low[0] > most or low[0] == most != 0):
        return f"x may be below {most}: it lies in {low}"
    return same_type(match)


_INVERSE = "inverse functions"
_NEUTRAL = "neutral element, exact for every float"
_LOG = ("log", "safe_log")

ENTRYWISE: tuple[Rule, ...] = (
    # log(softmax(x)) -> log_softmax(x)
    rule(
        "log-softmax",
        "log(softmax(x)) -> log_softmax(x)",
        chain(_LOG, "softmax"),
        _along_its_axis("log_softmax"),
        None,
        source="definition of the softmax; finite where the softmax underflows",
    ),
    # exp(log_softmax(x)) -> softmax(x)
    rule(
        "exp-log-softmax",
        "exp(log_softmax(x)) -> softmax(x)",
        chain("exp", "log_softmax"),
        _along_its_axis("softmax"),
        None,
        source="definition of the softmax",
    ),
    # log(exp(x)) -> x   where x is real
    rule(
        "log-exp",
        "log(exp(x)) -> x, x real",
        chain(_LOG, "exp"),
        condition=real,
        source=f"{_INVERSE}; finite where exp(x) under- or overflows",
    ),
    # exp(log(x)) -> x   where x >= 0
    rule(
        "exp-log",
        "exp(log(x)) -> x, x >= 0",
        chain("exp", _LOG),
        condition=real_not_negative,
        source=f"{_INVERSE} on the numbers that are not negative; elsewhere the logarithm is NaN",
    ),
    # abs(x) -> x   where x >= 0
    rule(
        "abs",
        "abs(x) -> x, x >= 0",
        Pattern(Entry("op", "abs", ("x",))),
        condition=real_not_negative,
        source="definition of the absolute value",
    ),
    # -(-x) -> x
    rule("negative-negative", "-(-x) -> x", chain("negative", "negative"), source=_INVERSE),
    # not not x -> x
    rule("not-not", "not not x -> x", chain("logical_not", "logical_not"), source=_INVERSE),
    # x * 1 -> x   where x is real: infinite complex numbers times one are NaN
    rule(
        "times-one",
        "x * 1 -> x",
        with_constant("multiply", every(1), commutative=True),
        condition=not_complex,
        source=_NEUTRAL,
    ),
    # x / 1 -> x
    rule(
        "divided-by-one",
        "x / 1 -> x",
        with_constant("divide", every(1), commutative=False),
        condition=not_complex,
        source=_NEUTRAL,
    ),
    # x + 0 -> x   where x is not -0.0
    rule(
        "plus-zero",
        "x + 0 -> x, x not -0.0",
        with_constant("add", every(0), commutative=True),
        condition=no_negative_zero,
        source="neutral element; -0.0 + 0.0 is 0.0",
    ),
    # x - 0 -> x
    rule(
        "minus-zero",
        "x - 0 -> x",
        with_constant("subtract", is_positive_zero, commutative=False),
        source=_NEUTRAL,
    ),
    # max(x, c) -> x   where x >= c
    rule(
        "maximum-of-more",
        "max(x, c) -> x, x >= c",
        with_constant("maximum", lambda _: True, commutative=True),
        condition=_not_below,
        source="definition of the maximum",
    ),
    # where(c, x, x) -> x
    rule(
        "where-same",
        "where(c, x, x) -> x",
        Pattern(Entry("op", "where", ("c", "x", "x"))),
        source="both choices are one",
    ),
)
