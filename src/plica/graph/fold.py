"""Folding: alike nodes of a DAG become one node with a fold axis.

Three steps, none of which knows what a node is: `schedule` groups nodes that may be computed together, in an order that
respects inputs; `order_folds` orders the members of each group so that consumers read runs instead of scattered folds;
`build_folded_graph` makes the folded nodes and the index of who reads which fold of which group.

>>> inputs = {"a": (), "b": (), "c": (), "d": (), "x": ("a", "c"), "y": ("b", "d")}
>>> groups = schedule("abcdxy", inputs.__getitem__, lambda node: len(inputs[node]))
>>> ordering = order_folds(groups, "yx", inputs.__getitem__)
>>> settings = lambda node: len(inputs[node])
>>> nodes, in_nodes, outputs, info = build_folded_graph(ordering, "yx", inputs.get, "".join, fold_settings=settings)
>>> nodes, in_nodes["yx"], outputs
(('badc', 'yx'), ('badc',), ('yx', 'yx'))
>>> info.in_fold_idx[1]
(((0, 0), (0, 2)), ((0, 1), (0, 3)))
>>> info.out_fold_idx, info.find("d"), info.module(0, 2)
(((1, 0), (1, 1)), (0, 2), 'd')
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from plica.errors import GraphError
from plica.graph.order import Inputs, consumers, layerwise_topological_order, topological_order

Node = TypeVar("Node", bound=Hashable)
Folded = TypeVar("Folded", bound=Hashable)
FoldIndex = tuple[int, int]
InFoldIdx = tuple[tuple[FoldIndex, ...], ...]  # (F, H, 2)
Settings = Callable[[Node], Hashable]
Groups = tuple[tuple[Node, ...], ...]
Folds = Callable[[Node], Sequence[Sequence[tuple[Node, int]]]]  # (F, H): the node that each fold reads, and its fold


@dataclass(frozen=True, slots=True)
class FoldIndexInfo(Generic[Node]):
    """The index of a folding: the fold of every module (node), the inputs of each fold, and the folds of the outputs.

    Args:
        in_fold_idx: For each group, for each of its F folds and each of its H inputs, the pair (group, fold).
        out_fold_idx: The pair (group, fold) of each output.
        modules: For each group, the module of each of its folds; a module that already had several folds repeats.

    Attributes:
        fold_idx: The pair (group, fold) of every module; of one that had several folds already, its first.
    """

    in_fold_idx: tuple[InFoldIdx, ...]
    out_fold_idx: tuple[FoldIndex, ...]
    modules: tuple[tuple[Node, ...], ...]
    fold_idx: Mapping[Node, FoldIndex] = field(init=False)

    def __post_init__(self) -> None:
        fold_idx: dict[Node, FoldIndex] = {}
        for number, members in enumerate(self.modules):
            for fold, module in enumerate(members):
                fold_idx.setdefault(module, (number, fold))
        object.__setattr__(self, "fold_idx", fold_idx)

    def find(self, module: Node) -> FoldIndex:
        """The pair (group, fold) of a module.

        Raises:
            GraphError: The module is not part of the graph that was folded.
        """
        if module not in self.fold_idx:
            raise GraphError(
                f"{module!r} is not part of the folded graph; ask for a module of the graph as it was folded "
                "(optimizing a circuit replaces some layers, and folding leaves out what no output depends on)"
            )
        return self.fold_idx[module]

    def module(self, group: int, fold: int) -> Node:
        """The module that is one fold of a group.

        Raises:
            GraphError: There is no such group or fold.
        """
        if not 0 <= group < len(self.modules) or not 0 <= fold < len(self.modules[group]):
            known = f"group {group} has {len(self.modules[group])}" if 0 <= group < len(self.modules) else "no group"
            raise GraphError(
                f"there is no fold {fold} of group {group} among {len(self.modules)} groups ({known}); "
                "both count from 0"
            )
        return self.modules[group][fold]


class FoldedGraph(NamedTuple, Generic[Node, Folded]):
    """A folded graph: `nodes, in_nodes, outputs, info = build_folded_graph(...)`.

    Args:
        nodes: The folded nodes in topological order.
        in_nodes: The folded nodes that each one reads, each once.
        outputs: The folded node of each output.
        info: Which folds they are.
    """

    nodes: tuple[Folded, ...]
    in_nodes: dict[Folded, tuple[Folded, ...]]
    outputs: tuple[Folded, ...]
    info: FoldIndexInfo[Node]


def own_settings(node: Any) -> Hashable:
    """The type of a node and the settings that its `fold_settings()` returns."""
    return type(node), node.fold_settings()


def group_foldable(nodes: Iterable[Node], fold_settings: Settings[Node] = own_settings) -> list[list[Node]]:
    """`nodes` that have equal settings together, in order of first appearance.

    Raises:
        GraphError: Settings cannot be compared as a key: a list, a dictionary.
    """
    groups: dict[Hashable, list[Node]] = {}
    for node in nodes:
        settings = fold_settings(node)
        try:
            groups.setdefault(settings, []).append(node)
        except TypeError as error:
            raise GraphError(
                f"fold_settings() of {node!r} must be hashable, found {settings!r} ({error}); return a tuple of "
                "numbers, texts and tuples"
            ) from None
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
    readers = consumers(ordered, lambda node: tuple(dict.fromkeys(inputs(node))))
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
        key = min(ready, key=lambda settings: depth[settings] / count[settings])
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


def schedule(nodes: Sequence[Node], inputs: Inputs[Node], fold_settings: Settings[Node]) -> Groups[Node]:
    """The shorter of the groupings by level and by agenda, with alike groups merged; by level if both are as long."""
    inputs, fold_settings = cache(inputs), cache(fold_settings)  # both groupings call them
    groups = by_level(nodes, inputs, fold_settings)
    if len(groups) == len({fold_settings(group[0]) for group in groups}):
        return groups  # fewer groups are impossible
    groups = min(groups, by_agenda(nodes, inputs, fold_settings), key=len)
    return merged(groups, inputs, fold_settings) if len(groups) <= _MERGED_UP_TO else groups


_MERGED_UP_TO = 256  # groups; looking for paths between all pairs takes time in the square of their number


def merged(groups: Groups[Node], inputs: Inputs[Node], fold_settings: Settings[Node]) -> Groups[Node]:
    """Groups of equal settings made one wherever no path leads from one to the other, in topological order."""
    group_of = {node: number for number, group in enumerate(groups) for node in group}
    reads = [tuple(dict.fromkeys(group_of[child] for node in group for child in inputs(node))) for group in groups]
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
        members, lambda first: [target[group_of[child]] for node in members[first] for child in inputs(node)]
    )
    return tuple(tuple(members[first]) for first in order)


def _join(below: list[int], first: int, second: int) -> None:
    """Join two groups in `below`, which has for each group the set of groups below it, as the bits of an integer."""
    both = 1 << first | 1 << second
    below[first] = below[second] = below[first] | below[second]
    for number, reached in enumerate(below):
        if reached & both:
            below[number] = reached | both | below[first]


def order_folds(groups: Groups[Node], outputs: Iterable[Node], inputs: Inputs[Node]) -> Groups[Node]:
    """The groups with their members in an order in which consumers read runs.

    From the last group to the first: the nodes that one input position of a group reads become a run, in the order of
    their readers' folds, unless an earlier run has claimed it.
    """
    group_of = {node: number for number, group in enumerate(groups) for node in group}
    runs: list[dict[Node, None]] = [{} for _ in groups]

    def claim(nodes: Iterable[Node]) -> None:
        for node in nodes:
            runs[group_of[node]][node] = None

    claim(outputs)
    ordered: list[tuple[Node, ...]] = []
    for number in range(len(groups) - 1, -1, -1):
        members = tuple(dict.fromkeys((*runs[number], *groups[number])))
        ordered.append(members)
        arity = max((len(inputs(node)) for node in members), default=0)
        for position in range(arity):
            claim(inputs(node)[position] for node in members if position < len(inputs(node)))
    return tuple(reversed(ordered))


def build_folded_graph(
    ordering: Iterable[Sequence[Node]],
    outputs: Iterable[Node],
    incomings_fn: Inputs[Node],
    fold_group_fn: Callable[[tuple[Node, ...]], Folded],
    *,
    fold_settings: Settings[Node] = own_settings,
    folds_fn: Folds[Node] | None = None,
) -> FoldedGraph[Node, Folded]:
    """Fold the alike nodes of each frontier of `ordering` into one node.

    Args:
        ordering: Frontiers in topological order: nodes that do not depend on one another. Either levels of the graph,
            or groups of alike nodes as `schedule` and `order_folds` make them; the order of alike nodes in a frontier
            is that of the fold axis.
        outputs: The nodes whose values are results, in order.
        incomings_fn: The inputs of a node, in order.
        fold_group_fn: From the members of a group to the folded node.
        fold_settings: The settings that nodes of one group share.
        folds_fn: For a node that already has several folds, the nodes and folds that each of them reads; numbers of
            folds add up. Without it, every node is one fold and reads the only fold of each input.

    Raises:
        GraphError: A frontier reads a node or a fold that is not in an earlier one, unlike nodes have equal settings,
            a node comes twice or an output not at all, or groups share a folded node.
    """
    folds_of: Folds[Node] = folds_fn or (lambda node: (tuple((child, 0) for child in incomings_fn(node)),))
    first: dict[Node, FoldIndex] = {}
    count: dict[Node, int] = {}  # of the folds of a node
    nodes: list[Folded] = []
    in_nodes: dict[Folded, tuple[Folded, ...]] = {}
    in_fold_idx: list[InFoldIdx] = []
    modules: list[tuple[Node, ...]] = []
    for frontier in ordering:
        for group in group_foldable(frontier, fold_settings):
            own = {node: tuple(folds_of(node)) for node in group}
            folds = [(node, fold) for node, node_folds in own.items() for fold in node_folds]
            _check_group(group, own, first)
            indices = tuple(
                tuple(_fold_index(first, count, node, child, at) for child, at in fold) for node, fold in folds
            )
            folded = fold_group_fn(tuple(group))
            if folded in in_nodes:
                raise GraphError(f"fold_group_fn gave {folded!r} for two groups; make a folded node for each")
            count.update((node, len(node_folds)) for node, node_folds in own.items())
            read = dict.fromkeys(number for fold in indices for number, _ in fold)
            in_nodes[folded] = tuple(nodes[number] for number in read)
            for number, (node, _) in enumerate(folds):
                first.setdefault(node, (len(nodes), number))
            nodes.append(folded)
            in_fold_idx.append(indices)
            modules.append(tuple(node for node, _ in folds))
    wanted = tuple(outputs)
    for node in wanted:
        if node not in first:
            raise GraphError(f"the output {node!r} is in no frontier; give frontiers of all nodes that outputs read")
    out_fold_idx = tuple(first[node] for node in wanted)
    info = FoldIndexInfo(tuple(in_fold_idx), out_fold_idx, tuple(modules))
    return FoldedGraph(tuple(nodes), in_nodes, tuple(nodes[number] for number, _ in out_fold_idx), info)


def _check_group(
    group: Sequence[Node], folds: Mapping[Node, Sequence[Sequence[object]]], first: Mapping[Node, FoldIndex]
) -> None:
    """Refuse nodes that cannot be one: unlike ones, one that is folded already, or one of no folds."""
    if len(folds) < len(group) or any(node in first for node in group):
        raise GraphError(
            f"a node of the group that begins with {group[0]!r} comes twice in the frontiers; give each node once"
        )
    none = next((node for node, node_folds in folds.items() if not node_folds), None)
    if none is not None:
        raise GraphError(f"{none!r} has no folds; let folds_fn give what each fold of a node reads, one at least")
    unlike = next((node for node in group if type(node) is not type(group[0])), None)
    arities = {len(fold) for node_folds in folds.values() for fold in node_folds}
    if unlike is not None or len(arities) > 1:
        facts = (
            f"of types {type(group[0]).__name__} and {type(unlike).__name__}"
            if unlike is not None
            else f"with {min(arities)} and with {max(arities)} inputs"
        )
        raise GraphError(
            f"nodes {facts} are in one group, which begins with {group[0]!r}: what is computed as one must be alike; "
            "let fold_settings() return the type, the number of inputs and all else that tells them apart"
        )


def _fold_index(
    first: Mapping[Node, FoldIndex], count: Mapping[Node, int], node: Node, child: Node, fold: int
) -> FoldIndex:
    if child not in first:
        raise GraphError(
            f"{node!r} reads {child!r}, which is not in an earlier frontier; give frontiers in topological order, as "
            "layerwise_topological_order does, and nodes that depend on one another in different ones"
        )
    if not 0 <= fold < count[child]:
        raise GraphError(f"{node!r} reads fold {fold} of {child!r}, which has {count[child]}; folds are counted from 0")
    number, start = first[child]
    return number, start + fold
