"""The circuits that are measured, by name: region graph, sum-product, size of the image, units; and hidden trees.

>>> CIRCUITS["quad-tree-2-cp-8x8-16"]
CircuitSpec(region_graph='quad-tree-2', sum_product='cp', side=8, num_values=17, num_units=16)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.trees import TREES, TreeSpec

if TYPE_CHECKING:
    from torch import Tensor

    from plica import Circuit


@dataclass(frozen=True, slots=True)
class CircuitSpec:
    """A circuit over square images with categorical pixels.

    Args:
        region_graph: `quad-tree-2`, `quad-graph` or `random-binary-tree`.
        sum_product: `cp`, `cp-t` or `tucker`.
        side: The image has `side * side` pixels.
        num_values: The categories of a pixel.
        num_units: The units of every layer but the last.
    """

    region_graph: str
    sum_product: str
    side: int
    num_values: int
    num_units: int

    @property
    def name(self) -> str:
        """What the circuit is called on the command line."""
        return f"{self.region_graph}-{self.sum_product}-{self.side}x{self.side}-{self.num_units}"

    @property
    def num_variables(self) -> int:
        """The number of pixels."""
        return self.side**2

    def build(self) -> Circuit:
        """The symbolic circuit."""
        from plica.templates.data_modalities import image_data

        return image_data(
            (1, self.side, self.side),
            self.region_graph,
            input_layer="categorical",
            num_values=self.num_values,
            num_input_units=self.num_units,
            sum_product_layer=self.sum_product,
            num_sum_units=self.num_units,
        )

    def assemble(
        self, package: str, input_layer: Callable[..., Any], weight: Callable[..., Any], mixing: Callable[..., Any]
    ) -> Any:
        """The circuit in the language of `plica` or of a package with the same names, of given inputs and weights."""
        return self._region_graph(package).build_circuit(
            input_factory=input_layer,
            sum_product=self.sum_product,
            sum_weight_factory=weight,
            nary_sum_weight_factory=mixing,
            num_input_units=self.num_units,
            num_sum_units=self.num_units,
        )

    def _region_graph(self, package: str) -> Any:
        """The region graph, node by node in the classes of another package."""
        from plica.templates.data_modalities import IMAGE_REGION_GRAPHS
        from plica.templates.region_graph import RegionNode

        graph = IMAGE_REGION_GRAPHS[self.region_graph]((1, self.side, self.side))
        if package == "plica":
            return graph
        region_graph = import_module(f"{package}.templates.region_graph")
        inputs: dict[Any, Sequence[Any]] = {one: graph.region_inputs(one) for one in graph.region_nodes}
        inputs |= {one: graph.partition_inputs(one) for one in graph.partition_nodes}
        new = {
            one: (region_graph.RegionNode if isinstance(one, RegionNode) else region_graph.PartitionNode)(
                list(one.scope)
            )
            for one in inputs
        }
        edges = {new[one]: [new[child] for child in children] for one, children in inputs.items() if children}
        return region_graph.RegionGraph(list(new.values()), edges, [new[one] for one in graph.outputs])

    def data(self, batch: int, device: str = "cpu") -> Tensor:
        """Random images, `(batch, side * side)`, the same at each call."""
        import torch

        generator = torch.Generator().manual_seed(0)
        return torch.randint(self.num_values, (batch, self.num_variables), generator=generator).to(device)


Spec = CircuitSpec | TreeSpec


REGION_GRAPHS = ("quad-tree-2", "quad-graph")
_SMALL = {"cp": 16, "cp-t": 16, "tucker": 16}  # units of each sum-product at 8x8
_LARGE = {"cp": 32, "cp-t": 64, "tucker": 16}  # and at 28x28

IMAGES: dict[str, CircuitSpec] = {
    spec.name: spec
    for side, num_values, units in ((8, 17, _SMALL), (28, 256, _LARGE))
    for graph in REGION_GRAPHS
    for spec in (CircuitSpec(graph, kind, side, num_values, num_units) for kind, num_units in units.items())
}

RANDOM = CircuitSpec("random-binary-tree", "cp", 28, 256, 32)
IMAGES[RANDOM.name] = RANDOM

HIDDEN_TREES = {spec.name: spec for spec in (TreeSpec(data_set, 64) for data_set in TREES)}

CIRCUITS: dict[str, Spec] = {**IMAGES, **HIDDEN_TREES}

FORWARD_BATCHES = (1, 16, 128, 512)

TARGETS = ("quad-tree-2-cp-28x28-32", "quad-graph-cp-t-28x28-64", "quad-tree-2-tucker-28x28-16", RANDOM.name)
"""The circuits over which speed against peers is averaged."""

QUICK = tuple(name for name, spec in IMAGES.items() if spec.side == 8 and spec.region_graph == "quad-tree-2")
