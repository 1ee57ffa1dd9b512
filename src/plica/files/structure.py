"""Encodes a circuit as plain JSON values and arrays, and decodes it; a file chooses code only from a table of classes.

>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 2, num_categories=3)
>>> structure, arrays = encode_circuit(Circuit([layer], {}, [layer]))
>>> decode_circuit(structure, arrays).layers
(CategoricalLayer(scope={0}, 2),)
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

import numpy as np

from plica.errors import FileFormatError, PlicaError, UnsupportedError
from plica.files.budget import Budget
from plica.files.modules import ModuleRecord, check_keys, check_modules, record_of
from plica.files.schema import DAMAGED, cannot_rebuild, check, construct
from plica.lower.checks import has_signs
from plica.lower.leaves import leaf_keys, opaque_keys
from plica.lower.queries.signs import is_never_negative
from plica.symbolic import initializers, parameters
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import Domain
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import Initializer
from plica.symbolic.layers import LAYER_ROWS, InputLayer, Layer, formula_parameters
from plica.symbolic.operators.complete import complete_form
from plica.symbolic.parameters import (
    Parameter,
    ParameterInput,
    ParameterNode,
    ParameterOp,
    ReferenceParameter,
    TensorParameter,
)
from plica.symbolic.scope import Scope

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Json: TypeAlias = Any
Classes: TypeAlias = Mapping[str, type]

# The records of a structure. Settings are values as `_KINDS` lists them, checked against constructors when rebuilt.
ObjectRecord = TypedDict("ObjectRecord", {"class": str, "config": dict[str, Any]})
NodeRecord = TypedDict(
    "NodeRecord",
    {"class": str, "config": dict[str, Any], "inputs": NotRequired[list[int]], "shape": NotRequired[list[int]]},
)


class ParameterRecord(TypedDict):
    """A parameter: the indices of its nodes in the table of nodes, and its output node, or a list of several."""

    nodes: list[int]
    output: int | list[int]


class ParameterValue(TypedDict):
    """The value that a layer has for a parameter."""

    parameter: ParameterRecord


LayerRecord = TypedDict(
    "LayerRecord",
    {
        "class": str,
        "config": dict[str, Any],
        "params": dict[str, ParameterValue],
        "sub_layers": NotRequired[dict[str, Any]],
    },
)


class DomainRecord(TypedDict):
    """A domain; bounds are numbers, or infinite."""

    name: str
    refusal: str
    advice: str
    least: Any
    most: Any
    whole: bool
    above: bool


class GraphRecord(TypedDict):
    """Layers, the indices of their inputs, and those of the outputs."""

    layers: list[LayerRecord]
    inputs: list[list[int]]
    outputs: list[int]


class CircuitRecord(GraphRecord):
    """A circuit: its layers, the parameter nodes of all layers, and the modules of layers.

    The class of a module, `package.Class`, tells the user which module to make; nothing is imported by this name.
    `data_scope` lists the variables with a column in the data, where these are not those of the scope. `complete` has
    the layers that compute rows without missing variables, where these are others. `never_negative` says that no value
    is negative although some number may be: the circuit is made of squares.
    """

    nodes: list[NodeRecord]
    modules: NotRequired[dict[str, ModuleRecord]]
    data_scope: NotRequired[list[int]]
    complete: NotRequired[GraphRecord]
    never_negative: NotRequired[bool]


_SHOWN = 100  # characters of a key that a message shows
_VARIABLES_PER_NUMBER = 64  # a scope has one bit for each variable up to its highest; 64 bits count as a number
_NUMBERS_PER_COLUMN = 8  # numbers that lowering stores for each column of the data, such as the range of its states


def class_table(classes: Iterable[type]) -> dict[str, type]:
    """Classes by name.

    Raises:
        UnsupportedError: Two classes of one name.
    """
    table: dict[str, type] = {}
    for cls in classes:
        if table.setdefault(cls.__name__, cls) is not cls:
            raise UnsupportedError(
                f"two classes are named {cls.__name__}; a model file tells classes apart by name, so rename your own"
            )
    return table


def _public(module: Any, base: type) -> tuple[type, ...]:
    members = (getattr(module, name) for name in dir(module))
    return tuple(c for c in members if isinstance(c, type) and issubclass(c, base) and not inspect.isabstract(c))


# Every class that a file may name: the library's own layers, parameter nodes and initializers.
CLASSES: Classes = class_table(
    (
        *LAYER_ROWS,
        *_public(parameters, ParameterNode),
        *_public(formula_parameters, ParameterNode),
        *_public(initializers, Initializer),
    )
)


def encode_circuit(circuit: Circuit, classes: Classes = CLASSES) -> tuple[Json, dict[str, Array]]:
    """A circuit as JSON values, and the arrays among its settings by the keys that the JSON names.

    Parameter nodes form one table for the whole circuit, so that shared nodes stay shared. Modules form another, by
    their keys in a state dict. The operator that made the circuit is left out, but not the data that it takes, nor the
    layers that compute its rows without missing variables.

    Raises:
        UnsupportedError: A class is not in `classes`, or a setting has no form in a file.
    """
    module_keys = opaque_keys(circuit)
    encoder = _Encoder(classes, {id(module): key for key, module in module_keys.items()})
    structure: dict[str, Json] = {**encoder.graph(circuit), "nodes": encoder.nodes}
    if circuit.has_complete_form:
        structure["complete"] = encoder.graph(complete_form(circuit))
    if has_signs(circuit) and is_never_negative(circuit):
        structure["never_negative"] = True
    if encoder.modules:
        structure["modules"] = {key: record_of(module) for key, module in module_keys.items() if key in encoder.modules}
    if circuit.data_scope != circuit.scope:
        structure["data_scope"] = list(circuit.data_scope)
    return structure, encoder.arrays


def decode_circuit(
    structure: Json,
    arrays: Mapping[str, Array],
    classes: Classes = CLASSES,
    *,
    modules: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> Circuit:
    """The circuit that `encode_circuit` encoded.

    Args:
        structure: JSON values; all are checked.
        arrays: The arrays that settings name.
        classes: Every class that may be named.
        modules: The modules that layers hold, by their keys.
        budget: How much memory declared sizes may ask for; by default without a limit.

    Raises:
        FileFormatError: A class is not in `classes`, the modules are not those of the circuit, or the values do not
            make up a circuit. The message names the place in the file.
    """
    check(structure, CircuitRecord, "circuit")
    given_modules = modules or {}
    check_modules(structure.get("modules", {}), given_modules)
    decoder = _Decoder(classes, arrays, given_modules, budget or Budget(math.inf))
    for number, node in enumerate(structure["nodes"]):
        decoder.add_node(node, f"parameter node {number}")
    data_scope = decoder.data_scope(structure.get("data_scope"))
    circuit = decoder.graph(structure, "circuit", data_scope)
    check_keys(circuit, given_modules)
    if "complete" in structure:
        _give_complete_form(circuit, decoder.graph(structure["complete"], "circuit.complete", circuit.data_scope))
    if structure.get("never_negative"):
        circuit.remember_never_negative()
    return circuit


def _give_complete_form(circuit: Circuit, form: Circuit) -> None:
    """Let a circuit compute complete rows by another one, if that has its shape, variables, values and tensors."""
    shapes = [(len(graph.outputs), graph.outputs[0].num_output_units, graph.scope) for graph in (circuit, form)]
    if shapes[0] != shapes[1]:
        raise FileFormatError(
            f"circuit.complete: expected {shapes[0][0]} outputs of {shapes[0][1]} units over {shapes[0][2]!s}, found "
            f"{shapes[1][0]} of {shapes[1][1]} over {shapes[1][2]!s}; {DAMAGED}"
        )
    domains = form.domains
    for variable, domain in circuit.domains.items():
        if not _has_all(domains[variable], domain):  # an index would be out of range
            raise FileFormatError(
                f"circuit.complete: variable {variable} is of {domain.name} in the circuit, and of "
                f"{domains[variable].name} here; {DAMAGED}"
            )
    others = [key for tensor, key in leaf_keys(form).items() if tensor not in leaf_keys(circuit)]
    if others:
        raise FileFormatError(f"circuit.complete: the circuit does not have the tensor of {others[0]!r}; {DAMAGED}")
    circuit.remember_complete_form(form)


def _has_all(domain: Domain, other: Domain) -> bool:
    """Whether a domain has all values of another one, but for a bound of real numbers."""
    return domain.least <= other.least and other.most <= domain.most and (other.whole or not domain.whole)


def _index(number: int, length: int, where: str, item: str) -> int:
    if not 0 <= number < length:
        raise FileFormatError(f"{where}: there is no {item} {number}; expected 0 to {length - 1}")
    return number


class _Encoder:
    """Collects parameter nodes by identity, arrays, and the keys of the modules that settings have."""

    def __init__(self, classes: Classes, modules: Mapping[int, str]) -> None:
        self.nodes: list[Json] = []
        self.arrays: dict[str, Array] = {}
        self.modules: set[str] = set()
        self._classes = classes
        self._module_keys = modules  # by identity
        self._index: dict[tuple[ParameterNode, tuple[int, ...]], int] = {}

    def graph(self, circuit: Circuit) -> dict[str, Json]:
        index = {layer: i for i, layer in enumerate(circuit.layers)}
        return {
            "layers": [self.layer(layer) for layer in circuit.layers],
            "inputs": [[index[child] for child in circuit.layer_inputs(layer)] for layer in circuit.layers],
            "outputs": [index[layer] for layer in circuit.outputs],
        }

    def layer(self, layer: Layer) -> Json:
        encoded: dict[str, Json] = {"class": self._name(layer), "config": {}, "params": self._items(layer.params)}
        sub_layers = dict.fromkeys(name.partition(".")[0] for name in layer.sub_layers)
        encoded["config"] = self._items({name: value for name, value in layer.config.items() if name not in sub_layers})
        if sub_layers:
            encoded["sub_layers"] = self._items({name: getattr(layer, name) for name in sub_layers})
        return encoded

    def value(self, value: Any) -> Json:
        if id(value) in self._module_keys:
            self.modules.add(self._module_keys[id(value)])
            return {"module": self._module_keys[id(value)]}
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
            case Domain():
                return {"domain": {name: self.value(getattr(value, name)) for name in DomainRecord.__annotations__}}
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
                    "use numbers, text, tuples, arrays, scopes, domains, initializers, parameters or layers"
                )

    def _parameter(self, parameter: Parameter) -> Json:
        local: dict[ParameterNode, int] = {}
        for node in parameter.nodes:
            local[node] = self._node(node, tuple(local[child] for child in parameter.node_inputs(node)))
        outputs = [local[output] for output in parameter.outputs]
        return {"nodes": list(local.values()), "output": outputs if len(outputs) > 1 else outputs[0]}

    def _node(self, node: ParameterNode, inputs: tuple[int, ...]) -> int:
        """The index of a node in the table, to which a node is added once for each tuple of inputs."""
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

    def __init__(
        self, classes: Classes, arrays: Mapping[str, Array], modules: Mapping[str, Any], budget: Budget
    ) -> None:
        self._classes = classes
        self._arrays = arrays
        self._modules = modules
        self._budget = budget
        self._nodes: list[ParameterInput | ParameterOp] = []
        self._inputs: list[tuple[int, ...]] = []

    def layer(self, encoded: Json, where: str, num_inputs: int = 1) -> Layer:
        check(encoded, LayerRecord, where)
        settings = self._items(encoded["config"], where)
        params = self._items(encoded["params"], where) | self._items(encoded.get("sub_layers", {}), where)
        twice = next((name for name in params if name in settings), None)
        if twice is not None:
            raise FileFormatError(f"{where}: {twice!r} is both a setting and a parameter")
        has_module = any(value is module for value in settings.values() for module in self._modules.values())
        why = "the module is not as it was when it was saved" if has_module else DAMAGED
        layer = construct(self._class(encoded["class"], Layer, where), where, (), settings | params, why=why)
        assert isinstance(layer, Layer), "the class was checked to be a layer"
        if not isinstance(layer, InputLayer) and layer.arity > num_inputs:  # before anything has that size
            raise FileFormatError(f"{where}: expects {layer.arity} inputs, found {num_inputs}")
        self._budget.spend(where, "its units", layer.num_output_units)
        return layer

    def graph(self, encoded: Json, where: str, data_scope: Scope | None) -> Circuit:
        start = "" if where == "circuit" else f"{where}: "
        if len(encoded["inputs"]) != len(encoded["layers"]):
            raise FileFormatError(
                f"{where}.inputs: expected the inputs of {len(encoded['layers'])} layers, found "
                f"{len(encoded['inputs'])}"
            )
        layers = [
            self.layer(layer, f"{start}layer {number}", len(row))
            for number, (layer, row) in enumerate(zip(encoded["layers"], encoded["inputs"], strict=True))
        ]
        inputs = {
            layer: [layers[_index(i, len(layers), f"{where}.inputs[{number}]", "layer")] for i in row]
            for number, (layer, row) in enumerate(zip(layers, encoded["inputs"], strict=True))
        }
        outputs = [layers[_index(i, len(layers), f"{where}.outputs", "layer")] for i in encoded["outputs"]]
        try:
            return Circuit(layers, inputs, outputs, data_scope=data_scope)
        except (PlicaError, ValueError) as error:  # ValueError: a number of too many digits for the message
            raise cannot_rebuild("the circuit" if not start else where, error) from error

    def add_node(self, encoded: Json, where: str) -> None:
        cls = self._class(encoded["class"], ParameterNode, where)
        config = self._items(encoded["config"], where)
        inputs = tuple(encoded.get("inputs", ()))
        shapes = [self._at(i, f"{where}.inputs").shape for i in inputs]
        node = construct(cls, where, shapes if issubclass(cls, ParameterOp) else encoded.get("shape", ()), config)
        if not isinstance(node, TensorParameter):  # a tensor is in the file: it must fit what is declared
            self._budget.spend(where, f"shape {_short_shape(node.shape)}", math.prod(node.shape))
        self._nodes.append(node)
        self._inputs.append(inputs)

    def value(self, encoded: Json, where: str) -> Any:
        if isinstance(encoded, list):
            return [self.value(item, f"{where}[{i}]") for i, item in enumerate(encoded)]
        if not isinstance(encoded, dict):
            return encoded
        kind = next(iter(encoded), None)
        if len(encoded) != 1 or kind not in _KINDS:
            raise FileFormatError(
                f"{where}: unknown kind of value {', '.join(encoded)!r}; expected {', '.join(_KINDS)}"
            )
        hint, decode = _KINDS[kind]
        check(encoded[kind], hint, f"{where}.{kind}")
        return decode(self, encoded[kind], where)

    def complex_number(self, parts: list[Json], where: str) -> complex:
        numbers = tuple(self.value(parts, where))
        check(numbers, tuple[float, float], where)
        return complex(*numbers)

    def array(self, name: str, where: str) -> Array:
        if name not in self._arrays:
            raise FileFormatError(f"{where}: there is no array {name!r} in the file")
        return self._arrays[name]

    def module(self, key: str, where: str) -> Any:
        if key not in self._modules:
            raise FileFormatError(f"{where}: there is no module {key[:_SHOWN]!r} among the modules of the file")
        return self._modules[key]

    def scope(self, variables: list[int], where: str) -> Scope:
        highest = max(variables, default=0)
        self._budget.spend(where, "a scope", highest // _VARIABLES_PER_NUMBER)
        self._budget.reserve(where, f"data with a column {highest}", highest * _NUMBERS_PER_COLUMN)
        return Scope(variables)

    def data_scope(self, variables: list[int] | None) -> Scope | None:
        return None if variables is None else self._items({"data_scope": {"scope": variables}}, "circuit")["data_scope"]

    def domain(self, encoded: DomainRecord, where: str) -> Domain:
        domain: Domain = construct(Domain, where, (), self._items(encoded, where))
        for bound in (domain.least, domain.most):
            _number(bound, where)
        return domain

    def initializer(self, encoded: Json, where: str) -> Initializer:
        cls = self._class(encoded["class"], Initializer, where)
        initializer: Initializer = construct(cls, where, (), self._items(encoded["config"], where))
        return initializer

    def node(self, number: int, where: str) -> ParameterInput | ParameterOp:
        return self._at(number, where)

    def parameter(self, encoded: Json, where: str) -> Parameter:
        nodes = [self._at(i, where) for i in encoded["nodes"]]
        inputs = {self._at(i, where): [self._at(child, where) for child in self._inputs[i]] for i in encoded["nodes"]}
        outputs = encoded["output"] if isinstance(encoded["output"], list) else [encoded["output"]]
        return Parameter(nodes, inputs, [self._at(output, where) for output in outputs])

    def _at(self, number: int, where: str) -> ParameterInput | ParameterOp:
        if not 0 <= number < len(self._nodes):
            raise FileFormatError(f"{where}: parameter node {number} is named before it is defined")
        return self._nodes[number]

    def _items(self, encoded: Mapping[str, Json], where: str) -> dict[str, Any]:
        try:
            return {name: self.value(value, f"{where}.{name}") for name, value in encoded.items()}
        except FileFormatError:
            raise
        except (PlicaError, ValueError, RecursionError) as error:  # a scope or a parameter refuses its contents
            raise cannot_rebuild(where, error) from error

    def _class(self, name: str, base: type, where: str) -> type[Any]:
        cls = self._classes.get(name)
        if cls is None or not issubclass(cls, base):
            raise FileFormatError(
                f"{where}: the file names {name!r}, which is not a known {base.__name__}; "
                "a class of your own must be passed in `classes`: plica.load(path, classes=[...])"
            )
        return cls


def _number(value: float, where: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise cannot_rebuild(where, error) from error


def _short_shape(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) <= 6 else f"({', '.join(map(str, shape[:6]))}, ...)"


# The values of a file that are JSON objects: the only key of each, the type of its content, and its decoder.
_KINDS: dict[str, tuple[Any, Callable[[_Decoder, Any, str], Any]]] = {
    "float": (Literal["inf", "-inf", "nan"], lambda _, content, __: float(content)),
    "complex": (list[Any], _Decoder.complex_number),
    "array": (str, _Decoder.array),
    "module": (str, _Decoder.module),
    "tuple": (list[Any], lambda decoder, content, where: tuple(decoder.value(content, where))),
    "scope": (list[int], _Decoder.scope),
    "kind": (Literal[tuple(DataType.__members__)], lambda _, content, __: DataType[content]),
    "domain": (DomainRecord, _Decoder.domain),
    "initializer": (ObjectRecord, _Decoder.initializer),
    "node": (int, _Decoder.node),
    "parameter": (ParameterRecord, _Decoder.parameter),
    "layer": (LayerRecord, _Decoder.layer),
}
