"""Parameters as semirings read them: as linear numbers or as logarithms, each computed when it is first read.

A softmax underflows where its logarithm is still exact. So a layer passes a semiring a `Weight`, not an array: number
formats of logarithms read its logarithms, others its linear numbers. Shapes have F folds, O output units, and N inputs
of a sum or K units of an input layer.

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

    >>> import numpy as np
    >>> Weight(lambda: np.ones(1), exact=lambda: Logs("log", np.zeros(1))).logs
    Logs(form='log', array=array([0.]))
    """

    form: str
    array: Array


@final
@dataclass(frozen=True)
class Weight:
    """The numbers of a parameter, in each form that a number format may read.

    Args:
        in_linear: Computes them as linear numbers.
        in_logs: Computes their logarithms, accurate also where the linear numbers underflow; None if the logarithms of
            the linear numbers are as accurate.
        exact: Computes the logarithms of a weight `(F, O, N)` for the fallback of an operation, its exact computation;
            None if the fallback may read the linear numbers.
        in_directions: Computes them as `direction * exp(size)`: a sign or complex phase, and a logarithm. The
            derivative exists at the number 0 too. None if the linear numbers are as good.
        most: An upper bound of the numbers.
        least: A lower bound of the numbers; -infinity where they may be complex.
        lost: A bound of the error that underflow makes in a number, in multiples of the smallest normal number.
        may_be_zero: Whether learned values may make a number 0; otherwise only underflow does.
        row_sum: An upper bound of the sums of absolute values over all axes but the first two; infinity if unknown.
        source_table: If these numbers `(F, B, K)` were looked up in a table, computes the table `(F, K, ...)`; None if
            they were not, or the table is not known.

    >>> import numpy as np
    >>> import plica.numpy as pnp
    >>> logs = np.array([[0.0, -2000.0]])
    >>> weight = Weight(lambda: np.exp(logs), lambda: logs)
    >>> weight.linear, weight.log(pnp)  # numbers that underflow keep their logarithms
    (array([[1., 0.]]), array([[    0., -2000.]]))
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
        """An array of linear numbers as a weight; a weight unchanged."""
        return array if isinstance(array, Weight) else Weight(lambda: array)

    @cached_property
    def linear(self) -> Array:
        """The linear numbers."""
        return self.in_linear()

    def log(self, xp: Namespace) -> Array:
        """The logarithms."""
        return xp.safe_log(self.linear) if self.in_logs is None else self._logs

    def shares(self, xp: Namespace) -> Array:
        """The numbers divided by their sum over the last axis, from their logarithms; equal shares where all are 0."""
        logs = self.log(xp)
        are_zero = xp.equal(xp.max(logs, axis=-1, keepdims=True), -inf)
        return xp.softmax(xp.where(are_zero, 0.0, logs), axis=-1)

    @cached_property
    def _logs(self) -> Array:
        assert self.in_logs is not None, "`log` reads this only where there are logarithms"
        return self.in_logs()

    @cached_property
    def directions(self) -> tuple[Array, Array]:
        """The numbers as directions and sizes; only where `in_directions` is not None."""
        assert self.in_directions is not None, "callers read this only where there are directions"
        return self.in_directions()

    @cached_property
    def logs(self) -> Logs | None:
        """The logarithms for an exact fallback; None where it may read the linear numbers."""
        return None if self.exact is None else self.exact()

    def map(self, fn: Callable[[Array], Array]) -> Weight:
        """The weight with `fn` applied, which must commute with the logarithm: it selects entries or takes maxima."""
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

    def repeat_folds(self, fn: Callable[[Array], Array]) -> Weight:
        """The weight with each fold repeated for B rows of data by `fn`: `(F, O, N)` becomes `(F*B, O, N)`."""
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
        """This weight, a table `(F, K, ...)`, looked up by `fn` at a category for each row of data: `(F, B, K)`."""
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
        """The weight `(F, O, N)` with its last axis split by `fn` into several axes, without a change of order."""
        return replace(self.map(fn), exact=self.exact, row_sum=self.row_sum)


@final
class Params(Mapping[str, Array]):
    """The parameters of a folded group of layers, each computed when it is read.

    Each is an array `(F, *shape)`, or a tuple of such arrays if the parameter has several outputs.

    Args:
        names: Their names.
        array: Computes the parameter with a name.
        weight: `weight(name, logs, checked)` is a parameter as a weight. `logs` says whether the parameter holds
            logarithms, `checked` whether to refuse negative numbers if the semiring has none.
        sub_layers: The sub-layers of the layer, by name (see `plica.symbolic.layers.rows.SubLayer`).
        call: Calls a method of an opaque object of the layer (see `Layer.opaque`): the object's name, the method, its
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
        """Parameters from arrays `(F, *shape)` by name."""

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
        """The same parameters, for a layer with these sub-layers."""
        return Params(self._names, self._array, self._weight, sub_layers, self._call, self.dtype)

    def call(self, name: str, method: str, arrays: Sequence[Array], shape: Sequence[Any]) -> Array:
        """The result, an array of `shape`, of a method of the layer's opaque object `name`."""
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
        """A parameter that holds linear numbers, as a weight."""
        return self._weight(name, False, True)

    def exp_weight(self, name: str) -> Weight:
        """A parameter that holds logarithms, as a weight."""
        return self._weight(name, True, False)

    def log(self, xp: Namespace, name: str) -> Array:
        """The logarithms of a parameter of linear numbers: exact where these underflow, NaN where they are negative."""
        return self._weight(name, False, False).log(xp)
