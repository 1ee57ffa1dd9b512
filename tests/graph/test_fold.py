"""Folding of graphs: schedules, the order of folds, the index, and evaluation by groups against evaluation by nodes."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import GraphError
from plica.graph.fold import build_folded_graph, by_agenda, by_level, group_foldable, order_folds, schedule
from plica.graph.order import layerwise_topological_order, topological_order
from tests.harness.folding import fold_groups, fold_nodes

Graph = Mapping[int, Sequence[int]]


@st.composite
def dags(draw: st.DrawFn) -> tuple[dict[int, list[int]], dict[int, str]]:
    """Nodes under shuffled names that read earlier ones, some twice, and the kind of each."""
    count = draw(st.integers(1, 14))
    names = draw(st.permutations(range(count)))
    children = [draw(st.lists(st.integers(0, node - 1), max_size=3)) if node else [] for node in range(count)]
    graph = {names[node]: [names[child] for child in children[node]] for node in range(count)}
    return graph, {node: draw(st.sampled_from("pq")) for node in graph}


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[int, list[int]], dict[int, str]]:
    """Trees: every node but the root, 0, is read once."""
    parents = [draw(st.integers(0, node)) for node in range(draw(st.integers(0, 14)))]
    graph: dict[int, list[int]] = {node: [] for node in range(len(parents) + 1)}
    for child, parent in enumerate(parents, start=1):
        graph[parent].append(child)
    return graph, {node: draw(st.sampled_from("pq")) for node in graph}


def settings_of(graph: Graph, kinds: Mapping[int, str]):
    return lambda node: (kinds[node], len(graph[node]))


def group_closure(graph: Graph, groups: Sequence[Sequence[int]]) -> list[set[int]]:
    """For each group in topological order, those that it depends on."""
    home = {node: number for number, group in enumerate(groups) for node in group}
    below: list[set[int]] = []
    for group in groups:
        direct = {home[child] for node in group for child in graph[node]}
        below.append(direct.union(*(below[one] for one in direct)))
    return below


def value(node: int, kind: str, inputs: Sequence[tuple]) -> tuple:
    """What a node computes: all that it depends on, and the order of its inputs."""
    return (kind, *inputs) if inputs else (kind, node)


@given(dags())
def test_groups_evaluate_to_what_nodes_do(case) -> None:
    graph, kinds = case
    expected: dict[int, tuple] = {}
    for node in topological_order(sorted(graph), graph.__getitem__):
        expected[node] = value(node, kinds[node], [expected[child] for child in graph[node]])
    outputs = [*list(graph)[-2:], next(iter(graph))]
    folded = fold_nodes(sorted(graph), outputs, graph.__getitem__, settings_of(graph, kinds))
    arrays: list[list[tuple]] = []
    for group, index in zip(folded.nodes, folded.info.in_fold_idx, strict=True):
        first, *_ = group
        values = [[arrays[source][fold] for source, fold in inputs] for inputs in index]
        arrays.append(
            [value(node, kinds[first], inputs) for node, inputs in zip(group, values, strict=True)]
        )  # a source that comes later raises
    assert [arrays[source][fold] for source, fold in folded.info.out_fold_idx] == [expected[node] for node in outputs]
    assert sorted(node for group in folded.nodes for node in group) == sorted(graph)
    for group, index in zip(folded.nodes, folded.info.in_fold_idx, strict=True):
        arity = len(graph[group[0]])
        assert np.array(index).shape == ((len(group), arity, 2) if arity else (len(group), 0))
        assert len({settings_of(graph, kinds)(node) for node in group}) == 1


@given(dags())
def test_each_schedule_is_a_partition_in_topological_order(case) -> None:
    graph, kinds = case
    ways = {
        way: way(sorted(graph), graph.__getitem__, settings_of(graph, kinds)) for way in (by_level, by_agenda, schedule)
    }
    for groups in ways.values():
        place = {node: number for number, group in enumerate(groups) for node in group}
        assert sorted(place) == sorted(graph)
        assert sum(map(len, groups)) == len(graph)
        assert all(place[child] < place[node] for node, children in graph.items() for child in children)
    assert len(ways[schedule]) <= min(len(ways[by_level]), len(ways[by_agenda]))
    keys = settings_of(graph, kinds)
    below = group_closure(graph, ways[schedule])
    for first, second in itertools.combinations(range(len(ways[schedule])), 2):
        if keys(ways[schedule][first][0]) == keys(ways[schedule][second][0]):
            assert first in below[second]  # what is alike stays apart only where one depends on the other
    shortest = len({settings_of(graph, kinds)(node) for node in graph})
    assert all(len(groups) >= shortest for groups in ways.values())


@given(trees())
def test_on_trees_every_input_position_reads_runs(case) -> None:
    """One run from each group that it reads; one view where that is one group."""
    graph, kinds = case
    folded = fold_nodes(graph, [0], graph.__getitem__, settings_of(graph, kinds))
    for index in folded.info.in_fold_idx:
        for place in range(len(index[0])):
            read: dict[int, list[int]] = {}
            for inputs in index:
                source, fold = inputs[place]
                read.setdefault(source, []).append(fold)
            assert all(folds == list(range(folds[0], folds[0] + len(folds))) for folds in read.values())


def test_equal_settings_together_in_order_of_appearance() -> None:
    assert group_foldable("bacab", str.upper) == [["b", "b"], ["a", "a"], ["c"]]
    assert group_foldable("", str.upper) == []


# name: (inputs of each node, kinds), the number of groups by level, by agenda
SCHEDULES = {
    "alike": ({"a": "", "b": "", "x1": "a", "x2": "b"}, 2, 2),
    # s reads a at level 1, and t at level 2
    "a longer way to one": ({"a": "", "b": "", "s1": "a", "t": "b", "s2": "t"}, 4, 3),
    "chains of several lengths": ({"a": "", "s1": "a", "t1": "s1", "u": "a", "s2": "u", "t2": "s2"}, 6, 4),
    # s a is ready with t a; the t that lie higher make it go first, and the other s at the same height wait in vain
    "the agenda loses": (
        {"a": "", "s1": "a", "t2": "a", "t3": "t2", "t4": "s1", "s5": "t4", "s6": "t3"},
        5,
        6,
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_how_many_groups(name: str) -> None:
    graph, levels, agenda = SCHEDULES[name]
    inputs = {node: [one for one in graph if one in children.split()] for node, children in graph.items()}

    def kind(node: str) -> str:
        return node[0] if inputs[node] else "input"

    assert len(by_level(tuple(inputs), inputs.__getitem__, kind)) == levels
    assert len(by_agenda(tuple(inputs), inputs.__getitem__, kind)) == agenda
    assert len(schedule(tuple(inputs), inputs.__getitem__, kind)) == min(levels, agenda)


def test_order_follows_outputs_then_readers() -> None:
    inputs = {"a": (), "b": (), "c": (), "x": ("c", "a"), "y": ("a", "b")}
    groups = (("a", "b", "c"), ("x", "y"))
    assert order_folds(groups, "yx", inputs.__getitem__) == (("a", "c", "b"), ("y", "x"))
    assert order_folds(groups, "xyb", inputs.__getitem__) == (("b", "c", "a"), ("x", "y"))  # outputs claim first


def test_the_index_has_shape_folds_arity_2() -> None:
    inputs = {"a": (), "b": (), "x": ("a", "b", "a"), "y": ("b", "b", "x")}
    folded = fold_groups((("b", "a"), ("x",), ("y",)), "xbx", inputs.__getitem__)
    assert folded.in_nodes == {("b", "a"): (), ("x",): (("b", "a"),), ("y",): (("b", "a"), ("x",))}
    assert folded.outputs == (("x",), ("b", "a"), ("x",))
    info = folded.info
    assert np.array(info.in_fold_idx[0]).shape == (2, 0)
    assert info.in_fold_idx[1:] == ((((0, 1), (0, 0), (0, 1)),), (((0, 0), (0, 0), (1, 0)),))
    assert np.array(info.in_fold_idx[1]).shape == (1, 3, 2)
    assert info.out_fold_idx == ((1, 0), (0, 0), (1, 0))


@dataclass(frozen=True, eq=False)
class Module:
    """A node that says itself what it folds with."""

    name: str
    settings: str = ""

    def fold_settings(self) -> str:
        return self.settings

    def __repr__(self) -> str:
        return self.name


class Other(Module):
    """A node of another type."""


def test_levels_are_grouped_by_what_modules_say() -> None:
    """With four arguments, as levels of a graph whose modules have `fold_settings()`; the result unpacks."""
    a, b, c, d = Module("a", "p"), Module("b", "q"), Module("c", "p"), Other("d", "p")
    x, y = Module("x"), Module("y")
    inputs: dict[Any, tuple[Module, ...]] = {x: (a, b), y: (c, d)}
    levels = layerwise_topological_order([x, y], lambda node: inputs.get(node, ()))
    nodes, in_nodes, outputs, info = build_folded_graph(levels, [y, x], lambda node: inputs.get(node, ()), tuple)
    assert nodes == ((a, c), (b,), (d,), (x, y))
    assert in_nodes[x, y] == ((a, c), (b,), (d,))
    assert outputs == ((x, y), (x, y))
    assert info.out_fold_idx == ((3, 1), (3, 0))
    assert info.in_fold_idx[3] == (((0, 0), (1, 0)), ((0, 1), (2, 0)))
    for group, members in enumerate(nodes):
        for fold, module in enumerate(members):
            assert info.find(module) == info.fold_idx[module] == (group, fold)
            assert info.module(group, fold) is module


def test_unlike_modules_are_refused_in_one_group() -> None:
    a, b, x, y = Module("a"), Other("b"), Module("x"), Module("y")
    inputs: dict[Any, tuple[Module, ...]] = {x: (a,), y: (a, a)}

    def fold(*levels: Sequence[Module]) -> Any:
        return build_folded_graph(levels, [], lambda node: inputs.get(node, ()), tuple, fold_settings=lambda _: "alike")

    with pytest.raises(GraphError, match=r"of types Module and Other are in one group, .* begins with a: .*alike"):
        fold([a, b])
    with pytest.raises(GraphError, match=r"nodes with 1 and with 2 inputs are in one group, which begins with x"):
        fold([a], [x, y])
    with pytest.raises(GraphError, match=r"x reads a, which is not in an earlier frontier; give frontiers in topo"):
        fold([x])
    assert fold([a], [x], [y]).nodes == ((a,), (x,), (y,))


# what is wrong: frontiers, outputs, what build_folded_graph is given beside, the message
MALFORMED: dict[str, tuple[Sequence[str], str, dict[str, Any], str]] = {
    "an output in no frontier": (["a"], "b", {}, "the output 'b' is in no frontier"),
    "a node in two frontiers": (["ab", "xa"], "x", {}, "a node of the group that begins with 'a' comes twice"),
    "a node twice in one": (["aab"], "a", {}, "a node of the group that begins with 'a' comes twice"),
    "no folds": (["a"], "a", {"folds_fn": lambda _: ()}, "'a' has no folds; let folds_fn give"),
    "a fold that is not there": (
        ["a", "x"],
        "x",
        {"folds_fn": lambda node: [[("a", 1)]] if node == "x" else [[]]},
        "'x' reads fold 1 of 'a', which has 1; folds are counted from 0",
    ),
    "a fold from the end": (
        ["a", "x"],
        "x",
        {"folds_fn": lambda node: [[("a", -1)]] if node == "x" else [[]]},
        "'x' reads fold -1 of 'a', which has 1; folds are counted from 0",
    ),
    "one folded node for two groups": (["a", "x"], "x", {"fold_group_fn": lambda _: "same"}, "gave 'same' for two"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_frontiers_and_folds_are_refused(name: str) -> None:
    frontiers, outputs, beside, message = MALFORMED[name]
    arguments = {"fold_group_fn": "".join, "fold_settings": lambda node: node in "xy", **beside}
    with pytest.raises(GraphError, match=message):
        build_folded_graph(frontiers, outputs, lambda node: ("a",) if node in "xy" else (), **arguments)


def test_what_is_not_in_the_graph_is_not_found() -> None:
    (_, _, _, info) = build_folded_graph([["a", "b"]], ["a"], lambda _: (), tuple, fold_settings=type)
    with pytest.raises(GraphError, match="'c' is not part of the folded graph"):
        info.find("c")
    for group, fold in ((0, 2), (1, 0), (0, -1), (-1, 0)):
        with pytest.raises(GraphError, match=f"there is no fold {fold} of group {group}"):
            info.module(group, fold)


def test_numbers_of_folds_of_folded_members_add_up() -> None:
    """`pq` and `r` are folded already and become one; `x` reads the second fold of `pq` and the only one of `r`."""
    reads: dict[str, list[list[tuple[str, int]]]] = {"pq": [[], []], "r": [[]], "x": [[("pq", 1), ("r", 0)]]}
    inputs: dict[str, tuple[str, ...]] = {"pq": (), "r": (), "x": ("pq", "r")}
    _, _, _, info = build_folded_graph(
        [["r", "pq"], ["x"]],
        ["x"],
        inputs.__getitem__,
        "+".join,
        fold_settings=lambda node: len(inputs[node]),
        folds_fn=reads.__getitem__,
    )
    assert info.modules == (("r", "pq", "pq"), ("x",))
    assert info.in_fold_idx == (((), (), ()), (((0, 2), (0, 0)),))
    assert info.find("pq") == (0, 1)
