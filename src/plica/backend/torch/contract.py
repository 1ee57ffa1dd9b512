"""Einstein sums, and the one that Tucker layers need: several vectors against a core, in pieces that fit the cache.

A core against all products of two vectors is fastest as one matrix product, but the outer product of a whole batch is
an array that has to be written to memory and read again. On the CPU it is made a block at a time, and made anew in the
backward pass: 3.4 times faster forward, 3.7 times with backward at 392 folds, 128 rows and 16 units on one core
(`python -m benchmarks.tucker`).
"""

from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import Any

import torch
from torch import Tensor

_BLOCK = 1 << 20
"""Bytes of one block of the outer product for one thread; it stays in a core's second-level cache."""

_BLOCK_OF_MANY = 1 << 22
"""Bytes of one block for each of several threads, which must meet after each operation on it."""


def einsum(equation: str, *arrays: Tensor) -> Tensor:
    """The Einstein sum of an equation without spaces, pairs contracted from the left.

    Values: `fbi,foij,fbj->fbo`, for any number of vectors beside the core, takes the way of this module.
    """
    if not is_tucker(equation):
        return torch.einsum(equation, *arrays)
    first, core, *others = arrays
    return tucker([first, *others], core)


@lru_cache(maxsize=1024)
def is_tucker(equation: str) -> bool:
    """Whether an equation sums a core, its second operand, against a vector for each of its axes but the first two."""
    terms, _, result = equation.partition("->")
    first, *rest = terms.split(",")
    if len(rest) < 2 or len(result) != 3:
        return False
    vectors = [first, *rest[1:]]
    units = "".join(term[2:] for term in vectors)
    letters = result + units
    fits = all(len(term) == 3 and term[:2] == result[:2] for term in vectors)
    return fits and len(dict.fromkeys(letters)) == len(letters) and rest[0] == result[0] + result[2] + units


def tucker(vectors: list[Tensor], core: Tensor) -> Tensor:
    """The core summed against one vector for each of its axes but the first two.

    Shapes: vectors (F, B, K) each of its K, core (F, O, K, ...), result (F, B, O).
    """
    first, *others = vectors
    second = reduce(_outer, others)
    weight = core.reshape(*core.shape[:2], first.shape[2] * second.shape[2])
    if _in_blocks(first, second):
        result: Tensor = _Blocked.apply(first, second, weight)  # type: ignore[no-untyped-call]
        return result.mT
    return torch.bmm(_outer(first, second), weight.mT)


def _outer(x: Tensor, y: Tensor) -> Tensor:
    """All products of a unit of x and one of y, `(F, B, I*J)`, J fastest."""
    return (x.unsqueeze(3) * y.unsqueeze(2)).flatten(2)


def _in_blocks(x: Tensor, y: Tensor) -> bool:
    """Whether the outer product is large, and nobody traces or transforms what is done with it."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or x.is_complex():
        return False
    large = x.numel() * y.shape[2] * x.element_size() > _block_size()
    return large and not any(torch._C._functorch.is_functorch_wrapped_tensor(one) for one in (x, y))


def _block_size() -> int:
    """Bytes of one block."""
    threads = torch.get_num_threads()
    return _BLOCK if threads == 1 else _BLOCK_OF_MANY * threads


def _blocks(x: Tensor, y: Tensor) -> Iterator[tuple[slice, slice]]:
    """Folds and rows of blocks of the outer product of `x (F, B, I)` and `y (F, B, J)`."""
    folds, rows, _ = x.shape
    size = x.shape[2] * y.shape[2] * x.element_size()
    some_rows = max(1, min(rows, _block_size() // size))
    some_folds = max(1, _block_size() // (some_rows * size))
    for fold in range(0, folds, some_folds):
        for row in range(0, rows, some_rows):
            yield slice(fold, min(fold + some_folds, folds)), slice(row, min(row + some_rows, rows))


class _Blocked(torch.autograd.Function):
    """`(x (x) y) @ weight.T` without the whole of the outer product.

    Rows come last inside, so that the innermost loop of the outer product runs along them and not along a few units.

    Shapes: x (F, B, I), y (F, B, J), weight (F, O, I*J), result (F, O, B).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, weight)
        ctx.save_for_forward(x, y, weight)
        result = x.new_empty(x.shape[0], weight.shape[1], x.shape[1])  # (F, O, B)
        product = _Buffer(x, y)
        for fold, row in _blocks(x, y):
            # rows of units are turned a block at a time: a copy of the whole would go to memory and back
            pairs = product.of(*(one.mT[fold, :, row].contiguous() for one in (x, y))).flatten(1, 2)
            part = result[fold, :, row]
            if part.is_contiguous():
                torch.bmm(weight[fold], pairs, out=part)
            else:
                part.copy_(torch.bmm(weight[fold], pairs))
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, y, weight = ctx.saved_tensors
        (units,) = gradients
        if torch.is_grad_enabled():  # somebody differentiates this pass
            gradient = units.mT
            pairs = torch.bmm(gradient, weight).reshape(*x.shape, y.shape[2])
            along = (pairs * y.unsqueeze(2)).sum(3), (pairs * x.unsqueeze(3)).sum(2)
            return (*along, torch.bmm(gradient.mT, _outer(x, y)))
        needed = ctx.needs_input_grad
        x_units, y_units = x.mT.contiguous(), y.mT.contiguous()
        to_x, to_y = torch.empty_like(x_units), torch.empty_like(y_units)
        to_weight = torch.zeros_like(weight) if needed[2] else None
        product, change = _Buffer(x, y), _Buffer(x, y)
        for fold, row in _blocks(x, y):
            some_x, some_y, some = (one[fold, :, row] for one in (x_units, y_units, units))
            if to_weight is not None:
                to_weight[fold].baddbmm_(some, product.of(some_x, some_y).flatten(1, 2).mT)
            if needed[0] or needed[1]:
                changes, scaled = change.like(some_x, some_y), product.like(some_x, some_y)  # (F, I, J, B)
                torch.bmm(weight[fold].mT, some, out=changes.flatten(1, 2))
                torch.sum(torch.mul(changes, some_y.unsqueeze(1), out=scaled), 2, out=to_x[fold, :, row])
                torch.sum(torch.mul(changes, some_x.unsqueeze(2), out=scaled), 1, out=to_y[fold, :, row])
        return to_x.mT if needed[0] else None, to_y.mT if needed[1] else None, to_weight

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        saved = ctx.saved_tensors
        parts = []
        for place, tangent in enumerate(tangents):
            if tangent is not None:
                point = [*saved[:place], tangent, *saved[place + 1 :]]
                parts.append(torch.bmm(point[2], _outer(point[0], point[1]).mT))
        return reduce(torch.add, parts)


class _Buffer:
    """Memory for one block at a time."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        folds, rows = next(_blocks(x, y))
        self._memory = x.new_empty((folds.stop - folds.start) * (rows.stop - rows.start) * x.shape[2] * y.shape[2])

    def like(self, x: Tensor, y: Tensor) -> Tensor:
        """A block `(F, I, J, B)` for some folds and rows of `x (F, I, B)` and `y (F, J, B)`."""
        shape = (*x.shape[:2], *y.shape[1:])
        return self._memory[: x.numel() * y.shape[1]].view(shape)

    def of(self, x: Tensor, y: Tensor) -> Tensor:
        """The block that holds the outer product."""
        return torch.mul(x.unsqueeze(2), y.unsqueeze(1), out=self.like(x, y))
