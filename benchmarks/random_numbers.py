"""`python -m benchmarks.random_numbers`: ways to draw uniform numbers of float32 from a key.

* rand: `torch.rand`, which has a state and other numbers; the baseline.
* plica: what generated code calls: numpy for short draws on the CPU, pieces of tensors for long ones.
* tensors: Threefry on tensors alone, in pieces; what a graphics card does, in one piece.
* numpy: Threefry in numpy, all at once; what the interpreter does.
"""

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch

from benchmarks.command import measure_shapes
from benchmarks.harness import Settings, compare
from plica.backend.torch import random
from plica.ir.dtypes import DType
from plica.ops import OPS

SHAPES = ((1,), (1_000,), (100_000,), (10_000_000,))
PARAMS: dict[str, Any] = {"digits": 24, "interval": "[0,1)"}


def run(shapes: Sequence[tuple[int, ...]], settings: Settings) -> dict[str, Any]:
    """Comparisons for each shape."""
    return {str(shape): compare(_contenders(shape, settings.device), settings) for shape in shapes}


def _contenders(shape: tuple[int, ...], device: str) -> dict[str, Callable[[], object]]:
    key = torch.tensor([1, 2], device=device)

    def plica() -> torch.Tensor:
        return random.uniform(key, shape, **PARAMS, dtype=torch.float32)

    def tensors() -> torch.Tensor:
        with mock.patch.object(random, "_SHORT", 0):
            return plica()

    def numpy() -> object:
        return OPS["random_uniform"].reference(key.cpu().numpy(), shape=shape, **PARAMS, dtype=DType.FLOAT32)

    torch.testing.assert_close(plica(), tensors(), rtol=0, atol=0)
    return {"rand": lambda: torch.rand(shape, device=device), "plica": plica, "tensors": tensors, "numpy": numpy}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    measure_shapes("random_numbers", "Uniform numbers from a key.", "N", SHAPES, run, arguments)


if __name__ == "__main__":
    main()
