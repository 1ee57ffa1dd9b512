"""`python -m benchmarks.generated_overhead`: generated code against torch written by hand.

For each circuit: `by hand` is a loop over layers that calls the same kernels (`benchmarks.by_hand`), `generated` the
generated function of `circuit.program` alone, `circuit` the compiled circuit as users call it, with its checks of the
data and with the faster Program that it may choose. Their values are checked equal first. Like is compared with like:
without folding, layer by layer; with folding, folded by hand.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.by_hand import Folded, LayerByLayer
from benchmarks.circuits import CIRCUITS, Spec
from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.machine import save, use_threads
from benchmarks.measures import forward, forward_backward
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.emit import emit

# A circuit, and whether both sides are folded (by hand only the complete trees of 8x8 are).
CASES = (
    ("quad-tree-2-cp-8x8-16", True),
    ("quad-tree-2-tucker-8x8-16", True),
    ("quad-tree-2-cp-8x8-16", False),
    ("quad-tree-2-tucker-8x8-16", False),
    ("quad-tree-2-cp-28x28-32", False),
)
BATCHES = (1, 16, 128, 512)
BACKWARD_BATCHES = (16, 128)


class Generated(nn.Module):
    """The generated function of a compiled circuit alone, without the checks of `TorchCircuit.forward`."""

    def __init__(self, compiled: TorchCircuit) -> None:
        super().__init__()
        self.leaves = compiled.leaves
        self.run = emit(compiled.program)

    def forward(self, x: Tensor) -> Tensor:
        """As the circuit."""
        result: Tensor = self.run(self.leaves, x)
        return result


def run(cases: Sequence[tuple[str, bool]], settings: Settings, batches: Sequence[int] = BATCHES) -> dict[str, Any]:
    """Comparisons of each case at each batch: forward, and forward and backward."""
    report = {}
    for name, fold in cases:
        modules = _modules(CIRCUITS[name], fold, settings.device)
        title = f"{name} {'folded' if fold else 'layer by layer'}"
        for batch in batches:
            x = CIRCUITS[name].data(batch, settings.device)
            report[f"{title}, forward {batch}"] = _compare(modules, forward, x, settings)
            if batch in BACKWARD_BATCHES:
                report[f"{title}, forward and backward {batch}"] = _compare(modules, forward_backward, x, settings)
    return report


def _compare(
    modules: dict[str, nn.Module],
    task: Callable[[nn.Module, Tensor], Callable[[], object]],
    x: Tensor,
    settings: Settings,
) -> dict[str, Any]:
    return compare({name: task(module, x) for name, module in modules.items()}, settings)


def _modules(spec: Spec, fold: bool, device: str) -> dict[str, nn.Module]:
    """Three modules with equal parameters, checked to give equal values."""
    torch.manual_seed(0)
    compiled = TorchCompiler(fold=fold, optimize=fold).compile(spec.build())
    x = spec.data(32)
    compiled(x)  # registers the index arrays that the generated function reads
    by_hand = Folded(compiled) if fold else LayerByLayer(compiled)
    modules = {"by hand": by_hand, "generated": Generated(compiled), "circuit": compiled}
    with torch.no_grad():
        expected = by_hand(x)
        for module in modules.values():
            torch.testing.assert_close(module(x), expected)
    return {name: module.to(device) for name, module in modules.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser(
        "generated_overhead", "Generated code against torch written by hand.", rounds=30, device=True
    )
    options = parser.parse_args(arguments)
    settings = Settings(rounds=options.rounds, device=options.device)
    use_threads(options.threads)
    report: dict[str, Any] = {}
    for case in CASES:
        found = run([case], settings)
        report |= found
        for title, part in found.items():
            print(table(part, title), flush=True)
        save(options.out, report, settings, options.threads)  # after each case: a run can be cut short


if __name__ == "__main__":
    main()
