"""What a layer computes, one row per class: rules written against a given array namespace and a semiring.

A row of another layer is a new file with its class and its `ROW`, and one line in `plica.symbolic.layers`.

Shapes: a value of a semiring is a tuple of arrays of shape `(F, B, K)`; parameters are `(F, *shape)`; the data of an
input layer is `(F, B, num_variables)`. The batch size may be symbolic; sizes of units are taken from the layer.

    >>> from plica.symbolic.layers import HadamardLayer, LAYER_ROWS
    >>> LAYER_ROWS[HadamardLayer].route(None, HadamardLayer(4, arity=2), "units")
    ('units', 'units')
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from plica.errors import GraphError, UnsupportedError
from plica.symbolic.layers.base import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value

# x: (F, B, num_variables), integer or floating, present and in range -> (F, B, K)
InputBody: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Array], Value]
# -> (F, 1, K): the layer summed, integrated or maximised over all its variables
Reduced: TypeAlias = Callable[[Namespace, Semiring, Any, Params], Value]
# units: (F, B) integers >= 0, uniforms: (F, B, num_variables) in [0, 1) -> (F, B, num_variables)
Sample: TypeAlias = Callable[[Namespace, Any, Params, Array, Array], Array]
# inputs: H values (F, B, I) -> (F, B, O)
InnerBody: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Sequence[Value]], Value]
# units: (F, B), the output unit chosen -> H arrays (F, B), the unit of each input that it reads
Route: TypeAlias = Callable[[Namespace, Any, Array], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class InputRow:
    """The rules of an input layer.

    Args:
        layer: The class.
        body: The numbers of the units at given data.
        marginal: The body summed or integrated over the variables.
        sample: Draws of the variables.
        maximum: The largest number of the body over all values of the variables.
        padding: For each parameter whose last axis may be longer than a layer needs, what fills the rest: layers fold
            though they differ in its length.
    """

    layer: type[InputLayer]
    body: InputBody
    marginal: Reduced
    sample: Sample
    padding: Mapping[str, float] = field(default_factory=dict)
    maximum: Reduced | None = None

    def reduced(self, xp: Namespace, semiring: Semiring, layer: InputLayer, params: Params) -> Value:
        """The layer without its variables, reduced as the algebra says: `(F, 1, K)`.

        Raises:
            UnsupportedError: The row lacks the column.
        """
        rule: Reduced | None = getattr(self, semiring.algebra.reduction.value)
        if rule is None:
            raise UnsupportedError(
                f"{type(layer).__name__}: its row has no {semiring.algebra.reduction.value!r}, which the semiring "
                f"{semiring.name!r} needs; give the InputRow a function (xp, semiring, layer, params) for it."
            )
        return rule(xp, semiring, layer, params)


@dataclass(frozen=True, slots=True)
class SumRow:
    """The rules of a sum layer; which input and unit a sum chooses follows from its weight."""

    layer: type[InnerLayer]
    body: InnerBody


@dataclass(frozen=True, slots=True)
class ProductRow:
    """The rules of a product layer."""

    layer: type[ProductLayer]
    body: InnerBody
    route: Route


@dataclass(frozen=True, slots=True)
class FusedRow:
    """The rule of a layer that the optimiser makes: sampling works on the circuit as it was described."""

    layer: type[FusedLayer]
    body: InnerBody


LayerRow: TypeAlias = InputRow | SumRow | ProductRow | FusedRow


def layer_table(rows: Iterable[LayerRow]) -> dict[type[Layer], LayerRow]:
    """The rows by class of layer.

    Raises:
        GraphError: Two rows for one class.
    """
    table: dict[type[Layer], LayerRow] = {}
    for row in rows:
        if row.layer in table:
            raise GraphError(f"two rows for {row.layer.__name__}; give the other layer a class of its own")
        table[row.layer] = row
    return table
