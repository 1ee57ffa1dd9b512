"""Folded circuits: the groups of large ones, what is copied to read them, and layers of unequal sizes in one group."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import SamplingQuery
from plica.errors import GraphError, InputError
from plica.frontend.programs import interpret
from plica.graph.fold import build_folded_graph
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.fold.groups import FoldedLayer, fold_again, fold_circuit, fold_layer_group, single_groups
from plica.lower.leaves import Leaf, leaf_keys
from plica.lower.optimize import optimize_circuit
from plica.lower.queries.score import lower_score
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    BernoulliLayer,
    CategoricalLayer,
    HadamardLayer,
    KroneckerLayer,
    Layer,
    ProductLayer,
    SumLayer,
    TuckerLayer,
)
from plica.symbolic.parameters import Parameter, SigmoidParameter, normal, softmax_normal
from tests.harness.circuits import CIRCUITS, chain, circuits, coin, data, pixels, product_then_sum, tensor
from tests.harness.oracle import Oracle, all_states, gradients, numbers
from tests.harness.together import grouped


def test_layers_fold_that_read_the_same_parameters_whatever_they_were_described_by() -> None:
    """Probabilities that are a sigmoid are read as logits."""
    first = BernoulliLayer([0], 2)
    second = BernoulliLayer([1], 2, probs=Parameter.from_unary(SigmoidParameter((2,)), normal((2,))))
    circuit = product_then_sum(HadamardLayer(2, 2), [first, second])
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    assert fold_circuit(circuit).groups[0].num_folds == 2
    x = all_states(circuit)
    expected = Oracle(circuit, numbers(compiled)).log(x).astype(float)
    np.testing.assert_allclose(compiled(torch.from_numpy(x)).detach(), expected, rtol=1e-9)


@cache
def image(region_graph: str, sum_product: str) -> Circuit:
    """28x28 pixels, two units."""
    return pixels(28, graph=region_graph, layer=sum_product, values=256)


# region graph, sum-product: layers, groups, groups when optimized, concatenations of activations
IMAGES = {
    ("quad-graph", "tucker"): (4163, 26, 16, 13),
    ("quad-graph", "cp-t"): (4163, 26, 16, 13),
    ("quad-tree-2", "cp"): (3134, 22, 12, 3),
    ("quad-tree-2", "tucker"): (2350, 21, 11, 3),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full if place % 2 else []) for place, name in enumerate(IMAGES)],
    ids=" ".join,
)
def test_how_many_groups_images_have(name: tuple[str, str]) -> None:
    circuit = image(*name)
    layers, folded, optimized, _ = IMAGES[name]
    assert len(circuit.layers) == len(single_groups(circuit).groups) == layers
    assert len(fold_circuit(circuit).groups) == folded
    assert len(fold_circuit(optimize_circuit(circuit).circuit, circuit).groups) == optimized


def operations(program: Program, name: str) -> list:
    return [equation for equation in program.equations if equation.op.name == name]


def is_activation(operand) -> bool:
    """`(F, B, ...)`: a value of three axes or more with the batch size among them."""
    return len(operand.type.shape) >= 3 and any(not isinstance(size, int) for size in operand.type.shape)


@pytest.mark.parametrize(
    ("name", "optimize"),
    [
        pytest.param(name, optimize, marks=pytest.mark.full if optimize == place % 2 else [])
        for place, name in enumerate(IMAGES)
        for optimize in (True, False)
    ],
)
def test_images_are_read_without_gathers(name: tuple[str, str], optimize: bool) -> None:
    program = TorchCompiler(optimize=optimize).compile(image(*name)).program
    assert not [equation for equation in operations(program, "take") if is_activation(equation.inputs[0])]
    concats = [equation for equation in operations(program, "concat") if is_activation(equation.inputs[0])]
    assert len(concats) <= IMAGES[name][3]


@grouped("name", CIRCUITS)
@grouped("optimize", [True, False])
def test_no_gather_is_the_identity(name: str, optimize: bool) -> None:
    """Whole arrays are read as they are, and single concatenations do not occur."""
    compiled = TorchCompiler(optimize=optimize).compile(CIRCUITS[name]())
    program = compiled.program
    compiled(torch.from_numpy(data(compiled.symbolic, 2)))
    for equation in operations(program, "take"):
        array, index = equation.inputs
        values = getattr(compiled.leaves, index.name).tolist()
        assert values != list(range(array.type.shape[equation.params["axis"]]))
    assert all(len(equation.inputs) > 1 for equation in operations(program, "concat"))


@given(circuits())
def test_input_layers_of_equal_settings_are_one_group(circuit: Circuit) -> None:
    sizes = Counter(layer.fold_settings() for layer in circuit.input_layers)
    inputs = [group for group in fold_circuit(circuit).groups if group.scope_idx]
    assert sorted(group.num_folds for group in inputs) == sorted(sizes.values())


def test_scopes_of_a_group_follow_its_folds() -> None:
    folded = fold_circuit(CIRCUITS["several sizes"]())
    assert [group.scope_idx for group in folded.groups] == [((0,), (1,)), ((3,),), (), ()]


# Unequal numbers of categories: one group, padded to the longest.

SIZES = [2, 7, 3]


def unequal(parameter: str = "logits") -> Circuit:
    settings: Any = {"logits": {}, "probs": {"probs_factory": softmax_normal}}[parameter]
    inputs = [CategoricalLayer([v], 2, num_categories=size, **settings) for v, size in enumerate(SIZES)]
    return product_then_sum(HadamardLayer(2, 3), inputs)


PARAMETER = pytest.mark.parametrize("parameter", ["logits", "probs"])


@PARAMETER
@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
def test_unequal_categoricals_are_one_group(parameter: str, semiring: str) -> None:
    circuit = unequal(parameter)
    folded, single = (TorchCompiler(semiring, fold=fold, dtype="float64").compile(circuit) for fold in (True, False))
    assert [group.num_folds for group in folded.layers if group.scope_idx] == [3]
    single.load_state_dict(folded.state_dict())
    x = all_states(circuit)
    oracle = Oracle(circuit, numbers(folded))
    expected = oracle.log(x) if semiring == "lse-sum" else oracle.linear(x)
    for compiled in (folded, single):
        result = compiled(torch.from_numpy(x))
        np.testing.assert_allclose(result.detach(), expected.astype(float), rtol=1e-12)
        result.pow(2).sum().backward()
    for key, gradient in gradients(single).items():
        np.testing.assert_allclose(gradients(folded)[key], gradient, rtol=1e-9, atol=1e-12, err_msg=key)


@PARAMETER
def test_padded_categories_have_probability_zero_and_no_state(parameter: str) -> None:
    """The tensors are as long as they were given, so that nothing else can be trained or saved."""
    circuit = unequal(parameter)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.from_numpy(all_states(circuit))
    torch.testing.assert_close(compiled(x).exp().sum(), torch.tensor(1.0, dtype=torch.float64))
    shapes = [tuple(value.shape) for key, value in compiled.state_dict().items() if key.endswith(parameter)]
    assert shapes == [(2, size) for size in SIZES]
    assert sum(parameter.numel() for parameter in compiled.parameters()) == 2 * sum(SIZES) + 2
    missing = torch.full((1, 3), torch.nan, dtype=torch.float64)
    np.testing.assert_allclose(compiled(missing).detach(), 0, atol=1e-12)


@PARAMETER
def test_padded_categories_are_never_drawn(parameter: str) -> None:
    torch.manual_seed(0)
    compiled = TorchCompiler().compile(unequal(parameter))
    samples, _ = SamplingQuery(compiled)(5000)
    for column, size in enumerate(SIZES):
        assert sorted(set(samples[:, column].int().tolist())) == list(range(size))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
@pytest.mark.parametrize(("row", "column"), [([0, 6, 2], None), ([2, 0, 0], 0), ([0, 7, 0], 1), ([1, 6, 3], 2)])
def test_a_category_of_another_variable_is_refused(row: list[int], column: int | None, dtype: torch.dtype) -> None:
    compiled = TorchCompiler().compile(unequal())
    x = torch.tensor([[0, 0, 0], row]).to(dtype)
    if column is None:
        assert compiled(x).isfinite().all()
        return
    with pytest.raises(InputError, match=f"row 1, variable {column}: the value {row[column]} is none of the"):
        compiled(x)
    compiled.checked = lambda x, semiring=None: x  # noqa: ARG005 (as on other devices)
    assert compiled(x).isnan().flatten().tolist() == [False, True]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_any_sizes_fold(sizes: list[int]) -> None:
    """Also where zero probabilities stand beside padding."""
    rng = np.random.default_rng(0)
    tables = [rng.random((2, size)) for size in sizes]
    tables[0][0, 0] = 0
    inputs = [
        CategoricalLayer([v], 2, num_categories=size, probs=tensor(table))
        for v, (size, table) in enumerate(zip(sizes, tables, strict=True))
    ]
    circuit = product_then_sum(HadamardLayer(2, len(sizes)), inputs)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = data(circuit, 4)
    np.testing.assert_allclose(
        compiled(torch.from_numpy(x)).detach(), Oracle(circuit, numbers(compiled)).log(x).astype(float), rtol=1e-12
    )


def test_chains_of_one_input_do_not_fold() -> None:
    circuit = chain(coin([0], 2), *[HadamardLayer(2, 1) for _ in range(3)])
    assert [group.num_folds for group in fold_circuit(circuit).groups] == [1, 1, 1, 1]


def test_groups_say_what_they_are() -> None:
    circuit = pixels(layer="tucker", values=2)
    plain = TorchCompiler(optimize=False).compile(circuit)
    assert plain.topological_ordering() == plain.layers
    assert next(plain.topological_ordering()) is plain.layers[0] is next(plain.inputs)
    assert plain.inputs == tuple(group for group in plain.layers if group.kind == "input")
    kinds = {(group.kind, group.layer_class) for group in plain.layers}
    assert kinds == {("input", CategoricalLayer), ("product", KroneckerLayer), ("sum", SumLayer)}
    assert sum(group.num_folds for group in plain.layers) == len(circuit.layers)
    assert ("fused", TuckerLayer) in {
        (group.kind, group.layer_class) for group in TorchCompiler().compile(circuit).layers
    }


@pytest.mark.parametrize("name", CIRCUITS)
def test_every_layer_is_found_in_both_directions(name: str) -> None:
    circuit = CIRCUITS[name]()
    info = fold_circuit(circuit).info
    for layer in circuit.live.layers:
        group, fold = info.find(layer)
        assert info.module(group, fold) is layer
        reads = tuple(info.module(*place) for place in info.in_fold_idx[group][fold])
        assert reads == circuit.layer_inputs(layer)
    assert [info.module(*place) for place in info.out_fold_idx] == list(circuit.outputs)


@pytest.mark.parametrize("name", CIRCUITS)
def test_what_is_folded_folds_again(name: str) -> None:
    """Single groups fold to as many as layers do, numbers of folds add up, and every fold reads what it read."""
    circuit = CIRCUITS[name]()
    single, again = single_groups(circuit), fold_again(single_groups(circuit))
    assert len(again.groups) == len(fold_circuit(circuit).groups)
    assert sum(group.num_folds for group in again.groups) == len(single.groups)
    for folded in (again, fold_again(again)):
        assert len(folded.groups) == len(again.groups)
        for layer in circuit.live.layers:
            group, fold = folded.info.find(layer)
            reads = tuple(folded.info.module(*place) for place in folded.groups[group].in_fold_idx[fold])
            assert reads == circuit.layer_inputs(layer)
        assert [folded.info.module(*place) for place in folded.out_fold_idx] == list(circuit.outputs)


def test_groups_of_several_folds_become_one() -> None:
    """Two groups of two inputs each, which somebody kept apart, are one of four; their values are the oracle's."""
    inputs = [coin([v], 2) for v in range(4)]
    product, total = HadamardLayer(2, 4), SumLayer(2, 1)
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    ordering: tuple[tuple[Layer, ...], ...] = ((inputs[1], inputs[0]), (inputs[2], inputs[3]), (product,), (total,))
    graph = build_folded_graph(ordering, [total], circuit.layer_inputs, fold_layer_group, fold_settings=type)
    groups = tuple(
        FoldedLayer(group.members, places) for group, places in zip(graph.nodes, graph.info.in_fold_idx, strict=True)
    )
    apart = replace(single_groups(circuit), groups=groups, info=graph.info)
    again = fold_again(apart)
    assert [group.num_folds for group in apart.groups] == [2, 2, 1, 1]
    assert [group.members for group in again.groups] == [(*ordering[0], *ordering[1]), (product,), (total,)]
    assert again.groups[1].in_fold_idx == (((0, 1), (0, 0), (0, 2), (0, 3)),)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    lowered = lower_score(again, compiled.semiring, DType.FLOAT64, DType.INT64)
    held = numbers(compiled)
    names = leaf_keys(circuit)
    consts = [
        np.stack([held[names[member]] for member in one.members]) if isinstance(one, Leaf) else one.value
        for one in lowered.captured
    ]
    x = all_states(circuit)
    (result,) = interpret(lowered.program, x, consts=consts)
    np.testing.assert_allclose(np.asarray(result), Oracle(circuit, held).log(x).astype(float), rtol=1e-9)


@dataclass(frozen=True, eq=False)
class Sealed(ProductLayer):
    """A product of one input that folds with those of its seal, whatever it is called."""

    num_input_units: int
    seal: str = ""
    label: str = ""
    arity = 1

    @property
    def num_output_units(self) -> int:
        return self.num_input_units

    @property
    def config(self) -> dict[str, Any]:
        return {"num_input_units": self.num_input_units, "seal": self.seal, "label": self.label}

    def fold_settings(self) -> Any:
        return self.seal


def test_fold_settings_of_a_layer_are_honoured() -> None:
    inputs = [coin([v], 2) for v in range(3)]
    sealed = [Sealed(2, "a", "first"), Sealed(2, "b"), Sealed(2, "a", "third")]
    product = HadamardLayer(2, 3)
    edges: dict[Any, Any] = {layer: [one] for layer, one in zip(sealed, inputs, strict=True)}
    folded = fold_circuit(Circuit([*inputs, *sealed, product], {**edges, product: sealed}, [product]))
    assert [group.members for group in folded.groups if group.layer_class is Sealed] == [
        (sealed[0], sealed[2]),
        (sealed[1],),
    ]


def test_settings_that_put_unlike_layers_together_are_refused() -> None:
    inputs = [coin([0], 2), coin([1], 3)]
    sealed = [Sealed(2), Sealed(3)]
    edges: dict[Any, Any] = {layer: [one] for layer, one in zip(sealed, inputs, strict=True)}
    ends = [SumLayer(units, 1) for units in (2, 3)]
    circuit = Circuit([*inputs, *sealed, *ends], {**edges, ends[0]: [sealed[0]], ends[1]: [sealed[1]]}, ends)
    with pytest.raises(GraphError, match=r"Sealed.* are in one group, but their numbers of inputs and units differ: "):
        fold_circuit(circuit)


class Listed(Sealed):
    """A layer whose settings are a list."""

    def fold_settings(self) -> Any:
        return [self.seal]


def test_settings_that_are_no_key_are_refused() -> None:
    leaf, listed = coin([0], 2), Listed(2)
    with pytest.raises(GraphError, match=r"fold_settings\(\) of Listed.* must be hashable, .*return a tuple"):
        fold_circuit(Circuit([leaf, listed], {listed: [leaf]}, [listed]))
