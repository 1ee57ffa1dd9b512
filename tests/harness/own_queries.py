"""Queries that are not Plica's own, each a function and a row, as one file of a user's has them."""

from typing import Any

from plica.lower.queries.mpe import LARGEST
from plica.lower.queries.query import Choosing, Entry, Flowing, Query, ask
from plica.symbolic.semirings import LSE_SUM


def greedy(circuit: Any, x: Any) -> tuple[Any, Any]:
    """Rows completed from the top down, each sum by its most probable term; and the logarithms of what is known."""
    found: tuple[Any, Any] = ask(circuit, "greedy", x)
    return found


GREEDY = Query(
    greedy,
    "greedy decoding",
    Choosing(LSE_SUM, LARGEST),
    entries=(Entry("greedy-completion", "Each row with what is NaN filled in greedily."),),
)


def second_moment(circuit: Any, x: Any) -> Any:
    """The mean of the square of each variable, given what is known of its row: `(R, D)`."""
    return ask(circuit, "second_moment", x)


SECOND_MOMENT = Query(
    second_moment,
    "the second moment",
    Flowing(lambda reading: [reading.variance() + reading.mean() ** 2], ("mean", "variance")),
)
