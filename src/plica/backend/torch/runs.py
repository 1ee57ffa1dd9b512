"""Products of joined runs: each product is written where it belongs, and so is each derivative.

>>> x = torch.arange(1.0, 5.0)
>>> multiply_runs(((0, 0, 0, 2, 2), (0, 3, 0, 0, 1)), x)
tensor([3., 8., 4.])
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from plica.backend.torch.indexing import is_traced, may_write

_SMALL = 2**14  # numbers in the first run, up to which calls for each run cost more than copies of what is read

Runs = tuple[tuple[int, int, int, int, int], ...]


def multiply_runs(runs: Runs, *arrays: Tensor) -> Tensor:
    """Runs of some arrays times runs of others, one below the other; see `plica.ops.runs`.

    Small runs are gathered before they are multiplied. Under a transform or a tracer, runs are joined.

    Shapes: arrays (F_i, ...), result (F, ...).
    """
    if is_traced(*arrays):
        return _joined(runs, arrays, 0) * _joined(runs, arrays, 2)
    is_small = runs[0][4] * arrays[0].stride(0) < _SMALL
    if may_write(*arrays):
        return torch.Tensor.mul_(*_gathered(runs, arrays)) if is_small else _product(runs, arrays)
    if is_small:
        return torch.mul(*_gathered(runs, arrays))
    product: Tensor = _Product.apply(runs, *arrays)  # type: ignore[no-untyped-call]
    return product


def _joined(runs: Runs, arrays: Sequence[Tensor], side: int) -> Tensor:
    return torch.cat([arrays[run[side]].narrow(0, run[side + 1], run[4]) for run in runs])


def _gathered(runs: Runs, arrays: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Both factors of all products."""
    array = arrays[0] if len(arrays) == 1 else torch.cat(list(arrays))
    left, right = _places(runs, tuple(map(len, arrays)), array.device)
    return array.index_select(0, left), array.index_select(0, right)


@lru_cache
def _places(runs: Runs, sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, ...]:
    """Where both factors of each product lie in all arrays joined."""
    begins = [0, *accumulate(sizes)]
    with torch.inference_mode(mode=False):  # what is made here is kept, and saved for derivatives
        return tuple(
            torch.cat([torch.arange(run[4], device=device) + begins[run[side]] + run[side + 1] for run in runs])
            for side in (0, 2)
        )


def _product(runs: Runs, arrays: Sequence[Tensor]) -> Tensor:
    lengths = [run[4] for run in runs]
    result = _empty_like(arrays[0], sum(lengths))
    parts = torch.split(result, lengths)
    for (left, left_start, right, right_start, length), part in zip(runs, parts, strict=True):
        torch.mul(arrays[left].narrow(0, left_start, length), arrays[right].narrow(0, right_start, length), out=part)
    return result


def _empty_like(array: Tensor, folds: int) -> Tensor:
    """Some folds that lie in memory as those of an array do, where they fill it."""
    shape, strides, expected = (folds, *array.shape[1:]), array.stride(), 1
    for stride, size in sorted(zip(strides[1:], shape[1:], strict=True)):
        if size > 1 and stride != expected:
            return array.new_empty(shape)
        expected *= size
    return array.new_empty_strided(shape, strides) if strides[0] == expected else array.new_empty(shape)


class _Product(torch.autograd.Function):
    """The same with a derivative: that of an array is written once, where reads overlap with later ones added."""

    @staticmethod
    def forward(ctx: Any, runs: Runs, *arrays: Tensor) -> Tensor:
        ctx.runs = runs
        ctx.save_for_backward(*arrays)
        return _product(runs, arrays)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        arrays: tuple[Tensor, ...] = ctx.saved_tensors
        (gradient,) = gradients
        needed = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():  # this pass is differentiated too
            apart = [array.view_as(array) for array in arrays]  # two operands may be one tensor
            product = _joined(ctx.runs, apart, 0) * _joined(ctx.runs, apart, 2)
            return None, *torch.autograd.grad(product, apart, gradient, create_graph=True, allow_unused=True)
        steps = _steps(ctx.runs, tuple(map(len, arrays)))
        return None, *(
            _derivative(array, steps[number], arrays, gradient) if needed[number] else None
            for number, array in enumerate(arrays)
        )


_Factor = tuple[int, int, int]  # an array, where its part begins, and where that of the gradient begins
_Step = tuple[int, int, bool, _Factor | None]  # where in a derivative, how much, whether it is written or added


def _derivative(array: Tensor, steps: Sequence[_Step], arrays: Sequence[Tensor], gradient: Tensor) -> Tensor:
    result = _empty_like(array, len(array))
    if gradient.stride()[1:] != result.stride()[1:]:  # copied once, and not read across its rows for each run
        gradient = _empty_like(array, len(gradient)).copy_(gradient)
    for start, length, is_first, factor in steps:
        part = result.narrow(0, start, length)
        if factor is None:
            part.zero_()
            continue
        number, first, begin = factor
        factors = gradient.narrow(0, begin, length), arrays[number].narrow(0, first, length)
        if is_first:
            torch.mul(*factors, out=part)
        else:
            part.addcmul_(*factors)
    return result


@lru_cache
def _steps(runs: Runs, sizes: tuple[int, ...]) -> tuple[tuple[_Step, ...], ...]:
    """For each array how its derivative is made: each place is written first, and then added to."""
    return tuple(tuple(_steps_of(number, size, runs)) for number, size in enumerate(sizes))


def _steps_of(number: int, size: int, runs: Runs) -> Iterator[_Step]:
    written = [False] * size
    begin = 0
    for left, left_start, right, right_start, length in runs:
        for array, at, factor, factor_at in (
            (left, left_start, right, right_start),
            (right, right_start, left, left_start),
        ):
            if array == number:
                for offset, count, is_first in _alike(written, at, length):
                    yield at + offset, count, is_first, (factor, factor_at + offset, begin + offset)
        begin += length
    for at, count, is_first in _alike(written, 0, size):
        if is_first:
            yield at, count, True, None


def _alike(written: list[bool], start: int, length: int) -> Iterator[tuple[int, int, bool]]:
    """The parts of a run that are all written already or all not: offset, length, whether not. Marks them written."""
    offset = 0
    while offset < length:
        state, end = written[start + offset], offset + 1
        while end < length and written[start + end] is state:
            end += 1
        written[start + offset : start + end] = [True] * (end - offset)
        yield offset, end - offset, not state
        offset = end
