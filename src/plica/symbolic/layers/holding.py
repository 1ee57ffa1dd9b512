"""The base class of input layers that hold another one: of its values, integrals or marginals."""

from typing import TYPE_CHECKING, ClassVar

from plica.errors import DTypeError, UnsupportedError
from plica.symbolic.domains import Domain
from plica.symbolic.layers.base import FieldsLayer, InputLayer, Layer


class HoldingLayer(FieldsLayer, InputLayer):
    """An input layer made of one other, its field `layer`, with as many units."""

    __slots__ = ()
    has_conjugate: ClassVar[bool] = True

    if TYPE_CHECKING:  # a field of the dataclasses below it

        @property
        def layer(self) -> InputLayer:
            """The layer."""

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


def check_input_layer(name: str, layer: object, advice: str) -> None:
    """Refuse what is no input layer, a DTypeError."""
    if not isinstance(layer, InputLayer):
        raise DTypeError(f"{name}: expected an input layer, found {layer!r}; {advice}")


def check_summable(name: str, layer: InputLayer) -> None:
    """Refuse what is no input layer, and a layer that says that its variables cannot be summed out."""
    check_input_layer(name, layer, "integrate input layers")
    if layer.unsummed is not None:
        raise UnsupportedError(f"{name}: the variables of {layer!r} cannot be summed out: {layer.unsummed}.")
