"""Parameters of several outputs: the graph, a layer whose row takes a tuple, files, and who needs one output."""

import re

import pytest
import torch

from plica import PipelineContext
from plica.errors import GraphError, ShapeError
from plica.files.structure import CLASSES, class_table, decode_circuit, encode_circuit
from plica.lower.optimize import optimize_circuit
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import ExpParameter, LogParameter, Parameter, SumParameter, TensorParameter
from plica.symbolic.scope import Scope
from tests.harness.own_layers import SPLIT_NORMALS, SplitNormalLayer

X = torch.tensor([[0.3, -0.7], [1.5, float("nan")]], dtype=torch.float64)


def two_outputs(units: int) -> Parameter:
    """A mean and a standard deviation from two leaves, of which the second output reads both."""
    mean, log = (TensorParameter(units, initializer=NormalInitializer()) for _ in range(2))
    total, exp = SumParameter((units,), (units,)), ExpParameter((units,))
    return Parameter([mean, log, total, exp], {total: [mean, log], exp: [total]}, [mean, exp])


def split_normals() -> Circuit:
    layers = [SplitNormalLayer(Scope([variable]), 2, two_outputs(2)) for variable in range(2)]
    product = HadamardLayer(2, 2)
    return Circuit([*layers, product], {product: layers}, [product])


def test_a_graph_has_several_outputs() -> None:
    parameter = two_outputs(3)
    assert [type(node).__name__ for node in parameter.outputs] == ["TensorParameter", "ExpParameter"]
    assert parameter.shapes == ((3,), (3,))
    assert parameter.ref().shapes == parameter.shapes
    assert parameter.subgraph(parameter.outputs[1]).shape == (3,)
    assert repr(parameter).startswith("Parameter((3,), (3,): ")


@pytest.mark.parametrize("fold", [True, False])
def test_a_layer_reads_all_outputs_of_its_parameter(fold: bool) -> None:
    """Folded or not, with missing data and gradients, the values are those of a Gaussian layer with the two parts."""
    circuit = split_normals()
    context = PipelineContext(fold=fold, dtype="float64")
    context.add_layer_compilation_rule(SPLIT_NORMALS)
    compiled = context.compile(circuit)
    assert [group.num_folds for group in compiled.layers] == ([2, 1] if fold else [1, 1, 1])
    parts = []
    for layer in circuit.input_layers:
        both = layer.params["both"]
        mean, stddev = (both.subgraph(output) for output in both.outputs)
        parts.append(GaussianLayer(layer.scope, 2, mean=mean, stddev=stddev))
    product = HadamardLayer(2, 2)
    plain = context.compile(Circuit([*parts, product], {product: parts}, [product]))
    torch.testing.assert_close(compiled(X), plain(X), rtol=1e-12, atol=1e-12)
    parameters = list(compiled.parameters())
    found = torch.autograd.grad(compiled(X).sum(), parameters)
    expected = torch.autograd.grad(plain(X).sum(), parameters)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert list(compiled.state_dict()) == ["0.both.0", "0.both.1", "1.both.0", "1.both.1"]


def test_rules_simplify_every_output() -> None:
    mean, log, exp = TensorParameter(2, initializer=NormalInitializer()), LogParameter((2,)), ExpParameter((2,))
    both = Parameter([mean, exp, log], {exp: [mean], log: [exp]}, [mean, log])
    layer = SplitNormalLayer(Scope([0]), 2, both)
    (rewritten,) = optimize_circuit(Circuit([layer], {}, [layer])).circuit.layers
    assert rewritten.params["both"].outputs == (mean, mean)


def test_files_keep_every_output() -> None:
    classes = class_table((*CLASSES.values(), SplitNormalLayer))
    found = decode_circuit(*encode_circuit(split_normals(), classes), classes)
    assert found.layers[0].params["both"].shapes == ((2,), (2,))
    assert [type(node).__name__ for node in found.layers[0].params["both"].outputs] == [
        "TensorParameter",
        "ExpParameter",
    ]


def test_what_takes_one_output_refuses_several() -> None:
    several = two_outputs(2)
    with pytest.raises(ShapeError, match=re.escape("expected mean of shape (2,), found (2,) and (2,)")):
        GaussianLayer([0], 2, mean=several)
    with pytest.raises(ShapeError, match="SumLayer: expected weight"):
        SumLayer(2, 1, weight=several)
    for needs_one in (lambda: several.shape, lambda: Parameter.from_unary(ExpParameter((2,)), several)):
        with pytest.raises(GraphError, match=r"has 2 outputs where one is needed; take one of them by"):
            needs_one()
