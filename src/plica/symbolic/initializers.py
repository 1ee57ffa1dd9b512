"""Initializers: rules that give a tensor parameter its first values.

An initializer is data: its `config` has the settings, and its method `draw` is the reference for all backends.

    >>> import numpy as np
    >>> DirichletInitializer(2.0).draw(np.random.default_rng(0), (2, 3)).sum(axis=-1).round(6).tolist()
    [1.0, 1.0]
    >>> DirichletInitializer([1.0, 2.0]).allows_shape((4, 3))
    False

    >>> UniformInitializer(2.0, 3.0).draw(np.random.default_rng(0), (3,)).round(2)
    array([2.64, 2.27, 2.04])
"""

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from plica.arguments import elements, integer
from plica.errors import DTypeError, InputError, ShapeError

__all__ = [
    "ConstantTensorInitializer",
    "DirichletInitializer",
    "Initializer",
    "InitializerRow",
    "NormalInitializer",
    "UniformInitializer",
]

Shape = tuple[int, ...]


class Initializer(ABC):
    """A rule that fills a tensor of a given shape.

    >>> class Ramp(Initializer):
    ...     config = {}
    ...
    ...     def allows_shape(self, shape):
    ...         return len(shape) == 1
    ...
    ...     def draw(self, generator, shape):
    ...         return np.arange(shape[0], dtype=float)
    >>> Ramp().draw(np.random.default_rng(0), (3,))
    array([0., 1., 2.])
    """

    __slots__ = ()

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The settings, by the names of the constructor."""

    @abstractmethod
    def allows_shape(self, shape: Shape) -> bool:
        """Whether a tensor of `shape` can be filled."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:
        """A new array of `shape`, in double precision unless the values are given."""

    def draw_complex(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:
        """A new array of `shape` for a complex tensor; the real numbers of `draw` unless a class says otherwise."""
        return self.draw(generator, shape)


@dataclass(frozen=True, slots=True, eq=False)
class _FieldsInitializer(Initializer):
    """An initializer whose settings are its fields."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings, by the names of the constructor."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConstantTensorInitializer(_FieldsInitializer):
    """One number for all entries, or an array of the same shape as the tensor."""

    value: complex | NDArray[Any]

    def __post_init__(self) -> None:
        frozen = numbers_of("ConstantTensorInitializer", self.value)
        if frozen.ndim > 0:
            frozen.setflags(write=False)
            object.__setattr__(self, "value", frozen)

    def allows_shape(self, shape: Shape) -> bool:
        """Any shape for a number, its own shape for an array."""
        shape = _sizes(shape)
        return np.ndim(self.value) == 0 or np.shape(self.value) == shape

    def draw(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:  # noqa: ARG002 (nothing is drawn)
        """The value, broadcast."""
        return np.array(np.broadcast_to(self.value, shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class UniformInitializer(_FieldsInitializer):
    """Independent draws, uniform in [a, b); of complex numbers the real and the imaginary parts are."""

    a: float = 0.0
    b: float = 1.0

    def __post_init__(self) -> None:
        _check_finite(self, "a", self.a)
        _check_finite(self, "b", self.b)
        _check_finite(self, "b - a", self.b - self.a)
        if not self.a < self.b:
            raise InputError(f"UniformInitializer needs a < b, found a={self.a} and b={self.b}; swap them")

    def allows_shape(self, shape: Shape) -> bool:  # noqa: ARG002 (every shape will do)
        """Any shape."""
        return True

    def draw(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:
        """Uniform draws."""
        return generator.uniform(self.a, self.b, shape)

    def draw_complex(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:
        """Uniform draws in a square."""
        return _of_parts(generator.uniform(self.a, self.b, (2, *shape)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class NormalInitializer(_FieldsInitializer):
    """Independent draws from a normal distribution.

    Of a complex number, `stddev ** 2` is the mean of `abs(draw - mean) ** 2`: the real and the imaginary part are
    independent, each with a standard deviation of `stddev / sqrt(2)`. The mean is real.
    """

    mean: float = 0.0
    stddev: float = 1.0

    def __post_init__(self) -> None:
        _check_finite(self, "mean", self.mean)
        _check_finite(self, "stddev", self.stddev)
        if not self.stddev > 0:
            raise InputError(
                f"NormalInitializer needs a positive stddev, found {self.stddev}; "
                "for a fixed value use ConstantTensorInitializer"
            )

    def allows_shape(self, shape: Shape) -> bool:  # noqa: ARG002 (every shape will do)
        """Any shape."""
        return True

    def draw(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:
        """Normal draws."""
        return generator.normal(self.mean, self.stddev, shape)

    def draw_complex(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:
        """Circular normal draws around the mean."""
        return self.mean + _of_parts(generator.normal(0.0, self.stddev / math.sqrt(2.0), (2, *shape)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class DirichletInitializer(_FieldsInitializer):
    """Draws that are positive and add up to one along an axis.

    Args:
        alpha: One concentration for all, or one for each entry along `axis`.
        axis: The axis along which the values add up to one.
    """

    alpha: float | Sequence[float] = 1.0
    axis: int = field(default=-1, kw_only=True)

    def __post_init__(self) -> None:
        if np.ndim(self.alpha) > 0:
            object.__setattr__(self, "alpha", tuple(reals_of("DirichletInitializer", self.alpha)))
        for value in np.ravel(self.alpha).tolist():
            _check_finite(self, "alpha", value)
        if not np.all(np.asarray(self.alpha) > 0):
            raise InputError(f"DirichletInitializer needs positive concentrations, found alpha={self.alpha}")

    def allows_shape(self, shape: Shape) -> bool:
        """Any shape that has the axis, of the length of `alpha` where there is one concentration per entry."""
        shape = _sizes(shape)
        if not -len(shape) <= self.axis < len(shape):
            return False
        return not isinstance(self.alpha, tuple) or len(self.alpha) == shape[self.axis]

    def draw(self, generator: np.random.Generator, shape: Shape) -> NDArray[Any]:
        """Dirichlet draws, the axis of the sum moved into place."""
        others = [size for axis, size in enumerate(shape) if axis != self.axis % len(shape)]
        alpha = np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), (shape[self.axis],))
        return np.ascontiguousarray(np.moveaxis(generator.dirichlet(alpha, others), -1, self.axis))


@dataclass(frozen=True, slots=True)
class InitializerRow:
    """A registry entry of one context: how initializers of a class draw, instead of their own `draw`.

    Args:
        initializer: The class.
        draw: `(initializer, generator, shape)`, as `Initializer.draw`.

    >>> row = InitializerRow(NormalInitializer, lambda normal, generator, shape: np.full(shape, normal.mean))
    >>> row.draw(NormalInitializer(5.0), np.random.default_rng(0), (2,))
    array([5., 5.])
    """

    initializer: type[Initializer]
    draw: Callable[[Any, np.random.Generator, Shape], NDArray[Any]]


def _of_parts(parts: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Complex numbers from their real and imaginary parts, along the first axis."""
    numbers: NDArray[np.complex128] = parts[0] + 1j * parts[1]
    return numbers


def _sizes(shape: Any) -> Shape:
    return tuple(integer("allows_shape", "each size", size) for size in elements("allows_shape", "the shape", shape))


def numbers_of(owner: str, value: Any) -> NDArray[Any]:
    """A copy of `value` as an array, which must hold booleans, integers of 64 bits, floats or complex numbers.

    Raises:
        DTypeError: `value` holds something else.
        ShapeError: Its rows have several lengths.
    """
    try:
        array = np.array(value)
    except ValueError as error:
        raise ShapeError(f"{owner}: the value is no array ({error}); give every row the same length") from error
    if array.dtype.kind not in "biufc":
        raise DTypeError(
            f"{owner}: expected numbers that fit 64 bits, found {reprlib.repr(value)}; "
            "pass a number, or an array of them"
        )
    return array


def reals_of(owner: str, value: Any) -> NDArray[np.float64]:
    """The same in double precision.

    Raises:
        DTypeError: `value` holds complex numbers, or no numbers.
        ShapeError: Its rows have several lengths.
    """
    array = numbers_of(owner, value)
    if array.dtype.kind == "c":
        raise DTypeError(f"{owner}: expected real numbers, found complex ones: {reprlib.repr(value)}")
    return array.astype(np.float64)


def _check_finite(initializer: Initializer, name: str, value: float) -> None:
    """Raise unless a setting is a number that a float can hold, and finite."""
    owner = type(initializer).__name__
    if not isinstance(value, Real):
        raise DTypeError(f"{owner}: {name} must be a number, found {reprlib.repr(value)}")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise InputError(f"{owner} needs a finite {name}, found {reprlib.repr(value)}")
