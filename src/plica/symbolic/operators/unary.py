"""Operators on one circuit that change input layers alone: inner layers are copied by reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError, UnsupportedError
from plica.ir.op import Unsupported
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.domains import Domain
from plica.symbolic.layers import (
    LAYER_ROWS,
    CircuitBlock,
    EvidenceLayer,
    InputLayer,
    InputRow,
    IntegratedLayer,
    Layer,
    MarginalLayer,
    OperatorRegistry,
    rule_of,
)
from plica.symbolic.operators.building import Builder
from plica.symbolic.parameters import ConstantParameter, Parameter, ParameterInput, conjugated, is_real
from plica.symbolic.scope import Scope

Rule = Callable[[Layer], CircuitBlock | Layer]


def mapped(
    circuit: Circuit, rule: Rule, operation: CircuitOperation, changed: Scope, data_scope: Scope | None = None
) -> Circuit:
    """The circuit with a new layer, or a block of them, for each of its layers that an output reads.

    Args:
        circuit: The circuit.
        rule: Gives the new layer, or the block. It copies layers that depend on none of the `changed` variables.
        operation: The operator.
        changed: The variables of the layers that change.
        data_scope: As of `Circuit`.
    """
    builder = Builder()
    images: dict[Layer, Layer] = {}
    for layer in circuit.live_layers:
        image = rule(layer)
        block = image if isinstance(image, CircuitBlock) else CircuitBlock.from_layer(image)
        images[layer] = builder.add_block(block, [images[child] for child in circuit.layer_inputs(layer)])
        if circuit.layer_scope(layer).isdisjoint(changed):
            builder.keep_factors(circuit, layer, images[layer])
    return builder.circuit([images[layer] for layer in circuit.outputs], operation, data_scope)


def checked_scope(what: str, circuit: Circuit, scope: Any) -> Scope:
    """Variables of the circuit.

    Raises:
        InputError: One of them is not.
    """
    variables = scope if isinstance(scope, Scope) else Scope(scope)
    if not variables <= circuit.scope:
        raise InputError(
            f"{what}: {variables - circuit.scope!s} is not in the scope {circuit.scope!s} of the circuit; leave out "
            "the variables that it does not have"
        )
    return variables


def integral(circuit: Circuit, scope: Scope, registry: OperatorRegistry, operation: CircuitOperation) -> Circuit:
    """The circuit summed or integrated over some variables."""
    circuit.check_smooth_and_decomposable("integrate")
    domains = circuit.domains

    def rule(layer: Layer) -> CircuitBlock | Layer:
        if not isinstance(layer, InputLayer) or layer.scope.isdisjoint(scope):
            return layer.copyref()
        integrated = layer.scope & scope
        _check_domains(circuit, layer, integrated, domains)
        row = rule_of(registry, "integrate", layer)
        if row is not None:
            return row.rule(layer, scope=integrated)
        _check_integrable(circuit, layer, integrated)
        rest = layer.scope - integrated
        return MarginalLayer(rest, layer.copyref()) if rest else IntegratedLayer(layer.copyref())

    return mapped(circuit, rule, operation, scope)


def _check_domains(circuit: Circuit, layer: InputLayer, scope: Scope, domains: Mapping[int, Domain]) -> None:
    """Refuse a layer that has mass where the circuit has no data, since another layer does not take such values."""
    for variable in scope:
        if not layer.domain.has_measure_of(domains[variable]):
            raise UnsupportedError(
                f"integrate: {circuit.layer_name(layer)} sums over {layer.domain.name}, but in this circuit variable "
                f"{variable} has the domain {domains[variable].name}, since another layer that reads it takes no other "
                "values; give both layers one domain, for example one number of states with probabilities of 0."
            )


def _check_integrable(circuit: Circuit, layer: InputLayer, scope: Scope) -> None:
    """Refuse what the row of a built-in layer cannot compute; that of another layer is known to its context."""
    row = LAYER_ROWS.get(type(layer))
    why = layer.unsummed
    if why is None and isinstance(row, InputRow):
        if isinstance(row.marginal, Unsupported):
            why = row.marginal.why
        elif scope != layer.scope and row.partial is None:
            why = f"its row has no 'partial', which sums out some variables alone; integrate all of {layer.scope!s}"
    if why is not None:
        raise UnsupportedError(f"integrate: {circuit.layer_name(layer)} cannot be integrated over {scope!s}: {why}.")


def observed(circuit: Circuit, values: Mapping[int, Any], operation: CircuitOperation) -> Circuit:
    """The circuit with values of some variables; layers that read them read no variable any more."""
    what = operation.operator
    known = checked_scope(what, circuit, values)

    def rule(layer: Layer) -> Layer:
        if not isinstance(layer, InputLayer) or layer.scope.isdisjoint(known):
            return layer.copyref()
        if not layer.scope <= known:
            raise UnsupportedError(
                f"{what}: {circuit.layer_name(layer)} reads {layer.scope!s}, of which {layer.scope & known!s} alone "
                "is observed; observe all of its variables, or integrate the others first"
            )
        observation = _observation(what, circuit, layer, values)
        try:
            return EvidenceLayer(layer.copyref(), observation=observation)
        except (InputError, ShapeError) as error:  # of an operator's caller, who has made no layer
            raise type(error)(f"{what}{str(error).removeprefix('EvidenceLayer')}") from None

    return mapped(circuit, rule, operation, known)


def _observation(what: str, circuit: Circuit, layer: InputLayer, values: Mapping[int, Any]) -> Any:
    given = [values[variable] for variable in layer.scope]
    parameters = [value for value in given if isinstance(value, Parameter | ParameterInput)]
    if not parameters:
        return np.array([_number(what, variable, values[variable]) for variable in layer.scope])
    if len(given) > 1:
        raise UnsupportedError(
            f"{what}: {circuit.layer_name(layer)} reads several variables, which are observed as numbers; a "
            "parameter may be the value of the variable of a layer that reads it alone"
        )
    parameter = Parameter.from_input(parameters[0])
    return parameter if isinstance(parameter.output, ConstantParameter) else parameter.ref()


def _number(what: str, variable: int, value: Any) -> Any:
    try:
        number = np.array(value)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{what}: variable {variable} is observed as {value!r:.60}, which is no number ({error})"
        ) from error
    if number.size != 1 or number.dtype.kind not in "biufc":
        raise InputError(
            f"{what}: variable {variable} is observed as {value!r:.60}, expected one number of 64 bits or fewer"
        )
    return number.reshape(())[()]


def conjugate_of(circuit: Circuit, registry: OperatorRegistry, operation: CircuitOperation) -> Circuit:
    """The circuit whose values are the complex conjugates."""

    def rule(layer: Layer) -> CircuitBlock | Layer:
        row = rule_of(registry, "conjugate", layer)
        if row is not None:
            return row.rule(layer)
        params = layer.all_params
        if all(map(is_real, params.values())):
            return layer.copyref()
        if type(layer) not in LAYER_ROWS or isinstance(layer, InputLayer):
            raise UnsupportedError(
                f"conjugate: {circuit.layer_name(layer)} has complex parameters, and there is no rule for its class; "
                f"give a context one by add_operator_rule(OperatorRow('conjugate', ({type(layer).__name__},), rule))."
            )
        return layer.with_params({name: conjugated(parameter) for name, parameter in params.items()})

    return mapped(circuit, rule, operation, circuit.scope)


def renamed(circuit: Circuit, mapping: Mapping[int, int], operation: CircuitOperation) -> Circuit:
    """The circuit that reads other variables: variable v becomes `mapping[v]`, others stay."""
    checked_scope("rename", circuit, mapping)
    names = {variable: mapping.get(variable, variable) for variable in circuit.scope}
    olds: dict[int, int] = {}
    for old, new in names.items():
        if new in olds:
            raise InputError(
                f"rename: variables {olds[new]} and {old} would both become {new}; give each variable a name of its own"
            )
        olds[new] = old

    def rule(layer: Layer) -> Layer:
        copy = layer.copyref()
        if isinstance(copy, InputLayer):
            _rename(partial(circuit.layer_name, layer), copy, names)
        return copy

    columns = Scope(names.get(variable, variable) for variable in circuit.data_scope)  # as the operand's are renamed
    return mapped(circuit, rule, operation, circuit.scope, columns)


def _rename(name: Callable[[], str], layer: InputLayer, names: Mapping[int, int]) -> None:
    """Change the variables of a new layer, and of the layers that it holds."""
    before = list(layer.scope)
    after = [names.get(variable, variable) for variable in before]
    if after == before:
        return
    if any(first >= second for first, second in itertools.pairwise(after)):
        raise UnsupportedError(
            f"rename: {name()} would read {before} as {after}, but its parameters follow the ascending order of its "
            "variables; choose names in the same order"
        )
    for held in layer.sub_layers.values():
        if isinstance(held, InputLayer):
            _rename(name, held, names)
    if "scope" in layer.config:
        object.__setattr__(layer, "scope", Scope(after))
    if list(layer.scope) != after:
        raise UnsupportedError(
            f"rename: {name()} has no field `scope` that could be changed; build it with other variables"
        )
