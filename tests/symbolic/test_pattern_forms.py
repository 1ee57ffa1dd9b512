"""What classes of layers and parameter nodes tell of their nodes: patterns that none of these fits are refused."""

from typing import Any

import pytest

import plica.symbolic.layers as layers
import plica.symbolic.parameters as parameters
from plica.errors import GraphError
from plica.graph.kinds import NodeKind
from plica.graph.pattern import Entry, Pattern
from plica.symbolic.layers import (
    CategoricalLayer,
    HadamardLayer,
    InnerLayer,
    KroneckerLayer,
    SumLayer,
    TensorDotLayer,
)
from plica.symbolic.parameters import (
    ClampParameter,
    ExpParameter,
    Parameter,
    ParameterInput,
    ParameterOp,
    SoftmaxParameter,
    SumParameter,
    TensorParameter,
)
from tests.harness.circuits import CIRCUITS
from tests.harness.own_layers import NeighbourSum
from tests.harness.rule_cases import RULE_CASES
from tests.harness.together import grouped

SOFTMAX = Pattern(Entry("softmax", SoftmaxParameter, ("x",)))

REFUSED: Any = (
    # unknown names of settings
    (
        Entry("sum", SumLayer, config={"num_units": 2}),
        "num_units among the settings of SumLayer, which are arity, num_",
    ),
    (Entry("sum", SumLayer, config={"mixing": False}), r"a property is asked for by facts=\{'mixing': ...\}"),
    (Entry("sum", SumLayer, config={"weight": 1}), "weight among the settings of SumLayer"),
    (
        Entry("clamp", ClampParameter, config={"low": 0.0}),
        "low among the settings of ClampParameter, which are vmax, vmin",
    ),
    (Entry("exp", ExpParameter, config={"axis": 0}), "axis among the settings of ExpParameter, which are none"),
    (
        Entry("own", NeighbourSum, config={"root": 1}),
        "root among the settings of NeighbourSum, which are arity, num_in",
    ),
    (Entry("any", (HadamardLayer, KroneckerLayer), config={"width": 1}), "width among the settings of HadamardLayer"),
    # unknown names of what a node carries
    (
        Entry("sum", SumLayer, sub_patterns={"wieght": SOFTMAX}),
        "wieght among the parameters of SumLayer, which are weight",
    ),
    (Entry("sum", SumLayer, sub_patterns={"arity": SOFTMAX}), r"a setting is asked for by config=\{'arity': ...\}"),
    (Entry("product", HadamardLayer, sub_patterns={"weight": SOFTMAX}), "parameters of HadamardLayer, which are none"),
    (Entry("exp", ExpParameter, sub_patterns={"x": SOFTMAX}), "x among the parameters of ExpParameter, which are none"),
    # numbers of inputs
    (Entry("leaf", CategoricalLayer, ("x",)), r"CategoricalLayer has no inputs, but the pattern names 1 \(x\)"),
    (Entry("leaf", TensorParameter, ("x",)), "TensorParameter has no inputs"),
    (Entry("leaf", ParameterInput, ("x",)), "ParameterInput has no inputs"),
    (Entry("exp", ExpParameter, ("x", "y")), r"ExpParameter has 1 input, but the pattern names 2 \(x, y\)"),
    (Entry("add", SumParameter, ("x", "y", "*z")), None),
    (Entry("add", SumParameter, ("x", "y", "z")), "SumParameter has 2 inputs, but the pattern names 3"),
    (Entry("add", SumParameter, ("x",)), "SumParameter has 2 inputs, but the pattern names 1"),
    (Entry("dot", TensorDotLayer, ("x", "y")), "TensorDotLayer has 1 input"),
    (Entry("sum", SumLayer, ()), "SumLayer has at least 1 input, but the pattern names 0"),
    (Entry("op", ParameterOp, ()), "ParameterOp has at least 1 input"),
    # what cannot be known of a class is not refused
    (Entry("inner", InnerLayer, config={"anything": 1}, sub_patterns={"weight": SOFTMAX}), None),
    (Entry("any", (HadamardLayer, SumLayer), sub_patterns={"weight": SOFTMAX}), None),
    (Entry("leaf", CategoricalLayer, ("*inputs",), sub_patterns={"probs": SOFTMAX}), None),
    (Entry("own", NeighbourSum, ("x", "y", "z"), config={"arity": 3}, sub_patterns={"root": SOFTMAX}), None),
    (Entry("any", None, ("x", "y"), config={"width": 1}), None),
)


@pytest.mark.parametrize(("entry", "message"), REFUSED)
def test_a_pattern_that_no_node_of_its_kind_fits_is_refused_where_it_is_declared(
    entry: Entry, message: str | None
) -> None:
    if message is None:
        assert Pattern(entry).root is entry
        return
    with pytest.raises(GraphError, match=rf"pattern {entry.name}: .*{message}"):
        Pattern(entry)


def test_a_chain_through_a_leaf_or_an_operation_of_two_is_refused() -> None:
    with pytest.raises(GraphError, match="pattern n0: TensorParameter has no inputs"):
        Pattern.chain(TensorParameter, ExpParameter)
    with pytest.raises(GraphError, match="pattern n0: SumParameter has 2 inputs, but the pattern names 1"):
        Pattern.chain(SumParameter, ExpParameter)


@grouped("build", [*CIRCUITS.values(), *(case.build for case in RULE_CASES)])
def test_nodes_have_what_their_classes_tell(build: Any) -> None:
    circuit = build()
    for layer in circuit.layers:
        check(layer, len(circuit.layer_inputs(layer)), layer.params)
        for parameter in layer.params.values():
            for node in parameter.nodes:
                check(node, len(parameter.node_inputs(node)), {})


def check(node: Any, num_inputs: int, carried: dict[str, Parameter]) -> None:
    form = type(node).form()
    assert form.config is not None
    assert form.graphs is not None
    assert form.config == set(node.config)
    assert form.graphs >= set(carried)
    assert form.least <= num_inputs <= (num_inputs if form.most is None else form.most)


def test_every_class_tells_its_form() -> None:
    kinds = [
        kind
        for module in (layers, parameters)
        for name in module.__all__
        if isinstance(kind := getattr(module, name), type) and issubclass(kind, NodeKind)
    ]
    assert {SumLayer, ExpParameter} <= set(kinds)
    for kind in kinds:
        form = kind.form()
        assert (form.config is None) == bool(getattr(kind, "__abstractmethods__", ())), kind
