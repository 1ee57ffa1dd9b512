"""The registry entries of layers, one row per class: rules written for any array namespace and semiring.

A row of another layer is a new file with its class and its `ROW`, and the import of the class in
`plica.symbolic.layers`.

Shapes: a value of a semiring is a tuple of arrays of shape `(F, B, K)`; parameters are `(F, *shape)`; the data of an
input layer is `(F, B, num_variables)`. The batch size may be symbolic; sizes of units are taken from the layer.

    >>> from plica.symbolic.layers import HadamardLayer, LAYER_ROWS
    >>> LAYER_ROWS[HadamardLayer].route(None, HadamardLayer(4, arity=2), "units")
    ('units', 'units')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeAlias

from numpy.typing import NDArray

from plica.errors import GraphError, UnsupportedError
from plica.ir.op import Unsupported, unsupported
from plica.symbolic.layers.base import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer
from plica.symbolic.layers.closed_form import ClosedForm
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Reduction, Semiring, Value

# x: (F, B, num_variables), of the domain of the layer, in its dtype -> (F, B, K)
InputBody: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Array], Value]
# -> (F, 1, K): the layer summed, integrated or maximized over all its variables
Reduced: TypeAlias = Callable[[Namespace, Semiring, Any, Params], Value]
# x as above, missing: (F, B, num_variables) booleans -> (F, B, K): summed or integrated over what is missing
Partial: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Array, Array], Value]
# x and missing as above -> the parameters of each unit given the rest of each row: each (F*B, *shape)
Conditional: TypeAlias = Callable[[Namespace, Any, Params, Array, Array], Params]
# units: (F, B) integers >= 0, uniforms: (F, B, num_uniforms) in [0, 1) -> (F, B, num_variables)
Sample: TypeAlias = Callable[[Namespace, Any, Params, Array, Array], Array]
# -> (F, C, K): the value at each of C states
States: TypeAlias = Callable[[Namespace, Semiring, Any, Params], Value]
# -> (F, K, num_variables): where each unit has its largest value
Mode: TypeAlias = Callable[[Namespace, Any, Params], Array]
# -> (F, K, num_variables): a moment of each variable under each unit, divided by the unit's total
Moment: TypeAlias = Callable[[Namespace, Any, Params], Array]
# low, high: (F, B, num_variables), numbers or infinities -> (F, B, K): summed or integrated over low <= x <= high
Interval: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Array, Array], Value]
# inputs: H values (F, B, I) -> (F, B, O)
InnerBody: TypeAlias = Callable[[Namespace, Semiring, Any, Params, Sequence[Value]], Value]
# units: (F, B), the output unit chosen -> H arrays (F, B), the unit of each input that it reads
Route: TypeAlias = Callable[[Namespace, Any, Array], tuple[Array, ...]]
# -> (F, O, N): the logarithms of the weights of the N terms of each output unit
LogWeights: TypeAlias = Callable[[Namespace, Any, Params], Array]
# -> (O, N), or (1, N) where all output units read alike: term n is unit i of input h, as the number h*I + i
Reads: TypeAlias = Callable[[Any], NDArray[Any]]

_NO_MAXIMUM = unsupported(
    "its row has no 'maximum'; give the InputRow a function (xp, semiring, layer, params) for the largest number of "
    "each unit, as `marginal` is one for their sum"
)
_NO_MODE = unsupported(
    "its row has no 'mode'; give the InputRow a function (xp, layer, params) for the values (F, K, num_variables) at "
    "which each unit is largest"
)
_NO_MEAN = unsupported(
    "its row has no 'mean'; give the InputRow a function (xp, layer, params) for the mean (F, K, num_variables) of "
    "each unit"
)
_NO_VARIANCE = unsupported(
    "its row has no 'variance'; give the InputRow a function (xp, layer, params) for the variance "
    "(F, K, num_variables) of each unit"
)
_NO_COVARIANCE = unsupported(
    "its row has no 'covariance'; give the InputRow a function (xp, layer, params) for the covariance matrix "
    "(F, K, num_variables, num_variables) of each unit"
)
_NO_INTERVAL = unsupported(
    "its row has no 'interval'; give the InputRow a function (xp, semiring, layer, params, low, high) for each unit "
    "summed or integrated from low to high, both included"
)
_NO_CLOSED_FORM = unsupported(
    "its row has no 'closed_form'; give the InputRow a ClosedForm, or let a learner by gradients have its parameters"
)
_NO_CHOICE = unsupported("its SumRow does not say how it chooses a term; add `choose=Choice(log_weights, reads)` to it")
_NO_ROUTE = unsupported(
    "a query goes through sums and products, and this layer is both at once; build the circuit of a product layer and "
    "a SumLayer: compiling fuses them for scoring alone"
)


@dataclass(frozen=True, slots=True)
class Normal:
    """The column `normal` of an `InputRow`.

    Args:
        mean: The mean of each variable under each unit; of its logarithm where this is normal.
        variance: The variance, in the same way.
        are_logs: Of a layer, whether the logarithm of each variable is normal, in place of the variable.
    """

    mean: Moment
    variance: Moment
    are_logs: Callable[[Any], Sequence[bool]]


@dataclass(frozen=True, slots=True)
class InputRow:
    """The rules of an input layer.

    Args:
        layer: The class.
        body: The value of each unit at given data.
        marginal: The value of each unit, summed or integrated over all variables.
        sample: Draws the variables from the distributions of chosen units.
        mode: The values at which each unit is largest.
        maximum: The largest value of each unit.
        padding: For each parameter whose last axis may be longer than a layer needs, the number that fills it up.
            Layers fold even if they differ in this length. The class names these parameters in `padded`; the rules get
            the layer that has the longest ones.
        partial: For layers of several variables, the body where some or all of them are missing, summed or integrated
            over these; the data has a legal value for them. Without it, a row must have all variables of a layer or
            none.
        partial_maximum: The same where an algebra takes the largest value.
        conditional: For layers of several variables, the parameters of units conditioned on the known variables of a
            row, by the same names. With these, `sample`, `mode`, `mean`, `variance` and `covariance` give the missing
            variables; their results for known ones are not read. The first axis of each parameter counts units, and
            may be of one unit alone. `independent` is for independent variables. Without it, queries that fill in
            variables take rows that have all variables of a layer or none.
        distribution: Its name in templates and on the command line, if it has one.
        mean: The mean of each variable under each unit, divided by the unit's total; NaN or infinite where the
            distribution has none.
        variance: The variance of each variable, in the same way.
        covariance: For layers of several variables, their covariance matrix; where it is left out, queries that need it
            refuse the layer.
        interval: The value of each unit, summed or integrated over a box `low <= x <= high`, both ends included; ends
            may be infinite, and a box whose `low` is above its `high` is empty.
        normal: For layers under each of whose units every variable, or its logarithm, is normal, given others too: then
            the mean and the variance say how probable any interval is, in place of `interval`.
        states: For layers of one variable that has finitely many states, the value of each unit at all of them; without
            it, the body computes each.
        increasing: Parameters whose numbers increase: from each of them to the next, or along the last axis of a single
            one. Constants that do not, in the dtype of a circuit, are refused when it is compiled or cast.
        closed_form: Expected statistics of rows, and the parameters that they make most likely.
    """

    layer: type[InputLayer]
    body: InputBody
    marginal: Reduced | Unsupported
    sample: Sample | Unsupported
    maximum: Reduced | Unsupported = _NO_MAXIMUM
    mode: Mode | Unsupported = _NO_MODE
    padding: Mapping[str, float] = field(default_factory=dict)
    partial: Partial | None = None
    partial_maximum: Partial | None = None
    conditional: Conditional | None = None
    distribution: Distribution | None = None
    mean: Moment | Unsupported = _NO_MEAN
    variance: Moment | Unsupported = _NO_VARIANCE
    covariance: Moment | Unsupported = _NO_COVARIANCE
    interval: Interval | Unsupported = _NO_INTERVAL
    normal: Normal | None = None
    states: States | None = None
    increasing: tuple[str, ...] = ()
    closed_form: ClosedForm | Unsupported = _NO_CLOSED_FORM

    def reduction(self, semiring: Semiring) -> Reduced | Unsupported:
        """The column that reduces all variables of the layer in the algebra."""
        rule: Reduced | Unsupported = getattr(self, semiring.algebra.reduction.value)
        return rule

    def partial_of(self, semiring: Semiring) -> Partial | None:
        """The column that reduces some variables of the layer in the algebra; None where there is none."""
        return self.partial if semiring.algebra.reduction is Reduction.INTEGRATE else self.partial_maximum

    def reduced(self, xp: Namespace, semiring: Semiring, layer: InputLayer, params: Params) -> Value:
        """The value of the layer with all variables reduced by the algebra: `(F, 1, K)`.

        Raises:
            UnsupportedError: The row lacks the column.
        """
        rule = self.reduction(semiring)
        if isinstance(rule, Unsupported):
            raise UnsupportedError(f"{type(layer).__name__} in the semiring {semiring.name!r}: {rule.why}.")
        return rule(xp, semiring, layer, params)


@dataclass(frozen=True, slots=True)
class Choice:
    """How a sum layer chooses one of its terms, each a weight times a unit of an input.

    Args:
        log_weights: The logarithms of the weights, NaN for negative ones.
        reads: The unit h*I + i that each term multiplies.
    """

    log_weights: LogWeights
    reads: Reads


@dataclass(frozen=True, slots=True)
class SumRow:
    """The rules of a sum layer.

    Args:
        layer: The class.
        body: The value of each unit, from those of the inputs.
        choose: How one term of a unit is chosen, for the downward pass.
    """

    layer: type[InnerLayer]
    body: InnerBody
    choose: Choice | Unsupported = _NO_CHOICE


@dataclass(frozen=True, slots=True)
class ProductRow:
    """The rules of a product layer.

    Args:
        layer: The class.
        body: The value of each unit, from those of the inputs.
        route: The unit of each input that a chosen unit multiplies.

    >>> import numpy as np
    >>> from plica.symbolic.layers import KroneckerLayer, LAYER_ROWS
    >>> LAYER_ROWS[KroneckerLayer].route(np, KroneckerLayer(3), np.array([[5]]))  # unit 5 multiplies units 1 and 2
    (array([[1]]), array([[2]]))
    """

    layer: type[ProductLayer]
    body: InnerBody
    route: Route | Unsupported


@dataclass(frozen=True, slots=True)
class FusedRow:
    """The rules of a layer that the optimizer makes; downward passes use the described circuit instead.

    Args:
        layer: The class.
        body: The value of each unit, from those of the inputs.
        route: Always unsupported.

    >>> from plica.symbolic.layers import CPTLayer, LAYER_ROWS
    >>> LAYER_ROWS[CPTLayer].route.why.partition(";")[0]
    'a query goes through sums and products, and this layer is both at once'
    """

    layer: type[FusedLayer]
    body: InnerBody
    route: Unsupported = _NO_ROUTE


def normalized_total(xp: Namespace, semiring: Semiring, layer: InputLayer, params: Params) -> Value:
    """The marginal of a layer whose units all sum or integrate to 1: `(F, 1, K)`."""
    first = params[next(iter(params))]  # (F, K, ...)
    return semiring.one(xp, (first.shape[0], 1, layer.num_output_units), first.dtype)


def independent(xp: Namespace, layer: InputLayer, params: Params, x: Array, missing: Array) -> Params:  # noqa: ARG001
    """The `conditional` of a layer whose variables are independent under each unit: the same parameters."""
    return params


LayerRow: TypeAlias = InputRow | SumRow | ProductRow | FusedRow


@dataclass(frozen=True, slots=True)
class SubLayer:
    """A layer that another one holds, for the rules of the other's row: `params.sub_layers[name]`.

        part = params.sub_layers["part"]
        value = part.row.body(xp, semiring, part.layer, part.params, inputs)

    Args:
        layer: The layer.
        row: Its row.
        params: Its parameters, each `(F, *shape)`.

    >>> import numpy as np
    >>> import plica.numpy as pnp
    >>> from plica.symbolic.layers import LAYER_ROWS, SumLayer
    >>> part = SubLayer(SumLayer(2, 1), LAYER_ROWS[SumLayer], Params.of(pnp, {"weight": np.array([[[0.25, 0.75]]])}))
    >>> part.row.choose.log_weights(pnp, part.layer, part.params).round(3)
    array([[[-1.386, -0.288]]])
    """

    layer: Any
    row: Any
    params: Params


def with_sub_layers(params: Params, layer: Layer, row_of: Callable[[Layer], LayerRow]) -> Params:
    """The parameters of a layer, under the names of its `all_params`, with its sub-layers."""
    if not layer.sub_layers:
        return params
    sub_layers = {
        name: SubLayer(sub_layer, row_of(sub_layer), with_sub_layers(params.under(name), sub_layer, row_of))
        for name, sub_layer in layer.sub_layers.items()
    }
    return params.holding(sub_layers)


def rows_of(values: Iterable[object]) -> list[LayerRow]:
    """The rows in some values: the `row` of a layer, and the `ROW` of a module; sorted by the names of the layers."""
    rows: list[LayerRow] = []
    for value in values:
        if isinstance(value, type) and issubclass(value, Layer):
            rows += [vars(value)["row"]] if "row" in vars(value) else []
        elif isinstance(value, ModuleType):
            rows += [value.ROW] if hasattr(value, "ROW") else []
    return sorted(rows, key=lambda row: row.layer.__name__.casefold())


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
