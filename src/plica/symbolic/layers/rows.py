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

from plica.errors import GraphError
from plica.symbolic.layers.base import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Semiring, Value

Params: TypeAlias = Mapping[str, Array]


# x: (F, B, num_variables), of the domain of the layer, in its dtype -> (F, B, K)
InputBody: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Array], Value]
# -> (F, 1, K): the layer summed or integrated over all its variables
Marginal: TypeAlias = Callable[[Namespace, Semiring, Any, Params], Value]
# x as above, missing: (F, B, num_variables) booleans -> (F, B, K): summed or integrated over what is missing
Partial: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Array, Array], Value]
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
        padding: For each parameter whose last axis may be longer than a layer needs, what fills the rest: layers fold
            though they differ in its length.
        partial: For layers of several variables, the body where some or all of them are missing (the data has a legal
            value in their place). Without it, a row lacks all variables of a layer or none.
        distribution: How templates and the command line ask for it, if they do.
    """

    layer: type[InputLayer]
    body: InputBody
    marginal: Marginal
    sample: Sample
    padding: Mapping[str, float] = field(default_factory=dict)
    partial: Partial | None = None
    distribution: Distribution | None = None


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
