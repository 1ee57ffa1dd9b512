"""Folding: alike nodes of a DAG become one node with a fold axis.

Three steps, none of which knows what a node is: `schedule` groups nodes that may be computed together, in an order that
respects inputs; `order_folds` orders the members of each group so that consumers read runs instead of scattered folds;
`build_folded_graph` makes the folded nodes and the index of who reads which fold of which group.

>>> inputs = {"a": (), "b": (), "c": (), "d": (), "x": ("a", "c"), "y": ("b", "d")}
>>> groups = schedule("abcdxy", inputs.__getitem__, lambda node: len(inputs[node]))
>>> ordering = order_folds(groups, "yx", inputs.__getitem__)
>>> graph = build_folded_graph(ordering, "yx", inputs.__getitem__, lambda members, in_fold_idx: "".join(members))
>>> graph.nodes, graph.in_nodes["yx"], graph.outputs
(('badc', 'yx'), ('badc',), ('yx', 'yx'))
>>> graph.info.in_fold_idx[1]
(((0, 0), (0, 2)), ((0, 1), (0, 3)))
>>> graph.info.out_fold_idx
((1, 0), (1, 1))
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from plica.graph.order import Inputs, layerwise_topological_order, topological_order

Node = TypeVar("Node", bound=Hashable)
Folded = TypeVar("Folded", bound=Hashable)
FoldIndex = tuple[int, int]
InFoldIdx = tuple[tuple[FoldIndex, ...], ...]  # (F, H, 2)
Settings = Callable[[Node], Hashable]
Groups = tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class FoldIndexInfo:
    """Where each fold finds its inputs, and where the outputs are.

    Args:
        in_fold_idx: For each group, for each of its F folds and each of its H inputs, the pair (group, fold).
        out_fold_idx: The pair (group, fold) of each output.
    """

    in_fold_idx: tuple[InFoldIdx, ...]
    out_fold_idx: tuple[FoldIndex, ...]


@dataclass(frozen=True, slots=True)
class FoldedGraph(Generic[Folded]):
    """A folded graph.

    Args:
        nodes: The folded nodes in topological order.
        in_nodes: The folded nodes that each one reads, each once.
        outputs: The folded node of each output.
        info: Which folds they are.
    """

    nodes: tuple[Folded, ...]
    in_nodes: dict[Folded, tuple[Folded, ...]]
    outputs: tuple[Folded, ...]
    info: FoldIndexInfo


def group_foldable(nodes: Iterable[Node], fold_settings: Settings[Node]) -> list[list[Node]]:
    """`nodes` that have equal settings together, in order of first appearance."""
    groups: dict[Hashable, list[Node]] = {}
    for node in nodes:
        groups.setdefault(fold_settings(node), []).append(node)
    return list(groups.values())


def by_level(nodes: Sequence[Node], inputs: Inputs[Node], fold_settings: Settings[Node]) -> Groups[Node]:
    """Groups of alike nodes of one level of the layer-wise topological order."""
    levels = layerwise_topological_order(nodes, inputs)
    return tuple(tuple(group) for level in levels for group in group_foldable(level, fold_settings))


def by_agenda(nodes: Sequence[Node], inputs: Inputs[Node], fold_settings: Settings[Node]) -> Groups[Node]:
    """Groups of alike nodes that are ready together, whatever their level.

    Of the settings that have ready nodes, the one whose remaining nodes lie lowest on average goes first, so that a
    kind waits until most of its nodes are ready.

    Source: Neubig, Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs", 2017, section 3.2.
    """
    ordered = topological_order(nodes, inputs)
    keys = {node: fold_settings(node) for node in ordered}
    height = _heights(ordered, inputs)
    waiting = {node: len(set(inputs(node))) for node in ordered}
    readers = _readers(ordered, inputs)
    depth: dict[Hashable, int] = dict.fromkeys(keys.values(), 0)
    count: dict[Hashable, int] = dict.fromkeys(keys.values(), 0)
    for node in ordered:
        depth[keys[node]] += height[node]
        count[keys[node]] += 1
    ready: dict[Hashable, list[Node]] = {}
    for node in ordered:
        if not waiting[node]:
            ready.setdefault(keys[node], []).append(node)
    groups = []
    while ready:
        key = min(ready, key=lambda one: depth[one] / count[one])
        group = ready.pop(key)
        groups.append(tuple(group))
        for node in group:
            depth[key] -= height[node]
            count[key] -= 1
            for reader in readers[node]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.setdefault(keys[reader], []).append(reader)
    return tuple(groups)


def _heights(ordered: Sequence[Node], inputs: Inputs[Node]) -> dict[Node, int]:
    height: dict[Node, int] = {}
    for node in ordered:
        height[node] = max((height[child] + 1 for child in inputs(node)), default=0)
    return height


def _readers(ordered: Sequence[Node], inputs: Inputs[Node]) -> dict[Node, list[Node]]:
    readers: dict[Node, list[Node]] = {node: [] for node in ordered}
    for node in ordered:
        for child in dict.fromkeys(inputs(node)):
            readers[child].append(node)
    return readers


def schedule(nodes: Sequence[Node], inputs: Inputs[Node], fold_settings: Settings[Node]) -> Groups[Node]:
    """The shorter of the groupings by level and by agenda, with alike groups merged; by level if both are as long."""
    groups = min((way(nodes, inputs, fold_settings) for way in (by_level, by_agenda)), key=len)
    return merged(groups, inputs, fold_settings) if len(groups) <= _MERGED_UP_TO else groups


_MERGED_UP_TO = 256  # groups; looking for paths between all pairs takes time in the square of their number


def merged(groups: Groups[Node], inputs: Inputs[Node], fold_settings: Settings[Node]) -> Groups[Node]:
    """Groups of equal settings made one wherever no path leads from one to the other, in topological order."""
    home = {node: number for number, group in enumerate(groups) for node in group}
    reads = [tuple(dict.fromkeys(home[child] for node in group for child in inputs(node))) for group in groups]
    below = [0] * len(groups)  # for each group the set, as bits, of those that it depends on
    for number, children in enumerate(reads):
        for child in children:
            below[number] |= below[child] | 1 << child
    target = list(range(len(groups)))
    alike: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        firsts = alike.setdefault(fold_settings(group[0]), [])
        for first in firsts:
            if not (below[number] >> first & 1 or below[first] >> number & 1):
                target[number] = first
                _join(below, first, number)
                break
        else:
            firsts.append(number)
    members: dict[int, list[Node]] = {}
    for number, group in enumerate(groups):
        members.setdefault(target[number], []).extend(group)
    order = topological_order(
        members, lambda first: [target[home[child]] for node in members[first] for child in inputs(node)]
    )
    return tuple(tuple(members[first]) for first in order)


def _join(below: list[int], first: int, second: int) -> None:
    """Make two groups one in the sets of what lies below each."""
    both = 1 << first | 1 << second
    below[first] = below[second] = below[first] | below[second]
    for number, found in enumerate(below):
        if found & both:
            below[number] = found | both | below[first]


def order_folds(groups: Groups[Node], outputs: Iterable[Node], inputs: Inputs[Node]) -> Groups[Node]:
    """The groups with their members in an order in which consumers read runs.

    From the last group to the first: what one input position of one group reads becomes a run, in the order of the
    reader's folds, unless a run before has claimed it.
    """
    home = {node: number for number, group in enumerate(groups) for node in group}
    runs: list[dict[Node, None]] = [{} for _ in groups]

    def claim(nodes: Iterable[Node]) -> None:
        for node in nodes:
            runs[home[node]][node] = None

    claim(outputs)
    ordered: list[tuple[Node, ...]] = []
    for number in range(len(groups) - 1, -1, -1):
        members = tuple(dict.fromkeys((*runs[number], *groups[number])))
        ordered.append(members)
        arity = max((len(inputs(node)) for node in members), default=0)
        for place in range(arity):
            claim(inputs(node)[place] for node in members if place < len(inputs(node)))
    return tuple(reversed(ordered))


def build_folded_graph(
    ordering: Groups[Node],
    outputs: Iterable[Node],
    incomings_fn: Inputs[Node],
    fold_group_fn: Callable[[tuple[Node, ...], InFoldIdx], Folded],
) -> FoldedGraph[Folded]:
    """Fold each group of `ordering` into one node.

    Args:
        ordering: Groups in topological order, each with its members in the order of the fold axis.
        outputs: The nodes whose values are asked for, in order.
        incomings_fn: The inputs of a node, in order.
        fold_group_fn: From the members of a group, and the places of their inputs, to the folded node.
    """
    fold_idx: dict[Node, FoldIndex] = {}
    nodes: list[Folded] = []
    in_nodes: dict[Folded, tuple[Folded, ...]] = {}
    in_fold_idx: list[InFoldIdx] = []
    for number, group in enumerate(ordering):
        places = tuple(tuple(fold_idx[child] for child in incomings_fn(node)) for node in group)
        folded = fold_group_fn(group, places)
        read = dict.fromkeys(module for member in places for module, _ in member)
        in_nodes[folded] = tuple(nodes[module] for module in read)
        fold_idx.update((node, (number, fold)) for fold, node in enumerate(group))
        nodes.append(folded)
        in_fold_idx.append(places)
    out_fold_idx = tuple(fold_idx[node] for node in outputs)
    info = FoldIndexInfo(tuple(in_fold_idx), out_fold_idx)
    return FoldedGraph(tuple(nodes), in_nodes, tuple(nodes[module] for module, _ in out_fold_idx), info)
