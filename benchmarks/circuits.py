"""The circuits that are measured, by name: region graph, sum-product, size of the image, units.

>>> CIRCUITS["quad-tree-2-cp-8x8-16"]
CircuitSpec(region_graph='quad-tree-2', sum_product='cp', side=8, num_values=17, num_units=16)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    def data(self, batch: int, device: str = "cpu") -> Tensor:
        """Random images, `(batch, side * side)`, the same at each call."""
        import torch

        generator = torch.Generator().manual_seed(0)
        return torch.randint(self.num_values, (batch, self.side**2), generator=generator).to(device)


REGION_GRAPHS = ("quad-tree-2", "quad-graph")
_SMALL = {"cp": 16, "cp-t": 16, "tucker": 16}  # units of each sum-product at 8x8
_LARGE = {"cp": 32, "cp-t": 64, "tucker": 16}  # and at 28x28

CIRCUITS: dict[str, CircuitSpec] = {
    spec.name: spec
    for side, num_values, units in ((8, 17, _SMALL), (28, 256, _LARGE))
    for graph in REGION_GRAPHS
    for spec in (CircuitSpec(graph, kind, side, num_values, num_units) for kind, num_units in units.items())
}

RANDOM = CircuitSpec("random-binary-tree", "cp", 28, 256, 32)
CIRCUITS[RANDOM.name] = RANDOM

FORWARD_BATCHES = (1, 16, 128, 512)

TARGETS = ("quad-tree-2-cp-28x28-32", "quad-graph-cp-t-28x28-64", "quad-tree-2-tucker-28x28-16", RANDOM.name)
"""The circuits over which speed against peers is averaged."""

QUICK = tuple(name for name, spec in CIRCUITS.items() if spec.side == 8 and spec.region_graph == "quad-tree-2")
