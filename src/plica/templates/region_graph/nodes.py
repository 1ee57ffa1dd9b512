"""The nodes of region graphs: sets of variables, and ways to split them.

>>> from plica.templates.region_graph import RegionGraph
>>> whole, x, y, split = RegionNode([0, 1]), RegionNode([0]), RegionNode([1]), PartitionNode([0, 1])
>>> graph = RegionGraph([x, y, split, whole], {split: [x, y], whole: [split]}, [whole])
>>> graph.partition_inputs(split)
(RegionNode({0}), RegionNode({1}))
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, final

from plica.errors import GraphError
from plica.symbolic.scope import Scope


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class _ScopeNode:
    """A node that stands for a set of variables."""

    scope: Scope

    def __init__(self, scope: Iterable[int]) -> None:
        object.__setattr__(self, "scope", scope if isinstance(scope, Scope) else Scope(scope))
        if not self.scope:
            raise GraphError(f"{type(self).__name__}: the scope is empty; give it at least one variable")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scope!s})"


@final
class RegionNode(_ScopeNode):
    """A set of variables; without partitions, an input."""

    __slots__ = ()


@final
class PartitionNode(_ScopeNode):
    """One way to split a region into regions without a common variable."""

    __slots__ = ()


RegionGraphNode: TypeAlias = RegionNode | PartitionNode
