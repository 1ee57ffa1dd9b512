"""`python -m benchmarks.categorical`: ways to look a category up in tables of unnormalized logits.

* table: `lookup(log_softmax(logits), index)`; the baseline, and what `CategoricalLayer` does.
* column: `lookup(logits, index) - logsumexp(logits)`, which normalizes only what was looked up.
* rows: `log_softmax` first, then rows of a transposed table (`gather` over the axis of categories).
* embedding: `log_softmax` first, then `torch.nn.functional.embedding` on a transposed copy.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.command import measure_shapes
from benchmarks.harness import Settings, compare
from plica.backend.torch import kernels

Lookup = Callable[[Tensor, Tensor], Tensor]

# (F, K, C, B): one layer and all layers of 8x8 (17 values) and of 28x28 (256 values).
SHAPES = (
    (1, 16, 17, 16),
    (1, 32, 256, 128),
    (64, 16, 17, 16),
    (64, 16, 17, 128),
    (64, 16, 17, 512),
    (64, 32, 256, 128),
    (784, 32, 256, 16),
    (784, 32, 256, 128),
)


def by_table(logits: Tensor, index: Tensor) -> Tensor:
    """One fused pass over the table, then a gather."""
    return kernels.lookup(torch.log_softmax(logits, -1), index)


def by_column(logits: Tensor, index: Tensor) -> Tensor:
    """A gather, then a subtraction."""
    return kernels.lookup(logits, index) - torch.logsumexp(logits, -1).unsqueeze(1)


def by_rows(logits: Tensor, index: Tensor) -> Tensor:
    """A gather whose result is contiguous, from columns that are not."""
    rows = torch.log_softmax(logits, -1).mT
    return rows.gather(1, index.unsqueeze(2).expand(-1, -1, rows.shape[2]))


def by_embedding(logits: Tensor, index: Tensor) -> Tensor:
    """A copy of the table, then whole rows."""
    folds, units, categories = logits.shape
    rows = torch.log_softmax(logits, -1).mT.reshape(folds * categories, units)
    first = torch.arange(folds, device=index.device).unsqueeze(1) * categories
    return torch.nn.functional.embedding(index + first, rows)


LOOKUPS: dict[str, Lookup] = {"table": by_table, "column": by_column, "rows": by_rows, "embedding": by_embedding}


def run(shapes: Sequence[tuple[int, int, int, int]], settings: Settings) -> dict[str, Any]:
    """Comparisons for each shape: forward, forward and backward; the weighted sum that reads the result is included."""
    report = {}
    for shape in shapes:
        logits, index, weight, gradient = _inputs(shape, settings.device)
        for find in LOOKUPS.values():
            torch.testing.assert_close(find(logits, index), by_table(logits, index))
        tasks = {name: _tasks(find, logits, index, weight, gradient) for name, find in LOOKUPS.items()}
        for place, title in enumerate(("forward", "forward and backward")):
            report[f"{shape} {title}"] = compare({name: both[place] for name, both in tasks.items()}, settings)
    return report


def _inputs(shape: tuple[int, int, int, int], device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    folds, units, categories, batch = shape
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(folds, units, categories, generator=generator)
    index = torch.randint(categories, (folds, batch), generator=generator)
    weight = torch.softmax(torch.randn(folds, units, units, generator=generator), -1)
    gradient = torch.randn(folds, batch, units, generator=generator)
    return logits.to(device).requires_grad_(), index.to(device), weight.to(device), gradient.to(device)


def _tasks(
    find: Lookup, logits: Tensor, index: Tensor, weight: Tensor, gradient: Tensor
) -> tuple[Callable[[], object], Callable[[], object]]:
    def forward() -> Tensor:
        with torch.no_grad():
            return kernels.log_matmul_exp(find(logits, index), weight)

    def backward() -> object:
        return torch.autograd.grad(kernels.log_matmul_exp(find(logits, index), weight), logits, gradient)

    return forward, backward


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    measure_shapes("categorical", "Lookups of categories.", "F, K, C, B", SHAPES, run, arguments)


if __name__ == "__main__":
    main()
