"""Logarithms and powers of deterministic circuits: where one term of a sum is positive, no other one is.

Layers without variables are constants (`with_constants`). At each point of its support, the circuit is then one product
of weights and of units of input layers, so that its logarithm is a sum of theirs. Each layer has two images: `base`,
and `log`, which is base times the logarithm. For sums and products

    log(w u) = w log(u) + w log(w) u,    log(u v) = log(u) v + u log(v)

where u and v stand for bases. There are two kinds of bases. That of the logarithm itself is the support: 1 where a unit
is positive. That of the mean logarithm is the unit, integrated over all its variables. Outside of the support all is 0.

Source: Vergari et al., "A Compositional Atlas of Tractable Circuit Operations", 2021, algorithms 5 and 6, and the
linear-time entropy of deterministic circuits; the same recurrences are those of the expectation semiring of Li and
Eisner, 2009.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, final

import numpy as np

from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import (
    CircuitBlock,
    ConstantValueLayer,
    HadamardLayer,
    InputLayer,
    KroneckerLayer,
    Layer,
    OperatorRegistry,
    OuterProductLayer,
    ProductLayer,
    SumLayer,
    TransposeLayer,
    rule_of,
)
from plica.symbolic.operators.building import Builder
from plica.symbolic.operators.expectations import LogarithmLayer, expected
from plica.symbolic.operators.normalizing import Values
from plica.symbolic.operators.unary import integral, mapped
from plica.symbolic.parameters import (
    ConstantParameter,
    HadamardParameter,
    LogOnSupportParameter,
    MixingWeightParameter,
    Parameter,
    PowerOnSupportParameter,
)

Map: TypeAlias = Callable[[Parameter], Parameter]
Images: TypeAlias = tuple[Layer, Layer]  # base and log
_MOST_FACTORS = 64


def with_constants(circuit: Circuit, what: str, registry: OperatorRegistry) -> Circuit:
    """The circuit with a constant in place of each layer without variables, whatever it sums.

    So sums of integrated variables need not be deterministic.

    Raises:
        UnsupportedError: The value of a layer without variables is no parameter.
    """
    live = circuit.live_layers
    if all(circuit.layer_scope(layer) or isinstance(layer, ConstantValueLayer) for layer in live):
        return circuit
    read = dict.fromkeys(circuit.outputs)
    for layer in live:
        if circuit.layer_scope(layer):
            read.update(dict.fromkeys(circuit.layer_inputs(layer)))
    free = [layer for layer in read if not circuit.layer_scope(layer)]
    values = Values(circuit.subgraph(*free), what, registry)
    builder = Builder()
    images: dict[Layer, Layer] = {
        layer: builder.add(ConstantValueLayer(layer.num_output_units, value=values.parameter(layer))) for layer in free
    }
    for layer in live:
        if circuit.layer_scope(layer):
            images[layer] = builder.add(layer.copyref(), *(images[child] for child in circuit.layer_inputs(layer)))
    return builder.circuit([images[layer] for layer in circuit.outputs], CircuitOperation(what, ()))


def power_on_support(
    circuit: Circuit, exponent: int, what: str, registry: OperatorRegistry, operation: CircuitOperation
) -> Circuit:
    """An integer power of a deterministic circuit, and 0 where the circuit is 0; the exponent 0 gives the support.

    Raises:
        UnsupportedError: A layer has no such power.
    """

    def rule(layer: Layer) -> CircuitBlock | Layer:
        if isinstance(layer, SumLayer):
            weight = _mapped_weight(layer, lambda weight: _power(weight, exponent))
            return SumLayer(layer.num_input_units, layer.num_output_units, layer.arity, weight)
        if isinstance(layer, InputLayer):
            return _block("power", circuit, layer, what, registry, exponent=exponent)
        _check_product(circuit, layer, what)
        return layer.copyref()

    return mapped(circuit, rule, operation, circuit.scope)


def logarithm(circuit: Circuit, what: str, registry: OperatorRegistry, operation: CircuitOperation) -> Circuit:
    """The support of each output of a deterministic circuit, and then the logarithm of each, 0 outside of the support.

    The circuit may be integrated together with another one, but not compiled: logarithms of some layers are no layers.

    Raises:
        UnsupportedError: A layer has no logarithm.
    """
    return _Logarithm(circuit, what, registry).circuit_of(operation)


def mean_logarithm(circuit: Circuit, what: str, registry: OperatorRegistry, operation: CircuitOperation) -> Circuit:
    """For each output u of a deterministic circuit its integral, and then the integral of u log u; of linear size.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        UnsupportedError: For an input layer u, the integral of u log u is not known.
    """
    circuit.check_smooth_and_decomposable(what)
    return _MeanLogarithm(circuit, what, registry).circuit_of(operation)


@dataclass(slots=True)
class _Walk(ABC):
    """A walk that builds both images of each layer.

    Args:
        circuit: The circuit.
        what: The query, as the subject of messages.
        registry: The rules of input layers.
    """

    circuit: Circuit
    what: str
    registry: OperatorRegistry
    builder: Builder = field(default_factory=Builder)
    most_factors: ClassVar[int] = _MOST_FACTORS
    """How many factors a product may have that is not taken apart into products of fewer."""

    @abstractmethod
    def base_weight(self, weight: Parameter) -> Parameter:
        """The weight of bases."""

    @abstractmethod
    def input_images(self, layer: InputLayer) -> Images:
        """The images of an input layer."""

    def circuit_of(self, operation: CircuitOperation) -> Circuit:
        """The circuit of the bases of the outputs, and of their logs."""
        images: dict[Layer, Images] = {}
        for layer in self.circuit.live_layers:
            read = [images[child] for child in self.circuit.layer_inputs(layer)]
            if isinstance(layer, InputLayer):
                images[layer] = self.input_images(layer)
            elif isinstance(layer, SumLayer):
                images[layer] = self._sum(layer, read)
            else:
                _check_product(self.circuit, layer, self.what)
                images[layer] = self._product(layer, read)
        outputs = [images[layer] for layer in self.circuit.outputs]
        return self.builder.circuit([*(base for base, _ in outputs), *(log for _, log in outputs)], operation)

    def _sum(self, layer: SumLayer, read: Sequence[Images]) -> Images:
        sizes = (layer.num_input_units, layer.num_output_units, layer.arity)
        bases, logs = [base for base, _ in read], [log for _, log in read]

        def of_logarithms(weight: Parameter) -> Parameter:
            return _times(self.base_weight(weight), _log(weight.ref()))

        weights = [_mapped_weight(layer, self.base_weight) for _ in range(2)]
        base, of_logs = (
            self.builder.add(SumLayer(*sizes, weight), *inputs)
            for weight, inputs in zip(weights, (bases, logs), strict=True)
        )
        of_weights = self.builder.add(SumLayer(*sizes, _mapped_weight(layer, of_logarithms)), *bases)
        return base, self._added([of_logs, of_weights])

    def _product(self, layer: Layer, read: Sequence[Images]) -> Images:
        if len(read) == 1:
            base, log = (self.builder.add(layer.copyref(), image) for image in read[0])
            return base, log
        while len(read) > self.most_factors:
            pairs = [read[at : at + 2] for at in range(0, len(read), 2)]
            read = [self._multiplied(layer, pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return self._multiplied(layer, read) if len(read) > 1 else read[0]

    def _multiplied(self, layer: Layer, read: Sequence[Images]) -> Images:
        """The images of the product of some factors of a product layer."""
        bases = [base for base, _ in read]
        terms = [self._product_of(layer, [*bases[:at], log, *bases[at + 1 :]]) for at, (_, log) in enumerate(read)]
        return self._product_of(layer, bases), self._added(terms)

    def _product_of(self, layer: Layer, factors: Sequence[Layer]) -> Layer:
        widths = [factor.num_output_units for factor in factors]
        if isinstance(layer, HadamardLayer):
            return self.builder.add(HadamardLayer(widths[0], len(widths)), *factors)
        alike = len(dict.fromkeys(widths)) == 1
        return self.builder.add(
            KroneckerLayer(widths[0], len(widths)) if alike else OuterProductLayer(widths), *factors
        )

    def _added(self, terms: Sequence[Layer]) -> Layer:
        units = terms[0].num_output_units
        ones = Parameter.from_input(ConstantParameter(units, len(terms), value=1.0))
        weight = Parameter.from_unary(MixingWeightParameter(ones.shape), ones)
        return self.builder.add(SumLayer(units, units, len(terms), weight), *terms)


@final
@dataclass(slots=True)
class _Logarithm(_Walk):
    """The walk of `logarithm`: bases are supports."""

    def base_weight(self, weight: Parameter) -> Parameter:
        return _power(weight, 0)

    def input_images(self, layer: InputLayer) -> Images:
        base = self.builder.add_block(_block("power", self.circuit, layer, self.what, self.registry, exponent=0))
        if layer.scope and layer.domain.num_states is None:
            return base, self.builder.add(LogarithmLayer(layer.copyref()))
        return base, self.builder.add_block(_block("logarithm", self.circuit, layer, self.what, self.registry))


@final
@dataclass(slots=True)
class _MeanLogarithm(_Walk):
    """The walk of `mean_logarithm`: bases are integrals."""

    most_factors: ClassVar[int] = 2

    def base_weight(self, weight: Parameter) -> Parameter:
        return weight

    def input_images(self, layer: InputLayer) -> Images:
        operation = CircuitOperation(self.what, ())
        alone = Circuit([layer], {}, [layer])
        rules, units = self.registry, layer.num_output_units
        total = integral(alone, alone.scope, rules, operation)
        logs = _Logarithm(alone, self.what, rules).circuit_of(operation)
        pairs = expected(alone, logs.subgraph(logs.outputs[1]), rules, operation)  # of all pairs of units
        own = np.zeros((units, units * units))
        own[range(units), [unit * units + unit for unit in range(units)]] = 1.0
        copies = [self.builder.copy(circuit, circuit.outputs[0]) for circuit in (total, pairs)]
        chosen = SumLayer(units * units, units, 1, Parameter.from_input(ConstantParameter(*own.shape, value=own)))
        return copies[0], self.builder.add(chosen, copies[1])


def _power(weight: Parameter, exponent: int) -> Parameter:
    return Parameter.from_unary(PowerOnSupportParameter(weight.shape, exponent=exponent), weight)


def _log(weight: Parameter) -> Parameter:
    return Parameter.from_unary(LogOnSupportParameter(weight.shape), weight)


def _times(first: Parameter, second: Parameter) -> Parameter:
    return Parameter.from_binary(HadamardParameter(first.shape, second.shape), first, second)


def _mapped_weight(layer: SumLayer, change: Map) -> Parameter:
    """The weight of a sum, changed entry by entry: one of a mixing layer stays one."""
    if not layer.mixing:
        return change(layer.weight.ref())
    changed = change(layer.evaluated_params["weight"].ref())
    return Parameter.from_unary(MixingWeightParameter(changed.shape), changed)


def _block(
    operator: str, circuit: Circuit, layer: InputLayer, what: str, registry: OperatorRegistry, **settings: int
) -> CircuitBlock:
    """The layers that the rule of an operator gives for an input layer."""
    name = circuit.layer_name(layer) if layer in circuit.layers_inputs else repr(layer)
    row = rule_of(registry, operator, layer)
    if row is None:
        raise UnsupportedError(
            f"{what} does not support {name}: there is no rule for its {_WORDS[operator]}; give a context one by "
            f"add_operator_rule(OperatorRow({operator!r}, ({type(layer).__name__},), rule))."
        )
    try:
        return row.rule(layer, **settings)
    except UnsupportedError as error:
        raise UnsupportedError(f"{what} does not support {name}: {error}") from error


_WORDS = {"power": "powers", "logarithm": "logarithm"}


def _check_product(circuit: Circuit, layer: Layer, what: str) -> None:
    if not isinstance(layer, HadamardLayer | KroneckerLayer | OuterProductLayer | TransposeLayer):
        kind = "product" if isinstance(layer, ProductLayer) else "layer"
        raise UnsupportedError(
            f"{what} does not support {circuit.layer_name(layer)}: it goes through sums and products that Plica has, "
            f"and this {kind} is another one; describe the circuit by SumLayer and HadamardLayer, for example."
        )
