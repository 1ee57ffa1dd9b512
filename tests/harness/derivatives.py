"""First and second derivatives along directions: by differences in extended precision, by torch, and compared.

    wanted = differences(lambda points: [function(one) for one in points], point, directions)
    found = torch_derivatives(function, point, directions)
    assert not disagreements(found, wanted, exact=1e-6)

Differences extrapolate over steps of all sizes (Ridders, Accurate computation of F'(x) and F'(x) F''(x), 1982); where
two estimates of no step agree, nothing is known, as at a kink.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.harness.spaces import WIDE

Array = Any
Point = Mapping[str, Array]  # arrays by name
Direction = Mapping[str, Array]  # steps of some of them, of their shapes

_RATIO = 8.0  # of one step to the next
_STEPS, _FEWER_STEPS = 15, 10  # of extended precision, and of less


@dataclass(frozen=True)
class Derivatives:
    """The value, and the first and the second derivative along each direction.

    Args:
        value: `(...)`.
        first: `(directions, ...)`.
        second: The same.
        errors: How far first and second derivatives are from the truth, `(2, directions, ...)`; infinite where nothing
            is known.
    """

    value: Array
    first: Array
    second: Array
    errors: Array


def moved(point: Point, direction: Direction, size: Array) -> dict[str, Array]:
    """A point, moved along a direction."""
    return {name: value + size * direction[name] if name in direction else value for name, value in point.items()}


def differences(
    evaluate: Callable[[Sequence[Point]], Sequence[Array]],
    point: Point,
    directions: Sequence[Direction],
    dtype: Any = WIDE,
) -> Derivatives:
    """Of a function that is computed at several points at once, in a dtype, right to a few roundings."""
    start = {name: np.asarray(value, dtype) for name, value in point.items()}
    sizes = [dtype(_RATIO) ** -step for step in range(1, (_STEPS if dtype == WIDE else _FEWER_STEPS) + 1)]
    moves = [(direction, sign * size) for direction in directions for size in sizes for sign in (1, -1)]
    with np.errstate(all="ignore"):
        values = [np.asarray(one) for one in evaluate([start, *(moved(start, *one) for one in moves)])]
        along = [
            _along(values[0], values[place + 1 : place + 1 + 2 * len(sizes)], np.array(sizes))
            for place in range(0, len(moves), 2 * len(sizes))
        ]
    first, second = (np.stack([one[place][0] for one in along]) for place in range(2))
    errors = np.stack([np.stack([one[place][1] for one in along]) for place in range(2)])
    return Derivatives(values[0], first, second, errors)


def _along(value: Array, values: Sequence[Array], steps: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The derivatives along a direction, of values a step above and below, by turns."""
    above, below = np.stack(values[::2]), np.stack(values[1::2])
    sizes = steps.reshape(-1, *[1] * value.ndim)
    first, second = (above - below) / (2 * sizes), (above - 2 * value + below) / (sizes * sizes)
    largest = np.maximum(np.maximum(np.abs(above), np.abs(below)), np.abs(value))
    rounding = 8 * np.finfo(value.dtype).eps * largest / sizes
    slope, error = _extrapolated(first, rounding)
    # slopes from both sides, which differ by steps times the second derivative, but at a kink by its own size
    kinks = np.min(np.abs(second) * sizes + rounding, axis=0)
    error = np.maximum(error, np.nan_to_num(kinks, nan=np.inf))
    return (slope, error), _extrapolated(second, 2 * rounding / sizes)


def _extrapolated(estimates: Array, rounding: Array) -> tuple[Array, Array]:
    """The best estimate, and how far it may be from the truth: infinitely where a smaller step tells another."""
    columns, ratio = [estimates], _RATIO**2
    for order in range(1, 4):  # errors are even powers of the step
        last = columns[-1]
        columns.append((last[1:] * ratio**order - last[:-1]) / (ratio**order - 1))
    best, error = np.zeros_like(estimates[0]), np.full(estimates[0].shape, np.inf, estimates[0].dtype)
    known = []
    for order, column in enumerate(columns):
        # of three estimates that follow each other, so that no two agree by chance
        apart = np.maximum(np.abs(column[1:-1] - column[:-2]), np.abs(column[2:] - column[1:-1]))
        apart = np.where(np.isfinite(apart), apart, np.inf) + rounding[order + 1 : len(column) + order - 1]
        place = np.argmin(apart, axis=0)[None]
        least = np.take_along_axis(apart, place, 0)[0]
        estimate = np.take_along_axis(column[1:-1], place, 0)[0]
        best, error = np.where(least < error, estimate, best), np.minimum(least, error)
        known.append((column[1:-1], apart))
    for estimate, apart in known:
        trusted = apart < 1e-2 * np.maximum(np.abs(estimate), np.abs(best))
        differs = np.abs(estimate - best) > 30 * (apart + error)
        error = np.where((trusted & differs).any(axis=0), np.inf, error)
    return best, error


def torch_derivatives(
    function: Callable[[Mapping[str, Tensor]], Tensor],
    point: Mapping[str, Tensor],
    directions: Sequence[Mapping[str, Tensor]],
) -> tuple[Tensor, Tensor, Tensor]:
    """The value and the derivatives along directions of a function each of whose results has a point of its own.

    Values that are infinite send nothing back: derivatives there are 0, unless they are made NaN on the way.
    """
    leaves = {name: value.clone().requires_grad_() for name, value in point.items()}
    value = function(leaves)
    if not value.requires_grad:
        none = torch.zeros((len(directions), *value.shape), dtype=value.dtype)
        return value, none, none
    slopes = _slopes(torch.where(value.isfinite(), value, 0.0).sum(), leaves)
    first, second = [], []
    for direction in directions:
        slope = _dot(slopes, direction, value)
        first.append(slope.detach())
        if not slope.requires_grad:
            second.append(torch.zeros_like(value))
            continue
        second.append(_dot(_slopes(torch.where(slope.isfinite(), slope, 0.0).sum(), leaves), direction, value).detach())
    return value.detach(), torch.stack(first), torch.stack(second)


def _slopes(total: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = torch.autograd.grad(total, list(leaves.values()), create_graph=True, materialize_grads=True)
    return dict(zip(leaves, found, strict=True))


def _dot(slopes: Mapping[str, Tensor], direction: Mapping[str, Tensor], value: Tensor) -> Tensor:
    """What the entries of each result's own point add up to, times the direction's; NaN wherever one is none."""
    found = torch.zeros_like(value)
    for name, steps in direction.items():
        products = torch.where(steps == 0, torch.where(slopes[name].isnan(), slopes[name], 0.0), slopes[name] * steps)
        found = found + products.reshape(len(value), -1).sum(1).reshape(value.shape)
    return found


@dataclass(frozen=True)
class Exact:
    """What derivatives may differ by.

    Args:
        relative: In units of themselves.
        cancelled: In units of the largest ones of the point, which may have cancelled.
        of_squares: Of second derivatives, in units of the squares of first ones.
    """

    relative: float
    cancelled: float
    of_squares: float = 0.0


WIDE_EXACT, OWN_EXACT, NARROW_EXACT = Exact(1e-6, 1e-9), Exact(1e-4, 1e-6), Exact(2e-3, 3e-3, 1e-5)


def rounded(values: Any) -> Array:
    """Numbers of float32, as float64."""
    return np.asarray(values, np.float32).astype(np.float64)


def disagreements(
    found: Derivatives,
    expected: Derivatives,
    sizes: Array,
    plain: int,
    exact: Exact,
    limits: Any,
    own: float,
    orders: int,
) -> list[tuple[str, tuple[int, ...], str]]:
    """Where derivatives are not finite, or not those that are expected: which, where, and both numbers.

    Args:
        found: Those of torch.
        expected: With what is known of them.
        sizes: The steps of directions, `(directions, B, K)`.
        plain: How many of the directions, the first ones, move one entry.
        exact: What they may differ by.
        limits: Of the dtype of `found`.
        own: What share of the roundings of values derivatives have too.
        orders: How many derivatives are compared.
    """
    faults: list[tuple[str, tuple[int, ...], str]] = []
    with np.errstate(all="ignore"):
        value = np.asarray(expected.value, float)
        is_known = np.isfinite(value) & np.isfinite(found.value)
        firsts, seconds = (np.abs(np.asarray(one, float)[:plain]) for one in (expected.first, expected.second))
        of_value, of_slopes = np.abs(value) + 1, firsts.sum(axis=0)
        largest = (of_value, of_slopes + own * of_value, of_slopes + seconds.sum(axis=0) + own * of_value)
        steps = np.where(sizes == 0, 1.0, sizes)
        for order, name in enumerate(("value", "first derivative", "second derivative")[: orders + 1]):
            mine, truth, error = (
                (found.value, value, np.zeros_like(value))
                if order == 0
                else (
                    (found.first, found.second)[order - 1],
                    np.asarray((expected.first, expected.second)[order - 1], float),
                    np.asarray(expected.errors[order - 1], float),
                )
            )
            scale = steps**order if order else np.ones_like(value)
            # beside one that is too large for the dtype, others of the point may be none
            raw = np.abs((value, firsts, seconds)[order]) / (steps[:plain] ** order if order else 1)
            over = ~(raw < 0.01 * float(limits.max) ** (1.0 if order else 0.5))
            over = over.any(axis=0) if order else over
            lost = float(limits.tiny) * 1e6 * scale + 1e-200 if order else 1e-200
            limit = exact.relative * np.abs(truth) + 30 * error + exact.cancelled * largest[order] + lost
            known = (
                is_known
                & (np.isfinite(expected.errors).any(axis=(0, 1)) if len(sizes) else True)
                & (error <= 1e-3 * np.abs(truth) + 1e-9 * largest[order])
            )
            finite = np.isfinite(mine) if order else ~np.isnan(mine) | np.isnan(value) & (own > 0)
            if order == 2 and exact.of_squares:
                limit = limit + exact.of_squares * of_slopes**2
            wrong = known & ~over & ~(np.abs(mine - truth) <= limit)
            # where a value is infinite, what multiplies derivatives is 0, and they have to be numbers
            missing = ~finite & ~(over & np.isfinite(found.value))
            for what, where in ((f"no finite {name}", missing), (f"another {name}", wrong & ~missing)):
                faults += [
                    (what, tuple(map(int, at)), f"found {mine[tuple(at)]}, expected {truth[tuple(at)]}")
                    for at in np.argwhere(where)
                ]
    return faults
