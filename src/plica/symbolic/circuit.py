"""Circuits: directed acyclic graphs of layers, checked when they are made.

>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
>>> x, y = (CategoricalLayer([v], 4, num_categories=2) for v in range(2))
>>> product, total = HadamardLayer(4), SumLayer(4, 1)
>>> circuit = Circuit([x, y, product, total], {product: [x, y], total: [product]}, [total])
>>> circuit.scope, circuit.is_decomposable, circuit.layer_name(total)
(Scope({0, 1}), True, 'SumLayer(3, arity=1, 4 -> 1)')
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, TypeAlias, final

import numpy as np

from plica.arguments import edges, known, looked_up
from plica.errors import DTypeError, GraphError, InputError, ShapeError, StructuralPropertyError
from plica.forks import cached_property
from plica.graph.listing import Listing
from plica.graph.order import consumers, layerwise_topological_order, topological_order
from plica.notebooks import explorer_html
from plica.symbolic.domains import Domain
from plica.symbolic.layers import CircuitBlock, InnerLayer, InputLayer, Layer, ProductLayer, SumLayer
from plica.symbolic.layers.base import check_layer
from plica.symbolic.operators.flat_products import Operand
from plica.symbolic.operators.pairs import are_compatible
from plica.symbolic.scope import Scope
from plica.symbolic.structure import (
    StructuralProperties,
    check_smooth_and_decomposable,
    first_not_decomposable,
    first_not_smooth,
    multiplies_single_variables,
    splits_alike,
)

__all__ = [
    "Circuit",
    "CircuitBlock",
    "CircuitOperation",
    "StructuralProperties",
    "StructuralPropertyError",
    "are_compatible",
]


@final
@dataclass(frozen=True, slots=True, eq=False)
class CircuitOperation:
    """The operator and the circuits from which a circuit was made.

    Args:
        operator: Its name: `multiply`, `integrate`, ...
        operands: The circuits, in order.
        metadata: The settings of the operator, of which it keeps a copy. Arrays and tensors become read-only
            arrays.

    >>> from plica.symbolic.functional import integrate
    >>> from plica.symbolic.layers import EmbeddingLayer
    >>> coin = EmbeddingLayer([0], 1)
    >>> operation = integrate(Circuit([coin], {}, [coin])).operation
    >>> operation.operator, operation.metadata
    ('integrate', {'scope': Scope({0})})
    """

    operator: str
    operands: tuple["Circuit", ...]
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", _owned(self.metadata))


def _owned(setting: Any) -> Any:
    """A setting that shares no memory with the caller's."""
    if isinstance(setting, Mapping):
        return {key: _owned(value) for key, value in setting.items()}
    if type(setting) in (list, tuple):
        return type(setting)(map(_owned, setting))
    if isinstance(setting, str | bytes | Number) or not hasattr(setting, "__array__"):
        return setting
    try:
        array = np.array(setting)
    except (RuntimeError, TypeError, ValueError):  # the operator refuses it by name
        return setting
    array.flags.writeable = False
    return array


Factors: TypeAlias = Mapping[Layer, tuple[tuple["Circuit", Operand], tuple["Circuit", Operand]]]


@final
class Circuit:
    """A directed acyclic graph of layers with one or more outputs; it is immutable, and compared by identity.

    Args:
        layers: Every layer. Their order decides the topological order, which names layers and parameters. Layers that
            no output depends on have names and tensors, but do not count for scope, domains, properties and values.
        in_layers: The inputs of each inner layer, in order; input layers may be left out. A layer may be read twice.
        outputs: The layers whose values the circuit returns, all of one number of units.
        operation: The operator and the circuits from which this one was made, if any.
        data_scope: The variables that have a column in the data; by default those that `data_scope` says.

    Raises:
        GraphError: A cycle, a layer that is not listed, an inner layer without inputs, an input layer with inputs.
        ShapeError: A layer of another arity or number of units than its neighbour expects.
        InputError: No value of a variable is legal for all layers that read it; or a variable has no column.
    """

    def __init__(
        self,
        layers: Iterable[Layer],
        in_layers: Mapping[Layer, Sequence[Layer]],
        outputs: Iterable[Layer],
        *,
        operation: CircuitOperation | None = None,
        data_scope: Scope | None = None,
    ) -> None:
        self._inputs, self._outputs = edges("Circuit", layers, in_layers, outputs, "layers")
        _check_listed(self._inputs, in_layers, self._outputs)
        self._layers: tuple[Layer, ...] = topological_order(self._inputs, self._inputs.__getitem__)
        self._index = {layer: index for index, layer in enumerate(self._layers)}
        self._operation = operation
        self._factors: Factors = {}
        self._complete_form: Circuit | None = None
        self._is_never_negative = False
        for layer in self._layers:
            self._check_layer(layer)
        self._check_outputs()
        self._scopes = _layer_scopes(self._layers, self._inputs)
        self._live = _live_layers(self._layers, self._inputs, self._outputs)
        self._domains = self._meet_domains()
        self._data_scope = self._find_data_scope() if data_scope is None else self._checked_data_scope(data_scope)

    @classmethod
    def from_operation(
        cls,
        layers: Iterable[Layer],
        in_layers: Mapping[Layer, Sequence[Layer]],
        outputs: Iterable[Layer],
        *,
        operation: CircuitOperation,
        data_scope: Scope | None = None,
        factors: Factors | None = None,
    ) -> "Circuit":
        """A circuit that remembers the operator and the circuits from which it was made, and its `factors`."""
        circuit = cls(layers, in_layers, outputs, operation=operation, data_scope=data_scope)
        circuit._factors = factors or {}
        return circuit

    def __deepcopy__(self, memo: dict[int, Any]) -> "Circuit":
        """The same object: a circuit is immutable, and compared by identity."""
        return self

    @property
    def layers(self) -> Listing[Layer]:
        """Every layer, each after its inputs; the position of a layer here is its number."""
        return Listing(self._layers)

    @property
    def inputs(self) -> Listing[InputLayer]:
        """The layers without inputs: those that read variables, in order."""
        return self.input_layers

    @property
    def outputs(self) -> Listing[Layer]:
        """The output layers."""
        return Listing(self._outputs)

    @property
    def operation(self) -> CircuitOperation | None:
        """The operator and the circuits from which this one was made."""
        return self._operation

    @property
    def factors(self) -> Factors:
        """The two operands that a product of circuits multiplied for a layer, each with its circuit.

        Where no variable of the layer is missing, its units are the outer product of theirs, the first slowest.
        """
        return self._factors

    @property
    def has_complete_form(self) -> bool:
        """Whether other layers compute rows in which no variable is missing: `operators.complete.complete_form`."""
        return bool(self._factors) or self._complete_form is not None

    @property
    def known_complete_form(self) -> "Circuit | None":
        """The circuit of such layers, if it was built or read from a file."""
        return self._complete_form

    def remember_complete_form(self, form: "Circuit") -> None:
        """Compute rows in which no variable is missing by another circuit, of the same tensors and values."""
        self._complete_form = form

    @property
    def is_known_never_negative(self) -> bool:
        """Whether a file said that no value is negative, although some number may be."""
        return self._is_never_negative

    def remember_never_negative(self) -> None:
        """Remember that no value is negative, as of circuits that are made of squares."""
        self._is_never_negative = True

    @cached_property
    def scope(self) -> Scope:
        """The variables that the outputs depend on."""
        return Scope.union(*(self._scopes[layer] for layer in self._outputs))

    @property
    def data_scope(self) -> Scope:
        """The variables that have a column in the data: column v is variable v, and those outside `scope` are ignored.

        A circuit that was made from others takes their data, whatever variables are left. Otherwise it is the scope.
        It is empty where the scope is: then there is no data.
        """
        return self._data_scope

    @property
    def num_variables(self) -> int:
        """The number of variables of the scope."""
        return len(self.scope)

    @property
    def domains(self) -> dict[int, Domain]:
        """The values that each variable of the scope takes: those in the domains of all layers that read it."""
        return dict(self._domains)

    @cached_property
    def live(self) -> "Circuit":
        """The circuit of the layers that the outputs depend on; the same object where that is every layer."""
        if len(self._live) == len(self._layers):
            return self
        inputs = {layer: self._inputs[layer] for layer in self._live}
        live = Circuit(self._live, inputs, self._outputs, data_scope=self._data_scope)
        live._factors, live._complete_form = self._factors, self._complete_form
        live._is_never_negative = self._is_never_negative
        return live

    @property
    def live_layers(self) -> tuple[Layer, ...]:
        """The layers that the outputs depend on, each after its inputs."""
        return self._live

    @property
    def input_layers(self) -> Listing[InputLayer]:
        """The layers that read variables, in order."""
        return Listing(self._input_layers)

    @cached_property
    def _input_layers(self) -> tuple[InputLayer, ...]:
        return tuple(layer for layer in self._layers if isinstance(layer, InputLayer))

    @property
    def inner_layers(self) -> Listing[InnerLayer]:
        """The layers that read other layers, in order."""
        return Listing(layer for layer in self._layers if isinstance(layer, InnerLayer))

    @property
    def sum_layers(self) -> Listing[SumLayer]:
        """The sum layers, in order."""
        return Listing(layer for layer in self._layers if isinstance(layer, SumLayer))

    @property
    def product_layers(self) -> Listing[ProductLayer]:
        """The product layers, in order."""
        return Listing(layer for layer in self._layers if isinstance(layer, ProductLayer))

    @property
    def layers_inputs(self) -> dict[Layer, tuple[Layer, ...]]:
        """The inputs of every layer."""
        return dict(self._inputs)

    @cached_property
    def _consumers(self) -> dict[Layer, tuple[Layer, ...]]:
        return consumers(self._layers, self._inputs.__getitem__)

    @property
    def layers_outputs(self) -> dict[Layer, tuple[Layer, ...]]:
        """The layers that read each layer, once per edge."""
        return dict(self._consumers)

    def layer_inputs(self, layer: Layer) -> tuple[Layer, ...]:
        """The inputs of one layer, in order."""
        return looked_up("Circuit.layer_inputs", self._inputs, layer, "layer")

    def layer_outputs(self, layer: Layer) -> tuple[Layer, ...]:
        """The layers that read one layer, once per edge."""
        return looked_up("Circuit.layer_outputs", self._consumers, layer, "layer")

    def layer_scope(self, layer: Layer) -> Scope:
        """The variables that one layer depends on."""
        return looked_up("Circuit.layer_scope", self._scopes, layer, "layer")

    def layer_index(self, layer: Layer) -> int:
        """The position of one layer in the topological order."""
        return looked_up("Circuit.layer_index", self._index, layer, "layer")

    def layer_name(self, layer: Layer) -> str:
        """The name of a layer in messages: its class, its topological index and its sizes."""
        kind, _, details = repr(layer).partition("(")
        return f"{kind}({self._index[layer]}, {details}"

    def topological_ordering(self) -> Listing[Layer]:
        """Every layer, each after its inputs."""
        return self.layers

    def layerwise_topological_ordering(self) -> Listing[tuple[Layer, ...]]:
        """The layers by level: a layer is one level above its highest input."""
        return Listing(layerwise_topological_order(self._layers, self._inputs.__getitem__))

    def subgraph(self, *outputs: Layer) -> "Circuit":
        """The circuit of some layers of this one and of all layers that they depend on; the layers are shared."""
        unknown = [layer for layer in outputs if not known(layer, self._inputs)]
        if unknown:
            raise GraphError(f"Circuit.subgraph: {unknown[0]} is not a layer of this circuit; choose among its layers")
        layers = topological_order(outputs, self._inputs.__getitem__)
        return Circuit(layers, {layer: self._inputs[layer] for layer in layers}, outputs)

    def replace(self, layer: Layer, other: Layer) -> "Circuit":
        """The circuit with another layer in the place of one of its layers; all other layers are shared.

        The new layer reads what the old one read. An input layer reads nothing, and layers that only the old one needed
        are left out. A layer that the circuit has already keeps its own inputs.

        Raises:
            GraphError: `layer` is not a layer of this circuit, or the result has a cycle.
            ShapeError: The new layer has another arity or number of units than its neighbours expect.
            InputError: No value of a variable is legal for all layers that read it.
        """
        if not known(layer, self._inputs):
            raise GraphError(f"Circuit.replace: {layer} is not a layer of this circuit; choose among its layers")
        check_layer(other)

        def replaced(layers: Iterable[Layer]) -> list[Layer]:
            return [other if each is layer else each for each in layers]

        inputs = {each: replaced(read) for each, read in self._inputs.items()}
        read = inputs.pop(layer)
        inputs.setdefault(other, [] if isinstance(other, InputLayer) else read)
        outputs, not_live = replaced(self._outputs), set(self._layers).difference(self._live)
        kept = set(topological_order([*outputs, *replaced(not_live)], inputs.__getitem__))
        layers = [each for each in dict.fromkeys(replaced(self._layers)) if each in kept]
        return Circuit(layers, {each: inputs[each] for each in layers}, outputs)

    @cached_property
    def is_smooth(self) -> bool:
        """Whether the inputs of every sum layer have one scope."""
        return first_not_smooth(self) is None

    @cached_property
    def is_decomposable(self) -> bool:
        """Whether the inputs of every product layer have scopes without a common variable."""
        return first_not_decomposable(self) is None

    @cached_property
    def is_structured_decomposable(self) -> bool:
        """Whether it is smooth and decomposable, and all products of one scope split it into the same scopes."""
        return self.is_smooth and self.is_decomposable and splits_alike(self)

    @cached_property
    def is_omni_compatible(self) -> bool:
        """Whether it is smooth and decomposable, and products multiply single variables (nested ones count as one)."""
        return self.is_smooth and self.is_decomposable and multiplies_single_variables(self)

    @cached_property
    def properties(self) -> StructuralProperties:
        """The structural properties together."""
        return StructuralProperties(
            smooth=self.is_smooth,
            decomposable=self.is_decomposable,
            structured_decomposable=self.is_structured_decomposable,
            omni_compatible=self.is_omni_compatible,
        )

    def check_smooth_and_decomposable(self, what: str) -> None:
        """Raise unless the circuit is smooth and decomposable.

        Args:
            what: The operation that needs it, as the subject of the message: "marginalization".

        Raises:
            StructuralPropertyError: The circuit is not; the message names a layer and the scopes of its inputs.
        """
        check_smooth_and_decomposable(self, what)

    def _check_layer(self, layer: Layer) -> None:
        inputs = self._inputs[layer]
        if isinstance(layer, InputLayer):
            if not isinstance(getattr(layer, "domain", None), Domain):
                raise DTypeError(
                    f"Circuit: {self.layer_name(layer)} does not say which values its variables take; give "
                    f"{type(layer).__name__} a `domain` of plica.symbolic.domains, such as REALS or finite(3)"
                )
            if inputs:
                raise GraphError(
                    f"Circuit: {self.layer_name(layer)} is an input layer but is given {len(inputs)} input(s), first "
                    f"{self.layer_name(inputs[0])}; remove it from in_layers"
                )
            return
        if not inputs:
            raise GraphError(
                f"Circuit: {self.layer_name(layer)} has no inputs; add it to in_layers with its {layer.arity} input(s)"
            )
        if len(inputs) != layer.arity:
            raise ShapeError(
                f"Circuit: {self.layer_name(layer)} expects {layer.arity} input(s), found {len(inputs)}; "
                f"construct it with arity={len(inputs)} or change its entry in in_layers"
            )
        for child, width in zip(inputs, layer.input_widths, strict=True):
            if child.num_output_units != width:
                raise ShapeError(
                    f"Circuit: {self.layer_name(layer)} expects inputs of {width} unit(s), found "
                    f"{child.num_output_units} in {self.layer_name(child)}; change either number, or put a "
                    "SumLayer between"
                )

    def _find_data_scope(self) -> Scope:
        """The variables of the scope, and those of the data of the operands."""
        if not self.scope or self._operation is None:
            return self.scope
        return Scope.union(self.scope, *(operand.data_scope for operand in self._operation.operands))

    def _checked_data_scope(self, data_scope: Scope) -> Scope:
        """A given data scope, of a circuit that has data.

        Raises:
            InputError: The circuit reads a variable outside of it, or has no variables.
        """
        lacking = self.scope - data_scope
        if lacking:
            raise InputError(
                f"Circuit: the outputs depend on the variable(s) {lacking!s}, which data_scope {data_scope!s} lacks; "
                "add them, or leave out data_scope"
            )
        if data_scope and not self.scope:
            raise InputError(
                f"Circuit: data_scope is {data_scope!s}, but the outputs depend on no variable, so that there is no "
                "data; leave out data_scope"
            )
        return data_scope

    def _meet_domains(self) -> dict[int, Domain]:
        domains: dict[int, Domain] = {}
        first: dict[int, InputLayer] = {}
        for layer in self._live:
            if isinstance(layer, InputLayer):
                for variable in layer.scope:
                    other = first.setdefault(variable, layer)
                    try:
                        domains[variable] = domains.get(variable, layer.domain).meet(layer.domain)
                    except InputError as error:
                        raise InputError(
                            f"Circuit: variable {variable} is read by {self.layer_name(other)} and by "
                            f"{self.layer_name(layer)}, but {error}; give one of them another variable"
                        ) from error
        return domains

    def _check_outputs(self) -> None:
        first = self._outputs[0]
        for layer in self._outputs[1:]:
            if layer.num_output_units != first.num_output_units:
                raise ShapeError(
                    f"Circuit: outputs need one number of units, found {first.num_output_units} in "
                    f"{self.layer_name(first)} and {layer.num_output_units} in {self.layer_name(layer)}; "
                    "put a SumLayer on one of them"
                )

    def _repr_html_(self) -> str:
        """The explorer of the circuit, for notebooks."""
        return explorer_html(self)

    def __repr__(self) -> str:
        return (
            f"Circuit({len(self._layers)} layers, {self.num_variables} variables, {len(self._outputs)} output(s) of "
            f"{self._outputs[0].num_output_units} unit(s))"
        )


def _check_listed(
    listed: Mapping[Layer, object], in_layers: Mapping[Layer, Sequence[Layer]], outputs: tuple[Layer, ...]
) -> None:
    for layer in listed:
        check_layer(layer)
    for layer, inputs in in_layers.items():
        for unknown in (layer, *inputs):
            if unknown not in listed:
                where = "names itself" if unknown is layer else f"gives {layer} the input {unknown}"
                raise GraphError(
                    f"Circuit: in_layers {where}, which is not among the layers: {unknown}; add it to `layers`"
                )
    if not outputs:
        raise GraphError("Circuit: there are no outputs; pass at least one layer as output")
    for layer in outputs:
        if layer not in listed:
            raise GraphError(f"Circuit: the output {layer} is not among the layers; add it to `layers`")


def _live_layers(
    layers: Sequence[Layer], inputs: Mapping[Layer, Sequence[Layer]], outputs: Iterable[Layer]
) -> tuple[Layer, ...]:
    """The layers that the outputs depend on, in order."""
    live = dict.fromkeys(outputs)
    for layer in reversed(layers):
        if layer in live:
            live.update(dict.fromkeys(inputs[layer]))
    return tuple(layer for layer in layers if layer in live)


def _layer_scopes(layers: Sequence[Layer], inputs: Mapping[Layer, Sequence[Layer]]) -> dict[Layer, Scope]:
    scopes: dict[Layer, Scope] = {}
    for layer in layers:
        if isinstance(layer, InputLayer):
            scopes[layer] = layer.scope
        else:
            scopes[layer] = Scope.union(*(scopes[child] for child in inputs[layer]))
    return scopes
