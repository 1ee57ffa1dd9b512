"""The marginal layer: an input layer of several variables, some of which are summed or integrated out.

>>> from plica.symbolic.layers import DiagonalGaussianLayer
>>> MarginalLayer([5], DiagonalGaussianLayer([3, 5], 4))
MarginalLayer(scope={5}, 4)
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from plica.errors import InputError, UnsupportedError
from plica.ir.op import Unsupported, unsupported
from plica.symbolic.layers.base import InputLayer, assign, input_scope
from plica.symbolic.layers.holding import HoldingLayer, check_summable
from plica.symbolic.layers.rows import InputRow, SubLayer
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class MarginalLayer(HoldingLayer):
    """The marginal of an input layer over some of its variables, which its row computes as `partial`.

    Args:
        scope: The variables that stay; the others are summed or integrated out.
        layer: The input layer; its tensors are those of this layer.

    Raises:
        DTypeError: `layer` is no input layer.
        InputError: No variable stays, all do, or one is not a variable of the layer.
        UnsupportedError: The layer says that its variables cannot be summed out.
    """

    scope: Scope
    layer: InputLayer

    def __init__(self, scope: Iterable[int], layer: InputLayer) -> None:
        name = "MarginalLayer"
        check_summable(name, layer)
        variables = input_scope(name, scope)
        if not variables or not variables < layer.scope:
            raise InputError(
                f"{name}: expected some of the variables {layer.scope!s} of {layer!r}, not all, found {variables!s}; "
                "for no variable use an IntegratedLayer, for all of them the layer"
            )
        assign(self, scope=variables, layer=layer)

    @property
    def stays(self) -> tuple[bool, ...]:
        """Whether each variable of the layer stays, in ascending order."""
        return tuple(variable in self.scope for variable in self.layer.scope)

    @property
    def num_uniforms(self) -> int:
        """As many as a sample of the layer takes: the variables that are integrated are drawn too."""
        return self.layer.num_uniforms

    def fold_settings(self) -> Hashable:
        """The key of any input layer, and which variables stay."""
        return InputLayer.fold_settings(self), self.stays


def _spread(xp: Namespace, layer: MarginalLayer, x: Array, fill: Any) -> Array:
    """`x (F, B, kept)` with `fill` at the variables that are integrated: `(F, B, num_variables)`."""
    columns, at = [], 0
    for stays in layer.stays:
        if stays:
            columns.append(x[:, :, at : at + 1])
            at += 1
        else:
            columns.append(xp.full_like(x[:, :, :1], fill))
    return xp.concat(columns, axis=2)


def _column(params: Params, name: str) -> tuple[SubLayer, Any]:
    """The layer that is held, and a column of its row.

    Raises:
        UnsupportedError: The row lacks the column.
    """
    held: SubLayer = params.sub_layers["layer"]
    column = getattr(held.row, name)
    if column is None or isinstance(column, Unsupported):
        why = f"its row has no {name!r}" if column is None else column.why
        raise UnsupportedError(f"{held.layer!r}, which is integrated over some of its variables: {why}.")
    return held, column


def _partial(
    xp: Namespace, semiring: Semiring, layer: MarginalLayer, params: Params, x: Array, missing: Array
) -> Value:
    held, partial = _column(params, "partial")
    values, are_missing = _spread(xp, layer, x, layer.domain.inside), _spread(xp, layer, missing, fill=True)
    value: Value = partial(xp, semiring, held.layer, held.params, values, are_missing)
    return value


def _body(xp: Namespace, semiring: Semiring, layer: MarginalLayer, params: Params, x: Array) -> Value:
    return _partial(xp, semiring, layer, params, x, xp.not_equal(x, x))


def _marginal(xp: Namespace, semiring: Semiring, layer: MarginalLayer, params: Params) -> Value:  # noqa: ARG001
    held, marginal = _column(params, "marginal")
    value: Value = marginal(xp, semiring, held.layer, held.params)
    return value


def _kept(xp: Namespace, layer: MarginalLayer, x: Array) -> Array:
    """The entries along the last axis of the variables that stay."""
    return xp.concat([x[..., at : at + 1] for at in np.flatnonzero(layer.stays).tolist()], axis=-1)


def _sample(xp: Namespace, layer: MarginalLayer, params: Params, units: Array, uniforms: Array) -> Array:
    held, sample = _column(params, "sample")
    return _kept(xp, layer, sample(xp, held.layer, held.params, units, uniforms))


def _mean(xp: Namespace, layer: MarginalLayer, params: Params) -> Array:
    held, mean = _column(params, "mean")
    return _kept(xp, layer, mean(xp, held.layer, held.params))


def _variance(xp: Namespace, layer: MarginalLayer, params: Params) -> Array:
    held, variance = _column(params, "variance")
    return _kept(xp, layer, variance(xp, held.layer, held.params))


def _covariance(xp: Namespace, layer: MarginalLayer, params: Params) -> Array:
    held, covariance = _column(params, "covariance")
    matrix = covariance(xp, held.layer, held.params)  # (F, K, V, V), symmetric
    return _kept(xp, layer, xp.matrix_transpose(_kept(xp, layer, matrix)))


_NOT_WHOLE = "a layer of which some variables were integrated is not {}; ask the circuit that has all its variables"

ROW = InputRow(
    MarginalLayer,
    body=_body,
    marginal=_marginal,
    partial=_partial,
    sample=_sample,
    maximum=unsupported(_NOT_WHOLE.format("maximized")),
    mode=unsupported(_NOT_WHOLE.format("maximized")),
    mean=_mean,
    variance=_variance,
    covariance=_covariance,
    interval=unsupported(_NOT_WHOLE.format("asked for intervals")),
)
