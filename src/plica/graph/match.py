"""The search: where the patterns of rules match a graph, and which of the matches are applied.

It knows nodes only through the functions that it is given; the matching function of patterns with trees, DAGs and named
inputs is `plica.graph.bind.pattern_matcher`.

    >>> from plica.graph.bind import pattern_matcher
    >>> from plica.graph.pattern import Entry
    >>> edges = {"exp": ("log",), "log": ("x",), "x": ()}
    >>> readers = {"exp": (), "log": ("exp",), "x": ("log",)}
    >>> view = GraphView(tuple("x log exp".split()), ("exp",), edges.__getitem__, kind=str, fits=str.__eq__)
    >>> pattern = Pattern(Entry("outer", "exp", ("inner",)), Entry("inner", "log", ("argument",)))
    >>> matches, by_root = match_optimization_patterns(
    ...     view.nodes, view.outputs, [pattern], view.inputs, readers.__getitem__, pattern_matcher(view)
    ... )
    >>> matches[0]["argument"], by_root["exp"] is matches[0]
    ('x', True)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from plica.errors import GraphError, PlicaError
from plica.graph.pattern import Pattern
from plica.graph.strategy import OptMatchStrategy, Strategy, without_overlap
from plica.graph.view import GraphOptMatch, GraphView, NearMiss, Node, Replacement

Neighbours = Callable[[Any], Sequence[Any]]
MatchFunction = Callable[[Any, Pattern, Neighbours, Neighbours], GraphOptMatch[Any] | NearMiss[Any] | None]
"""From a node, a pattern, and the functions that give the inputs and the readers of a node: the match of the pattern
with its root at the node; where there is none, the reason if it is worth telling, else None."""

Condition = Callable[[GraphOptMatch[Any]], str | None]
"""Why a match is declined, or None; the part before `: ` is the same wherever the reason is."""


def _no_rules(match: GraphOptMatch[Any]) -> NoReturn:
    raise GraphError(
        f"{match!r} has no replacement, because patterns were matched without rules; use a strategy that reads "
        "replacements in optimize_graph alone"
    )


@dataclass(frozen=True, slots=True)
class Search:
    """The settings of a search beside the arguments that every search has.

    Args:
        graph: The graph of matches and of the strategy; by default the nodes and their inputs alone.
        conditions: For each pattern why a match is declined.
        rules_at: The positions of the patterns that may have their root at a node, all by default.
        on_near_miss: Called where a pattern nearly matched, or its match was declined.
        replacement: Gives the replacement of a match.
        names: The names of the patterns in messages; by default those of their roots.
    """

    graph: GraphView[Any] | None = None
    conditions: Sequence[Condition | None] = ()
    rules_at: Callable[[Any], Iterable[int]] | None = None
    on_near_miss: Callable[[NearMiss[Any]], None] | None = None
    replacement: Callable[[GraphOptMatch[Any]], Replacement[Any]] = _no_rules
    names: Sequence[str] = ()


def match_optimization_patterns(
    nodes: Iterable[Node],
    outputs: Iterable[Node],
    patterns: Sequence[Pattern],
    inputs: Callable[[Node], Sequence[Node]],
    readers: Callable[[Node], Sequence[Node]],
    match_function: MatchFunction,
    strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
    search: Search = Search(),
) -> tuple[list[GraphOptMatch[Node]], dict[Node, GraphOptMatch[Node]]]:
    """The matches to apply, no two of which overlap, and the same by their roots; in topological order of the roots.

    Args:
        nodes: In topological order.
        outputs: The nodes that are results.
        patterns: The patterns to search for.
        inputs: The inputs of a node, in order.
        readers: The nodes that read a node.
        match_function: Whether a pattern holds at a node.
        strategy: Which of the matches that overlap are kept.
        search: Conditions, and the function to call with near misses.

    Raises:
        GraphError: The matching function matched another node than it was given, or the strategy gave
            something that is none of the matches.
    """
    order, results = tuple(nodes), tuple(outputs)
    graph = search.graph or GraphView(order, results, inputs)
    matches: list[GraphOptMatch[Node]] = []
    for node in order:
        for number in range(len(patterns)) if search.rules_at is None else search.rules_at(node):
            try:
                pattern = patterns[number].for_inputs(len(inputs(node)))
                result = None if pattern is None else match_function(node, pattern, inputs, readers)
                if pattern is not None and isinstance(result, GraphOptMatch):
                    result = _accepted(result, node, pattern, number, graph, search)
            except Exception as error:
                name = search.names[number] if search.names else patterns[number].root.name
                add_place(error, f"in the search for {name} at {graph.describe(node)}")
                raise
            if isinstance(result, GraphOptMatch):
                matches.append(result)
            elif isinstance(result, NearMiss):
                if search.on_near_miss is not None:
                    search.on_near_miss(replace(result, number=number))
            elif result is not None:
                raise GraphError(f"a matching function gives a GraphOptMatch, a NearMiss or None, found {result!r}")
    order_of = {node: position for position, node in enumerate(order)}
    preferred = strategy(tuple(matches), graph, search.replacement) if matches else ()
    if not isinstance(preferred, Iterable):
        raise GraphError(f"a strategy gave {preferred!r}; return the matches to apply, the most preferred first")
    applied = sorted(without_overlap(preferred, matches), key=lambda match: order_of[match.root])
    return applied, {match.root: match for match in applied}


def add_place(error: Exception, where: str) -> None:
    """Note the rule and the place in an error that a function of a rule raised; Plica's own say where."""
    if not isinstance(error, PlicaError):
        error.add_note(where)


def _accepted(
    result: GraphOptMatch[Node], node: Node, pattern: Pattern, number: int, graph: GraphView[Node], search: Search
) -> GraphOptMatch[Node] | NearMiss[Node] | None:
    """The match of a matching function, checked and numbered; a near miss where its condition declines it."""
    matched = result.nodes.get(pattern.root.name)
    if matched is not node:
        raise GraphError(
            f"the matching function was asked for {pattern.root.name} at {node}, and matched it with {matched}; "
            "`nodes` has the node of each entry by its name"
        )
    if pattern.is_output and not any(node is output for output in graph.outputs):
        return None
    lacking = [name for name in pattern.by_name if name not in result.nodes]
    if lacking:
        raise GraphError(
            f"the matching function matched {pattern.root.name} at {node} without saying which node {lacking[0]!r} is; "
            "`nodes` has the node of each entry by its name"
        )
    match = GraphOptMatch(pattern, result.nodes, result.inputs, result.sub_matches, graph, number)
    condition = search.conditions[number] if number < len(search.conditions) else None
    reason = None if condition is None else condition(match)
    if reason is not None and not isinstance(reason, str):
        raise GraphError(
            f"a condition at {graph.describe(node)} gave {reason!r}; return None where the rule may be applied, and "
            "the reason, a text, where it may not"
        )
    if reason is None:
        return match
    if search.on_near_miss is None:  # no text for nobody
        return None
    return NearMiss(node, reason.partition(": ")[0], f"{graph.describe(node)}: {reason}")
