"""Strongly connected components against an independent implementation, and in one walk."""

import hypothesis.strategies as st
import networkx as nx
from hypothesis import given, settings

from plica.graph.components import strongly_connected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_groups_are_those_of_networkx_and_stand_behind_what_they_reach(edges) -> None:
    inputs = {node: [child for parent, child in edges if parent == node] for node in range(12)}
    groups = strongly_connected(range(12), inputs.__getitem__)
    expected = nx.strongly_connected_components(nx.DiGraph([*edges, *((node, node) for node in range(12))]))
    assert sorted(map(sorted, groups)) == sorted(map(sorted, expected))
    place = {node: number for number, group in enumerate(groups) for node in group}
    assert all(place[child] <= place[parent] for parent, child in edges)


def test_a_long_chain_is_walked_once_and_without_recursion() -> None:
    asked = []

    def inputs(node: int) -> tuple[int, ...]:
        asked.append(node)
        return (node + 1,) if node < 20_000 else (0,)

    assert len(strongly_connected(range(20_001), inputs)) == 1
    assert len(asked) == 20_001
