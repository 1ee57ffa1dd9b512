"""Strategies: which of the matches that were found are applied in one pass.

A strategy is a function of the matches, the graph, and a function that gives the replacement of a match. It returns
the matches to apply, the most preferred first. The engine leaves out each that overlaps one before it; a match that is
not returned is not applied.

    >>> def only_first(matches, graph, replacement):
    ...     return matches[:1]
    >>> [strategy.name for strategy in OptMatchStrategy]
    ['LARGEST_MATCH', 'FIRST_RULE']

Taking the largest of overlapping matches is "maximal munch": R. G. G. Cattell, "Automatic derivation of code generators
from machine descriptions", ACM TOPLAS 2(2), 1980.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Protocol

from plica.errors import GraphError
from plica.graph.view import GraphOptMatch, GraphView, Node, Replacement


class Strategy(Protocol):
    """Chooses among the matches of one pass."""

    def __call__(
        self,
        matches: Sequence[GraphOptMatch[Any]],
        graph: GraphView[Any],
        replacement: Callable[[GraphOptMatch[Any]], Replacement[Any]],
        /,
    ) -> Iterable[GraphOptMatch[Any]]:
        """The matches to apply, the most preferred first.

        Args:
            matches: All that were found and that no condition declines, in topological order of their roots; those of
                one root in the order of the rules. They may overlap (`overlaps`).
            graph: The graph; `graph.context` is the context that rules are applied in.
            replacement: Gives the replacement of a match by its rule, made once for each match.
        """


class OptMatchStrategy(Enum):
    """The strategies that look at nothing but sizes and the order of rules; each is a `Strategy`."""

    LARGEST_MATCH = "largest match"
    """The match of most nodes; of equal ones the earliest rule; then the first in topological order."""
    FIRST_RULE = "first rule"
    """The match of the earliest rule, however small; then the first in topological order."""

    def __call__(
        self,
        matches: Sequence[GraphOptMatch[Any]],
        graph: GraphView[Any],  # noqa: ARG002
        replacement: Callable[[GraphOptMatch[Any]], Replacement[Any]],  # noqa: ARG002
        /,
    ) -> Iterable[GraphOptMatch[Any]]:
        """The matches in order of preference."""
        by_size = self is OptMatchStrategy.LARGEST_MATCH
        return sorted(matches, key=lambda match: (-len(match.nodes) if by_size else 0, match.number))


def overlaps(first: GraphOptMatch[Any], second: GraphOptMatch[Any]) -> bool:
    """Whether one match fuses a node that the other one fuses or looks at, so that only one of them can be applied."""
    of_first, of_second = (dict.fromkeys(match.nodes.values()) for match in (first, second))
    return any(node in of_first for node in second.fused) or any(node in of_second for node in first.fused)


def without_overlap(
    preferred: Iterable[GraphOptMatch[Node]], matches: Sequence[GraphOptMatch[Node]]
) -> Iterator[GraphOptMatch[Node]]:
    """The matches in order of preference, without those that overlap an earlier one; a later pass may take these.

    Raises:
        GraphError: The strategy prefers what is none of the matches that were found.
    """
    known = dict.fromkeys(matches)
    fused: dict[Node, None] = {}
    touched: dict[Node, None] = {}
    for match in preferred:
        if match not in known:
            raise GraphError(
                f"a strategy gave {match!r}, which is none of the {len(known)} matches that it was given; "
                "return some of those, the most preferred first"
            )
        if any(node in fused for node in match.nodes.values()) or any(node in touched for node in match.fused):
            continue
        fused.update(dict.fromkeys(match.fused))
        touched.update(dict.fromkeys(match.nodes.values()))
        yield match
