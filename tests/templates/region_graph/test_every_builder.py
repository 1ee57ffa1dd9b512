"""What holds for the region graphs of every builder, and for the circuits that are built on them."""

import functools
import io
import itertools
import json
import operator
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from plica.errors import FileFormatError
from plica.symbolic.scope import Scope
from plica.templates.region_graph import (
    PartitionNode,
    RegionGraph,
    RegionNode,
)
from tests.harness.circuits import coin
from tests.harness.oracle import Oracle, keys
from tests.harness.region_graphs import REGION_GRAPHS, described, splits
from tests.harness.together import grouped

every = grouped("make", REGION_GRAPHS.values(), ids=REGION_GRAPHS)


@every
def test_partitions_split_regions_into_disjoint_parts(make) -> None:
    graph: RegionGraph = make()
    assert list(graph.scope) == list(range(graph.num_variables))
    for partition in graph.partition_nodes:
        (region,) = graph.partition_outputs(partition)
        parts = [list(part.scope) for part in graph.partition_inputs(partition)]
        assert len(parts) >= 2
        assert sorted(itertools.chain(*parts)) == list(partition.scope) == list(region.scope)


@every
def test_views_agree_with_each_other(make) -> None:
    graph: RegionGraph = make()
    nodes = list(graph.nodes)
    assert [node for node in nodes if isinstance(node, RegionNode)] == list(graph.region_nodes)
    assert [node for node in nodes if isinstance(node, PartitionNode)] == list(graph.partition_nodes)
    ends = (*graph.inputs, *graph.outputs)
    assert list(graph.inner_region_nodes) == [node for node in graph.region_nodes if node not in ends]
    assert list(graph.inner_nodes) == [node for node in nodes if node not in graph.inputs]
    assert [node for node in graph.region_nodes if not graph.region_outputs(node)] == list(graph.outputs)
    assert len(graph.outputs) == 1
    assert graph.outputs[0].scope == graph.scope
    before: set[object] = set()
    for node in nodes:  # each after its inputs, and the edges are the same from both ends
        if isinstance(node, RegionNode):
            assert set(graph.region_inputs(node)) <= before
            assert all(node in graph.partition_outputs(one) for one in graph.region_inputs(node))
            assert all(node in graph.partition_inputs(one) for one in graph.region_outputs(node))
        else:
            assert set(graph.partition_inputs(node)) <= before
        before.add(node)


@every
def test_the_leaves_of_any_choice_of_partitions_cover_the_variables_once(make) -> None:
    graph: RegionGraph = make()
    rng = np.random.default_rng(0)
    for _ in range(3):
        todo: list[RegionNode] = list(graph.outputs)
        leaves: list[int] = []
        while todo:
            region = todo.pop()
            ways = graph.region_inputs(region)
            if ways:
                todo += graph.partition_inputs(ways[rng.integers(len(ways))])
            else:
                leaves += region.scope
        assert sorted(leaves) == list(graph.scope)


@every
def test_properties_are_what_the_splits_say(make) -> None:
    graph: RegionGraph = make()
    found = splits(graph)
    ways = {scope: {parts for whole, parts in found if whole == scope} for scope, _ in found}
    assert graph.is_structured_decomposable == all(len(parts) == 1 for parts in ways.values())
    assert graph.is_omni_compatible == all(len(part) == 1 for _, parts in found for part in parts)
    if graph.is_omni_compatible:
        assert graph.is_structured_decomposable
    assert graph.is_compatible(graph) == graph.is_structured_decomposable


@every
def test_building_again_gives_the_same_graph(make) -> None:
    assert described(make()) == described(make())


@pytest.mark.parametrize("make", REGION_GRAPHS.values(), ids=REGION_GRAPHS)
def test_files_round_trip(make, tmp_path) -> None:
    graph: RegionGraph = make()
    graph.dump(tmp_path / "graph.json")
    assert described(RegionGraph.load(tmp_path / "graph.json")) == described(graph)


@every
@grouped("sum_product", ["cp", "cp-t", "tucker"])
def test_circuits_are_smooth_decomposable_and_sum_to_one(make, sum_product: str) -> None:
    graph: RegionGraph = make()
    circuit = graph.build_circuit(
        input_factory=coin, sum_product=sum_product, num_input_units=2, num_sum_units=3, num_classes=2
    )
    assert circuit.scope == graph.scope
    assert circuit.is_smooth
    assert circuit.is_decomposable
    if len(graph.inputs) > 1:
        assert circuit.is_structured_decomposable == graph.is_structured_decomposable
    assert circuit.is_omni_compatible == graph.is_omni_compatible
    rng = np.random.default_rng(0)
    values = {key: rng.normal(size=leaf.shape) for leaf, key in keys(circuit).items()}
    np.testing.assert_allclose(Oracle(circuit, values).total().astype(float), np.ones((1, 2)), rtol=1e-12)


@pytest.mark.parametrize("first", ["quad tree, 3x3", "fully factorized, 5", "linear, 6", "Chow-Liu, 7"])
def test_graphs_go_with_those_that_split_alike(first: str) -> None:
    graph = REGION_GRAPHS[first]()
    assert graph.is_compatible(REGION_GRAPHS[first]())
    assert graph.is_compatible(REGION_GRAPHS["fully factorized, 5"](), scope=Scope(range(3)))


def test_one_region_can_be_left_whole() -> None:
    graph = REGION_GRAPHS["random binary, 8, depth 2"]()
    assert sorted(len(region.scope) for region in graph.inputs) == [2] * 4
    circuit = graph.build_circuit(input_factory=coin, sum_product="cp-t", num_input_units=3, num_sum_units=2)
    assert [layer.arity for layer in circuit.product_layers] == [2] * 7
    assert [layer.num_output_units for layer in circuit.input_layers] == [3] * 8


_VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2, 3, 10**9, 2**27, 10**30, 0.5, "0", "region", "partition", [], [0], [[0]], {}),
    {"kind": "region"},
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values within a JSON document."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from _places(value[key], (*path, key))


def _mutated(text: str, rng: random.Random) -> str:
    """The text with a value that is gone, repeated, moved or another one; or with other characters."""
    if rng.random() < 0.2:
        place = rng.randrange(len(text))
        return text[:place] + rng.choice(["", "x", "9", "[", '"']) + text[place + rng.choice([0, 1, len(text)]) :]
    document = json.loads(text)
    *path, last = rng.choice(list(_places(document)))
    holder: Any = functools.reduce(operator.getitem, path, document)
    match rng.randrange(4):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), holder[last])
        case 2 if isinstance(holder, list):
            rng.shuffle(holder)
        case _:
            holder[last] = rng.choice(_VALUES)
    return json.dumps(document)


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.full)])
def test_a_mutated_file_is_a_region_graph_or_is_refused_with_one_line(count: int) -> None:
    rng = random.Random(0)
    texts = []
    for make in REGION_GRAPHS.values():
        make().dump(file := io.StringIO())
        texts.append(file.getvalue())
    messages = []
    for _ in range(count):
        try:
            graph = RegionGraph.load(io.StringIO(_mutated(rng.choice(texts), rng)))
        except FileFormatError as error:
            messages.append(str(error))
            continue
        for covered, parts in splits(graph):
            assert frozenset.union(*parts) == covered
        graph.dump(again := io.StringIO())
        assert described(RegionGraph.load(io.StringIO(again.getvalue()))) == described(graph)
    assert 0 < len(messages) < count
    assert all(len(message.splitlines()) == 1 and len(message) < 400 for message in messages)
