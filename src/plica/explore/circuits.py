"""Circuits as records: layers as described, optimized and folded, and what the compiler made of each group.

>>> from plica.symbolic.layers import CategoricalLayer, SumLayer
>>> leaf, total = CategoricalLayer([0], 4, num_categories=2), SumLayer(4, 1)
>>> record = circuit_record(Circuit([leaf, total], {total: [leaf]}, [total]))
>>> [stage["name"] for stage in record["stages"]], record["stages"][0]["inputs"]
(['described'], [[], [0]])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plica.explore.tables import Scopes, Texts
from plica.explore.tensors import summary
from plica.ir.program import print_equation
from plica.lower.fold.groups import FoldedCircuit, layer_kind
from plica.lower.leaves import leaf_keys
from plica.lower.queries.bottom_up import equations_of
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import TensorParameter

if TYPE_CHECKING:
    from torch import Tensor

    from plica.backend.torch.circuits import TorchCircuit

Array = NDArray[Any]


def circuit_record(circuit: Circuit) -> dict[str, Any]:
    """The record of a circuit that is not compiled: its layers as described."""
    recorder = _Recorder(circuit, leaf_keys(circuit), {})
    return {"text": repr(circuit), **recorder.record([recorder.described()])}


def compiled_record(circuit: TorchCircuit, seconds: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The record of a compiled circuit.

    Args:
        circuit: The circuit.
        seconds: The time of each part of its Program, by the names that `profile` gives.
    """
    from plica.backend.torch.profile import code_parts

    recorder = _Recorder(circuit.symbolic, circuit.compiled.keys, tensors_of(circuit))
    folded, layer_map = circuit.compiled.folded, circuit.layer_map
    described = recorder.described()
    described["folds"] = [
        [number for place in layer_map.get_compiled_layers(layer) for number in (place.group, place.fold)]
        for layer in circuit.symbolic.layers
    ]
    described["rules"] = [
        [
            recorder.texts.number(f"{step.stage}, {rule}: {equation}")
            for _, step in layer_map.history(layer)
            for rule, equation in step.rules
        ]
        for layer in circuit.symbolic.layers
    ]
    numbers = {
        layer: (number, fold) for number, group in enumerate(folded.groups) for fold, layer in enumerate(group.members)
    }
    computed = folded.circuit.live
    optimized = recorder.stage("optimized", computed)
    optimized["folds"] = [list(numbers[layer]) for layer in computed.layers]
    return {
        "text": circuit.explain(),
        **recorder.record([described, optimized, recorder.folded(folded)]),
        "logarithmic": circuit.semiring.logarithmic,
        "groups": _groups(circuit, folded, code_parts(circuit.code), seconds or {}),
        **({"seconds": dict(seconds)} if seconds else {}),
    }


def tensors_of(circuit: TorchCircuit) -> dict[str, Array]:
    """The parameter tensors of a compiled circuit, by the keys of its state dict.

    Floats are float64, complex numbers complex128. None of a circuit that is divided among processes.
    """
    if circuit.leaves.is_sharded:
        return {}
    keys = set(circuit.compiled.keys.values())
    return {name: _wide(tensor.detach().cpu()) for name, tensor in circuit.state_dict().items() if name in keys}


def _wide(tensor: Tensor) -> Array:
    """The array of a tensor in the widest dtype of its kind; integers as they are."""
    if tensor.is_complex():
        return tensor.numpy().astype(np.complex128)
    return (tensor.double() if tensor.is_floating_point() else tensor).numpy()


class _Recorder:
    """Makes the stages of one record, which share tables.

    Args:
        circuit: The circuit as described.
        keys: The keys of its parameter tensors.
        tensors: The values of those that have some, by key.
    """

    def __init__(self, circuit: Circuit, keys: Mapping[TensorParameter, str], tensors: Mapping[str, Array]) -> None:
        self.texts, self._scopes = Texts(), Scopes()
        self._circuit, self._keys, self._tensors = circuit, keys, tensors
        self._numbers = {leaf: number for number, leaf in enumerate(keys)}

    def record(self, stages: list[dict[str, Any]]) -> dict[str, Any]:
        """The record of stages, with the tables that they share."""
        return {
            "subject": "circuit",
            "variables": {"count": 1 + max(self._circuit.scope, default=-1)},
            "texts": self.texts.values(),
            "scopes": self._scopes.values(),
            "tensors": [self._tensor(leaf, key) for leaf, key in self._keys.items()],
            "stages": stages,
        }

    def described(self) -> dict[str, Any]:
        """The columns of the circuit as described, with the parameters of its layers."""
        stage = self.stage("described", self._circuit)
        return {**stage, "parameters": [self._parameters(layer) for layer in self._circuit.layers]}

    def stage(self, name: str, circuit: Circuit) -> dict[str, Any]:
        """The columns of one stage: an entry for each layer, in topological order."""
        index = {layer: number for number, layer in enumerate(circuit.layers)}
        return {
            "name": name,
            **_kinds(tuple(circuit.layers)),
            "units": [layer.num_output_units for layer in circuit.layers],
            "inputs": [[index[child] for child in circuit.layer_inputs(layer)] for layer in circuit.layers],
            "outputs": [index[layer] for layer in circuit.outputs],
            "scope": [self._scopes.number(circuit.layer_scope(layer)) for layer in circuit.layers],
            "settings": [self.texts.number(_settings(layer)) for layer in circuit.layers],
        }

    def folded(self, folded: FoldedCircuit) -> dict[str, Any]:
        """The columns of the folded stage: an entry for each group."""
        groups, circuit = folded.groups, folded.circuit
        return {
            "name": "folded",
            **_kinds([group.representative for group in groups]),
            "units": [group.representative.num_output_units for group in groups],
            "inputs": [
                list(dict.fromkeys(number for fold in group.in_fold_idx for number, _ in fold)) for group in groups
            ],
            "outputs": list(dict.fromkeys(number for number, _ in folded.out_fold_idx)),
            "scope": [
                self._scopes.number({variable for member in group.members for variable in circuit.layer_scope(member)})
                for group in groups
            ],
            "settings": [self.texts.number(_settings(group.representative)) for group in groups],
            "sizes": [group.num_folds for group in groups],
        }

    def _parameters(self, layer: Layer) -> list[list[Any]]:
        """For each parameter: its name, its shape and operations as text, and the numbers of its tensors."""
        return [
            [
                name,
                self.texts.number(repr(parameter).removeprefix("Parameter(").removesuffix(")")),
                [self._numbers[node] for node in parameter.nodes if node in self._numbers],
            ]
            for name, parameter in layer.all_params.items()
        ]

    def _tensor(self, leaf: TensorParameter, key: str) -> dict[str, Any]:
        values = self._tensors.get(key)
        numbers = None if values is None else summary(values)
        return {"key": key, "shape": list(leaf.shape), "learnable": leaf.learnable, **(numbers or {})}


def _kinds(layers: Sequence[Layer]) -> dict[str, Any]:
    """The names and roles of the kinds of layers, and the number of each layer's kind."""
    kinds = {type(layer): (type(layer).__name__.removesuffix("Layer"), layer_kind(layer)) for layer in layers}
    number = {kind: index for index, kind in enumerate(kinds)}
    return {"kinds": list(map(list, kinds.values())), "kind": [number[type(layer)] for layer in layers]}


def _settings(layer: Layer) -> str:
    hidden = ("scope", "num_output_units", *(name.partition(".")[0] for name in layer.sub_layers))
    return ", ".join(f"{name}={value}" for name, value in layer.config.items() if name not in hidden)


def _groups(
    circuit: TorchCircuit, folded: FoldedCircuit, code: Mapping[str, Sequence[str]], seconds: Mapping[str, float]
) -> list[dict[str, Any]]:
    """For each group its equations, its lines of code and its seconds, where they are known."""
    program = circuit.program
    return [
        {
            "equations": [print_equation(equation) for equation in equations_of(program, number)],
            "code": [line.removeprefix("    ") for line in _of_group(code, number, [])],
            "seconds": _of_group(seconds, number, None),
        }
        for number, _ in enumerate(folded.groups)
    ]


def _of_group(parts: Mapping[str, Any], number: int, default: Any) -> Any:
    """The part of a group, whose name begins with its number."""
    return next((part for name, part in parts.items() if name.startswith(f"group {number}:")), default)
