"""Folding of plain graphs: a folded node is the tuple of its members."""

from collections.abc import Iterable
from typing import Any

from plica.graph.fold import FoldedGraph, build_folded_graph, order_folds, schedule


def fold_nodes(nodes: Iterable[Any], outputs: Iterable[Any], inputs: Any, settings: Any) -> FoldedGraph[Any, Any]:
    """Schedule, order and fold."""
    wanted = tuple(outputs)
    ordering = order_folds(schedule(tuple(nodes), inputs, settings), wanted, inputs)
    return build_folded_graph(ordering, wanted, inputs, tuple, fold_settings=settings)


def fold_groups(groups: Any, outputs: Iterable[Any], inputs: Any) -> FoldedGraph[Any, Any]:
    """Fold groups as they are."""
    return build_folded_graph(groups, outputs, inputs, tuple, fold_settings=type)
