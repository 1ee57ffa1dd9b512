"""`python -m benchmarks.tucker`: ways to contract the core of a Tucker layer with two vectors for each row.

* outer: the outer product of the whole batch, then one matrix product; the baseline.
* core: the core with the first vector, then with the second (`torch.einsum` in that order).
* blocks: the outer product a cache-sized block at a time, made anew in the backward pass: what Plica does on the CPU.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.command import measure_shapes
from benchmarks.harness import Settings, compare
from plica.backend.torch import contract

Contraction = Callable[[Tensor, Tensor, Tensor], Tensor]

# (F, K, O, B): one layer, some layers, and the lowest level of products of 28x28.
SHAPES = ((1, 16, 16, 128), (64, 16, 16, 128), (392, 16, 16, 128), (392, 16, 16, 512), (98, 32, 32, 128))


def by_outer(x: Tensor, y: Tensor, core: Tensor) -> Tensor:
    """The outer product written out."""
    return torch.bmm((x.unsqueeze(3) * y.unsqueeze(2)).flatten(2), core.flatten(2).mT)


def by_core(x: Tensor, y: Tensor, core: Tensor) -> Tensor:
    """An array of `O*K` numbers for each row in between."""
    return torch.einsum("fbi,foij,fbj->fbo", x, core, y)


def by_blocks(x: Tensor, y: Tensor, core: Tensor) -> Tensor:
    """What the kernels of the torch backend do."""
    return contract.tucker([x, y], core)


CONTRACTIONS: dict[str, Contraction] = {"outer": by_outer, "core": by_core, "blocks": by_blocks}


def run(shapes: Sequence[tuple[int, int, int, int]], settings: Settings) -> dict[str, Any]:
    """Comparisons for each shape: forward, forward and backward."""
    report = {}
    for shape in shapes:
        inputs, gradient = _inputs(shape, settings.device)
        for contraction in CONTRACTIONS.values():
            torch.testing.assert_close(contraction(*inputs), by_outer(*inputs), rtol=1e-4, atol=1e-4)
        tasks = {name: _tasks(contraction, inputs, gradient) for name, contraction in CONTRACTIONS.items()}
        for place, title in enumerate(("forward", "forward and backward")):
            report[f"{shape} {title}"] = compare({name: both[place] for name, both in tasks.items()}, settings)
    return report


def _inputs(shape: tuple[int, int, int, int], device: str) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    folds, units, sums, batch = shape
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(folds, batch, units, generator=generator).to(device).requires_grad_() for _ in range(2))
    core = torch.rand(folds, sums, units, units, generator=generator).to(device).requires_grad_()
    return (x, y, core), torch.randn(folds, batch, sums, generator=generator).to(device)


def _tasks(
    contraction: Contraction, inputs: tuple[Tensor, Tensor, Tensor], gradient: Tensor
) -> tuple[Callable[[], object], Callable[[], object]]:
    def forward() -> Tensor:
        with torch.no_grad():
            return contraction(*inputs)

    def backward() -> object:
        return torch.autograd.grad(contraction(*inputs), inputs, gradient)

    return forward, backward


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    measure_shapes("tucker", "Contractions of a Tucker core.", "F, K, O, B", SHAPES, run, arguments)


if __name__ == "__main__":
    main()
