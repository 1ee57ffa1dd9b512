"""A circuit layer by layer: Programs for drivers that compute some layers more often than others.

One Program has the numbers that do not depend on data: the parameters of layers, and of input layers the totals and the
tables of states. Each layer has one of its body, which layers alike share.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.op import Unsupported
from plica.ir.program import Program
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.units import num_states
from plica.symbolic.layers import InputLayer, InputRow, Layer, with_sub_layers
from plica.symbolic.semirings import COMPLEX_LSE_SUM, SUM_PRODUCT, Params, Value, Weight
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class LoweredNumbers:
    """The Program of the numbers of all groups that do not depend on data, and its captured leaves.

    Args:
        program: The Program, without arguments; each result has an axis of folds first.
        captured: The leaf or constant of each captured variable.
        names: What the results of each group are: the names of parameters; of input groups then `total.direction` and
            `total.size`, `(F, 1, K)`, and `states.direction` and `states.size`, `(F, C, K)`, where there are states.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    names: tuple[tuple[str, ...], ...]


def lower_numbers(folded: FoldedCircuit, dtype: DType, owners: Owners | None = None) -> LoweredNumbers:
    """The Program of the numbers that do not depend on data.

    Args:
        folded: The circuit.
        dtype: The dtype of real parameters.
        owners: The leaves that exist already.

    Raises:
        UnsupportedError: A layer has a parameter of several outputs, or runs a module.
    """
    scope = LoweringScope(folded, COMPLEX_LSE_SUM, dtype, owners or {})
    results: list[Tracer] = []
    names: list[tuple[str, ...]] = []
    with scope.trace.active():
        for group in folded.groups:
            numbers = _numbers(scope, group)
            names.append(tuple(numbers))
            results.extend(numbers.values())
    return LoweredNumbers(scope.build(results), tuple(scope.captured), tuple(names))


def _numbers(scope: LoweringScope, group: FoldedLayer) -> dict[str, Tracer]:
    layer, row, params = group.representative, scope.folded.row(group.representative), scope.parameters(group)
    numbers = {}
    for name in params:
        value = params[name]
        if isinstance(value, tuple) or layer.opaque:
            raise UnsupportedError(
                f"{scope.folded.circuit.layer_name(layer)}: a query that computes layer by layer needs parameters of "
                "one output, and no modules; use other layers"
            )
        numbers[name] = value
    if isinstance(row, InputRow):
        assert isinstance(layer, InputLayer), "input rows belong to input layers"
        values = {"total": row.reduced(xp, scope.semiring, layer, params)}
        if layer.num_variables == 1 and num_states(layer) is not None:
            values["states"] = _states(scope, group, row, params)
        for name, value in values.items():
            direction, size = (
                xp.broadcast_to(array, (group.num_folds, *array.dims[1:]))
                if array.dims[0] != group.num_folds
                else array
                for array in value
            )
            numbers |= {f"{name}.direction": direction, f"{name}.size": size}
    return numbers


def _states(scope: LoweringScope, group: FoldedLayer, row: InputRow, params: Params) -> Value:
    layer = group.representative
    assert isinstance(layer, InputLayer), "input rows belong to input layers"
    count = num_states(layer) or 0
    if row.states is not None:
        return row.states(xp, scope.semiring, layer, params)
    states = xp.astype(xp.reshape(xp.arange(count), (1, count, 1)), layer.domain.dtype(scope.dtype))
    return row.body(xp, scope.semiring, layer, params, xp.broadcast_to(states, (group.num_folds, count, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class LoweredLayer:
    """The Program of one layer, and its captured constants.

    Args:
        program: The Program.
        captured: The constant of each captured variable.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]


Shapes: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""The name and the shape of each parameter of a layer."""


def lower_body(folded: FoldedCircuit, group: FoldedLayer, dtype: DType, shapes: Shapes) -> LoweredLayer:
    """The Program of one inner layer of a group: `inputs (1, B, I), parameters (1, *shape) -> (1, B, K)`.

    Args:
        folded: The circuit.
        group: The group.
        dtype: The dtype of its inputs, which are ordinary numbers, and of its parameters.
        shapes: Its parameters.
    """
    scope = LoweringScope(folded, SUM_PRODUCT, dtype)
    layer, row = group.representative, folded.row(group.representative)
    assert not isinstance(row, InputRow), "input layers have no inputs"
    with scope.trace.active():
        inputs = [scope.argument(f"input_{at}", (1, "b", width), dtype) for at, width in enumerate(layer.input_widths)]
        params = _parameters(scope, layer, shapes)
        (result,) = row.body(xp, SUM_PRODUCT, layer, params, [(array,) for array in inputs])
    return LoweredLayer(scope.build([result]), tuple(scope.captured))


def lower_input(
    folded: FoldedCircuit, group: FoldedLayer, dtype: DType, shapes: Shapes, *, up_to: bool
) -> LoweredLayer:
    """The Program of one input layer of a group: `x (1, B, 1), parameters -> directions and sizes (1, B, K)`.

    Args:
        folded: The circuit.
        group: The group.
        dtype: The dtype of `x` and of its parameters.
        shapes: Its parameters.
        up_to: Whether units are summed or integrated up to x; else they are at x.

    Raises:
        UnsupportedError: The layer does not define the mass of an interval.
    """
    scope = LoweringScope(folded, COMPLEX_LSE_SUM, dtype)
    layer, row = group.representative, folded.row(group.representative)
    assert isinstance(layer, InputLayer), "the caller passes input layers"
    assert isinstance(row, InputRow), "input rows belong to input layers"
    with scope.trace.active():
        x = scope.argument("x", (1, "b", 1), dtype)
        params = _parameters(scope, layer, shapes)
        if up_to:
            if isinstance(row.interval, Unsupported):
                raise UnsupportedError(f"{folded.circuit.layer_name(layer)}: {row.interval.why}.")
            low = xp.full_like(x, float(layer.domain.least))
            value = row.interval(xp, scope.semiring, layer, params, low, x)
        else:
            value = row.body(xp, scope.semiring, layer, params, xp.astype(x, layer.domain.dtype(dtype)))
    return LoweredLayer(scope.build(list(value)), tuple(scope.captured))


def _parameters(scope: LoweringScope, layer: Layer, shapes: Shapes) -> Params:
    """The parameters of a layer as arguments of the Program."""
    arrays = {
        name: scope.argument(f"parameter_{name.replace('.', '_')}", (1, *shape), scope.dtype) for name, shape in shapes
    }

    def weight(name: str, logs: bool, checked: bool) -> Weight:  # noqa: ARG001
        array = arrays[name]
        least = -inf if scope.dtype.kind == "complex" else 0.0
        return Weight(lambda: xp.exp(array), lambda: array, least=least) if logs else Weight.of(array)

    params = Params(tuple(arrays), arrays.__getitem__, weight, dtype=scope.dtype)
    return with_sub_layers(params, layer, scope.folded.row)
