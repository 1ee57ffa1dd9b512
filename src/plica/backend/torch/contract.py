"""Einstein sums, and the one that Tucker layers need: several vectors against a core, in pieces that fit the cache.

A core against all products of two vectors is fastest as one matrix product, but the outer product of a whole batch is
an array that has to be written to memory and read again. On the CPU it is made a block at a time, and made anew in the
backward pass: 4.5 times faster forward, 5.2 times with backward at 392 folds, 128 rows and 16 units on one core
(`python -m benchmarks.tucker`).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from math import prod
from string import ascii_uppercase
from typing import Any

import torch
from torch import Tensor

from plica.backend.torch.logs import transforms_active

_BLOCK = 1 << 20
"""Bytes of one block of the outer product for each thread; it stays in a core's second-level cache."""

_PRODUCTS = 1 << 24
"""How many products of integers are held at once where a device has no products of their matrices."""

_FEW_ROWS = 8
"""Rows up to which one product is faster, most of whose time it takes to read the core."""


def einsum(equation: str, *arrays: Tensor) -> Tensor:
    """The Einstein sum of an equation without spaces, pairs contracted from the left.

    Values: `fbi,foij,fbj->fbo`, for any number of vectors beside the core, takes the way of this module.
    """
    if len(arrays) > 1 and not arrays[0].is_cpu and not (arrays[0].is_floating_point() or arrays[0].is_complex()):
        return _of_integers(equation, *arrays)
    if not is_tucker(equation):
        return torch.einsum(equation, *arrays)
    vector, core, *vectors = arrays
    return tucker([vector, *vectors], core)


def integer_matmul(a: Tensor, b: Tensor) -> Tensor:
    """`torch.matmul` of integers."""
    if a.is_cpu:
        return torch.matmul(a, b)
    stack = ascii_uppercase[: max(a.ndim, b.ndim, 2) - 2]
    terms = [stack[len(stack) + 2 - x.ndim :] for x in (a, b)]
    row, column = "r" if a.ndim > 1 else "", "c" if b.ndim > 1 else ""
    return _of_integers(f"{terms[0]}{row}k,{terms[1]}k{column}->{stack}{row}{column}", a, b)


def _of_integers(equation: str, *arrays: Tensor) -> Tensor:
    """An Einstein sum of integers, of which torch multiplies no matrices but on the CPU; parts of all products at once.

    Axes that not all of its arrays have broadcast, and so do those of size 1.
    """
    terms, _, result = equation.partition("->")
    summed = "".join(dict.fromkeys(letter for letter in terms if letter not in f"{result},"))
    values = []
    for term, x in zip(terms.split(","), arrays, strict=True):
        letters = "".join(dict.fromkeys(term))
        values.append(aligned(torch.einsum(f"{term}->{letters}", x), letters, summed + result))
    shape = torch.broadcast_shapes(*(x.shape for x in values))  # type: ignore[no-untyped-call]
    if not summed:
        return reduce(torch.mul, values)
    count, axes = max(1, _PRODUCTS // max(1, prod(shape[1:]))), tuple(range(len(summed)))
    total = torch.zeros(shape[len(summed) :], dtype=arrays[0].dtype, device=arrays[0].device)
    for parts in zip(*(torch.split(x.expand(shape), count) for x in values), strict=True):
        total = total + reduce(torch.mul, parts).sum(axes, dtype=total.dtype)
    return total


def aligned(x: Tensor, term: str, letters: str) -> Tensor:
    """`x` with its axes in the order of `letters`: those not among them (of size 1) go, missing ones have size 1."""
    shared = [letter for letter in term if letter in letters]
    x = x.reshape([size for letter, size in zip(term, x.shape, strict=True) if letter in letters])
    if shared != sorted(shared, key=letters.index):
        x = x.permute([shared.index(letter) for letter in letters if letter in shared])
    for axis, letter in enumerate(letters):
        if letter not in shared:
            x = x.unsqueeze(axis)
    return x


@lru_cache(maxsize=1024)
def is_tucker(equation: str) -> bool:
    """Whether an equation sums a core, its second operand, against a vector for each of its axes but the first two."""
    terms, _, result = equation.partition("->")
    first, *other_terms = terms.split(",")
    if len(other_terms) < 2 or len(result) != 3:
        return False
    vectors = [first, *other_terms[1:]]
    units = "".join(term[2:] for term in vectors)
    letters = result + units
    fits = all(len(term) == 3 and term[:2] == result[:2] for term in vectors)
    return fits and len(dict.fromkeys(letters)) == len(letters) and other_terms[0] == result[0] + result[2] + units


def tucker(vectors: list[Tensor], core: Tensor) -> Tensor:
    """The core summed against one vector for each of its axes but the first two.

    Shapes: vectors (F, B, K) each of its K, core (F, O, K, ...), result (F, B, O).
    """
    first, *following = vectors
    second = reduce(_outer, following)
    weight = core.reshape(*core.shape[:2], first.shape[2] * second.shape[2])
    if _in_blocks(first, second):
        result: Tensor = _Blocked.apply(first, second, weight)  # type: ignore[no-untyped-call]
        return result.mT
    return torch.bmm(_outer(first, second), weight.mT)


def _outer(x: Tensor, y: Tensor) -> Tensor:
    """All products of a unit of x and one of y, `(F, B, I*J)`, J fastest."""
    return (x.unsqueeze(3) * y.unsqueeze(2)).flatten(2)


def _in_blocks(x: Tensor, y: Tensor) -> bool:
    """Whether the outer product of many rows is large, and no transform or compiler traces it."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or x.is_complex():
        return False
    large = x.shape[1] > _FEW_ROWS and x.numel() * y.shape[2] * x.element_size() > _block_size()
    return large and not transforms_active()


def _block_size() -> int:
    """Bytes of one block."""
    return _BLOCK * torch.get_num_threads()


def _blocks(
    pairs: int, of_folds: Sequence[Tensor], of_rows: Sequence[Tensor]
) -> Iterator[tuple[Sequence[Tensor], Sequence[Sequence[Tensor]]]]:
    """Some folds of arrays, and for these folds all blocks of rows.

    Args:
        pairs: How many numbers each row has in the outer product.
        of_folds: Arrays (F, ...).
        of_rows: Arrays (F, K, B).
    """
    folds, _, rows = of_rows[0].shape
    size = pairs * of_rows[0].element_size()
    some_rows = max(1, min(rows, _block_size() // size))
    some_folds = max(1, min(folds, _block_size() // (some_rows * size)))
    # views of all blocks are made in few calls: made one by one they would take as long as the work on a block
    for parts in zip(*(torch.split(array, some_folds) for array in (*of_folds, *of_rows)), strict=True):
        pieces = [parts[len(of_folds) :]]
        if some_rows < rows:
            pieces = [*zip(*(torch.split(array, some_rows, 2) for array in pieces[0]), strict=True)]
        yield parts[: len(of_folds)], pieces


class _Blocked(torch.autograd.Function):
    """`(x (x) y) @ weight.T` without the whole of the outer product.

    Rows come last inside, so that the innermost loop of an outer product runs along them and not along a few units.

    Shapes: x (F, B, I), y (F, B, J), weight (F, O, I*J), result (F, O, B).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, weight)
        ctx.save_for_forward(x, y, weight)
        result = x.new_empty(x.shape[0], weight.shape[1], x.shape[1])  # (F, O, B)
        product = _Product()
        for (core,), blocks in _blocks(weight.shape[2], [weight], [result, x.mT, y.mT]):
            for part, some_x, some_y in blocks:
                torch.bmm(core, product(some_x.contiguous(), some_y.contiguous()), out=part)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, y, weight = ctx.saved_tensors
        (units,) = gradients
        if torch.is_grad_enabled():  # this pass is differentiated too
            gradient = units.mT
            pairs = torch.bmm(gradient, weight).reshape(*x.shape, y.shape[2])
            along = (pairs * y.unsqueeze(2)).sum(3), (pairs * x.unsqueeze(3)).sum(2)
            return (*along, torch.bmm(gradient.mT, _outer(x, y)))
        needs_x, needs_y, needs_weight = ctx.needs_input_grad
        core = weight.unflatten(2, (x.shape[2], y.shape[2]))  # (F, O, I, J)
        x, y = x.mT, y.mT
        to_x, to_y, to_core = (array.new_empty(array.shape) for array in (x, y, core))
        product = _Product()
        of_rows = to_x, to_y, units, x, y
        for (some, to_some), blocks in _blocks(core.shape[1] * max(core.shape[2:]), [core, to_core], of_rows):
            against_x = some.transpose(1, 2).flatten(2)  # (F, I, O*J)
            against_y = some.flatten(1, 2).mT  # (F, J, O*I)
            for number, (to_some_x, to_some_y, *turned) in enumerate(blocks):
                change, some_x, some_y = (block.contiguous() for block in turned)
                if needs_x:
                    torch.bmm(against_x, product(change, some_y), out=to_some_x)
                if needs_y or needs_weight:  # both are left of the same outer product
                    changes = product(change, some_x)
                if needs_y:
                    torch.bmm(against_y, changes, out=to_some_y)
                if needs_weight:
                    to_some.flatten(1, 2).baddbmm_(changes, some_y.mT, beta=min(number, 1))
        return to_x.mT if needs_x else None, to_y.mT if needs_y else None, to_core.flatten(2) if needs_weight else None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        saved = ctx.saved_tensors
        parts = []
        for number, tangent in enumerate(tangents):
            if tangent is not None:
                point = [*saved[:number], tangent, *saved[number + 1 :]]
                parts.append(torch.bmm(point[2], _outer(point[0], point[1]).mT))
        return reduce(torch.add, parts)


class _Product:
    """Outer products, one at a time in the same memory."""

    def __init__(self) -> None:
        self._views: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
        self._memory: Tensor | None = None

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """All products of a unit of x and one of y, J fastest.

        Shapes: x (F, I, B), y (F, J, B), result (F, I*J, B).
        """
        shape = (*x.shape[:2], *y.shape[1:])
        if shape not in self._views:
            size = prod(shape)
            if self._memory is None or self._memory.numel() < size:
                self._memory = x.new_empty(size)
                self._views.clear()
            block = self._memory[:size].view(shape)
            self._views[shape] = block, block.flatten(1, 2)
        block, pairs = self._views[shape]
        torch.mul(x.unsqueeze(2), y.unsqueeze(1), out=block)
        return pairs
