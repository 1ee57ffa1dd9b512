"""Parameters as semirings read them: as ordinary numbers and as logarithms, each computed when it is first read.

A softmax underflows where its logarithm is an ordinary number. So a layer passes a semiring a `Weight`, not an array;
a carrier of logarithms reads the logarithms.

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
    """Logarithms of a weight `(F, O, N)`, or an array from which they are computed quickly.

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
        in_logs: Computes their logarithms, right where the ordinary numbers underflow; None where the logarithm of the
            ordinary number is as good.
        exact: Computes the logarithms of a weight `(F, O, N)` for the exact fallback of an operation; None where it may
            read the ordinary numbers.
        in_directions: Computes them as directions and sizes, `direction * exp(size)`, whose derivatives are right where
            a number is 0 too; None where the ordinary numbers are as good.
        most: No number is larger.
        least: No number is smaller; infinite where numbers may be complex.
        lost: The number of smallest normal numbers that underflow may have taken from a number or its factors.
        may_be_zero: Whether learned values may make a number 0, and not underflow alone.
        row_sum: No sum of the numbers' sizes over all axes but the first two is larger; infinite where it is not known.
        source_table: Computes the table `(F, K, ...)` from which these numbers, rows `(F, B, K)`, were looked up; None
            where they were not, or where the table is not known.
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
    source_table: Callable[[], Array] | None = None

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
        """The numbers divided by their sum over the last axis, right where they underflow; equal where all are zero."""
        logs = self.log(xp)
        is_nothing = xp.equal(xp.max(logs, axis=-1, keepdims=True), -inf)
        return xp.softmax(xp.where(is_nothing, 0.0, logs), axis=-1)

    @cached_property
    def _logs(self) -> Array:
        assert self.in_logs is not None, "`log` reads this only where there are logarithms"
        return self.in_logs()

    @cached_property
    def directions(self) -> tuple[Array, Array]:
        """Directions and sizes."""
        assert self.in_directions is not None, "callers read this only where there are directions"
        return self.in_directions()

    @cached_property
    def logs(self) -> Logs | None:
        """The logarithms for an exact fallback; None where it may read the ordinary numbers."""
        return None if self.exact is None else self.exact()

    def map(self, fn: Callable[[Array], Array]) -> Weight:
        """A function of the weight that selects numbers, or takes maxima: it fits numbers and logarithms alike."""
        logs = self.in_logs
        return replace(
            self,
            in_linear=lambda: fn(self.linear),
            in_logs=None if logs is None else lambda: fn(self._logs),
            exact=None,
            in_directions=self._map_directions(fn),
            row_sum=inf,
            source_table=None,
        )

    def _map_directions(self, fn: Callable[[Array], Array]) -> Callable[[], tuple[Array, Array]] | None:
        """Directions and sizes, `fn` applied to each."""
        return None if self.in_directions is None else lambda: (fn(self.directions[0]), fn(self.directions[1]))

    def each(self, fn: Callable[[Array], Array]) -> Weight:
        """The same numbers with each fold repeated for several rows: `(F, O, N)` as `(F*B, O, N)`."""
        logs, exact = self.in_logs, self.exact

        def repeated_logs() -> Logs:
            assert exact is not None, "set only where there are exact logarithms"
            logs = exact()
            return replace(logs, array=fn(logs.array))

        return replace(
            self,
            in_linear=lambda: fn(self.linear),
            in_logs=None if logs is None else lambda: fn(self._logs),
            exact=None if exact is None else repeated_logs,
            in_directions=self._map_directions(fn),
        )

    def looked_up(self, fn: Callable[[Array], Array]) -> Weight:
        """Rows `(F, B, K)` of this weight as a table `(F, K, ...)`: `fn` looks up a category for each row."""
        return replace(self.map(fn), source_table=lambda: self.linear)

    def total(self, xp: Namespace) -> Weight:
        """The sums over the last axis, which is dropped."""
        terms, logs = self, self.in_logs
        if logs is not None and as_dtype(self._logs.dtype).kind == "complex":
            logs = None

        def in_directions() -> tuple[Array, Array]:
            direction, size = terms.directions
            total, shift = scaled_sum(xp, size, direction, -1)
            return sign(xp, total), log_size(xp, total) + shift

        return replace(
            self,
            in_linear=lambda: xp.sum(terms.linear, axis=-1),
            in_logs=None if logs is None else lambda: xp.logsumexp(terms._logs, axis=-1),
            exact=None,
            in_directions=None if terms.in_directions is None else in_directions,
            source_table=None,
            most=inf,  # a bound would need the number of terms, and thus the array
            least=0.0 if self.least >= 0 else -inf,
            row_sum=inf,
        )

    def laid_out(self, fn: Callable[[Array], Array]) -> Weight:
        """The numbers of `(F, O, N)` with N as several axes, in the same order."""
        return replace(self.map(fn), exact=self.exact, row_sum=self.row_sum)


@final
class Params(Mapping[str, Array]):
    """The parameters of a group of layers, each evaluated when it is read.

    Each is an array `(F, *shape)`; one of several outputs is a tuple of such arrays.

    Args:
        names: Their names.
        array: Computes the parameter with a name.
        weight: Makes a weight of the parameter with a name. The further arguments tell whether it holds logarithms, and
            whether it is refused where it becomes negative and the semiring cannot carry that.
        sub_layers: The layers that the layer holds, by name (see `plica.symbolic.layers.rows.SubLayer`).
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
        """Parameters from arrays."""

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
        """The parameters whose names begin with `name` and a dot, by the remainder of their names."""
        start = f"{name}."
        names = tuple(suffix.removeprefix(start) for suffix in self._names if suffix.startswith(start))
        return Params(
            names,
            lambda suffix: self._array(start + suffix),
            lambda suffix, *arguments: self._weight(start + suffix, *arguments),
            call=lambda suffix, *arguments: self.call(start + suffix, *arguments),
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
