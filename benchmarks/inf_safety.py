"""`python -m benchmarks.inf_safety`: what it costs that a weighted sum of probabilities of zero is right.

The naive formula turns a row that is all `-inf` into NaN, forward and backward. Every contender here computes
`log(exp(x) @ w.T)` with one shift for each row:

* naive: fast and wrong; the baseline.
* kernels: `plica.backend.torch.kernels.log_matmul_exp`: a clamped shift, and a logarithm whose derivative at 0 is 0.
* masked: `where(isinf)` around the shift and around the logarithm.
* python autograd: as kernels, with the derivative at 0 written as a `torch.autograd.Function` (rejected: slower).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.command import measure_shapes
from benchmarks.harness import Settings, compare
from plica.backend.torch import kernels

Formula = Callable[[Tensor, Tensor], Tensor]

# (F, B, I, O): one layer and 64 folded ones at 8x8, the many folds of 28x28, a layer of wide products (Tucker).
SHAPES = (
    (1, 1, 16, 16),
    (1, 128, 16, 16),
    (1, 512, 16, 16),
    (64, 16, 16, 16),
    (64, 128, 16, 16),
    (64, 512, 16, 16),
    (1, 128, 32, 32),
    (784, 16, 32, 32),
    (784, 128, 32, 32),
    (196, 128, 64, 64),
    (1, 128, 256, 16),
    (32, 128, 256, 16),
)


def naive(x: Tensor, weight: Tensor) -> Tensor:
    """NaN where a row is all `-inf`."""
    shift = x.detach().amax(-1, keepdim=True)
    return torch.log(torch.exp(x - shift) @ weight.mT) + shift


def masked(x: Tensor, weight: Tensor) -> Tensor:
    """Right, by masks over whole arrays."""
    shift = x.detach().amax(-1, keepdim=True)
    shift = torch.where(torch.isinf(shift), 0.0, shift)
    total = torch.exp(x - shift) @ weight.mT
    zero = total == 0
    return torch.where(zero, -torch.inf, torch.log(torch.where(zero, 1.0, total))) + shift


class _PythonLog(torch.autograd.Function):
    """log with derivative 0 at 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.log(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return (gradients[0] / x).masked_fill(x == 0, 0)


def python_autograd(x: Tensor, weight: Tensor) -> Tensor:
    """Right, by a derivative written in Python."""
    shift = x.detach().amax(-1, keepdim=True).clamp_(min=torch.finfo(x.dtype).min)
    logarithm: Tensor = _PythonLog.apply((x - shift).exp_() @ weight.mT)  # type: ignore[no-untyped-call]
    return logarithm + shift


FORMULAS: dict[str, Formula] = {
    "naive": naive,
    "kernels": kernels.log_matmul_exp,
    "masked": masked,
    "python autograd": python_autograd,
}


def run(shapes: Sequence[tuple[int, int, int, int]], settings: Settings) -> dict[str, Any]:
    """Comparisons for each shape: forward, and forward and backward."""
    report = {}
    for shape in shapes:
        x, weight, gradient = _inputs(shape, settings.device)
        check(x.detach(), weight.detach())
        report[f"{shape} forward"] = compare(
            {name: _forward(formula, x, weight) for name, formula in FORMULAS.items()}, settings
        )
        report[f"{shape} forward and backward"] = compare(
            {name: _backward(formula, x, weight, gradient) for name, formula in FORMULAS.items()}, settings
        )
    return report


def check(x: Tensor, weight: Tensor) -> None:
    """Raise unless all formulas agree on finite numbers, and all but the naive one on rows of `-inf`."""
    expected = naive(x, weight)
    impossible = torch.full_like(x, -torch.inf).requires_grad_()
    for name, formula in FORMULAS.items():
        torch.testing.assert_close(formula(x, weight), expected)
        if name == "naive":
            continue
        result = formula(impossible, weight)
        (gradient,) = torch.autograd.grad(result.sum(), impossible)
        if not (torch.isneginf(result).all() and (gradient == 0).all()):
            raise AssertionError(f"{name}: a row of -inf must give -inf, with gradient 0")


def _inputs(shape: tuple[int, int, int, int], device: str) -> tuple[Tensor, Tensor, Tensor]:
    folds, batch, inputs, outputs = shape
    generator = torch.Generator().manual_seed(0)
    x = 10 * torch.randn(folds, batch, inputs, generator=generator)
    weight = torch.softmax(torch.randn(folds, outputs, inputs, generator=generator), -1)
    gradient = torch.randn(folds, batch, outputs, generator=generator)
    return x.to(device).requires_grad_(), weight.to(device).requires_grad_(), gradient.to(device)


def _forward(formula: Formula, x: Tensor, weight: Tensor) -> Callable[[], Tensor]:
    def call() -> Tensor:
        with torch.no_grad():
            return formula(x, weight)

    return call


def _backward(formula: Formula, x: Tensor, weight: Tensor, gradient: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(formula(x, weight), (x, weight), gradient)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    measure_shapes("inf_safety", "What -inf safety costs.", "F, B, I, O", SHAPES, run, arguments)


if __name__ == "__main__":
    main()
