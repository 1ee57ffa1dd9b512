"""The marginal layer: an input layer of several variables, some of which are summed or integrated out.

>>> from plica.symbolic.layers import DiagonalGaussianLayer
>>> MarginalLayer([5], DiagonalGaussianLayer([3, 5], 4))
MarginalLayer(scope={5}, 4)
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from plica.errors import DTypeError, InputError, UnsupportedError
from plica.ir.op import unsupported
from plica.symbolic.domains import Domain
from plica.symbolic.layers.base import FieldsLayer, InputLayer, Layer, assign, input_scope
from plica.symbolic.layers.rows import InputRow, SubLayer
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class MarginalLayer(FieldsLayer, InputLayer):
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
        if not isinstance(layer, InputLayer):
            raise DTypeError(f"{name}: expected an input layer, found {layer!r}; integrate input layers")
        if layer.unsummed is not None:
            raise UnsupportedError(f"{name}: the variables of {layer!r} cannot be summed out: {layer.unsummed}.")
        variables = input_scope(name, scope)
        if not variables or not variables < layer.scope:
            raise InputError(
                f"{name}: expected some of the variables {layer.scope!s} of {layer!r}, not all, found {variables!s}; "
                "for no variable use an IntegratedLayer, for all of them the layer"
            )
        assign(self, scope=variables, layer=layer)

    @property
    def domain(self) -> Domain:
        """The domain of the layer."""
        return self.layer.domain

    @property
    def num_output_units(self) -> int:
        """The number of units of the layer."""
        return self.layer.num_output_units

    @property
    def sub_layers(self) -> dict[str, Layer]:
        """The layer."""
        return {"layer": self.layer}

    @property
    def stays(self) -> tuple[bool, ...]:
        """Whether each variable of the layer stays, in ascending order."""
        return tuple(variable in self.scope for variable in self.layer.scope)

    def fold_settings(self) -> Hashable:
        """The key of any input layer, and which variables stay."""
        return InputLayer.fold_settings(self), self.stays


def _positions(layer: MarginalLayer) -> NDArray[np.int64]:
    return np.flatnonzero(layer.stays)


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


def _held(params: Params) -> SubLayer:
    held: SubLayer = params.sub_layers["layer"]
    if held.row.partial is None:
        raise UnsupportedError(
            f"{held.layer!r} is integrated over some of its variables, but its row has no 'partial'; give the InputRow "
            "a function (xp, semiring, layer, params, x, missing), or integrate all its variables"
        )
    return held


def _partial(
    xp: Namespace, semiring: Semiring, layer: MarginalLayer, params: Params, x: Array, missing: Array
) -> Value:
    held = _held(params)
    inside = layer.domain.inside
    value: Value = held.row.partial(
        xp,
        semiring,
        held.layer,
        held.params,
        _spread(xp, layer, x, inside),
        _spread(xp, layer, missing, fill=True),
    )
    return value


def _body(xp: Namespace, semiring: Semiring, layer: MarginalLayer, params: Params, x: Array) -> Value:
    return _partial(xp, semiring, layer, params, x, xp.not_equal(x, x))


def _marginal(xp: Namespace, semiring: Semiring, layer: MarginalLayer, params: Params) -> Value:  # noqa: ARG001
    held = _held(params)
    value: Value = held.row.marginal(xp, semiring, held.layer, held.params)
    return value


def _moment(name: str) -> Any:
    def rule(xp: Namespace, layer: MarginalLayer, params: Params) -> Array:  # (F, K, num_variables)
        held = _held(params)
        moments = getattr(held.row, name)(xp, held.layer, held.params)
        return xp.concat([moments[:, :, at : at + 1] for at in _positions(layer).tolist()], axis=2)

    return rule


def _covariance(xp: Namespace, layer: MarginalLayer, params: Params) -> Array:
    held = _held(params)
    matrix = held.row.covariance(xp, held.layer, held.params)  # (F, K, V, V)
    positions = _positions(layer).tolist()
    rows = xp.concat([matrix[:, :, at : at + 1] for at in positions], axis=2)
    return xp.concat([rows[:, :, :, at : at + 1] for at in positions], axis=3)


_NOT_WHOLE = "a layer of which some variables were integrated is not {}; ask the circuit that has all its variables"

ROW = InputRow(
    MarginalLayer,
    body=_body,
    marginal=_marginal,
    partial=_partial,
    sample=unsupported(_NOT_WHOLE.format("sampled")),
    maximum=unsupported(_NOT_WHOLE.format("maximized")),
    mode=unsupported(_NOT_WHOLE.format("maximized")),
    mean=_moment("mean"),
    variance=_moment("variance"),
    covariance=_covariance,
    interval=unsupported(_NOT_WHOLE.format("asked for intervals")),
)
