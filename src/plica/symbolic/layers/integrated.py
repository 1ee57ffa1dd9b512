"""The integrated layer: an input layer whose variables are all summed or integrated out.

>>> from plica.symbolic.layers import CategoricalLayer
>>> IntegratedLayer(CategoricalLayer([3], 4, num_categories=5))
IntegratedLayer(scope={}, 4)
"""

from dataclasses import dataclass
from typing import final

from plica.errors import UnsupportedError
from plica.ir.op import Unsupported
from plica.symbolic.layers.base import InputLayer, assign
from plica.symbolic.layers.holding import HoldingLayer, check_summable
from plica.symbolic.layers.variable_free import variable_free_row
from plica.symbolic.parameters import Namespace
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class IntegratedLayer(HoldingLayer):
    """The sum or the integral of an input layer over all its variables, which its row computes as `marginal`.

    Args:
        layer: The input layer; its tensors are those of this layer.

    Raises:
        DTypeError: `layer` is no input layer.
        UnsupportedError: The layer says that its variables cannot be summed out.
    """

    layer: InputLayer

    def __init__(self, layer: InputLayer) -> None:
        name = "IntegratedLayer"
        check_summable(name, layer)
        assign(self, layer=layer)

    @property
    def scope(self) -> Scope:
        """No variable."""
        return Scope([])


def _number(xp: Namespace, semiring: Semiring, layer: IntegratedLayer, params: Params) -> Value:  # noqa: ARG001
    held = params.sub_layers["layer"]
    if isinstance(held.row.marginal, Unsupported):
        raise UnsupportedError(f"{held.layer!r} cannot be integrated: {held.row.marginal.why}.")
    value: Value = held.row.marginal(xp, semiring, held.layer, held.params)
    return value


ROW = variable_free_row(IntegratedLayer, _number)
