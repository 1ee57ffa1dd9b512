"""Numbers that parameters give to semirings: each in linear space and as logarithms, computed where it is asked for.

A softmax underflows where its logarithm is an ordinary number. So a layer hands a semiring not an array but a `Weight`,
and a carrier of logarithms takes the logarithms.

>>> import numpy as np
>>> params = Params.of(np, {"weight": np.array([3.0]), "logits": np.array([0.0])})
>>> params.weight("weight").linear, params.exp_weight("logits").linear
(array([3.]), array([1.]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias, final

from plica.forks import cached_property
from plica.ir.dtypes import as_dtype
from plica.symbolic.parameters.signed import log_size, scaled_sum, sign

Array: TypeAlias = Any
Namespace: TypeAlias = Any


@final
@dataclass(frozen=True, slots=True)
class Logs:
    """Logarithms of a weight `(F, O, N)`, or what they are computed from in little time.

    Args:
        form: `"log"` where `array` holds the logarithms, `"log_softmax"` where they are its log-softmax over the last
            axis.
        array: `(F, O, N)`.
    """

    form: str
    array: Array


@final
@dataclass(frozen=True)
class Weight:
    """The numbers of a parameter.

    Args:
        in_linear: Computes them as ordinary numbers.
        in_logs: Computes their logarithms, right where the ordinary number underflows; None where these are the
            logarithms of the ordinary numbers.
        exact: Computes what an exact way out needs to know the logarithms, for a weight `(F, O, N)`; None where it is
            the ordinary numbers.
        in_directions: Computes them as directions and sizes, `direction * exp(size)`, whose derivatives are right where
            a number is 0 too; None where the ordinary numbers tell as much.
        most: No number is larger.
        least: None is smaller; infinite where numbers may be complex.
        lost: How many smallest normal numbers a number may lack because it, or what it was computed from, underflowed.
        may_be_zero: Whether a number may be 0 by a value of what is learned, and not by underflow alone.
        row_sum: No sum of the numbers' sizes over all axes but the first two is larger, where that is known beforehand.
        whole: Computes a table `(F, K, ...)` of whose entries these numbers are rows `(F, B, K)`; None where they are
            no such rows, or of no table that is known.
    """

    in_linear: Callable[[], Array]
    in_logs: Callable[[], Array] | None = None
    exact: Callable[[], Logs] | None = None
    in_directions: Callable[[], tuple[Array, Array]] | None = None
    most: float = inf
    least: float = -inf
    lost: float = 1.0
    may_be_zero: bool = True
    row_sum: float = inf
    whole: Callable[[], Array] | None = None

    @staticmethod
    def of(array: Array | Weight) -> Weight:
        """An array of ordinary numbers as a weight; a weight as it is."""
        return array if isinstance(array, Weight) else Weight(lambda: array)

    @cached_property
    def linear(self) -> Array:
        """The ordinary numbers."""
        return self.in_linear()

    def log(self, xp: Namespace) -> Array:
        """The logarithms."""
        return xp.safe_log(self.linear) if self.in_logs is None else self._logs

    def shares(self, xp: Namespace) -> Array:
        """Parts of the sum over the last axis, right where the numbers underflow; equal ones where all are zero."""
        logs = self.log(xp)
        is_nothing = xp.equal(xp.max(logs, axis=-1, keepdims=True), -inf)
        return xp.softmax(xp.where(is_nothing, 0.0, logs), axis=-1)

    @cached_property
    def _logs(self) -> Array:
        assert self.in_logs is not None, "asked for by `log` where there are logarithms"
        return self.in_logs()

    @cached_property
    def directions(self) -> tuple[Array, Array]:
        """Directions and sizes."""
        assert self.in_directions is not None, "asked for where there are some"
        return self.in_directions()

    @cached_property
    def logs(self) -> Logs | None:
        """What an exact way out needs; None where it is the ordinary numbers."""
        return None if self.exact is None else self.exact()

    def map(self, fn: Callable[[Array], Array]) -> Weight:
        """A selection of the numbers, or the largest of some: the same for numbers and logarithms."""
        logs = self.in_logs
        return replace(
            self,
            in_linear=lambda: fn(self.linear),
            in_logs=None if logs is None else lambda: fn(self._logs),
            exact=None,
            in_directions=self._moved(fn),
            row_sum=inf,
            whole=None,
        )

    def _moved(self, fn: Callable[[Array], Array]) -> Callable[[], tuple[Array, Array]] | None:
        """Directions and sizes, each changed in shape."""
        return None if self.in_directions is None else lambda: (fn(self.directions[0]), fn(self.directions[1]))

    def each(self, fn: Callable[[Array], Array]) -> Weight:
        """The same numbers with folds repeated, each for several rows: `(F, O, N)` as `(F*B, O, N)`."""
        logs, exact = self.in_logs, self.exact

        def in_full() -> Logs:
            assert exact is not None, "asked for where there are some"
            found = exact()
            return replace(found, array=fn(found.array))

        return replace(
            self,
            in_linear=lambda: fn(self.linear),
            in_logs=None if logs is None else lambda: fn(self._logs),
            exact=None if exact is None else in_full,
            in_directions=self._moved(fn),
        )

    def looked_up(self, fn: Callable[[Array], Array]) -> Weight:
        """Rows `(F, B, K)` of a table `(F, K, ...)`: each is that of some state, for numbers and logarithms alike."""
        return replace(self.map(fn), whole=lambda: self.linear)

    def total(self, xp: Namespace) -> Weight:
        """The sums over the last axis, which is dropped."""
        terms, logs = self, self.in_logs
        if logs is not None and as_dtype(self._logs.dtype).kind == "complex":
            logs = None

        def in_directions() -> tuple[Array, Array]:
            direction, size = terms.directions
            found, shift = scaled_sum(xp, size, direction, -1)
            return sign(xp, found), log_size(xp, found) + shift

        return replace(
            self,
            in_linear=lambda: xp.sum(terms.linear, axis=-1),
            in_logs=None if logs is None else lambda: xp.logsumexp(terms._logs, axis=-1),
            exact=None,
            in_directions=None if terms.in_directions is None else in_directions,
            whole=None,
            most=inf,  # how many terms there are is known where they are computed
            least=0.0 if self.least >= 0 else -inf,
            row_sum=inf,
        )

    def laid_out(self, fn: Callable[[Array], Array]) -> Weight:
        """The numbers of `(F, O, N)` with N as several axes, in the same order."""
        return replace(self.map(fn), exact=self.exact, row_sum=self.row_sum)


@final
class Params(Mapping[str, Array]):
    """The parameters of a group of layers, evaluated where they are asked for.

    Each is an array `(F, *shape)`; one of several outputs is a tuple of such arrays.

    Args:
        names: Their names.
        array: Computes the parameter of a name.
        weight: The parameter of a name as a weight; the further arguments tell whether it holds logarithms, and whether
            it is refused where it becomes negative and the semiring cannot carry that.
        sub_layers: What the layer holds, by name (see `plica.symbolic.layers.rows.SubLayer`).
        call: Calls a method of an object that the layer holds (see `Layer.opaque`): the object's name, the method, its
            arguments, and the shape of the result.
        dtype: The dtype of real parameters.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        array: Callable[[str], Array],
        weight: Callable[[str, bool, bool], Weight],
        sub_layers: Mapping[str, Any] | None = None,
        call: Callable[[str, str, Sequence[Array], Sequence[Any]], Array] | None = None,
        dtype: Any = None,
    ) -> None:
        self._names = names
        self._array = array
        self._weight = weight
        self.sub_layers = {} if sub_layers is None else sub_layers
        self._call = call
        self.dtype = dtype

    @staticmethod
    def of(xp: Namespace, arrays: Mapping[str, Array]) -> Params:
        """Parameters that are evaluated already."""

        def weight(name: str, logs: bool, checked: bool) -> Weight:  # noqa: ARG001
            array = arrays[name]
            return (
                Weight(
                    lambda: xp.exp(array), lambda: array, least=-inf if as_dtype(array.dtype).kind == "complex" else 0.0
                )
                if logs
                else Weight.of(array)
            )

        return Params(tuple(arrays), arrays.__getitem__, weight)

    def under(self, name: str) -> Params:
        """The parameters whose names begin with `name` and a dot, by the rest of their names."""
        start = f"{name}."
        names = tuple(one.removeprefix(start) for one in self._names if one.startswith(start))
        return Params(
            names,
            lambda one: self._array(start + one),
            lambda one, *how: self._weight(start + one, *how),
            call=lambda one, *how: self.call(start + one, *how),
            dtype=self.dtype,
        )

    def holding(self, sub_layers: Mapping[str, Any]) -> Params:
        """The same parameters of a layer that holds others."""
        return Params(self._names, self._array, self._weight, sub_layers, self._call, self.dtype)

    def call(self, name: str, method: str, arrays: Sequence[Array], shape: Sequence[Any]) -> Array:
        """The result of a method of an object that the layer holds."""
        assert self._call is not None, "only Programs of circuits call objects"
        return self._call(name, method, arrays, shape)

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._array(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def weight(self, name: str) -> Weight:
        """A parameter of ordinary numbers, for a semiring."""
        return self._weight(name, False, True)

    def exp_weight(self, name: str) -> Weight:
        """A parameter of logarithms, for a semiring."""
        return self._weight(name, True, False)

    def log(self, xp: Namespace, name: str) -> Array:
        """The logarithms of a parameter that is no weight: right where it underflows, NaN where it is negative."""
        return self._weight(name, False, False).log(xp)
