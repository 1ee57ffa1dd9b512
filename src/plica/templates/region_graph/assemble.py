"""Collects the nodes of a region graph while it is built.

>>> parts = Assembly()
>>> root = parts.split([parts.region([0]), parts.region([1])])
>>> parts.graph(root)
RegionGraph(3 regions, 1 partitions, 2 variables)
"""

from collections.abc import Iterable, Sequence

from plica.symbolic.scope import Scope
from plica.templates.region_graph.graph import RegionGraph
from plica.templates.region_graph.nodes import PartitionNode, RegionGraphNode, RegionNode


class Assembly:
    """The nodes so far, each after its inputs."""

    def __init__(self) -> None:
        self._in_nodes: dict[RegionGraphNode, list[RegionGraphNode]] = {}

    def region(self, scope: Iterable[int]) -> RegionNode:
        """A new region without partitions."""
        region = RegionNode(scope)
        self._in_nodes[region] = []
        return region

    def add_partition(self, region: RegionNode, parts: Sequence[RegionNode]) -> None:
        """Add another way to split `region`."""
        partition = PartitionNode(region.scope)
        self._in_nodes[partition] = list(parts)
        self._in_nodes[region].append(partition)

    def split(self, *ways: Sequence[RegionNode]) -> RegionNode:
        """A new region with one partition for each of `ways`."""
        region = self.region(Scope.union(*(part.scope for part in ways[0])))
        for parts in ways:
            self.add_partition(region, parts)
        return region

    def graph(self, root: RegionNode) -> RegionGraph:
        """The region graph of everything so far."""
        return RegionGraph(self._in_nodes, self._in_nodes, [root])
