"""A circuit as plain JSON values and arrays, and back; nothing in a file chooses code beyond a table of classes.

>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 2, num_categories=3)
>>> structure, arrays = encode_circuit(Circuit([layer], {}, [layer]))
>>> decode_circuit(structure, arrays).layers
(CategoricalLayer(scope={0}, 2),)
"""

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from plica.errors import FileFormatError, PlicaError, UnsupportedError
from plica.symbolic import initializers, parameters
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import Initializer
from plica.symbolic.layers import LAYER_ROWS, Layer
from plica.symbolic.parameters import Parameter, ParameterInput, ParameterNode, ParameterOp, ReferenceParameter
from plica.symbolic.scope import Scope

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Json: TypeAlias = Any
Classes: TypeAlias = Mapping[str, type]


def class_table(classes: Iterable[type]) -> dict[str, type]:
    """Classes by name.

    Raises:
        UnsupportedError: Two classes of one name.
    """
    table: dict[str, type] = {}
    for cls in classes:
        if table.setdefault(cls.__name__, cls) is not cls:
            raise UnsupportedError(f"two classes are named {cls.__name__}; a model file tells classes apart by name")
    return table


def _public(module: Any, base: type) -> tuple[type, ...]:
    found = (getattr(module, name) for name in dir(module))
    return tuple(c for c in found if isinstance(c, type) and issubclass(c, base) and not inspect.isabstract(c))


# Every class that a file may name: the library's own layers, parameter nodes and initializers.
CLASSES: Classes = class_table((*LAYER_ROWS, *_public(parameters, ParameterNode), *_public(initializers, Initializer)))


def encode_circuit(circuit: Circuit, classes: Classes = CLASSES) -> tuple[Json, dict[str, Array]]:
    """A circuit as JSON values, and the arrays among its settings by the keys that the JSON names.

    Parameter nodes form one table for the whole circuit, so that what is shared stays shared. The operator that a
    circuit was made by is left out.

    Raises:
        UnsupportedError: A class that is not in `classes`, or a setting that has no form in a file.
    """
    encoder = _Encoder(classes)
    index = {layer: i for i, layer in enumerate(circuit.layers)}
    layers = [encoder.layer(layer) for layer in circuit.layers]
    structure = {
        "layers": layers,
        "inputs": [[index[child] for child in circuit.layer_inputs(layer)] for layer in circuit.layers],
        "outputs": [index[layer] for layer in circuit.outputs],
        "nodes": encoder.nodes,
    }
    return structure, encoder.arrays


def decode_circuit(structure: Json, arrays: Mapping[str, Array], classes: Classes = CLASSES) -> Circuit:
    """The circuit that `encode_circuit` was given.

    Raises:
        FileFormatError: A class that is not in `classes`, or values that do not make up a circuit.
    """
    decoder = _Decoder(classes, arrays)
    where = "the structure of the circuit"
    try:
        for number, node in enumerate(structure["nodes"]):
            where = f"parameter node {number}"
            decoder.add_node(node)
        layers = []
        for number, layer in enumerate(structure["layers"]):
            where = f"layer {number}"
            layers.append(decoder.layer(layer))
        where = "the circuit"
        inputs = {layer: [layers[i] for i in row] for layer, row in zip(layers, structure["inputs"], strict=True)}
        return Circuit(layers, inputs, [layers[i] for i in structure["outputs"]])
    except FileFormatError:
        raise
    except (PlicaError, KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileFormatError(
            f"{where} cannot be rebuilt ({type(error).__name__}: {reason}); the file is damaged"
        ) from error


class _Encoder:
    """Collects parameter nodes by identity, and arrays."""

    def __init__(self, classes: Classes) -> None:
        self.nodes: list[Json] = []
        self.arrays: dict[str, Array] = {}
        self._classes = classes
        self._index: dict[tuple[ParameterNode, tuple[int, ...]], int] = {}

    def layer(self, layer: Layer) -> Json:
        return {
            "class": self._name(layer),
            "config": self._items(layer.config),
            "params": {name: self.value(parameter) for name, parameter in layer.params.items()},
        }

    def value(self, value: Any) -> Json:
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": str(value)}
            case complex():
                return {"complex": [self.value(value.real), self.value(value.imag)]}
            case np.generic():
                return self.value(value.item())
            case np.ndarray():
                key = f"array.{len(self.arrays)}"
                self.arrays[key] = value
                return {"array": key}
            case tuple():
                return {"tuple": [self.value(item) for item in value]}
            case list():
                return [self.value(item) for item in value]
            case Scope():
                return {"scope": list(value)}
            case DataType():
                return {"kind": value.name}
            case Initializer():
                return {"initializer": {"class": self._name(value), "config": self._items(value.config)}}
            case ParameterInput():
                return {"node": self._node(value, ())}
            case Parameter():
                return {"parameter": self._parameter(value)}
            case Layer():
                return {"layer": self.layer(value)}
            case _:
                raise UnsupportedError(
                    f"a setting of type {type(value).__name__} cannot be saved; "
                    "use numbers, text, tuples, arrays, scopes, initializers, parameters or layers"
                )

    def _parameter(self, parameter: Parameter) -> Json:
        local: dict[ParameterNode, int] = {}
        for node in parameter.nodes:
            local[node] = self._node(node, tuple(local[child] for child in parameter.node_inputs(node)))
        return {"nodes": list(local.values()), "output": local[parameter.output]}

    def _node(self, node: ParameterNode, inputs: tuple[int, ...]) -> int:
        """The number of a node; a node of the same inputs keeps its number."""
        if (node, inputs) not in self._index:
            encoded: dict[str, Json] = {"class": self._name(node), "config": self._items(node.config)}
            if isinstance(node, ParameterOp):
                encoded["inputs"] = list(inputs)
            elif isinstance(node, ParameterInput) and not isinstance(node, ReferenceParameter):
                encoded["shape"] = list(node.shape)
            self._index[node, inputs] = len(self.nodes)
            self.nodes.append(encoded)
        return self._index[node, inputs]

    def _items(self, config: Mapping[str, Any]) -> Json:
        return {name: self.value(value) for name, value in config.items()}

    def _name(self, item: object) -> str:
        cls = type(item)
        if self._classes.get(cls.__name__) is not cls:
            raise UnsupportedError(
                f"{cls.__name__} is not among the classes that a model file may name; "
                "pass it in `classes` when saving and when loading"
            )
        return cls.__name__


class _Decoder:
    """Rebuilds parameter nodes in the order of the table, each once."""

    def __init__(self, classes: Classes, arrays: Mapping[str, Array]) -> None:
        self._classes = classes
        self._arrays = arrays
        self._nodes: list[ParameterInput | ParameterOp] = []
        self._inputs: list[tuple[int, ...]] = []

    def layer(self, encoded: Json) -> Layer:
        params = {name: self.value(parameter) for name, parameter in encoded["params"].items()}
        layer = self._class(encoded["class"], Layer)(**self._items(encoded["config"]), **params)
        assert isinstance(layer, Layer), "the class was checked to be a layer"
        return layer

    def add_node(self, encoded: Json) -> None:
        cls = self._class(encoded["class"], ParameterNode)
        config = self._items(encoded["config"])
        inputs = tuple(encoded.get("inputs", ()))
        if issubclass(cls, ParameterOp):
            shapes: tuple[Any, ...] = tuple(self._at(i).shape for i in inputs)
        else:
            shapes = tuple(encoded.get("shape", ()))
        self._nodes.append(cls(*shapes, **config))
        self._inputs.append(inputs)

    def value(self, encoded: Json) -> Any:
        if isinstance(encoded, list):
            return [self.value(item) for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        ((kind, content),) = encoded.items()
        match kind:
            case "float":
                return float(content)
            case "complex":
                return complex(*self.value(content))
            case "array":
                return self._arrays[content]
            case "tuple":
                return tuple(self.value(item) for item in content)
            case "scope":
                return Scope(content)
            case "kind":
                return DataType[content]
            case "initializer":
                return self._class(content["class"], Initializer)(**self._items(content["config"]))
            case "node":
                return self._at(content)
            case "parameter":
                return self._parameter(content)
            case "layer":
                return self.layer(content)
            case _:
                raise FileFormatError(f"unknown kind of value {kind!r}")

    def _parameter(self, encoded: Json) -> Parameter:
        nodes = [self._at(i) for i in encoded["nodes"]]
        inputs = {self._at(i): [self._at(child) for child in self._inputs[i]] for i in encoded["nodes"]}
        return Parameter(nodes, inputs, [self._at(encoded["output"])])

    def _at(self, number: int) -> ParameterInput | ParameterOp:
        if not 0 <= number < len(self._nodes):
            raise FileFormatError(f"parameter node {number} is named before it is defined")
        return self._nodes[number]

    def _items(self, encoded: Mapping[str, Json]) -> dict[str, Any]:
        return {name: self.value(value) for name, value in encoded.items()}

    def _class(self, name: str, base: type) -> type[Any]:
        cls = self._classes.get(name)
        if cls is None or not issubclass(cls, base):
            raise FileFormatError(
                f"the file names {name!r}, which is not a known {base.__name__}; "
                "a class of your own must be passed in `classes`"
            )
        return cls
