"""The cost-guided strategy: which of the matches that overlap it takes, beside the largest match."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.strategies import sums_of_sums
from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Pattern
from plica.graph.strategy import OptMatchStrategy
from plica.graph.view import GraphView
from plica.lower.optimize import Rules, cost_guided, optimize_circuit
from plica.lower.optimize.costs import layers_cost
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, SumLayer
from plica.symbolic.parameters import ExpParameter, LogParameter, Parameter, SoftmaxParameter, normal
from tests.harness.circuits import chain, circuits, coin
from tests.harness.rewrites import assert_same, fired


def sums(*units: int) -> Circuit:
    """Sum layers one after another."""
    return chain(coin([0], units[0]), *(SumLayer(below, above) for below, above in pairwise(units)))


def test_the_largest_match_is_left_where_another_saves_more() -> None:
    """At the sizes of the benchmark three layers fuse, or two that save more; the rest is cheaper then, too."""
    circuit = sums_of_sums(512, 1024, 120)
    by_size, by_cost = (
        optimize_circuit(circuit, strategy=strategy, max_steps=1)
        for strategy in (OptMatchStrategy.LARGEST_MATCH, cost_guided)
    )
    assert fired(by_size) == {"sum-of-sums": 1}
    assert fired(by_cost) == {"sum-sum": 1}
    assert by_cost.report.saved.multiply_adds > by_size.report.saved.multiply_adds
    in_the_end = [optimize_circuit(one.circuit, strategy=cost_guided) for one in (by_size, by_cost)]
    assert [len(one.circuit.layers) for one in in_the_end] == [3, 3]  # two inputs, and one sum either way
    work = [layers_cost(one.circuit.layers).work for one in in_the_end]
    assert 2 * work[1] < work[0]


def pair_rule(name: str, *kinds: type) -> Rule:
    """A rule that takes a chain of layers for one sum layer without a product of weights: it saves all but the last."""
    return Rule(
        name,
        "for the test",
        Pattern.chain(*kinds),
        lambda match: Replacement.chain(
            match["inputs"], SumLayer(match.fused[-1].num_input_units, match.root.num_output_units)
        ),
        laws=ORDINARY,
    )


def chosen(circuit: Circuit, *rules: Rule) -> list[tuple[int, int]]:
    """The matches that are applied first, as the positions of their layers in a chain."""
    seen: list[Any] = []

    def strategy(matches: Any, graph: GraphView[Any], replacement: Any) -> Any:
        preferred = list(cost_guided(matches, graph, replacement))
        used: list[Any] = []
        for match in preferred:
            if not any(node in used for node in match.fused):
                used += match.fused
                seen.append(match)
        return []

    optimize_circuit(circuit, Rules(fuse=rules), strategy=strategy, max_steps=1)
    place = {layer: at for at, layer in enumerate(circuit.layers)}
    return sorted((place[match.fused[-1]], place[match.root]) for match in seen)


@pytest.mark.parametrize("count", [4, 7, 9, 30])
def test_a_set_of_matches_is_chosen_that_saves_most_together(count: int) -> None:
    """Pairs of a chain of sums; where there are too many to try every set, the best pair first, and so on."""
    units = [int(number) for number in np.random.default_rng(count).integers(2, 30, count)]
    circuit = sums(*units)
    saved = {
        at: layers_cost(circuit.layers[at : at + 2]).work - layers_cost([SumLayer(units[at - 1], units[at + 1])]).work
        for at in range(1, count - 1)
    }
    good = [at for at in saved if saved[at] > 0]
    if count < 10:
        sets = (places for size in range(len(good) + 1) for places in combinations(good, size))
        best = max((one for one in sets if is_free_of_overlap(one)), key=lambda one: sum(saved[at] for at in one))
    else:
        best = ()
        for at in sorted(good, key=lambda one: -saved[one]):
            best = (*best, at) if is_free_of_overlap(sorted((*best, at))) else best
    taken = [at for at, _ in chosen(circuit, pair_rule("pair", SumLayer, SumLayer))]
    assert sum(saved[at] for at in taken if saved[at] > 0) == sum(saved[at] for at in best)


def is_free_of_overlap(places: Sequence[int]) -> bool:
    """Whether pairs that begin at these places have no layer in common."""
    return all(after - before > 1 for before, after in pairwise(places))


def test_matches_that_save_nothing_are_applied_too() -> None:
    circuit = chain(coin([0], 2), HadamardLayer(2, 1), SumLayer(2, 50), HadamardLayer(50, 1))
    wider = pair_rule("wider", SumLayer, HadamardLayer)
    assert chosen(circuit, wider) == [(1, 2)]


def test_parameters_are_chosen_by_cost() -> None:
    """Of two rules that overlap on the nodes of a parameter the one that leaves less work."""
    shape = (4, 5)
    weight = Parameter.from_sequence(normal(shape), SoftmaxParameter(shape), LogParameter(shape), ExpParameter(shape))
    circuit = chain(coin([0], 5), SumLayer(5, 4, weight=weight))
    by_size, by_cost = optimize_circuit(circuit), optimize_circuit(circuit, strategy=cost_guided)
    assert by_size.report.fired[0].rule == "log-softmax"
    assert fired(by_cost) == {"exp-log": 1}
    assert_same(circuit, by_cost)


@settings(max_examples=15)
@given(circuits())
def test_random_circuits_compute_the_same_and_come_to_an_end(circuit: Circuit) -> None:
    optimized = optimize_circuit(circuit, strategy=cost_guided)
    assert_same(circuit, optimized)
    assert optimize_circuit(optimized.circuit, strategy=cost_guided).circuit is optimized.circuit
