"""The strategy that asks the cost model: of matches that overlap, those that together save most work in one pass.

>>> from plica.lower.optimize import cost_guided, optimize_circuit
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer, SumLayer
>>> layers = [CategoricalLayer([0], 512, num_categories=2), SumLayer(512, 400), SumLayer(400, 100), SumLayer(100, 1)]
>>> circuit = Circuit(layers, {after: [before] for before, after in zip(layers, layers[1:])}, layers[-1:])
>>> by_size, by_cost = optimize_circuit(circuit), optimize_circuit(circuit, strategy=cost_guided)
>>> [(one.report.fired[0].places[0], one.report.saved.flops) for one in (by_size, by_cost)]
[('SumLayer(2, arity=1, 400 -> 100)', 21500928), ('SumLayer(3, arity=1, 100 -> 1)', 62073728)]
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from plica.graph.strategy import OptMatchStrategy
from plica.graph.view import GraphOptMatch, GraphView, Replacement
from plica.lower.optimize.costs import layers_cost, node_cost, total
from plica.symbolic.layers import Layer

Match = GraphOptMatch[Any]

_EXACT = 16
"""Of so many matches that overlap one another, every choice is tried; of more the best are taken one by one."""


def cost_guided(
    matches: Sequence[Match], graph: GraphView[Any], replacement: Callable[[Match], Replacement[Any]], /
) -> Iterable[Match]:
    """The matches in order of preference: those that together save most first, then whatever overlaps none of them.

    It looks one pass ahead, at the figures of `plica.lower.optimize.costs`, with numbers written counted as
    multiply-adds. Matches that save nothing are applied as well, where they overlap none that do: their rules make
    results finite, or make other rules fit. Ties are broken as by `OptMatchStrategy.LARGEST_MATCH`.
    """
    ordered = list(OptMatchStrategy.LARGEST_MATCH(matches, graph, replacement))
    conflicts = _conflicts(ordered)
    contested = [place for place, others in enumerate(conflicts) if others]
    saved = {
        place: _work(ordered[place].fused) - _work(node for node, _ in replacement(ordered[place]).nodes)
        for place in contested
    }
    chosen: dict[int, None] = dict.fromkeys(place for place, others in enumerate(conflicts) if not others)
    for group in _connected(contested, conflicts):
        positive = [place for place in group if saved[place] > 0]
        choose = _best if len(positive) <= _EXACT else _greedy
        chosen.update(dict.fromkeys(choose(positive, conflicts, saved)))
    return [ordered[place] for place in (*chosen, *(place for place in contested if place not in chosen))]


def _work(nodes: Iterable[Any]) -> int:
    """What nodes of circuits, or of parameters, cost together; others cost nothing that is known here."""
    known = list(nodes)
    layers = [node for node in known if isinstance(node, Layer)]
    return (layers_cost(layers) + total(node_cost(node) for node in known if not isinstance(node, Layer))).work


def _conflicts(matches: Sequence[Match]) -> list[dict[int, None]]:
    """For each match the places of those that it overlaps: one fuses what the other fuses or looks at."""
    fuse: dict[Any, list[int]] = {}
    touch: dict[Any, list[int]] = {}
    for place, match in enumerate(matches):
        for node in match.fused:
            fuse.setdefault(node, []).append(place)
        for node in match.nodes.values():
            touch.setdefault(node, []).append(place)
    found: list[dict[int, None]] = [{} for _ in matches]
    for node, places in fuse.items():
        for one in places:
            for other in touch[node]:
                if one != other:
                    found[one][other] = found[other][one] = None
    return found


def _connected(places: Sequence[int], conflicts: Sequence[dict[int, None]]) -> Iterable[list[int]]:
    """Groups of matches that overlap one another, by way of others too."""
    seen: dict[int, None] = {}
    for place in places:
        group, reached = [], [place]
        while reached:
            one = reached.pop()
            if one not in seen:
                seen[one] = None
                group.append(one)
                reached += conflicts[one]
        if group:
            yield sorted(group)


def _best(group: Sequence[int], conflicts: Sequence[dict[int, None]], saved: dict[int, int]) -> Iterable[int]:
    """The set without overlap that saves most; of equal ones the one with the earlier matches."""

    @cache
    def best(left: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        if not left:
            return 0, ()
        first, *others = left
        amount, rest = best(tuple(one for one in others if one not in conflicts[first]))
        return max((saved[first] + amount, (first, *rest)), best(tuple(others)), key=lambda found: found[0])

    return best(tuple(group))[1]


def _greedy(group: Sequence[int], conflicts: Sequence[dict[int, None]], saved: dict[int, int]) -> Iterable[int]:
    """One match after another, the one that saves most first."""
    taken: dict[int, None] = {}
    for place in sorted(group, key=lambda one: -saved[one]):
        if not any(other in taken for other in conflicts[place]):
            taken[place] = None
    return taken
