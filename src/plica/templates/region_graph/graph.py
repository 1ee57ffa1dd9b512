"""The region graph: regions (sets of variables) and the partitions that split them.

>>> x, y, both, split = RegionNode([0]), RegionNode([1]), RegionNode([0, 1]), PartitionNode([0, 1])
>>> graph = RegionGraph([x, y, split, both], {split: [x, y], both: [split]}, [both])
>>> graph.scope, len(graph.inputs), graph.is_structured_decomposable
(Scope({0, 1}), 2, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

from plica.arguments import edges, flag, found, looked_up
from plica.errors import DTypeError, FileFormatError, GraphError, InputError
from plica.forks import cached_property
from plica.graph.listing import Listing
from plica.graph.order import consumers, layerwise_topological_order, topological_order
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import ParameterFactory
from plica.symbolic.scope import Scope
from plica.templates.parameterization import InputFactory
from plica.templates.region_graph import build, files
from plica.templates.region_graph.nodes import PartitionNode, RegionGraphNode, RegionNode

Splits: TypeAlias = dict[Scope, dict[frozenset[Scope], None]]


@final
class RegionGraph:
    """A directed acyclic graph of regions and partitions, checked when it is made and compared by identity.

    Args:
        nodes: Every node, in any order.
        in_nodes: The partitions of each region and the parts of each partition; input regions may be left out.
        outputs: The root regions.

    Raises:
        GraphError: A cycle, an edge that does not join a region and a partition, or scopes that do not fit.
    """

    def __init__(
        self,
        nodes: Iterable[RegionGraphNode],
        in_nodes: Mapping[RegionGraphNode, Sequence[RegionGraphNode]],
        outputs: Iterable[RegionNode],
    ) -> None:
        self._in_nodes, self._outputs = edges("RegionGraph", nodes, in_nodes, outputs, "nodes")
        _check_listed(self._in_nodes, in_nodes, self._outputs)
        self._nodes: tuple[RegionGraphNode, ...] = topological_order(self._in_nodes, self._in_nodes.__getitem__)
        self._readers = consumers(self._nodes, self._in_nodes.__getitem__)
        for node in self._nodes:
            if isinstance(node, RegionNode):
                _check_region(node, self._in_nodes[node])
            else:
                _check_partition(node, self._in_nodes[node])
        for output in self._outputs:
            if self._readers[output]:
                raise GraphError(
                    f"RegionGraph: the output {output} is a part of {self._readers[output][0]}; pass a region that is "
                    "no part"
                )

    @property
    def nodes(self) -> Listing[RegionGraphNode]:
        """Every node, each after its inputs."""
        return Listing(self._nodes)

    @property
    def outputs(self) -> Listing[RegionNode]:
        """The root regions."""
        return Listing(self._outputs)

    @property
    def inputs(self) -> Listing[RegionNode]:
        """The regions without partitions."""
        return Listing(region for region in self.region_nodes if not self._in_nodes[region])

    @property
    def inner_nodes(self) -> Listing[RegionGraphNode]:
        """The partitions, and the regions that they split, each after its parts."""
        return Listing(node for node in self._nodes if self._in_nodes[node])

    @property
    def inner_region_nodes(self) -> Listing[RegionNode]:
        """The regions that are split and are parts of others: neither inputs nor roots; each after its parts."""
        return Listing(region for region in self.region_nodes if self._in_nodes[region] and self._readers[region])

    @property
    def region_nodes(self) -> Listing[RegionNode]:
        """The regions, each after its parts."""
        return Listing(node for node in self._nodes if isinstance(node, RegionNode))

    @property
    def partition_nodes(self) -> Listing[PartitionNode]:
        """The partitions, each after its parts."""
        return Listing(node for node in self._nodes if isinstance(node, PartitionNode))

    def topological_ordering(self) -> Listing[RegionGraphNode]:
        """Every node, each after its inputs."""
        return self.nodes

    def layerwise_topological_ordering(self) -> Listing[tuple[RegionGraphNode, ...]]:
        """The nodes by level: a node is one level above its highest input."""
        return Listing(layerwise_topological_order(self._nodes, self._in_nodes.__getitem__))

    def subgraph(self, *roots: RegionNode) -> RegionGraph:
        """The region graph of some regions of this graph and of all below them; the nodes are shared."""
        for root in roots:
            self._of(self._in_nodes, root)
        tops: tuple[RegionGraphNode, ...] = roots
        nodes = topological_order(tops, self._in_nodes.__getitem__)
        return RegionGraph(nodes, {node: self._in_nodes[node] for node in nodes}, roots)

    @property
    def nodes_inputs(self) -> dict[RegionGraphNode, tuple[RegionGraphNode, ...]]:
        """For each node the partitions of a region, or the parts of a partition."""
        return dict(self._in_nodes)

    @property
    def nodes_outputs(self) -> dict[RegionGraphNode, tuple[RegionGraphNode, ...]]:
        """For each node the partitions that a region is a part of, or the regions that a partition splits."""
        return {node: tuple(readers) for node, readers in self._readers.items()}

    def node_inputs(self, node: RegionGraphNode) -> tuple[RegionGraphNode, ...]:
        """The partitions of a region, or the parts of a partition."""
        return self._of(self._in_nodes, node)

    def node_outputs(self, node: RegionGraphNode) -> tuple[RegionGraphNode, ...]:
        """The partitions that a region is a part of, or the regions that a partition splits."""
        return self._of(self._readers, node)

    def region_inputs(self, region: RegionNode) -> tuple[PartitionNode, ...]:
        """The partitions of a region."""
        return tuple(node for node in self._of(self._in_nodes, region) if isinstance(node, PartitionNode))

    def partition_inputs(self, partition: PartitionNode) -> tuple[RegionNode, ...]:
        """The parts of a partition."""
        return tuple(node for node in self._of(self._in_nodes, partition) if isinstance(node, RegionNode))

    def region_outputs(self, region: RegionNode) -> tuple[PartitionNode, ...]:
        """The partitions that a region is a part of."""
        return tuple(node for node in self._of(self._readers, region) if isinstance(node, PartitionNode))

    def partition_outputs(self, partition: PartitionNode) -> tuple[RegionNode, ...]:
        """The regions that a partition splits."""
        return tuple(node for node in self._of(self._readers, partition) if isinstance(node, RegionNode))

    @staticmethod
    def _of(
        table: Mapping[RegionGraphNode, tuple[RegionGraphNode, ...]], node: RegionGraphNode
    ) -> tuple[RegionGraphNode, ...]:
        return looked_up("RegionGraph", table, node, "node")

    @cached_property
    def scope(self) -> Scope:
        """The variables of the roots."""
        return Scope.union(*(output.scope for output in self._outputs))

    @property
    def num_variables(self) -> int:
        """The number of variables."""
        return len(self.scope)

    @cached_property
    def is_structured_decomposable(self) -> bool:
        """Whether partitions of one scope all split it into the same scopes."""
        return all(len(ways) == 1 for ways in self._splits(self.scope).values())

    @cached_property
    def is_omni_compatible(self) -> bool:
        """Whether every part of every partition is a single variable."""
        return all(len(part.scope) == 1 for node in self.partition_nodes for part in self.partition_inputs(node))

    def is_compatible(self, other: RegionGraph, *, scope: Iterable[int] | None = None) -> bool:
        """Whether both graphs split their common variables alike, so that their circuits can be multiplied.

        Args:
            other: The other region graph.
            scope: The variables to compare; by default those that both have.
        """
        if not isinstance(other, RegionGraph):
            raise DTypeError(f"RegionGraph.is_compatible: expected another region graph, {found(other)}")
        if self.is_omni_compatible or other.is_omni_compatible:
            return True
        variables = self.scope & other.scope if scope is None else Scope(scope)
        mine, theirs = self._splits(variables), other._splits(variables)
        return mine.keys() == theirs.keys() and all(len(mine[part] | theirs[part]) == 1 for part in mine)

    def _splits(self, variables: Scope) -> Splits:
        """For each scope, the sets of parts into which partitions split it; all restricted to `variables`."""
        splits: Splits = {}
        for node in self.partition_nodes:
            split = frozenset(part.scope & variables for part in self._in_nodes[node] if part.scope & variables)
            if len(split) > 1:
                splits.setdefault(node.scope & variables, {})[split] = None
        return splits

    def dump(self, file: files.File) -> None:
        """Write the graph as JSON, to a path or an open file."""
        index = {node: number for number, node in enumerate(self._nodes)}
        records = []
        for node in self._nodes:
            kind: Literal["region", "partition"] = "region" if isinstance(node, RegionNode) else "partition"
            inputs = [index[child] for child in self._in_nodes[node]]
            record = files.NodeRecord(kind=kind, inputs=inputs)
            records.append(record if inputs else record | {"scope": list(node.scope)})
        files.write(file, records, [index[output] for output in self._outputs])

    @staticmethod
    def load(file: files.File) -> RegionGraph:
        """Read a graph that `dump` wrote, from a path or an open file.

        Raises:
            FileFormatError: The file is missing, empty, damaged, or not a region graph of this version.
        """
        records, outputs = files.read(file)
        try:
            nodes: list[Any] = [
                RegionNode(scope) if record["kind"] == "region" else PartitionNode(scope)
                for record, scope in zip(records, _scopes(records), strict=True)
            ]
            in_nodes = {node: [nodes[i] for i in record["inputs"]] for node, record in zip(nodes, records, strict=True)}
            return RegionGraph(nodes, in_nodes, [nodes[i] for i in outputs])
        except (GraphError, InputError) as error:
            raise FileFormatError(f"{files.named(file)}: the file is damaged, write it again. {error}") from error

    def build_circuit(
        self,
        *,
        input_factory: InputFactory | Mapping[Scope, InputFactory],
        sum_product: str | None = None,
        sum_weight_factory: ParameterFactory | None = None,
        nary_sum_weight_factory: ParameterFactory | None = None,
        sum_factory: Callable[[int, int], Layer] | None = None,
        prod_factory: Callable[[int, int], Layer] | None = None,
        num_input_units: int = 1,
        num_sum_units: int = 1,
        num_classes: int = 1,
        factorize_multivariate: bool = True,
    ) -> Circuit:
        """The circuit of this region graph.

        Args:
            input_factory: Makes an input layer from a scope and a number of units; or a mapping from scopes to such
                factories. A layer within a region of several variables takes that of its own scope, else of the region.
            sum_product: "cp" (a sum for each part, then a Hadamard product), "cp-t" (a Hadamard product, then a sum) or
                "tucker" (a Kronecker product, then a sum).
            sum_weight_factory: Makes the weight of sums; softmax of normal draws by default. A `sum_factory` makes its
                own, and leaves those of sums over a region's partitions to this one.
            nary_sum_weight_factory: Makes the weight of the sum over a region's partitions; by default the same.
            sum_factory: Instead of `sum_product`: makes a sum layer from its numbers of input and output units.
            prod_factory: With `sum_factory`: makes a product layer from the number of input units and the arity.
            num_input_units: The units of input regions.
            num_sum_units: The units of the other regions.
            num_classes: The units of the roots.
            factorize_multivariate: Make an input region of several variables a product of one input layer each.
        """
        options = build.BuildOptions(
            input_factory=input_factory,
            family=build.choose_family(sum_product, sum_factory, prod_factory, sum_weight_factory),
            sum_weight_factory=sum_weight_factory,
            nary_sum_weight_factory=sum_weight_factory if nary_sum_weight_factory is None else nary_sum_weight_factory,
            num_input_units=num_input_units,
            num_sum_units=num_sum_units,
            num_classes=num_classes,
            factorize_multivariate=flag("build_circuit", "factorize_multivariate", factorize_multivariate),
        )
        partitions = {
            region: [self.partition_inputs(partition) for partition in self.region_inputs(region)]
            for region in self.region_nodes
        }
        return build.build_circuit(partitions, self.outputs, options)

    def __repr__(self) -> str:
        regions, partitions = len(self.region_nodes), len(self.partition_nodes)
        return f"RegionGraph({regions} regions, {partitions} partitions, {self.num_variables} variables)"


def _scopes(records: Sequence[files.NodeRecord]) -> list[Scope]:
    """The variables of each node of a file: its own, or those of its inputs."""
    scopes = [Scope()] * len(records)
    for number in topological_order(range(len(records)), lambda number: records[number]["inputs"]):
        record = records[number]
        own = record.get("scope")
        scopes[number] = Scope.union(*(scopes[child] for child in record["inputs"])) if own is None else Scope(own)
    return scopes


def _check_listed(
    listed: Mapping[RegionGraphNode, object],
    in_nodes: Mapping[RegionGraphNode, Sequence[RegionGraphNode]],
    outputs: tuple[RegionNode, ...],
) -> None:
    for node in listed:
        if not isinstance(node, RegionNode | PartitionNode):
            raise DTypeError(f"RegionGraph: expected RegionNode or PartitionNode, found {node!r}")
    for node, inputs in in_nodes.items():
        for unknown in (node, *inputs):
            if unknown not in listed:
                raise GraphError(
                    f"RegionGraph: in_nodes names {unknown}, which is not among the nodes; add it to `nodes`"
                )
    if not outputs:
        raise GraphError("RegionGraph: there are no outputs; pass the root region")
    for output in outputs:
        if output not in listed or not isinstance(output, RegionNode):
            raise GraphError(f"RegionGraph: the output {output} is not a region among the nodes; pass the root region")


def _check_region(region: RegionNode, partitions: tuple[RegionGraphNode, ...]) -> None:
    for node in partitions:
        if not isinstance(node, PartitionNode):
            raise GraphError(f"RegionGraph: {region} has the input {node}; put a PartitionNode between two regions")
        if node.scope != region.scope:
            raise GraphError(
                f"RegionGraph: {node} is a partition of {region}, expected scope {region.scope!s}, found {node.scope!s}"
            )


def _check_partition(partition: PartitionNode, parts: tuple[RegionGraphNode, ...]) -> None:
    seen = Scope()
    for part in parts:
        if not isinstance(part, RegionNode):
            raise GraphError(f"RegionGraph: {partition} has the part {part}; put a RegionNode between two partitions")
        if part.scope & seen:
            raise GraphError(
                f"RegionGraph: the parts of {partition} overlap: {part} shares {part.scope & seen!s} with those before "
                "it; give every variable to one part"
            )
        seen = seen | part.scope
    if seen != partition.scope:
        raise GraphError(
            f"RegionGraph: the parts of {partition} cover {seen!s}, expected {partition.scope!s}; "
            "add regions for the missing variables or change the partition's scope"
        )
