"""Limits of a loop over rules: it ends after a number of steps, or where the graph has grown too large.

A rule that undoes itself fires for ever, and one that makes more of what it matches grows the graph without end.

    >>> limit_reached(8, 8, before=3, now=3, fired=["swap"])
    'the limit of 8 step(s) was reached while swap still fired'
    >>> limit_reached(5, 8, before=3, now=3, fired=["swap"]) is None
    True
"""

import warnings
from collections.abc import Iterable

MAX_STEPS = 1000
_GROWTH = (100, 1000)  # at most 100 nodes for each one at first, and 1000 more: rules split a node into a few


def limit_reached(steps: int, max_steps: int, *, before: int, now: int, fired: Iterable[str]) -> str | None:
    """Why a loop ends after a step in which rules fired; None where it goes on.

    Args:
        steps: How many steps were made.
        max_steps: How many are allowed.
        before: The number of nodes at first.
        now: The number of nodes.
        fired: The names of the rules that fired in the last step.
    """
    names = ", ".join(dict.fromkeys(fired))
    while_firing = f" while {names} still fired" if names else ""
    if steps >= max_steps:
        return f"the limit of {max_steps} step(s) was reached{while_firing}"
    factor, extra = _GROWTH
    if now > factor * before + extra:
        return f"the graph had grown from {before:,} to {now:,} nodes in {steps} step(s){while_firing}"
    return None


def warn_of_limit(reason: str) -> None:
    """Warn the user of a loop that ended early: its result is right, but rules still fire."""
    warnings.warn(
        f"optimizing stopped because {reason}. The result is right. If a rule undoes itself or another one, give it a "
        "condition that ends this; if the chain of rules is long, raise max_steps",
        stacklevel=2,
    )
