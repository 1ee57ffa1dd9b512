"""Circuits for tests: a table of small hand-built ones, a generator of random ones, and data for them.

for name, build in CIRCUITS.items():
    circuit = build()
    x = data(circuit, 5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer, NormalInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, InputLayer, KroneckerLayer, SumLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    Parameter,
    SoftmaxParameter,
    TensorParameter,
    mixing_weight_factory,
    normal,
    softmax_normal,
)
from plica.symbolic.scope import Scope
from plica.templates.data_modalities import image_data
from plica.templates.region_graph import LinearTree, QuadGraph, QuadTree, RandomBinaryTree
from tests.harness.layer_cases import CASES, LAYER_CASES, InputCase, num_states
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.sum import mixing

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Array = Any
Edges = dict[Any, Any]  # layers of any kinds, and what they read


def constant(value: Any) -> ConstantParameter:
    """A constant parameter of the shape of `value`."""
    return ConstantParameter(*np.shape(value), value=value)


def tensor(value: Any, **settings: Any) -> TensorParameter:
    """A learnable tensor that starts at `value`."""
    array = np.asarray(value, float)
    return TensorParameter(*array.shape, initializer=ConstantTensorInitializer(array), **settings)


def coin(scope: Iterable[int], units: int, num_categories: int = 2) -> CategoricalLayer:
    """A categorical layer of few states."""
    return CategoricalLayer(scope, units, num_categories=num_categories)


def chain(*layers: Any) -> Circuit:
    """Layers that each read the one before; the last is the output."""
    return Circuit(layers, {after: [before] for before, after in pairwise(layers)}, [layers[-1]])


def bag(layer: Any, *inputs: Any) -> Circuit:
    """One inner layer over input layers."""
    return Circuit([*inputs, layer], {layer: inputs}, [layer])


def pixels(side: int = 2, units: int = 2, *, graph: str = "quad-tree-2", layer: str = "cp", values: int = 3) -> Circuit:
    """The circuit of images of `side` times `side` pixels."""
    return image_data(
        (1, side, side),
        graph,
        input_layer="categorical",
        num_values=values,
        num_input_units=units,
        sum_product_layer=layer,
        num_sum_units=units,
    )


def product_then_sum(product: Any, inputs: Iterable[InputLayer], **settings: Any) -> Circuit:
    """A product of input layers under a sum of one unit."""
    total = SumLayer(product.num_output_units, 1, **settings)
    return Circuit([*inputs, product, total], {product: tuple(inputs), total: [product]}, [total])


def mixture(arity: int, *, weight_factory: Any = None, units: int = 3, outputs: int = 2) -> Circuit:
    """A sum layer of some arity over inputs of one scope."""
    total = SumLayer(units, outputs, arity, weight_factory=weight_factory)
    return bag(total, *[coin([0], units, 3) for _ in range(arity)])


def gaussians(units: int = 3, log_partition: bool = False, num_variables: int = 2) -> Circuit:
    """A mixture of products of normal densities."""
    extra: dict[str, Any] = (
        {"log_partition": TensorParameter(units, initializer=NormalInitializer())} if log_partition else {}
    )
    inputs = [GaussianLayer([v], units, **extra) for v in range(num_variables)]
    return product_then_sum(HadamardLayer(units, num_variables), inputs)


def graph_circuit(
    graph: Any, sum_product: str, *, input_factory: Any = coin, units: int = 2, **settings: Any
) -> Circuit:
    """The circuit of a region graph with as many input units as sum units."""
    return graph.build_circuit(
        input_factory=input_factory, sum_product=sum_product, num_input_units=units, num_sum_units=units, **settings
    )


def many_outputs() -> Circuit:
    """Several outputs: a root, an interior layer that the root reads, and one output twice."""
    inputs = [coin([0], 2), coin([1], 2)]
    product, inner = HadamardLayer(2, 2), SumLayer(2, 2)
    root = SumLayer(2, 2)
    edges: Edges = {product: inputs, inner: [product], root: [inner]}
    return Circuit([*inputs, product, inner, root], edges, [root, inner, product, root])


def shared() -> Circuit:
    """Layers that share tensors through references, beside one that has its own."""
    logits = TensorParameter(2, 3, initializer=NormalInitializer(), name="table")
    first = CategoricalLayer([0], 2, num_categories=3, logits=logits)
    second = CategoricalLayer([1], 2, num_categories=3, logits=Parameter.from_input(logits).ref())
    third = coin([2], 2, 3)
    left = SumLayer(2, 2)
    right, last = left.copyref(), left.copyref()
    product, root = HadamardLayer(2, 3), SumLayer(2, 1)
    edges: Edges = {left: [first], right: [second], last: [third], product: [left, right, last], root: [product]}
    return Circuit([first, second, third, *edges], edges, [root])


def constants() -> Circuit:
    """Nothing but constants: no parameter decides the dtype."""
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.25, 0.75], [0.5, 0.5]]))
    return chain(first, SumLayer(2, 1, weight=constant([[0.5, 0.5]])))


def several_sizes() -> Circuit:
    """Variables of different kinds: 2 states, 4 states, and a real one; column 2 is read by no layer."""
    inputs = [coin([0], 2, 2), coin([1], 2, 4), GaussianLayer([3], 2)]
    return product_then_sum(HadamardLayer(2, 3), inputs)


def unnormalized() -> Circuit:
    """Weights and probabilities that do not sum to one."""
    inputs = [CategoricalLayer([v], 2, num_categories=3, probs_factory=exp_normal) for v in range(2)]
    return product_then_sum(KroneckerLayer(2, 2), inputs, weight_factory=exp_normal)


CIRCUITS: dict[str, Callable[[], Circuit]] = {
    "one input": lambda: chain(coin([0], 3, 4)),
    "probs": lambda: chain(
        CategoricalLayer(
            [0], 2, num_categories=3, probs_factory=lambda s: Parameter.from_unary(SoftmaxParameter(s), normal(s))
        )
    ),
    "sum of 1": lambda: mixture(1),
    "sum of 2": lambda: mixture(2),
    "sum of 3": lambda: mixture(3),
    "mixing": lambda: mixture(3, weight_factory=mixing, outputs=3),
    "hadamard": lambda: product_then_sum(HadamardLayer(3, 3), [coin([v], 3) for v in range(3)]),
    "kronecker of 2": lambda: product_then_sum(KroneckerLayer(3, 2), [coin([v], 3) for v in range(2)]),
    "kronecker of 3": lambda: product_then_sum(KroneckerLayer(2, 3), [coin([v], 2) for v in range(3)]),
    "random tree, cp": lambda: graph_circuit(RandomBinaryTree(5, num_repetitions=2), "cp"),
    "quad graph, mixing": lambda: image_data(
        (1, 2, 2),
        input_layer="categorical",
        num_input_units=2,
        sum_product_layer="cp-t",
        num_sum_units=3,
        num_values=3,
        num_classes=2,
    ),
    "quad graph, tucker": lambda: graph_circuit(QuadGraph((1, 2, 2)), "tucker", nary_sum_weight_factory=mixing),
    "gaussian": gaussians,
    "gaussian, log_partition": lambda: gaussians(log_partition=True),
    "several sizes": several_sizes,
    "many outputs": many_outputs,
    "shared": shared,
    "constants": constants,
    "unnormalized": unnormalized,
}


def data(circuit: Circuit, rows: int, seed: int = 0) -> Array:
    """Rows that every layer can read: states as integers, real numbers where a variable is real."""
    rng = np.random.default_rng(seed)
    columns: list[Array] = [np.zeros(rows, np.int64)] * (max(circuit.scope) + 1)
    for layer in circuit.input_layers:
        for variable, column in zip(layer.scope, _DRAW[type(layer)](layer, rng, rows).T, strict=True):
            columns[variable] = column
    return np.stack(columns, axis=1)


def is_finite(circuit: Circuit) -> bool:
    """Whether every variable has states."""
    return all(num_states(layer) is not None for layer in circuit.input_layers)


_MANY = 12
INPUT_CASES = [
    case
    for case in LAYER_CASES
    if isinstance(case, InputCase)
    and case.num_variables
    and not case.signed
    and not case.build(range(case.num_variables), 1).opaque  # which no file has
]
_DRAW = {case.row.layer: case.draw for case in CASES if isinstance(case, InputCase)}
INPUTS: dict[str, Callable[[Any, int], InputLayer]] = {case.name: case.build for case in INPUT_CASES} | {
    f"more {case.name}": case.alike[0] for case in INPUT_CASES if case.alike
}
# few states, of which tests enumerate all combinations
FINITE = [name for name, build in INPUTS.items() if (num_states(build(Scope([0]), 1)) or _MANY) < _MANY]
WEIGHTS = {"softmax": softmax_normal, "unnormalized": exp_normal}


def circuits(finite: bool = False) -> SearchStrategy[Circuit]:
    """A small smooth and decomposable circuit; the last outputs may be interior layers, and tensors may be shared."""
    from hypothesis import strategies as st  # where circuits are drawn alone: a machine with a GPU may lack it

    return st.composite(_drawn)(finite)


def _drawn(draw: Any, finite: bool) -> Circuit:
    from hypothesis import strategies as st

    graph = draw(
        st.one_of(
            st.builds(
                lambda n, is_shallow, **settings: RandomBinaryTree(
                    n, depth=min(n - 1, 1) if is_shallow else None, **settings
                ),
                st.integers(1, 4),
                st.booleans(),
                num_repetitions=st.integers(1, 2),
                seed=st.integers(0, 9),
            ),
            st.builds(LinearTree, st.integers(2, 4), num_repetitions=st.integers(1, 2), randomize=st.just(True)),
            st.sampled_from([QuadGraph((1, 2, 2)), QuadTree((1, 2, 2), num_patch_splits=4)]),
        )
    )
    names = FINITE if finite else list(INPUTS)
    kinds = draw(st.lists(st.sampled_from(names), min_size=graph.num_variables, max_size=graph.num_variables))
    weight = WEIGHTS[draw(st.sampled_from(list(WEIGHTS)))]
    dense = draw(st.booleans())
    circuit = graph.build_circuit(
        input_factory=lambda scope, units: INPUTS[kinds[min(scope)]](scope, units),
        sum_product=draw(st.sampled_from(["cp", "cp-t", "tucker"])),
        sum_weight_factory=weight,
        nary_sum_weight_factory=weight if dense else partial(mixing_weight_factory, param_factory=weight),
        num_input_units=draw(st.integers(1, 3)),
        num_sum_units=draw(st.integers(1, 2)),
        num_classes=draw(st.integers(1, 2)),
    )
    if draw(st.booleans()):
        circuit = share_sums(circuit)
    if draw(st.booleans()):
        circuit = with_interior_outputs(circuit)
    return circuit


def share_sums(circuit: Circuit) -> Circuit:
    """The same circuit where sum layers of the same settings share one weight."""
    first: dict[Any, Any] = {}
    new: dict[Any, Any] = {}
    for layer in circuit.layers:
        same = first.setdefault(layer.fold_settings(), layer) if isinstance(layer, SumLayer) else layer
        new[layer] = layer if same is layer else same.copyref()
    edges = {new[layer]: [new[one] for one in circuit.layer_inputs(layer)] for layer in circuit.inner_layers}
    return Circuit([new[layer] for layer in circuit.layers], edges, [new[layer] for layer in circuit.outputs])


def with_interior_outputs(circuit: Circuit) -> Circuit:
    """The same circuit that also returns every layer with as many units as its output, whatever its scope."""
    units = circuit.outputs[0].num_output_units
    others = [layer for layer in circuit.layers if layer.num_output_units == units]
    edges: Edges = {layer: circuit.layer_inputs(layer) for layer in circuit.inner_layers}
    return Circuit(circuit.layers, edges, [*circuit.outputs, *others])
