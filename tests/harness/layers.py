"""Input layers that Plica does not have, for tests of what layers of one's own are given: counts, durations, tables."""

from dataclasses import dataclass
from typing import Any

from plica.symbolic.domains import COUNTS, POSITIVE_REALS, Domain, finite
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.layers.univariate import positive_normal
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope


@dataclass(frozen=True, eq=False)
class _Rated(FieldsLayer, InputLayer):
    scope: Scope
    num_output_units: int
    rate: Parameter  # (K,), positive


class WaitingLayer(_Rated):
    """p(x) = (1 - q) q^x of a count, q = exp(-rate): how long one waits."""

    domain: Domain = COUNTS


class ExponentialLayer(_Rated):
    """p(x) = rate exp(-rate x) of a positive number."""

    domain: Domain = POSITIVE_REALS


@dataclass(frozen=True, eq=False)
class TableLayer(FieldsLayer, InputLayer):
    """p(x, y) of two variables of `num_values` states, as a table; missing together or not at all."""

    scope: Scope
    num_output_units: int
    num_values: int
    table: Parameter  # (K, num_values, num_values)

    @property
    def domain(self) -> Domain:
        return finite(self.num_values)


class MarginalTableLayer(TableLayer):
    """A table of which each variable may be missing alone."""


def _geometric(xp: Any, semiring: Any, layer: Any, params: Any, x: Any) -> Any:  # noqa: ARG001
    rate = xp.expand_dims(params["rate"], axis=1)
    return semiring.from_log(xp, xp.log1p(-xp.exp(-rate)) - rate * xp.astype(x, rate.dtype))


def _exponential(xp: Any, semiring: Any, layer: Any, params: Any, x: Any) -> Any:  # noqa: ARG001
    rate = xp.expand_dims(params["rate"], axis=1)
    # the derivative of sqrt at 0 is infinite: numbers that are not positive must not come here
    return semiring.from_log(xp, xp.log(rate) - rate * xp.square(xp.sqrt(x)))


def _one(xp: Any, semiring: Any, layer: Any, params: Any) -> Any:
    rate = params["rate"]
    return semiring.one(xp, (rate.shape[0], 1, layer.num_output_units), rate.dtype)


def _no_sample(*_: Any) -> Any:
    raise NotImplementedError("these tests draw no samples")


def _table(xp: Any, semiring: Any, layer: Any, params: Any, x: Any) -> Any:
    return semiring.from_linear(xp, _entries(xp, params["table"], layer.num_values, x))


def _entries(xp: Any, table: Any, size: int, x: Any) -> Any:
    flat = xp.reshape(table, (*table.shape[:2], size * size))
    return xp.lookup(flat, x[:, :, 0] * size + x[:, :, 1])


def _total(xp: Any, semiring: Any, layer: Any, params: Any) -> Any:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(xp.sum(params["table"], axis=(2, 3)), axis=1))


def _partial(xp: Any, semiring: Any, layer: Any, params: Any, x: Any, missing: Any) -> Any:
    """The table with a last row and column of sums, which stand for what is missing."""
    wide = params["table"]
    for axis in (2, 3):
        wide = xp.concat([wide, xp.sum(wide, axis=axis, keepdims=True)], axis=axis)
    return semiring.from_linear(xp, _entries(xp, wide, layer.num_values + 1, xp.where(missing, layer.num_values, x)))


ROWS = (
    InputRow(WaitingLayer, _geometric, _one, _no_sample),
    InputRow(ExponentialLayer, _exponential, _one, _no_sample),
    InputRow(TableLayer, _table, _total, _no_sample),
    InputRow(MarginalTableLayer, _table, _total, _no_sample, partial=_partial),
)


def waiting(scope: Any, num_output_units: int, *, rate_factory: Any = None) -> WaitingLayer:
    """A layer of counts, made as layers by name are."""
    rate = (rate_factory or positive_normal)((num_output_units,))
    return WaitingLayer(Scope(scope), num_output_units, Parameter.from_input(rate))
