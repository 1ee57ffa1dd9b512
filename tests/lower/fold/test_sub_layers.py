"""Layers that hold layers: they fold with what they hold, whose tensors, files, costs and checks are the layer's."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, GraphError, UnsupportedError
from plica.files.structure import CLASSES, class_table, decode_circuit, encode_circuit
from plica.lower.fold.explain import explain_folds
from plica.lower.fold.groups import fold_circuit, fold_layer_group
from plica.lower.leaves import leaf_keys
from plica.lower.optimize.costs import layer_cost
from plica.queries import sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    GaussianLayer,
    HadamardLayer,
    InnerLayer,
    InputLayer,
    Layer,
    SumLayer,
)
from plica.symbolic.parameters import ReferenceParameter, normal, softmax_normal
from tests.harness.circuits import coin, constant, product_then_sum, tensor
from tests.harness.folding import check_folding
from tests.harness.layer_cases import CASES, references
from tests.harness.layer_cases.holding import (
    BLEND_ROW,
    OBSERVED_ROW,
    WEIGHED_ROW,
    BlendLayer,
    ObservedLayer,
    WeighedLayer,
    blend,
    observed,
    weighed,
)
from tests.harness.oracle import all_states
from tests.harness.own_layers import NeighbourSum
from tests.harness.spaces import WIDE

ROWS = (WEIGHED_ROW, BLEND_ROW, OBSERVED_ROW)


def observed_reference(space: Any, layer: Any, params: Any, x: Any) -> Any:
    """The held layer's reference at the observation."""
    inner = {key.removeprefix("layer."): value for key, value in params.items() if key.startswith("layer.")}
    row = np.zeros((1, max(layer.layer.scope) + 1), WIDE)
    row[0, list(layer.layer.scope)] = params["observation"]
    return np.broadcast_to(REFERENCES[type(layer.layer)](space, layer.layer, inner, row), (len(x), 2))


REFERENCES: dict[Any, Any] = {**references(CASES), ObservedLayer: observed_reference}


def blends(*counts: int) -> Circuit:
    """A product of blends of as many sums as `counts`, each over an input of its own."""
    inputs = [coin([place], 2) for place in range(len(counts))]
    layers = [blend(2, count) for count in counts]
    product, total = HadamardLayer(2, len(counts)), SumLayer(2, 1)
    edges: dict[Any, Any] = {layer: [one] for layer, one in zip(layers, inputs, strict=True)}
    return Circuit([*inputs, *layers, product, total], {**edges, product: layers, total: [product]}, [total])


@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
@pytest.mark.parametrize("optimize", [True, False])
def test_layers_fold_with_what_they_hold(semiring: str, optimize: bool) -> None:
    circuit = blends(2, 2, 3, 2)
    compiled = check_folding(circuit, all_states(circuit), semiring, ROWS, REFERENCES, optimize)
    found = [group.num_folds for group in compiled.layers if group.layer_class is BlendLayer]
    assert found == [3, 1], "layers of other numbers of sub-layers are another group"


def test_what_is_held_must_be_alike() -> None:
    """Inside layers of one type and config, sub-layers of other types or settings keep them apart."""
    parts = [coin([0], 2), coin([1], 2), CategoricalLayer([2], 2, num_categories=2, probs_factory=softmax_normal)]
    inputs = [WeighedLayer(part, softmax_normal((2,))) for part in parts]
    circuit = product_then_sum(HadamardLayer(2, 3), inputs)
    folded = fold_circuit(circuit)
    assert [group.scope_idx for group in folded.groups[:2]] == [((0,), (1,)), ((2,),)]
    check_folding(circuit, all_states(circuit), "lse-sum", ROWS, REFERENCES)
    other = WeighedLayer(GaussianLayer([0], 2), softmax_normal((2,)))
    with pytest.raises(GraphError, match=r"Categorical.* and Gaussian.* are in one group, but their types differ"):
        fold_layer_group([inputs[0], other])


def test_layers_and_what_they_hold_are_found_in_both_directions() -> None:
    circuit = blends(2, 2)
    folded = fold_circuit(circuit)
    found: list[Layer] = [one for layer in circuit.layers for one in (layer, *layer.sub_layers.values())]
    assert sorted(folded.info.fold_idx.values()) == sorted({folded.info.find(layer) for layer in found})
    for layer in found:
        group, fold = folded.info.find(layer)
        assert folded.modules[group].members[fold] is layer
        assert folded.info.module(group, fold) is layer
        assert isinstance(folded.modules[group].representative, type(layer))


def test_layers_in_layers_in_layers() -> None:
    circuit = product_then_sum(
        HadamardLayer(2, 2),
        [WeighedLayer(WeighedLayer(coin([place], 2), normal((2,))), softmax_normal((2,))) for place in range(2)],
    )
    assert list(leaf_keys(circuit).values())[:3] == ["0.scale", "0.part.scale", "0.part.part.logits"]
    folded = fold_circuit(circuit)
    assert [module.num_folds for module in folded.modules] == [2, 1, 1, 2, 2]


def test_an_observation_is_a_layer_without_variables() -> None:
    """The wrapper and what it wraps fold; the circuit is that of the wrapped layers at the observed values."""
    parts = [coin([place], 2, 3) for place in range(3)]
    inputs: list[InputLayer] = [observed(parts[0], 1), observed(parts[1], 2), parts[2]]
    circuit = product_then_sum(HadamardLayer(2, 3), inputs)
    assert list(circuit.scope) == [2]
    x = np.array([[0, 0, state] for state in range(3)], dtype=float)
    x[2] = np.nan
    compiled = check_folding(circuit, x, "lse-sum", ROWS, REFERENCES)
    assert [group.num_folds for group in compiled.layers if group.layer_class is ObservedLayer] == [2]
    whole = product_then_sum(HadamardLayer(2, 3), parts, weight=circuit.sum_layers[0].weight)
    other = TorchCompiler(dtype="float64").compile(whole)
    other.load_state_dict({key.replace("layer.", ""): value for key, value in compiled.state_dict().items()})
    full = np.array([[1, 2, 0], [1, 2, 1], [1, 2, np.nan]])
    torch.testing.assert_close(compiled(torch.tensor(x)), other(torch.tensor(full)))
    assert sample(compiled, 4, seed=0).shape == (4, 3)


def test_a_circuit_of_observations_alone_has_no_variables() -> None:
    inputs = [observed(coin([place], 2), 1) for place in range(2)]
    circuit = product_then_sum(HadamardLayer(2, 2), inputs)
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(OBSERVED_ROW)
    compiled = compiler.compile(circuit)
    assert compiled().shape == (1, 1)
    assert compiled().exp() < 1


def test_tensors_are_named_after_the_way_to_them() -> None:
    inputs = [weighed(2)([0], 2), weighed(2)([1], 2)]
    circuit = product_then_sum(HadamardLayer(2, 2), inputs)
    keys = ["0.scale", "0.part.logits", "1.scale", "1.part.logits", "3.weight"]
    assert list(leaf_keys(circuit).values()) == keys
    compiler = TorchCompiler()
    compiler.add_layer_rule(WEIGHED_ROW)
    compiled = compiler.compile(circuit)
    assert list(compiled.state_dict()) == keys
    assert "weighed" not in compiled.explain()
    assert "2 x WeighedLayer(part=CategoricalLayer(num_output_units=2, num_categories=2))" in compiled.explain()


def test_what_kept_held_layers_apart_is_told() -> None:
    inputs = [WeighedLayer(coin([0], 2), normal((2,))), WeighedLayer(coin([1], 3), normal((3,)))]
    ends = [SumLayer(units, 1) for units in (2, 3)]
    product = HadamardLayer(1, 2)
    edges: dict[Any, Any] = {end: [one] for end, one in zip(ends, inputs, strict=True)}
    text = explain_folds(fold_circuit(Circuit([*inputs, *ends, product], {**edges, product: ends}, [product])))
    assert "WeighedLayer: 2 groups; they differ in part.num_output_units (2, 3), the shape of scale" in text


def test_a_tensor_may_be_shared_between_what_is_held_and_others() -> None:
    weight = tensor(np.array([[0.3, 0.7], [0.6, 0.4]]))
    first = BlendLayer(tuple(SumLayer(2, 2, weight=one) for one in (weight, ReferenceParameter(weight))))
    last = SumLayer(2, 2, weight=ReferenceParameter(weight))
    variable = coin([0], 2)
    circuit = Circuit([variable, first, last], {first: [variable], last: [first]}, [last])
    compiled = check_folding(circuit, all_states(circuit), "sum-product", ROWS, REFERENCES)
    assert list(compiled.state_dict()) == ["0.logits", "1.parts.0.weight"]


def test_copies_share_the_tensors_of_what_is_held() -> None:
    layer = blend(2, 2)
    copied = layer.copyref()
    assert copied.parts[0] is not layer.parts[0]
    (mine,) = layer.parts[1].weight.leaves
    (theirs,) = copied.parts[1].weight.leaves
    assert isinstance(theirs, ReferenceParameter)
    assert theirs.deref() is mine


def test_files_hold_what_layers_hold() -> None:
    circuit = blends(2, 1)
    classes = class_table([*CLASSES.values(), BlendLayer])
    structure, arrays = encode_circuit(circuit, classes)
    again = decode_circuit(json.loads(json.dumps(structure)), arrays, classes)
    assert [len(layer.sub_layers) for layer in again.layers] == [len(layer.sub_layers) for layer in circuit.layers]
    assert list(leaf_keys(again).values()) == list(leaf_keys(circuit).values())


def test_costs_are_those_of_all_that_is_held() -> None:
    layer = blend(2, 3)
    assert layer_cost(layer) == layer_cost(layer.parts[0]) + layer_cost(layer.parts[1]) + layer_cost(layer.parts[2])


def test_negative_weights_of_what_is_held_are_refused() -> None:
    part = SumLayer(2, 2, weight=constant([[0.5, -0.5], [0.5, 0.5]]))
    variable, layer = coin([0], 2), BlendLayer((part,))
    compiler = TorchCompiler()
    compiler.add_layer_rule(BLEND_ROW)
    with pytest.raises(UnsupportedError, match=r"BlendLayer\(1, .*its parts\.0\.weight has the entry -0\.5"):
        compiler.compile(Circuit([variable, layer], {layer: [variable]}, [layer]))


def test_learned_weights_of_what_is_held_are_looked_at() -> None:
    part = SumLayer(2, 2, weight=tensor(np.full((2, 2), 0.5)))
    variable, layer = coin([0], 2), BlendLayer((part,))
    compiler = TorchCompiler()
    compiler.add_layer_rule(BLEND_ROW)
    compiled = compiler.compile(Circuit([variable, layer], {layer: [variable]}, [layer]))
    x = torch.tensor([[0]])
    compiled(x)
    compiled.load_state_dict({**compiled.state_dict(), "1.parts.0.weight": torch.tensor([[0.5, -0.25], [0.5, 0.5]])})
    with pytest.raises(UnsupportedError, match=r"its parts\.0\.weight has the entry -0\.25"):
        compiled(x)


@dataclass(frozen=True, eq=False)
class Holding(InnerLayer):
    """A layer that says to hold what it is given."""

    named: dict[str, Any]
    part: Any = None
    parts: Sequence[Any] = ()
    num_input_units = num_output_units = 2
    arity = 1
    config: Any = None
    params: Any = None

    @property
    def sub_layers(self) -> dict[str, Any]:
        return self.named

    def __repr__(self) -> str:
        return "Holding()"


INNER = SumLayer(2, 2)
# what it says to hold, its attributes, the error
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = {
    "no layer": ({"part": 3}, {"part": 3}, DTypeError, "expected layers, found 3"),
    "another attribute": ({"part": INNER}, {}, GraphError, "holds the sub-layer 'part', which is not its attribute"),
    "no tuple": ({"parts.0": INNER}, {"parts": [INNER]}, GraphError, "the sub-layer 'parts.0', which is not"),
    "no such place": ({"parts.1": INNER}, {"parts": (INNER,)}, GraphError, "the sub-layer 'parts.1', which is not"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_sub_layer_is_refused(name: str) -> None:
    named, attributes, error, message = WRONG[name]
    layer, variable = Holding(named, **attributes), coin([0], 2)
    with pytest.raises(error, match=message):
        Circuit([variable, layer], {layer: [variable]}, [layer])


def test_an_unknown_layer_is_refused_though_it_is_held() -> None:
    held: Any = NeighbourSum(2, 1, normal((2, 2)))
    variable, layer = coin([0], 2), BlendLayer((held,))
    compiler = TorchCompiler()
    compiler.add_layer_rule(BLEND_ROW)
    with pytest.raises(UnsupportedError, match="NeighbourSum has no row that says what it computes"):
        compiler.compile(Circuit([variable, layer], {layer: [variable]}, [layer]))
