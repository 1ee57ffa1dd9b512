import json
from dataclasses import dataclass
from typing import Any, final

import hypothesis
import numpy as np
import pytest

from plica.errors import FileFormatError, UnsupportedError
from plica.files.structure import CLASSES, class_table, decode_circuit, encode_circuit
from plica.lower.leaves import leaf_keys
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import (
    ConstantTensorInitializer,
    DirichletInitializer,
    NormalInitializer,
    UniformInitializer,
)
from plica.symbolic.layers import LAYER_ROWS, CategoricalLayer, SumLayer
from plica.symbolic.layers.base import Layer, ProductLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    IndexParameter,
    Parameter,
    ParameterOp,
    ReferenceParameter,
    SumParameter,
    TensorParameter,
)
from tests.harness.circuits import CIRCUITS, chain, circuits, coin


def through_json(circuit: Circuit) -> Circuit:
    structure, arrays = encode_circuit(circuit)
    return decode_circuit(json.loads(json.dumps(structure, allow_nan=False)), arrays)


def assert_same(found: Circuit, expected: Circuit) -> None:
    """Layers, edges, settings, parameter nodes and what they share."""
    assert list(map(repr, found.layers)) == list(map(repr, expected.layers))
    for one, other in zip(found.layers, expected.layers, strict=True):
        inputs = [expected.layer_index(child) for child in expected.layer_inputs(other)]
        assert [found.layer_index(child) for child in found.layer_inputs(one)] == inputs
        assert one.fold_settings() == other.fold_settings()
    outputs = [expected.layer_index(layer) for layer in expected.outputs]
    assert [found.layer_index(layer) for layer in found.outputs] == outputs
    assert describe_nodes(found) == describe_nodes(expected)
    names = list(leaf_keys(expected).values())
    assert list(leaf_keys(found).values()) == names
    for leaf, original in zip(leaf_keys(found), leaf_keys(expected), strict=True):
        assert (leaf.shape, leaf.learnable, leaf.dtype) == (original.shape, original.learnable, original.dtype)
        first, second = (one.initializer.draw(np.random.default_rng(0), one.shape) for one in (leaf, original))
        np.testing.assert_array_equal(first, second)


def describe_nodes(circuit: Circuit) -> list[Any]:
    """Every parameter node by class, settings and inputs, where nodes are numbers by first appearance."""
    numbers: dict[Any, int] = {}
    lines = []
    for layer in circuit.layers:
        for name, parameter in layer.params.items():
            for node in parameter.nodes:
                target = (
                    numbers.setdefault(node.deref(), len(numbers)) if isinstance(node, ReferenceParameter) else None
                )
                number = numbers.setdefault(node, len(numbers))
                inputs = [numbers[child] for child in parameter.node_inputs(node)]
                settings = repr(node.config) if isinstance(node, ParameterOp) else None
                lines.append((name, type(node).__name__, number, target, node.shape, inputs, settings))
    return lines


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_survive(name: str) -> None:
    circuit = CIRCUITS[name]()
    assert_same(through_json(circuit), circuit)


@hypothesis.given(circuits())
def test_random_circuits_survive(circuit: Circuit) -> None:
    assert_same(through_json(circuit), circuit)


@pytest.mark.parametrize(
    "initializer",
    [
        NormalInitializer(1.0, 0.25),
        UniformInitializer(-1.0, 2.0),
        DirichletInitializer(0.5, axis=0),
        DirichletInitializer((0.5, 1.0, 2.0)),
        ConstantTensorInitializer(0.1),
        ConstantTensorInitializer(np.arange(6.0).reshape(2, 3)),
        ConstantTensorInitializer(float("-inf")),
    ],
    ids=repr,
)
def test_initializers_survive(initializer: Any) -> None:
    logits = TensorParameter(2, 3, initializer=initializer, learnable=False)
    circuit = chain(CategoricalLayer([0], 2, num_categories=3, logits=logits))
    assert_same(through_json(circuit), circuit)


def test_settings_of_operations_survive() -> None:
    leaf = TensorParameter(2, 4, initializer=NormalInitializer(), name="mine")
    ops = (IndexParameter((2, 4), indices=(3, 0, 3)), ClampParameter((2, 3), vmin=-float("inf"), vmax=2.5))
    constant = ConstantParameter(2, 3, value=np.full((2, 3), np.nan))
    logits = Parameter.from_binary(SumParameter((2, 3), (2, 3)), Parameter.from_sequence(leaf, *ops), constant)
    circuit = chain(CategoricalLayer([0], 2, num_categories=3, logits=logits))
    again = through_json(circuit)
    assert_same(again, circuit)
    value = again.layers[0].params["logits"].leaves[1]
    assert isinstance(value, ConstantParameter)
    assert np.isnan(value.value).all()


def test_complex_constants_survive() -> None:
    weight = ConstantParameter(1, 2, value=0.5 - 2j)
    again = through_json(chain(coin([0], 2), SumLayer(2, 1, weight=weight)))
    (leaf,) = again.layers[1].params["weight"].leaves
    assert leaf.config == {"value": 0.5 - 2j}


def test_a_reference_to_a_tensor_elsewhere_keeps_its_target() -> None:
    elsewhere = TensorParameter(2, 2, initializer=NormalInitializer())
    circuit = chain(coin([0], 2), SumLayer(2, 2, weight=ReferenceParameter(elsewhere)))
    assert_same(through_json(circuit), circuit)


def test_every_layer_of_the_library_can_be_named() -> None:
    assert set(CLASSES.values()) >= set(LAYER_ROWS)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OwnLayer(ProductLayer):
    num_input_units: int
    arity: int = 2
    inner: Layer | None = None

    @property
    def num_output_units(self) -> int:
        return self.num_input_units

    @property
    def config(self) -> dict[str, Any]:
        return {"num_input_units": self.num_input_units, "arity": self.arity, "inner": self.inner}


def own_circuit() -> Circuit:
    inputs, product = (coin([0], 2), coin([1], 2)), OwnLayer(2, inner=coin([7], 3))
    return Circuit([*inputs, product], {product: inputs}, [product])


def test_classes_of_ones_own_must_be_passed() -> None:
    with pytest.raises(UnsupportedError, match=r"OwnLayer is not among the classes .* pass it in `classes`"):
        encode_circuit(own_circuit())
    classes = class_table((*CLASSES.values(), OwnLayer))
    structure, arrays = encode_circuit(own_circuit(), classes)
    again = decode_circuit(structure, arrays, classes).layers[-1]
    assert isinstance(again, OwnLayer)
    assert repr(again.inner) == repr(coin([7], 3))
    with pytest.raises(FileFormatError, match="names 'OwnLayer', which is not a known Layer"):
        decode_circuit(structure, arrays)


def test_two_classes_of_one_name_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="two classes are named SumLayer"):
        class_table((SumLayer, type("SumLayer", (), {})))


def simple() -> tuple[Any, Any]:
    return encode_circuit(chain(coin([0], 2), SumLayer(2, 1)))


DAMAGED = {
    "no layers": (lambda s: s.pop("layers"), "circuit: 'layers' is missing"),
    "another class": (
        lambda s: s["layers"][0].update({"class": "os.system"}),
        "'os.system', which is not a known Layer",
    ),
    "a node as a layer": (
        lambda s: s["layers"][0].update({"class": "SoftmaxParameter"}),
        "'SoftmaxParameter', which is not a known Layer",
    ),
    "an unknown setting": (
        lambda s: s["layers"][1]["config"].update(colour=1),
        r"layer 1: SumLayer: .*'colour'; it takes num_input_units, .*the file is damaged",
    ),
    "a wrong number": (
        lambda s: s["layers"][1]["config"].update(num_input_units=5),
        r"layer 1 cannot be rebuilt \(ShapeError: .*expected weight of shape \(1, 5\), found \(1, 2\)",
    ),
    "a cycle": (lambda s: s["inputs"][1].append(1), r"the circuit cannot be rebuilt \(GraphError"),
    "an edge to nowhere": (
        lambda s: s["inputs"][1].append(7),
        r"circuit\.inputs\[1\]: there is no layer 7; expected 0 to 1",
    ),
    "a forward node": (lambda s: s["nodes"][2].update(inputs=[9]), "parameter node 9 is named before it is defined"),
    "an unknown value": (
        lambda s: s["nodes"][0]["config"].update(name={"code": "1"}),
        "unknown kind of value 'code'",
    ),
    "a list": (
        lambda s: s.update(nodes=[[]]),
        r"circuit\.nodes\[0\]: expected an object with class, config, .*, found \[\]",
    ),
    "a huge shape": (lambda s: s["nodes"][0].update(shape=[-1, 2]), "parameter node 0 cannot be rebuilt .*at least 1"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_structure_is_refused(case: str) -> None:
    change, message = DAMAGED[case]
    structure, arrays = simple()
    change(structure)
    with pytest.raises(FileFormatError, match=message):
        decode_circuit(structure, arrays)


def test_settings_without_a_form_are_refused() -> None:
    leaf = TensorParameter(2, 3, initializer=NormalInitializer())
    object.__setattr__(leaf, "name", {1, 2})  # the constructor refuses it
    with pytest.raises(UnsupportedError, match="a setting of type set cannot be saved"):
        encode_circuit(chain(CategoricalLayer([0], 2, num_categories=3, logits=leaf)))
