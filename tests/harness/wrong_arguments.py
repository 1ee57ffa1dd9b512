"""Calls of public functions with one argument after another replaced by something of the wrong type or value.

A `Call` holds arguments that work. `wrong_calls` replaces each of them by each of several values; the call may then
work, if what was put in has a meaning, or refuse it with one of Plica's errors, never with one of Python's from
inside. Some calls write files to the current folder.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import plica
from plica import queries
from plica.backend.torch.queries import IntegrateQuery, SamplingQuery
from plica.errors import PlicaError
from plica.learn.resize import grow
from plica.pipeline import PipelineContext
from plica.symbolic import initializers, layers, parameters
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Semiring
from plica.templates import hclt, learn_spn, logic, pgms, region_graph, tensor_factorizations, utils
from plica.templates.data_modalities import image_data, tabular_data
from plica.templates.region_graph import QuadGraph

WRONG: tuple[Any, ...] = (None, -1, 0, 1.5, math.nan, "a", [], ["a"], {1: None}, object())
MORE_WRONG: tuple[Any, ...] = (
    *(True, math.inf, 1j, "", b"a", [-1], [1.5], [None], [[]], {}, {"a": 1}),
    *(lambda *_: None, np.float32(2.5), np.array([1.5, math.nan]), np.array("a"), torch.ones(2, 2)),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that works.

    Attributes:
        function: What is called.
        given: Arguments by position.
        named: Arguments by name.
    """

    function: Callable[..., Any]
    given: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)


def call(function: Callable[..., Any], *given: Any, **named: Any) -> Call:
    """A `Call` as one writes it."""
    return Call(function, given, named)


def wrong_calls(one: Call, values: Sequence[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each argument replaced by each of some values: what was replaced by what, and the call."""
    for place in range(len(one.given)):
        for wrong in values:
            given = (*one.given[:place], wrong, *one.given[place + 1 :])
            yield f"{one}: argument {place} = {wrong!r}", partial(one.function, *given, **one.named)
    for name in one.named:
        for wrong in values:
            yield f"{one}: {name} = {wrong!r}", partial(one.function, *one.given, **one.named | {name: wrong})


def raw_errors(one: Call, values: Sequence[Any] = WRONG) -> list[str]:
    """The wrong arguments that end in an error of Python's, or in one of Plica's without words."""
    found = []
    for what, run in wrong_calls(one, values):
        try:
            run()
        except PlicaError as error:
            if not str(error):
                found.append(f"{what}: {type(error).__name__} says nothing")
        except Exception as error:  # whatever it is, it came from inside
            found.append(f"{what}: {type(error).__name__}: {error}".splitlines()[0])
    return found


def _tensor(*shape: int) -> TensorParameter:
    return TensorParameter(*shape, initializer=initializers.NormalInitializer())


_SETTINGS: dict[type, dict[str, Any]] = {
    layers.HistogramLayer: {"num_bins": 3, "edges": [0.0, 1.0, 2.0, 3.0]},
    layers.PolynomialLayer: {"degree": 2},
    layers.UniformLayer: {"low": 0.0, "high": 1.0},
}
"""Arguments that a layer needs beside those that follow from the number of values."""


def _input_layer_calls() -> Iterator[Call]:
    """The constructor of each input layer of a variable, with one of its optional arguments after another."""
    for row in layers.LAYER_ROWS.values():
        names = inspect.signature(row.layer).parameters
        if not isinstance(row, layers.InputRow) or "num_output_units" not in names or "scope" not in names:
            continue
        settings = {} if row.distribution is None else row.distribution.settings_for(3)
        settings |= _SETTINGS.get(row.layer, {})
        optional = [name for name, one in names.items() if one.default is None and name not in settings]
        if row.layer is not layers.ModuleLayer:
            yield call(row.layer, [0], 2, **settings)
            yield from (call(row.layer, [0], 2, **settings, **{name: None}) for name in optional)


def _layer_calls() -> list[Call]:
    embedding, weight = layers.EmbeddingLayer([0], 2), _tensor(2, 4)
    return [
        *_input_layer_calls(),
        call(layers.ModuleLayer, [0], 2, module=torch.nn.Linear(1, 2), log_space=True, normalized=False, answers=()),
        call(layers.ConstantValueLayer, 2, log_space=True, value=1.0),
        call(layers.EvidenceLayer, embedding, observation=[1]),
        call(layers.HadamardLayer, 2, 2),
        call(layers.KroneckerLayer, 2, 2),
        call(layers.SumLayer, 2, 2, 2, weight, None),
        call(layers.SumLayer, 2, 2, 2, None, None),
        call(layers.CPTLayer, 2, 2, 2, _tensor(2, 2)),
        call(layers.TuckerLayer, 2, 2, 2, weight),
        call(layers.TensorDotLayer, 2, 2, 2, 2, _tensor(2, 2)),
        call(layers.SparseSumLayer, 2, (layers.Term(0, (1, 0)),), 2, 2, _tensor(2, 1)),
        call(layers.histogram_edges, np.arange(9.0), 3),
    ]


def _parameter_calls() -> list[Call]:
    binary = "SumParameter HadamardParameter KroneckerParameter PolynomialProduct"
    unary = "ExpParameter LogParameter SquareParameter SoftplusParameter SigmoidParameter ConjugateParameter"
    along = "ReduceSumParameter ReduceProductParameter ReduceLSEParameter SoftmaxParameter LogSoftmaxParameter"
    leaf, exp = _tensor(2, 3), parameters.ExpParameter((2, 3))
    return [
        *(call(getattr(parameters, name), (2, 3), (2, 3)) for name in binary.split()),
        *(call(getattr(parameters, name), (2, 3)) for name in (*unary.split(), "MixingWeightParameter")),
        *(call(getattr(parameters, name), (2, 3), axis=-1) for name in along.split()),
        *(
            call(getattr(parameters, name), (2, 3), (2, 3), axis=-1)
            for name in ("OuterProductParameter", "OuterSumParameter")
        ),
        *(
            call(getattr(parameters, name), (2,), (2,), (2,), (2,))
            for name in ("GaussianProductMean", "GaussianProductLogPartition")
        ),
        call(parameters.GaussianProductStddev, (2,), (2,)),
        call(parameters.PolynomialDifferential, (2, 3), order=1),
        call(parameters.IndexParameter, (2, 3), indices=[0], axis=-1),
        call(parameters.ScaledSigmoidParameter, (2, 3), 0.0, 1.0),
        call(parameters.ClampParameter, (2, 3), vmin=0.0, vmax=1.0),
        call(
            TensorParameter,
            2,
            3,
            initializer=initializers.NormalInitializer(),
            learnable=True,
            dtype=DataType.REAL,
            name="x",
        ),
        call(ConstantParameter, 2, 3, value=1.0),
        call(parameters.ReferenceParameter, leaf),
        call(Parameter, [leaf, exp], {exp: [leaf]}, [exp]),
        call(Parameter.from_input, leaf),
        call(Parameter.from_sequence, leaf, exp),
        call(Parameter.from_unary, exp, leaf),
        call(Parameter.from_binary, parameters.SumParameter((2, 3), (2, 3)), leaf, leaf),
        call(Parameter.from_nary, exp, leaf),
        call(parameters.mixing_weight_factory, (2, 6), param_factory=lambda shape: _tensor(*shape)),
        call(initializers.ConstantTensorInitializer, 1.0),
        call(initializers.UniformInitializer, 0.0, 1.0),
        call(initializers.NormalInitializer, 0.0, 1.0),
        call(initializers.DirichletInitializer, 1.0, axis=-1),
        call(initializers.NormalInitializer().allows_shape, (2, 3)),
        call(initializers.ConstantTensorInitializer(np.ones(2)).allows_shape, (2, 2)),
        call(initializers.DirichletInitializer([1.0, 2.0]).allows_shape, (2, 2)),
    ]


def _circuit_calls() -> list[Call]:
    inputs = [layers.CategoricalLayer([v], 2, num_categories=3) for v in range(2)]
    product, total = layers.HadamardLayer(2), layers.SumLayer(2, 1)
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    return [
        call(Circuit, [*inputs, product, total], {product: inputs, total: [product]}, [total]),
        call(Scope, [0, 1]),
        call(Scope([0, 1]).difference, Scope([1])),
        call(Scope.union, Scope([0]), Scope([1])),
        call(circuit.layer_scope, total),
        call(circuit.layer_inputs, total),
        call(circuit.layer_outputs, product),
        call(circuit.subgraph, product),
        call(plica.compile, circuit, None),
        call(PipelineContext, "torch", "lse-sum", True, True, dtype="float32"),
        call(Semiring.from_name, "lse-sum"),
    ]


@cache
def _compiled() -> Any:
    inputs: list[Any] = [layers.CategoricalLayer([0], 2, num_categories=3), layers.GaussianLayer([1], 2)]
    product, total = layers.HadamardLayer(2), layers.SumLayer(2, 1)
    return plica.compile(Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])).eval()


def _query_calls() -> list[Call]:
    compiled, x = _compiled(), torch.tensor([[1.0, math.nan]])
    mask = torch.tensor([[True, False]])
    rows = ["log_likelihood", "mpe", "mpe_bounds", "posterior", "latent_posterior", "mean", "variance", "cdf"]
    return [
        *(call(getattr(queries, name), compiled, x) for name in rows),
        call(queries.conditional_log_likelihood, compiled, x, mask),
        call(queries.sample, compiled, 2, x, 0),
        call(queries.covariance, compiled, [0, 1], x),
        call(queries.probability, compiled, x, x),
        call(queries.quantile, compiled, 1, 0.5, x),
        call(IntegrateQuery, compiled),
        call(SamplingQuery, compiled),
        call(IntegrateQuery(compiled), x, integrate_vars=mask),
        call(IntegrateQuery(compiled), x, observed=mask),
        call(SamplingQuery(compiled), 2),
        call(compiled, x),
        call(compiled, x, parameters={}),
        call(compiled.check, x),
        call(compiled.reset_parameters, 0),
    ]


def _template_calls() -> list[Call]:
    rows = np.random.default_rng(0).integers(0, 3, size=(20, 4)).astype(float)
    units: dict[str, Any] = {"num_input_units": 2, "sum_product_layer": "cp", "num_sum_units": 2, "num_classes": 1}
    weights: dict[str, Any] = {"sum_weight_param": None, "use_mixing_weights": True}
    coin: dict[str, Any] = {"num_categories": 3}
    graph, factory = QuadGraph((1, 2, 2)), partial(layers.CategoricalLayer, num_categories=3)
    named = {
        "input_factory": factory,
        "sum_product": "cp",
        "num_input_units": 2,
        "num_sum_units": 2,
        "num_classes": 1,
        "sum_weight_factory": None,
        "nary_sum_weight_factory": None,
        "factorize_multivariate": True,
    }
    own = {"input_factory": factory, "sum_factory": layers.SumLayer, "prod_factory": layers.HadamardLayer}
    logits = {"logits": utils.Parameterization()}
    graph.dump("graph.json")
    leaf, root = region_graph.RegionNode([0]), region_graph.RegionNode([0, 1])
    other, part = region_graph.RegionNode([1]), region_graph.PartitionNode([0, 1])
    return [
        call(image_data, (1, 2, 2), "quad-graph", input_layer="categorical", **units, input_params=logits, **weights),
        call(image_data, (1, 2, 2), input_layer="categorical", **units, num_values=3),
        call(
            tabular_data, "random-binary-tree", num_features=4, input_layers={"name": "bernoulli"}, **units, **weights
        ),
        call(tabular_data, "chow-liu-tree", data=rows, input_layers=[{"name": "categorical"}] * 4, **units),
        call(tabular_data, num_features=1, input_layers={"name": "categorical", "args": coin}, **units),
        call(pgms.fully_factorized, 2, "categorical", logits, coin),
        call(pgms.hmm, [1, 0], "categorical", 2, logits, coin, None, homogeneous=False),
        call(tensor_factorizations.cp, (2, 3), 2, input_layer="embedding", input_params=None, weight_param=None),
        call(tensor_factorizations.tucker, (2, 3), 2, input_layer="embedding", input_params=None, core_param=None),
        call(tensor_factorizations.tensor_train, (2, 3), 2, factor_param=None),
        call(hclt, rows, 2, input_layer="categorical", input_params=None, pseudocount=0.1),
        call(hclt, rows[:4], 2, input_layers={"name": "poisson"}, num_trees=2, share_inputs=True, start="data", seed=1),
        call(learn_spn, rows[:4], input_layers={"name": "gaussian"}, min_rows=2, num_bins=3, pseudocount=1.0, seed=0),
        call(grow, hclt(rows, 2, start="data"), 2, 0.1, seed=0),
        call(region_graph.FullyFactorized, 2, num_repetitions=1),
        call(region_graph.LinearTree, 3, num_repetitions=1, ordering=[2, 1, 0], randomize=False, seed=42),
        call(region_graph.LinearTree, 3, num_repetitions=2, randomize=True, seed=42),
        call(region_graph.RandomBinaryTree, 4, depth=2, num_repetitions=1, seed=42),
        call(region_graph.QuadTree, (1, 2, 2), num_patch_splits=2),
        call(region_graph.QuadGraph, (1, 2, 2)),
        call(region_graph.PoonDomingos, (1, 4, 4), delta=2, max_depth=2),
        call(region_graph.ChowLiuTree, rows, "categorical", 0, 2, 3, None, True),
        call(region_graph.ChowLiuTree, rows, "gaussian", None, None, None, 4, False),
        call(region_graph.ChowLiuTree, rows, "categorical", num_categories=3, cat_bins=2, pseudocount=0.5),
        call(region_graph.ChowLiuTree, rows, ["categorical", "gaussian"] * 2, heter_cont_bins=2),
        call(region_graph.RegionNode, [0]),
        call(region_graph.PartitionNode, [0]),
        call(region_graph.RegionGraph, [leaf, other, root, part], {root: [part], part: [leaf, other]}, [root]),
        call(graph.build_circuit, **named),
        call(graph.build_circuit, **own),
        call(graph.is_compatible, graph, scope=[0, 1]),
        call(graph.region_inputs, graph.outputs[0]),
        call(graph.region_outputs, graph.inputs[0]),
        call(graph.partition_inputs, graph.partition_nodes[0]),
        call(graph.partition_outputs, graph.partition_nodes[0]),
        call(graph.dump, "dumped.json"),
        call(region_graph.RegionGraph.load, "graph.json"),
        call(utils.Parameterization, "normal", "softmax", "real", {"mean": 0.0}, {"axis": -1}),
        call(utils.Parameterization, "uniform", "positive-clamp", "real", {"a": 0.0}, {"vmin": 0.5}),
        call(utils.Parameterization, "dirichlet", initialization_kwargs={"alpha": 1.0}),
        call(utils.parameterization_to_factory, utils.Parameterization()),
        call(utils.parameterization_to_factory(utils.Parameterization()), (2, 3)),
        call(utils.named_parameterizations_to_factories, logits),
        call(utils.name_to_input_layer_factory, "categorical", **coin),
        call(utils.name_to_input_layer_factory("categorical", **coin), [0], 2),
        call(utils.name_to_initializer, "normal", mean=0.0),
        call(utils.name_to_parameter_activation, "softmax", axis=-1),
        call(utils.name_to_dtype, "real"),
    ]


def _logic_calls() -> list[Call]:
    x, not_x, y = logic.LiteralNode(0), logic.NegatedLiteralNode(0), logic.LiteralNode(1)
    both, either = logic.ConjunctionNode(), logic.DisjunctionNode()
    nodes: list[Any] = [x, not_x, y, both, either]
    edges: dict[Any, Any] = {both: [x, y], either: [both, not_x]}
    Path("formula.sdd").write_text("sdd 1\nT 0\n")
    formula = logic.LogicalCircuit(nodes, edges, [either])
    return [
        call(logic.LiteralNode, 0),
        call(logic.NegatedLiteralNode, 0),
        call(logic.LogicalCircuit, nodes, edges, [either]),
        call(formula.node_scope, both),
        call(formula.build_circuit, literal_weights={0: (0.4, 0.6)}),
        call(logic.SDD.load, "formula.sdd"),
    ]


CALLS: dict[str, Callable[[], list[Call]]] = {
    "layers": _layer_calls,
    "parameters": _parameter_calls,
    "circuits": _circuit_calls,
    "queries": _query_calls,
    "templates": _template_calls,
    "formulas": _logic_calls,
}
