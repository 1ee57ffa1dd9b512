"""`python -m benchmarks.strategies`: which of two overlapping matches is fused first, and what that costs.

A sum T of one unit over a sum V over two sums W and U of many units. All of it can become one sum layer, whose weight
is computed from the four at each call.

* cost-guided: T and V first, since that saves most; the products of weights are those of one row. The baseline.
* largest match: V, W and U first, since these are three layers; the products of weights are those of many rows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.command import measure_shapes
from benchmarks.harness import Settings, compare
from plica import Circuit
from plica.backend.torch.compiler import TorchCompiler
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.lower.optimize import cost_guided, optimize_circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer

# (B, I, J, K): units of the inputs, of W and U, of V.
SHAPES = ((128, 512, 1024, 120), (128, 1024, 2048, 124))
STRATEGIES: dict[str, Strategy] = {"cost-guided": cost_guided, "largest match": OptMatchStrategy.LARGEST_MATCH}


def sums_of_sums(inputs: int, wide: int, narrow: int) -> Circuit:
    """T V (W x, U y), with T of one unit."""
    leaves = [CategoricalLayer([0], inputs, num_categories=2) for _ in range(2)]
    first, second = (SumLayer(inputs, wide) for _ in range(2))
    middle, top = SumLayer(wide, narrow, arity=2), SumLayer(narrow, 1)
    edges: dict[Any, Any] = {first: leaves[:1], second: leaves[1:], middle: [first, second], top: [middle]}
    return Circuit([*leaves, *edges], edges, [top])


def run(shapes: Sequence[tuple[int, int, int, int]], settings: Settings) -> dict[str, Any]:
    """Comparisons for each shape: forward, forward and backward."""
    report = {}
    for shape in shapes:
        rows, *sizes = shape
        circuit = sums_of_sums(*sizes)
        x = torch.randint(2, (rows, 1), generator=torch.Generator().manual_seed(0)).to(settings.device)
        compiled = {name: _compiled(circuit, strategy, settings.device) for name, strategy in STRATEGIES.items()}
        for one in compiled.values():
            torch.testing.assert_close(one(x), compiled["cost-guided"](x), rtol=1e-4, atol=1e-4)
        tasks = {name: _tasks(one, x) for name, one in compiled.items()}
        for place, title in enumerate(("forward", "forward and backward")):
            report[f"{shape} {title}"] = compare({name: both[place] for name, both in tasks.items()}, settings)
    return report


def _compiled(circuit: Circuit, strategy: Strategy, device: str) -> Any:
    torch.manual_seed(0)
    optimized = optimize_circuit(circuit, strategy=strategy)
    return TorchCompiler(optimize=False).compile(optimized.circuit).to(device)


def _tasks(compiled: Any, x: Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    def forward() -> Tensor:
        with torch.no_grad():
            result: Tensor = compiled(x)
            return result

    def backward() -> object:
        return torch.autograd.grad(compiled(x).sum(), list(compiled.parameters()))

    return forward, backward


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    measure_shapes("strategies", "Which match is fused first.", "B, I, J, K", SHAPES, run, arguments)


if __name__ == "__main__":
    main()
