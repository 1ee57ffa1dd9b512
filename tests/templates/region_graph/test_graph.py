import json
from typing import Any

import pytest

from plica.errors import DTypeError, FileFormatError, GraphError
from plica.symbolic.scope import Scope
from plica.templates.region_graph import (
    FullyFactorized,
    LinearTree,
    PartitionNode,
    QuadGraph,
    QuadTree,
    RandomBinaryTree,
    RegionGraph,
    RegionNode,
)

A, B, AB, ABC = RegionNode([0]), RegionNode([1]), RegionNode([0, 1]), RegionNode([0, 1, 2])
SPLIT, WIDE = PartitionNode([0, 1]), PartitionNode([0, 1, 2])


def test_views() -> None:
    graph = RegionGraph([AB, SPLIT, B, A], {AB: [SPLIT], SPLIT: [A, B]}, [AB])
    assert graph.nodes == (A, B, SPLIT, AB)
    assert graph.region_nodes == (A, B, AB)
    assert graph.partition_nodes == (SPLIT,)
    assert graph.region_inputs(AB) == (SPLIT,)
    assert graph.partition_inputs(SPLIT) == (A, B)
    assert graph.region_outputs(A) == (SPLIT,)
    assert graph.partition_outputs(SPLIT) == (AB,)
    assert graph.inputs == (A, B)
    assert graph.outputs == (AB,)
    assert graph.inner_nodes == (SPLIT, AB)
    assert graph.inner_region_nodes == (AB,)
    iterators: list[Any] = [graph.nodes, graph.region_nodes, graph.partition_nodes, graph.inputs, graph.outputs]
    assert list(map(next, iterators)) == [A, A, SPLIT, A, AB]
    assert (graph.scope, graph.num_variables) == (Scope([0, 1]), 2)
    assert repr(A) == "RegionNode({0})"


@pytest.mark.parametrize(
    ("graph", "structured", "omni"),
    [
        (FullyFactorized(4, num_repetitions=2), True, True),
        (LinearTree(4), True, False),
        (LinearTree(4, num_repetitions=3, randomize=True), False, False),
        (QuadTree((1, 4, 4)), True, False),
        (QuadTree((1, 4, 4), num_patch_splits=4), True, False),
        (QuadGraph((1, 4, 4)), False, False),
        (RandomBinaryTree(8), True, False),
        (RandomBinaryTree(8, num_repetitions=2), False, False),
    ],
)
def test_structural_properties(graph: RegionGraph, structured: bool, omni: bool) -> None:
    assert (graph.is_structured_decomposable, graph.is_omni_compatible) == (structured, omni)


def test_compatibility() -> None:
    tree, graph = QuadTree((1, 2, 2)), QuadGraph((1, 2, 2))
    assert tree.is_compatible(QuadTree((1, 2, 2)))
    assert not tree.is_compatible(graph)
    assert tree.is_compatible(FullyFactorized(4))
    assert LinearTree(4).is_compatible(LinearTree(3, ordering=[1, 2, 0]), scope=[1, 2])
    assert not LinearTree(3).is_compatible(LinearTree(3, ordering=[2, 1, 0]))


@pytest.mark.parametrize("graph", [QuadGraph((2, 3, 3)), RandomBinaryTree(5, num_repetitions=2), FullyFactorized(1)])
def test_files_round_trip(graph: RegionGraph, tmp_path) -> None:
    path = tmp_path / "graph.json"
    graph.dump(path)
    loaded = RegionGraph.load(str(path))

    def described(one: RegionGraph):
        index = {node: i for i, node in enumerate(one.nodes)}
        inputs = [
            one.region_inputs(node) if isinstance(node, RegionNode) else one.partition_inputs(node)
            for node in one.nodes
        ]
        edges = [[index[child] for child in children] for children in inputs]
        return [(type(node), node.scope) for node in one.nodes], edges, [index[node] for node in one.outputs]

    assert described(loaded) == described(graph)


NODE = {"kind": "region", "scope": [0], "inputs": []}
GOOD = {"format": "plica-region-graph", "version": 1, "nodes": [NODE], "outputs": [0]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "the file cannot be read"),
        ("", "the file is empty"),
        ("{", "the file is not JSON"),
        ("[" * 100_000, "the file is not JSON"),
        ("[]", "expected a file of format 'plica-region-graph'"),
        (json.dumps({**GOOD, "version": 2}), "expected version 1 .* found 2"),
        (json.dumps({**GOOD, "nodes": 3}), "expected lists `nodes` and `outputs`"),
        (json.dumps({**GOOD, "outputs": [1]}), "expected lists `nodes` and `outputs`"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "scope": [-1]}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "scope": ["x"]}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "inputs": [5]}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "kind": "leaf"}]}), "node 0 is damaged"),
    ],
)
def test_damaged_files_are_refused(text: str | None, message: str, tmp_path) -> None:
    path = tmp_path / "graph.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        RegionGraph.load(path)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: RegionGraph([A, AB, ABC, WIDE], {WIDE: [AB, A], ABC: [WIDE]}, [ABC]),
            GraphError,
            r"the parts of PartitionNode\(\{0, 1, 2\}\) overlap: RegionNode\(\{0\}\) shares \{0\}",
        ),
        (
            lambda: RegionGraph([A, B, ABC, WIDE], {WIDE: [A, B], ABC: [WIDE]}, [ABC]),
            GraphError,
            r"cover \{0, 1\}, expected \{0, 1, 2\}",
        ),
        (
            lambda: RegionGraph([A, B, ABC, SPLIT], {SPLIT: [A, B], ABC: [SPLIT]}, [ABC]),
            GraphError,
            r"expected scope \{0, 1, 2\}, found \{0, 1\}",
        ),
        (lambda: RegionGraph([A, AB], {AB: [A]}, [AB]), GraphError, "put a PartitionNode between two regions"),
        (
            lambda: RegionGraph([AB, SPLIT, WIDE], {AB: [SPLIT], SPLIT: [WIDE], WIDE: []}, [AB]),
            GraphError,
            "put a RegionNode between two partitions|cover",
        ),
        (lambda: RegionGraph([AB, SPLIT], {AB: [SPLIT], SPLIT: [AB]}, [AB]), GraphError, "cycle of 2"),
        (lambda: RegionGraph([AB], {AB: [SPLIT]}, [AB]), GraphError, "names PartitionNode.* not among the nodes"),
        (lambda: RegionGraph([A], {}, []), GraphError, "there are no outputs"),
        (lambda: RegionGraph([A], {}, [B]), GraphError, "is not a region among the nodes"),
        (
            lambda: RegionGraph([A, B, AB, SPLIT], {AB: [SPLIT], SPLIT: [A, B]}, [AB, A]),
            GraphError,
            r"the output RegionNode\(\{0\}\) is a part of PartitionNode",
        ),
        (lambda: RegionNode([]), GraphError, "the scope is empty"),
        (
            lambda: RegionGraph(["a"], {}, ["a"]),  # type: ignore[list-item]
            DTypeError,
            "expected RegionNode or PartitionNode, found 'a'|not a region",
        ),
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
