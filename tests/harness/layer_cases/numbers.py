"""What numbers parameters and data of layers may be: at the ends of what they may be, and drawn.

>>> SCALE.extremes
(1e-06, 0.001, 1.0, 1000.0, 1000000.0)
>>> SCALE.draw(np.random.default_rng(0), (2, 3), 1.0).shape
(2, 3)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
Draw = Callable[[np.random.Generator, tuple[int, ...], float], Array]


@dataclass(frozen=True)
class Numbers:
    """What one parameter may be.

    Args:
        extremes: Its values for one unit, at the ends of what they may be, exact zeros included.
        draw: `(rng, shape, spread)`: ordinary values; `spread` is how many times farther from 1, or from 0, they lie.
        shared: Whether all units have one value.
        fixed: Whether it is never learned.
    """

    extremes: tuple[Any, ...]
    draw: Draw
    shared: bool = False
    fixed: bool = False


def _normal(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    return rng.normal(size=shape) * spread


def positive(low: float = 0.2, high: float = 4.0) -> Draw:
    """Draws between two numbers, equally likely in each octave."""
    return lambda rng, shape, spread: np.exp(rng.uniform(np.log(low / spread), np.log(high * spread), shape))


def _share(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:  # noqa: ARG001
    return rng.choice([1e-6, 0.125, 0.25, 0.5, 0.75, 1 - 2.0**-10], shape)


def _with_zeros(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    """Numbers that are not negative and not normalized, some of them 0, though not the first of a row."""
    values = positive()(rng, shape, spread)
    zero = rng.random(shape) < 0.15
    zero[..., 0] = False
    return np.where(zero, 0.0, values)


def integers(low: int, high: int) -> Draw:
    """Whole numbers."""
    return lambda rng, shape, _: rng.integers(low, high, shape).astype(float)


PLACE = Numbers((-1e6, 0.0, 3.0, 1e6), _normal)
SCALE = Numbers((1e-6, 1e-3, 1.0, 1e3, 1e6), positive())
SIZE = Numbers((1e-3, 1.0, 2.5, 30.0, 1e6), positive())
LARGE_SIZE = Numbers((2.5, 1e3), positive(2.0, 9.0))
RATE = Numbers((1e-30, 1e-6, 0.3, 1.0, 30.0, 1e3, 1e6), positive())
LOGIT = Numbers((-1e4, -300.0, -30.0, 0.0, 2.0, 200.0), _normal)
SHARE = Numbers((0.0, 1e-30, 1e-6, 0.3, 1 - 2.0**-20, 1.0), _share)
LOG_FACTOR = Numbers((-1e3, 0.0, 1e3), _normal)
FACTOR = Numbers((0.0, 1e-30, 1e-6, 1.0, 1e6), positive())
SIGNED_FACTOR = Numbers((0.0, -1e-6, 1e-30, 1.0, -1e6), _normal)


def logits(count: int) -> Numbers:
    """Of tables of states."""
    rows = np.array([np.zeros(count), np.linspace(-1e4, 1e4, count), np.linspace(-210, -190, count)])
    steep = np.where(np.arange(count) == 0, 1e30, -1e30)
    return Numbers((*rows.tolist(), steep.tolist()), _normal)


def weights(count: int) -> Numbers:
    """Of tables and sums: none is negative, and some are exactly 0."""
    rows = np.stack([np.arange(count), np.zeros(count), np.logspace(-6, 6, count), np.full(count, 1e-12)])
    return Numbers(tuple(rows.tolist()), _with_zeros)


def signed_weights(count: int) -> Numbers:
    """Of any sign, some of them exactly 0."""
    rows = np.stack([np.arange(count) - 1.0, np.zeros(count), np.logspace(-6, 6, count), np.full(count, -1e-6)])
    return Numbers(tuple(rows.tolist()), _normal)


# What data may be at the ends of a domain, and numbers that are outside.
STATES_WRONG = (-1.0, 0.5, 1e6, np.inf, -np.inf, 1e30)
COUNTS = (0, 1, 2, 5, 40, 1000, 1e6)
COUNTS_WRONG = (-1.0, 0.5, np.inf, -np.inf, 1e30)
WHOLE = (0, 1, -1, 2, -5, 40, -1000, 1e6, -1e6)
WHOLE_WRONG = (0.5, -1e6 - 0.5, np.inf, -np.inf)
_POSITIVE = (1e-30, 1e-6, 1.0, 3.0, 31.0, 1e6, 1e30, np.inf)
REALS = (*_POSITIVE, -0.0, 0.0, -1e-6, -2.5, -1e3, -1e6, -1e30, -np.inf)
POSITIVE = _POSITIVE
POSITIVE_WRONG = (0.0, -1.0, -1e-30, -np.inf)
NOT_NEGATIVE = (0.0, *_POSITIVE)
NOT_NEGATIVE_WRONG = (-1.0, -1e-30, -np.inf)
UNIT = (0.3, 0.0, 1e-30, 1e-6, 0.5, 0.999, 1 - 2.0**-24, 1.0)
UNIT_WRONG = (-1.0, 1.5, np.inf, -np.inf)
_TURN = float(np.float32(np.pi))
ANGLES = (-_TURN, -3.0, -1e-6, 0.0, 1e-30, 0.5, 2.0, 2.001, 3.0, _TURN)
ANGLES_WRONG = (3.2, -4.0, np.inf, -np.inf)


def column(numbers: tuple[float, ...]) -> Callable[[Any], Array]:
    """Data of one variable, whatever the layer."""
    return lambda _: np.array(numbers, float)[:, None]


def states(layer: Any) -> Array:
    """All states of the variables of a layer, or, of many, the first, the last and the middle one, `(N, V)`."""
    count = layer.domain.num_states
    every = range(count) if count <= 17 else (0, 1, count // 2, count - 2, count - 1)
    grid = np.meshgrid(*[every] * layer.num_variables, indexing="ij")
    return np.stack(grid, -1).reshape(-1, layer.num_variables).astype(float)
