import io
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
from tests.harness.region_graphs import described

A, B, AB, ABC = RegionNode([0]), RegionNode([1]), RegionNode([0, 1]), RegionNode([0, 1, 2])
SPLIT, WIDE = PartitionNode([0, 1]), PartitionNode([0, 1, 2])


def test_parts_and_levels() -> None:
    whole = QuadTree((1, 2, 2))
    half = whole.inner_region_nodes[0]
    part = whole.subgraph(half)
    assert part.outputs == (half,)
    assert set(part.nodes) < set(whole.nodes)
    assert described(part) == described(QuadTree((1, 1, 2)))
    assert [len(level) for level in whole.layerwise_topological_ordering()] == [4, 2, 2, 1, 1]
    assert len(whole.subgraph(*whole.inputs).nodes) == 4
    with pytest.raises(GraphError, match="is no node of this graph"):
        whole.subgraph(A)
    with pytest.raises(GraphError, match="is not a region among the nodes"):
        whole.subgraph(whole.partition_nodes[0])  # type: ignore[arg-type]


def test_the_neighbours_of_every_node() -> None:
    graph = QuadGraph((1, 2, 3))
    assert graph.nodes_inputs == {node: graph.node_inputs(node) for node in graph.nodes}
    assert graph.nodes_outputs == {node: graph.node_outputs(node) for node in graph.nodes}


def test_views() -> None:
    graph = RegionGraph([AB, SPLIT, B, A], {AB: [SPLIT], SPLIT: [A, B]}, [AB])
    assert graph.nodes == (A, B, SPLIT, AB)
    assert graph.region_nodes == (A, B, AB)
    assert graph.partition_nodes == (SPLIT,)
    assert graph.region_inputs(AB) == (SPLIT,)
    assert graph.partition_inputs(SPLIT) == (A, B)
    assert graph.region_outputs(A) == (SPLIT,)
    assert graph.partition_outputs(SPLIT) == (AB,)
    assert graph.topological_ordering() == graph.nodes
    assert [graph.node_inputs(node) for node in graph.topological_ordering()] == [(), (), (A, B), (SPLIT,)]
    assert [graph.node_outputs(node) for node in graph.topological_ordering()] == [(SPLIT,), (SPLIT,), (AB,), ()]
    assert graph.inputs == (A, B)
    assert graph.outputs == (AB,)
    assert graph.inner_nodes == (SPLIT, AB)
    assert graph.inner_region_nodes == ()
    assert next(graph.topological_ordering()) == A
    assert next(graph.layerwise_topological_ordering()) == (A, B)
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


@pytest.mark.parametrize(
    "kind", ["path", "text of a path", "file of text", "file of bytes", "text in memory", "bytes in memory"]
)
def test_files_are_paths_or_open_files(kind: str, tmp_path) -> None:
    graph, path = QuadGraph((2, 3, 3)), tmp_path / "graph.json"
    if kind in ("path", "text of a path"):
        file: Any = path if kind == "path" else str(path)
        graph.dump(file)
        loaded = RegionGraph.load(file)
    elif kind.startswith("file"):
        mode = "b" if kind.endswith("bytes") else ""
        with path.open("w" + mode) as file:
            graph.dump(file)
        with path.open("r" + mode) as file:
            loaded = RegionGraph.load(file)
    else:
        file = io.BytesIO() if kind.startswith("bytes") else io.StringIO()
        graph.dump(file)
        file.seek(0)
        loaded = RegionGraph.load(file)
    assert described(loaded) == described(graph)


def test_files_of_version_1_are_read() -> None:
    nodes = [
        {"kind": "region", "scope": [0], "inputs": []},
        {"kind": "region", "scope": [1], "inputs": []},
        {"kind": "partition", "scope": [0, 1], "inputs": [0, 1]},
        {"kind": "region", "scope": [0, 1], "inputs": [2]},
    ]
    text = json.dumps({"format": "plica-region-graph", "version": 1, "nodes": nodes, "outputs": [3]})
    assert described(RegionGraph.load(io.StringIO(text))) == described(FullyFactorized(2))


def test_the_file_of_a_chain_is_as_long_as_the_chain() -> None:
    LinearTree(1000).dump(file := io.StringIO())
    assert len(file.getvalue()) < 150 * 1000
    assert RegionGraph.load(io.StringIO(file.getvalue())).scope == Scope(range(1000))


def test_any_order_of_nodes_may_be_loaded(tmp_path) -> None:
    """A file that another program wrote need not list inputs first."""
    nodes = [
        {"kind": "region", "scope": [0, 1], "inputs": [1]},
        {"kind": "partition", "scope": [0, 1], "inputs": [2, 3]},
        {"kind": "region", "scope": [0], "inputs": []},
        {"kind": "region", "scope": [1], "inputs": []},
    ]
    (tmp_path / "graph.json").write_text(json.dumps({**GOOD, "nodes": nodes}))
    assert described(RegionGraph.load(tmp_path / "graph.json")) == described(FullyFactorized(2))


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
        (json.dumps({**GOOD, "version": 3}), "expected version 1 or 2 .* found 3"),
        (json.dumps({**GOOD, "nodes": [{"kind": "region", "inputs": []}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": 3}), "expected lists `nodes` and `outputs`"),
        (json.dumps({**GOOD, "outputs": [1]}), "expected lists `nodes` and `outputs`"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "scope": [-1]}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "scope": ["x"]}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "inputs": [5]}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "kind": "leaf"}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "scope": [True]}]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": ["region"]}), "node 0 is damaged"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "scope": []}]}), r"graph.json: the file is damaged, .* scope is empty"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "scope": [10**12]}]}), "the file is damaged, .* at most 134217727"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "inputs": [0]}]}), "the file is damaged, .* cycle"),
        (json.dumps({**GOOD, "nodes": [NODE, {**NODE, "kind": "partition", "inputs": [0, 0]}]}), "damaged, .* overlap"),
        (json.dumps({**GOOD, "nodes": [{**NODE, "kind": "partition"}]}), "the file is damaged"),
        (json.dumps({**GOOD, "outputs": []}), "the file is damaged, .* there are no outputs"),
    ],
)
def test_damaged_files_are_refused(text: str | None, message: str, tmp_path) -> None:
    path = tmp_path / "graph.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        RegionGraph.load(path)
    if text is not None:
        with path.open() as file, pytest.raises(FileFormatError, match=message):
            RegionGraph.load(file)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(FileFormatError, match=r"the open file: the file cannot be read .*utf-8"):
        RegionGraph.load(io.BytesIO(b"\xff\xfe"))


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


def named_regions(**changed: Any) -> io.StringIO:
    """Two chains over three variables, as another library writes them: names are texts, splits name them by number."""
    scopes = [[0, 1, 2], [0, 1], [2], [1], [0], [0, 1], [2], [0], [1]]
    splits = [(0, [1, 2]), (1, [3, 4]), (0, [5, 6]), (5, [7, 8])]
    document: dict[str, Any] = {
        "regions": {str(name): {"scope": scope} for name, scope in enumerate(scopes)},
        "roots": ["0"],
        "graph": [{"output": output, "inputs": inputs} for output, inputs in splits],
    }
    return io.StringIO(json.dumps(document | changed))


def test_loads_named_regions_of_another_library() -> None:
    graph = RegionGraph.load(named_regions())
    (root,) = graph.outputs
    assert root.scope == Scope([0, 1, 2])
    assert (len(graph.region_nodes), len(graph.partition_nodes), len(graph.inputs)) == (9, 4, 6)
    splits = [[part.scope for part in graph.partition_inputs(one)] for one in graph.region_inputs(root)]
    assert splits == [[Scope([0, 1]), Scope([2])]] * 2
    again = io.StringIO()
    graph.dump(again)
    assert described(RegionGraph.load(io.StringIO(again.getvalue()))) == described(graph)


@pytest.mark.parametrize(
    "changed",
    [
        {"roots": ["9"]},
        {"graph": [{"output": 0, "inputs": [1]}, {"inputs": []}]},
        {"graph": [{"output": 0, "inputs": [1, 3]}]},
        {"regions": [[0]]},
        {"regions": {"0": {"scope": [-1]}}, "graph": []},
        {"roots": []},
    ],
)
def test_damaged_named_regions_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match=r"damaged|fit together|write it again"):
        RegionGraph.load(named_regions(**changed))
