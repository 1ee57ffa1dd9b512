"""Rules of layers without variables: all follow from the numbers of their units, which do not depend on data."""

from collections.abc import Callable
from typing import Any

from plica.symbolic.layers.base import InputLayer
from plica.symbolic.layers.rows import InputRow, Reduced
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value


def variable_free_row(layer: type[InputLayer], number: Reduced) -> InputRow:
    """The row of a layer without variables, from `number(xp, semiring, layer, params)`: its units, `(F, 1, K)`."""

    def body(xp: Namespace, semiring: Semiring, layer: Any, params: Params, x: Array) -> Value:
        alike = number(xp, semiring, layer, params)
        return semiring.map(
            xp, lambda array: xp.broadcast_to(array, (array.shape[0], x.shape[1], array.shape[2])), alike
        )

    def interval(xp: Namespace, semiring: Semiring, layer: Any, params: Params, low: Array, high: Array) -> Value:  # noqa: ARG001
        return body(xp, semiring, layer, params, low)

    return InputRow(
        layer,
        body=body,
        marginal=number,
        maximum=number,
        sample=lambda xp, layer, params, units, uniforms: uniforms,  # noqa: ARG005
        mode=_of_no_variable(1),
        mean=_of_no_variable(1),
        variance=_of_no_variable(1),
        covariance=_of_no_variable(2),
        interval=interval,
    )


def _of_no_variable(axes: int) -> Callable[[Namespace, Any, Params], Array]:
    """An array `(F, K, 0)`, or `(F, K, 0, 0)`."""

    def rule(xp: Namespace, layer: Any, params: Params) -> Array:
        first = params[next(iter(params))]
        return xp.zeros((first.shape[0], layer.num_output_units, *[0] * axes), dtype=xp.real(first).dtype)

    return rule
