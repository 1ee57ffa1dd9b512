"""Orders of a DAG against networkx, and the graphs that recursion or the number of paths would defeat."""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import GraphError
from plica.graph.order import consumers, layerwise_topological_order, topological_order

Graph = Mapping[int, Sequence[int]]


@st.composite
def dags(draw: st.DrawFn) -> dict[int, list[int]]:
    """Nodes under shuffled names; each reads earlier ones, some twice."""
    count = draw(st.integers(0, 12))
    names = draw(st.permutations(range(count)))
    return {
        names[node]: [names[child] for child in draw(st.lists(st.integers(0, node - 1), max_size=4))] if node else []
        for node in range(count)
    }


def _networkx(graph: Graph) -> networkx.DiGraph:
    result = networkx.DiGraph()
    result.add_nodes_from(graph)
    result.add_edges_from((child, node) for node, children in graph.items() for child in children)
    return result


@given(dags())
def test_inputs_come_first(graph: Graph) -> None:
    order = topological_order(sorted(graph), graph.__getitem__)
    place = {node: index for index, node in enumerate(order)}
    assert sorted(order) == sorted(graph)
    assert all(place[child] < place[node] for node, children in graph.items() for child in children)


@given(dags())
def test_layers_are_the_longest_paths_from_the_inputs(graph: Graph) -> None:
    layers = layerwise_topological_order(sorted(graph), graph.__getitem__)
    assert [sorted(layer) for layer in layers] == [
        sorted(generation) for generation in networkx.topological_generations(_networkx(graph))
    ]


@given(dags())
def test_consumers_are_edges_reversed(graph: Graph) -> None:
    expected = {node: [reader for reader in graph for child in graph[reader] if child == node] for node in graph}
    assert consumers(graph, graph.__getitem__) == {node: tuple(readers) for node, readers in expected.items()}


@given(dags(), st.randoms(use_true_random=False))
def test_only_what_the_roots_read_is_visited(graph: Graph, rng: random.Random) -> None:
    roots = [node for node in graph if rng.random() < 0.3]
    expected = set(roots).union(*(networkx.ancestors(_networkx(graph), root) for root in roots))
    assert set(topological_order(roots, graph.__getitem__)) == expected


@given(dags(), st.data())
def test_a_cycle_is_reported_with_its_nodes(graph: dict[int, list[int]], data: st.DataObject) -> None:
    if not graph:
        return
    order = topological_order(graph, graph.__getitem__)
    first = data.draw(st.integers(0, len(order) - 1))
    last = data.draw(st.integers(first, len(order) - 1))
    cyclic = {node: list(children) for node, children in graph.items()}
    cyclic[order[last]].append(order[first])
    cyclic[order[first]].append(order[last])  # at least the cycle of these two, or of one that reads itself
    with pytest.raises(GraphError, match="cycle of") as caught:
        topological_order(cyclic, cyclic.__getitem__)
    shown = str(caught.value).split("before: ")[1].split(". ")[0].split(" <- ")
    if "..." not in shown:
        path = [int(node) for node in shown]
        assert path[0] == path[-1]
        assert all(child in cyclic[node] for node, child in pairwise(path))


def test_messages_of_cycles() -> None:
    with pytest.raises(GraphError, match=r"cycle of 1 node\(s\).*: a <- a\. .*must be acyclic"):
        topological_order("a", {"a": "a"}.__getitem__)
    with pytest.raises(GraphError, match=r"cycle of 2 node\(s\).*: b <- c <- b\."):
        topological_order("a", {"a": "b", "b": "c", "c": "b"}.__getitem__)
    ring = {node: ((node + 1) % 100,) for node in range(100)}
    with pytest.raises(GraphError, match=r"cycle of 100 node\(s\).*: 0 <- 1 <- 2 <- 3 <- \.\.\. <- 98 <- 99 <- 0\."):
        topological_order([0], ring.__getitem__)
    with pytest.raises(GraphError, match="cycle"):
        layerwise_topological_order([0], ring.__getitem__)


def test_a_long_chain_needs_no_recursion() -> None:
    length = 20_000
    chain = {node: (node - 1,) if node else () for node in range(length)}
    assert topological_order([length - 1], chain.__getitem__) == tuple(range(length))
    assert layerwise_topological_order([length - 1], chain.__getitem__) == tuple((node,) for node in range(length))


def test_shared_nodes_are_visited_once() -> None:
    """Sixty doublings: 2**60 paths, each node's inputs asked for a few times."""
    asked: dict[int, int] = {}

    def inputs(node: int) -> tuple[int, ...]:
        asked[node] = asked.get(node, 0) + 1
        return (node - 1, node - 1) if node else ()

    assert topological_order([60], inputs) == tuple(range(61))
    assert max(asked.values()) == 1
    layers = layerwise_topological_order([60], cache(inputs))
    assert len(layers) == 61


def test_the_order_follows_roots_and_inputs() -> None:
    inputs = {"a": "", "b": "", "c": "ab", "d": "ba", "e": ""}
    assert topological_order("cde", inputs.__getitem__) == tuple("abcde")
    assert topological_order("dce", inputs.__getitem__) == tuple("badce")
    assert topological_order("ecd", inputs.__getitem__) == tuple("eabcd")
    assert layerwise_topological_order("ecd", inputs.__getitem__) == (("e", "a", "b"), ("c", "d"))
    assert topological_order("", inputs.__getitem__) == ()
    assert consumers("cabd", inputs.__getitem__) == {"c": (), "a": ("c", "d"), "b": ("c", "d"), "d": ()}
