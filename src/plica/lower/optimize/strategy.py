"""The strategy that asks the cost model: of matches that overlap, those that together save most work in one pass.

>>> from plica.lower.optimize import cost_guided, optimize_circuit
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer, SumLayer
>>> layers = [CategoricalLayer([0], 512, num_categories=2), SumLayer(512, 400), SumLayer(400, 100), SumLayer(100, 1)]
>>> circuit = Circuit(layers, {after: [before] for before, after in zip(layers, layers[1:])}, layers[-1:])
>>> by_size, by_cost = optimize_circuit(circuit), optimize_circuit(circuit, strategy=cost_guided)
>>> [(by.report.fired[0].places[0], by.report.saved.flops) for by in (by_size, by_cost)]
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
"""Every choice is tried among up to so many matches that overlap; among more, the best are taken one by one."""


def cost_guided(
    matches: Sequence[Match], graph: GraphView[Any], replacement: Callable[[Match], Replacement[Any]], /
) -> Iterable[Match]:
    """The matches in order of preference: those that together save most first, then whatever overlaps none of them.

    It looks one pass ahead, at the `work` of `plica.lower.optimize.costs`. Matches that save nothing are applied too,
    unless they overlap one that does: their rules make results finite, or let other rules match. Ties are
    broken as by `OptMatchStrategy.LARGEST_MATCH`.
    """
    ordered = list(OptMatchStrategy.LARGEST_MATCH(matches, graph, replacement))
    conflicts = _conflicts(ordered)
    contested = [number for number, overlapping in enumerate(conflicts) if overlapping]
    saved = {
        number: _work(ordered[number].fused) - _work(node for node, _ in replacement(ordered[number]).nodes)
        for number in contested
    }
    chosen: dict[int, None] = dict.fromkeys(number for number, overlapping in enumerate(conflicts) if not overlapping)
    for group in _connected(contested, conflicts):
        positive = [number for number in group if saved[number] > 0]
        choose = _best if len(positive) <= _EXACT else _greedy
        chosen.update(dict.fromkeys(choose(positive, conflicts, saved)))
    return [ordered[number] for number in (*chosen, *(number for number in contested if number not in chosen))]


def _work(nodes: Iterable[Any]) -> int:
    """The cost of nodes of circuits, or of parameters, together."""
    known = list(nodes)
    layers = [node for node in known if isinstance(node, Layer)]
    return (layers_cost(layers) + total(node_cost(node) for node in known if not isinstance(node, Layer))).work


def _conflicts(matches: Sequence[Match]) -> list[dict[int, None]]:
    """For each match the numbers of those that it overlaps: one fuses what the other fuses or looks at."""
    fuse: dict[Any, list[int]] = {}
    touch: dict[Any, list[int]] = {}
    for number, match in enumerate(matches):
        for node in match.fused:
            fuse.setdefault(node, []).append(number)
        for node in match.nodes.values():
            touch.setdefault(node, []).append(number)
    conflicts: list[dict[int, None]] = [{} for _ in matches]
    for node, numbers in fuse.items():
        for first in numbers:
            for second in touch[node]:
                if first != second:
                    conflicts[first][second] = conflicts[second][first] = None
    return conflicts


def _connected(numbers: Sequence[int], conflicts: Sequence[dict[int, None]]) -> Iterable[list[int]]:
    """Groups of matches that overlap one another, directly or through others."""
    seen: dict[int, None] = {}
    for start in numbers:
        group, reached = [], [start]
        while reached:
            current = reached.pop()
            if current not in seen:
                seen[current] = None
                group.append(current)
                reached += conflicts[current]
        if group:
            yield sorted(group)


def _best(group: Sequence[int], conflicts: Sequence[dict[int, None]], saved: dict[int, int]) -> Iterable[int]:
    """The set without overlap that saves most; of equal ones the one with the earlier matches."""

    @cache
    def best(left: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        if not left:
            return 0, ()
        first, *later = left
        amount, chosen = best(tuple(number for number in later if number not in conflicts[first]))
        return max((saved[first] + amount, (first, *chosen)), best(tuple(later)), key=lambda choice: choice[0])

    return best(tuple(group))[1]


def _greedy(group: Sequence[int], conflicts: Sequence[dict[int, None]], saved: dict[int, int]) -> Iterable[int]:
    """One match after another, the one that saves most first."""
    chosen: dict[int, None] = {}
    for number in sorted(group, key=lambda number: -saved[number]):
        if not any(overlapping in chosen for overlapping in conflicts[number]):
            chosen[number] = None
    return chosen
