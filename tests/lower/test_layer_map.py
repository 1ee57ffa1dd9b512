"""The map of layers: from a layer as it was described to its folds, through every kind of rule, and back."""

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, settings

from plica import PipelineContext
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import GraphError
from plica.graph.optimize import Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.lower.fold.groups import fold_circuit, single_groups
from plica.lower.layer_map import LayerMap
from plica.lower.optimize import DEFAULT_RULES, Provenance, Rules, optimize_circuit
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    CPTLayer,
    HadamardLayer,
    Layer,
    SumLayer,
    TensorDotLayer,
    held_layers,
)
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    KroneckerParameter,
    LogParameter,
    LogSoftmaxParameter,
    Parameter,
    SoftmaxParameter,
    TensorParameter,
    softmax_normal,
)
from tests.harness.circuits import circuits
from tests.harness.layer_cases.holding import BLEND_ROW, WEIGHED_ROW, BlendLayer, WeighedLayer
from tests.harness.own_leaves import LowRank

IDENTITY = ConstantParameter(2, 2, value=[[1.0, 0.0], [0.0, 1.0]])


def inputs(number: int, units: int = 2) -> list[CategoricalLayer]:
    return [CategoricalLayer([variable], units, num_categories=3) for variable in range(number)]


def found(circuit: Circuit, layer: Layer, **options: Any) -> list[tuple[type, int, int, tuple[str, ...]]]:
    compiled = PipelineContext(**options).compile(circuit)
    return [(type(one.layer), one.group, one.fold, one.roles) for one in compiled.get_compiled_layers(layer)]


def test_a_layer_that_stays_is_a_fold_of_its_own_kind() -> None:
    layers = inputs(3)
    product = HadamardLayer(2, 3)
    circuit = Circuit([*layers, product], {product: layers}, [product])
    for fold, layer in enumerate(layers):
        assert found(circuit, layer) == [(CategoricalLayer, 0, fold, ())]
        assert found(circuit, layer, fold=False) == [(CategoricalLayer, fold, 0, ())]
    assert found(circuit, product) == [(HadamardLayer, 1, 0, ())]


def test_fused_layers_have_roles_in_one() -> None:
    layers = inputs(2)
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    compiled = PipelineContext().compile(circuit)
    assert found(circuit, product) == [(CPTLayer, 1, 0, ("cp-t.product",))]
    assert found(circuit, total) == [(CPTLayer, 1, 0, ("cp-t.sum",))]
    assert compiled.get_symbolic_layers(1, 0) == {product: ("cp-t.product",), total: ("cp-t.sum",)}
    assert compiled.get_symbolic_layers(0, 1) == {layers[1]: ()}


def test_roles_of_one_rule_after_another() -> None:
    layers = inputs(3)
    inner, outer, total = HadamardLayer(2, 2), HadamardLayer(2, 2), SumLayer(2, 1)
    edges: dict[Layer, list[Any]] = {inner: layers[:2], outer: [inner, layers[2]], total: [outer]}
    circuit = Circuit([*layers, inner, outer, total], edges, [total])
    products = [rule for rule in DEFAULT_RULES.fuse if rule.name == "hadamard-hadamard"]
    sums = [rule for rule in DEFAULT_RULES.fuse if rule.name == "cp-t"]
    compiled = TorchCompiler(rules=Rules(shatter=tuple(products), fuse=tuple(sums))).compile(circuit)
    (place,) = compiled.get_compiled_layers(inner)
    assert place.roles == ("hadamard-hadamard.inner", "cp-t.product")
    assert list(compiled.get_symbolic_layers(place.group, place.fold)) == [inner, outer, total]


def test_a_layer_that_vanishes_is_where_its_value_is() -> None:
    first, second = inputs(2)
    identity, product = SumLayer(2, 2, weight=IDENTITY), HadamardLayer(2, 2)
    edges: dict[Layer, list[Layer]] = {identity: [first], product: [identity, second]}
    circuit = Circuit([first, second, identity, product], edges, [product])
    assert found(circuit, identity) == [(CategoricalLayer, 0, 0, ("identity-sum.sum",))]
    compiled = PipelineContext().compile(circuit)
    assert compiled.get_symbolic_layers(0, 0) == {first: (), identity: ("identity-sum.sum",)}
    assert "became nothing: CategoricalLayer(0, scope={0}, 2) is read instead" in compiled.explain(identity)


def test_a_layer_that_is_shattered_is_in_several_places() -> None:
    (layer,) = inputs(1, 64)
    factors = [softmax_normal((8, 8)) for _ in range(2)]
    weight = Parameter.from_binary(KroneckerParameter((8, 8), (8, 8)), *factors)
    total = SumLayer(64, 64, weight=weight)
    circuit = Circuit([layer, total], {total: [layer]}, [total])
    places = found(circuit, total)
    assert [(kind, roles) for kind, _, __, roles in places] == [(TensorDotLayer, ("kronecker-sum.layer",))] * 2
    assert [group for _, group, __, ___ in places] == [1, 2]


def test_rules_on_parameters_leave_a_layer_itself() -> None:
    leaf = TensorParameter(2, 3, initializer=NormalInitializer())
    slow = Parameter.from_sequence(leaf, LogSoftmaxParameter((2, 3)), ExpParameter((2, 3)), SoftmaxParameter((2, 3)))
    clamped = Parameter.from_sequence(slow, ExpParameter((2, 3)))
    layer = CategoricalLayer([0], 2, num_categories=3, logits=clamped)
    assert found(Circuit([layer], {}, [layer]), layer) == [(CategoricalLayer, 0, 0, ())]


def test_layers_whose_leaves_have_a_rule_are_found_as_they_were_described() -> None:
    (layer,) = inputs(1)
    total = SumLayer(2, 2, weight=Parameter.from_unary(SoftmaxParameter((2, 2)), LowRank(2, 2, rank=1)))
    circuit = Circuit([layer, total], {total: [layer]}, [total])
    compiled = PipelineContext().compile(circuit)
    (place,) = compiled.get_compiled_layers(total)
    assert place.layer is not total
    assert compiled.get_symbolic_layers(place.group, place.fold) == {total: ()}


def test_held_layers_are_where_their_holders_are() -> None:
    inner = [WeighedLayer(one, softmax_normal((2,))) for one in inputs(2)]
    outer = [WeighedLayer(one, softmax_normal((2,))) for one in inner]
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = Circuit([*outer, product, total], {product: outer, total: [product]}, [total])
    context = PipelineContext()
    context.add_layer_compilation_rule(WEIGHED_ROW)
    compiled = context.compile(circuit)
    for fold, (one, middle) in enumerate(zip(outer, inner, strict=True)):
        for layer, role in ((middle, "WeighedLayer.part"), (middle.part, "WeighedLayer.part.part")):
            (place,) = compiled.get_compiled_layers(layer)
            assert (place.group, place.fold, place.roles) == (0, fold, (role,))
            assert context.get_compiled_layers(layer) == {compiled: (place,)}
        assert compiled.get_symbolic_layers(0, fold) == {
            one: (),
            middle: ("WeighedLayer.part",),
            middle.part: ("WeighedLayer.part.part",),
        }
    lines = compiled.explain(inner[1].part).splitlines()
    assert lines[0] == "described: CategoricalLayer(scope={1}, 2)"
    assert lines[1].startswith("  'part.part' of WeighedLayer(1, part=")
    assert lines[1].endswith("whose row computes it")
    assert any(line.startswith("folded: fold 1 of 2 in group 0, 2 x WeighedLayer(") for line in lines)
    assert "there together with WeighedLayer(part=" in compiled.explain(outer[1])
    with pytest.raises(GraphError, match="is no layer of Circuit"):
        compiled.explain(inputs(1)[0])


def test_a_held_layer_whose_holder_was_fused_is_in_the_fused_layer() -> None:
    identity = BlendLayer((SumLayer(2, 2, weight=IDENTITY),))
    (one,) = inputs(1)
    rule = Rule(
        "one-part",
        "sum of one -> x",
        Pattern(Entry("blend", BlendLayer, ("x",))),
        lambda match: Replacement((), match["x"]),
        laws=frozenset(),
    )
    compiler = TorchCompiler(rules=Rules(shatter=(rule,)))
    compiler.add_layer_rule(BLEND_ROW)
    compiled = compiler.compile(Circuit([one, identity], {identity: [one]}, [identity]))
    (place,) = compiled.get_compiled_layers(identity.parts[0])
    assert (type(place.layer), place.roles) == (CategoricalLayer, ("BlendLayer.parts.0", "one-part.blend"))
    assert "became nothing: CategoricalLayer(0, scope={0}, 2) is read instead" in compiled.explain(identity.parts[0])


def test_a_layer_that_no_output_needs_is_nowhere() -> None:
    first, second = inputs(2)
    compiled = PipelineContext().compile(Circuit([first, second], {}, [second]))
    assert compiled.get_compiled_layers(first) == ()
    assert "no output depends on it" in compiled.explain(first)


@settings(max_examples=20)
@given(circuits())
def test_the_two_directions_agree(circuit: Circuit) -> None:
    """Every live layer is somewhere, every fold is made of something, and each finds the other with the same roles."""
    optimized = optimize_circuit(circuit)
    for folded, provenance in (
        (fold_circuit(optimized.circuit, circuit), optimized.provenance),
        (single_groups(optimized.circuit, circuit), optimized.provenance),
        (fold_circuit(circuit), Provenance()),
    ):
        layers = LayerMap(circuit, folded, provenance)
        forth = {
            (place.group, place.fold, layer, place.roles)
            for node in circuit.layers
            for _, layer in held_layers(node)
            for place in layers.get_compiled_layers(layer)
        }
        places = [(number, fold) for number, group in enumerate(folded.groups) for fold in range(group.num_folds)]
        back = {
            (*place, layer, roles) for place in places for layer, roles in layers.get_symbolic_layers(*place).items()
        }
        assert forth == back
        assert {layer for _, __, layer, ___ in forth} == {
            layer for node in circuit.live.layers for _, layer in held_layers(node)
        }
        assert {(number, fold) for number, fold, _, __ in forth} == set(places)


def test_a_context_finds_a_layer_in_every_circuit() -> None:
    first, second = inputs(2)
    product = HadamardLayer(2, 2)
    context = PipelineContext()
    whole = context.compile(Circuit([first, second, product], {product: [first, second]}, [product]))
    part = context.compile(Circuit([second], {}, [second]))
    context.compile_layer(second)  # which is no circuit of the context
    places = context.get_compiled_layers(second)
    assert {one: [(place.group, place.fold) for place in found] for one, found in places.items()} == {
        whole: [(0, 1)],
        part: [(0, 0)],
    }
    with pytest.raises(KeyError):
        PipelineContext().get_compiled_layers(second)


def test_copies_have_the_map() -> None:
    layers = inputs(2)
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    compiled = PipelineContext().compile(circuit)
    copied = copy.deepcopy(compiled)
    assert copied.get_compiled_layers(product) == compiled.get_compiled_layers(product)
    loaded = pickle.loads(pickle.dumps(compiled))
    (place,) = loaded.get_compiled_layers(loaded.symbolic.layers[2])
    assert (place.group, place.fold, place.roles) == (1, 0, ("cp-t.product",))


def test_strangers_are_refused() -> None:
    layers = inputs(2)
    compiled = PipelineContext().compile(Circuit([layers[0]], {}, [layers[0]]))
    for ask in (compiled.get_compiled_layers, compiled.explain):
        with pytest.raises(GraphError, match=r"scope=\{1\}.* is no layer of Circuit\(1 layers"):
            ask(layers[1])
    with pytest.raises(GraphError, match="no fold 0 of group 1; there are 1 groups"):
        compiled.get_symbolic_layers(1, 0)
    with pytest.raises(GraphError, match="no fold 1 of group 0; there are 1 groups, and group 0 has 1 folds"):
        compiled.get_symbolic_layers(0, 1)


def test_explain_follows_a_layer_through_the_stages() -> None:
    layers = inputs(2)
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    text = PipelineContext().compile(circuit).explain(product)
    assert text.splitlines()[:7] == [
        "described: HadamardLayer(2, arity=2, 2 -> 2)",
        "  reads CategoricalLayer(0, scope={0}, 2), CategoricalLayer(1, scope={1}, 2)",
        "  read by SumLayer(3, arity=1, 2 -> 1)",
        "rewritten (fuse): HadamardLayer(2, arity=2, 2 -> 2) as product with SumLayer(3, arity=1, 2 -> 1), by cp-t: "
        "W (a * b * ...) -> CPT(W; a, b, ...)",
        "  became CPTLayer(arity=2, 2 -> 1)",
        "folded: fold 0 of 1 in group 1, 1 x CPTLayer(arity=2, 2 -> 1)",
        "  there together with SumLayer(3, arity=1, 2 -> 1)",
    ]
    assert "equations of group 1: " in text
    assert "log_einsum_exp" in text


def test_explain_tells_rules_on_parameters_and_leaves() -> None:
    slow = Parameter.from_sequence(LowRank(2, 3, rank=1), SoftmaxParameter((2, 3)))
    logits = Parameter.from_unary(LogParameter((2, 3)), slow)
    layer = CategoricalLayer([0], 2, num_categories=3, logits=logits)
    lines = PipelineContext().compile(Circuit([layer], {}, [layer])).explain(layer).splitlines()
    assert lines[:5] == [
        "described: CategoricalLayer(0, scope={0}, 2)",
        "  logits: Parameter((2, 3): LowRank -> SoftmaxParameter -> LogParameter)",
        "  logits by its rules: Parameter((2, 3): ... -> TensorParameter -> MatMulParameter -> SoftmaxParameter -> "
        "LogParameter)",
        "rewritten (parameters): CategoricalLayer(0, scope={0}, 2), by log-softmax: log(softmax(x)) -> log_softmax(x)",
        "  became CategoricalLayer(scope={0}, 2)",
    ]
    assert any("log_softmax" in line for line in lines[5:])
    plain = PipelineContext(optimize=False).compile(Circuit([layer], {}, [layer])).explain(layer)
    assert "rewritten: by no rule" in plain
