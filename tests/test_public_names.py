"""The public names as they are promised: where they live, what they take, and what they offer.

A promise is a call as users write it: names, their order, `*` before what is named only, defaults. What is there may
take more, if it need not be given.
"""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.templates.automata import DFA
from plica.templates.pgms import fully_factorized
from plica.templates.region_graph import QuadGraph
from tests.harness.together import grouped

PROMISES = """
plica.symbolic.initializers
ConstantTensorInitializer(value)
UniformInitializer(a=0.0, b=1.0)
NormalInitializer(mean=0.0, stddev=1.0)
DirichletInitializer(alpha=1.0, *, axis=-1)

plica.learn
fit(model, rows, valid=None, *, learner=None, epochs=40, batch=100, seed=0, patience=None, min_delta=0.0,
 checkpoint=None, resume=False, progress=False, on_batch=None, on_epoch=None)
Adam(rate=0.1, schedule='cosine', weight_decay=0.0)
Checkpoint(path, seconds=300.0)

plica.symbolic.parameters
TensorParameter(*shape, initializer, learnable=True, dtype=DataType.REAL, name=None)
ConstantParameter(*shape, value=0.0)
ReferenceParameter(parameter)
IndexParameter(in_shape, *, indices, axis=-1)
ScaledSigmoidParameter(in_shape, vmin, vmax)
ClampParameter(in_shape, *, vmin=None, vmax=None)
OuterProductParameter(in_shape1, in_shape2, *, axis=-1)
OuterSumParameter(in_shape1, in_shape2, *, axis=-1)
ReduceSumParameter(in_shape, *, axis=-1)
ReduceProductParameter(in_shape, *, axis=-1)
ReduceLSEParameter(in_shape, *, axis=-1)
SoftmaxParameter(in_shape, *, axis=-1)
LogSoftmaxParameter(in_shape, *, axis=-1)
PolynomialProduct(in_shape1, in_shape2)
PolynomialDifferential(in_shape, *, order=1)
Parameter(nodes, in_nodes, outputs)
mixing_weight_factory(shape, *, param_factory)

plica.data
Rows(source, *, filesystem=None, delimiter=None, named=None)
Rows.batches(self, columns=None, *, size=8192, seed=None)
summarise(rows, columns=None, *, words=(), size=8192)
numbers(encoding, rows, *, size=8192, seed=None, unknown=None, unread=None)

plica.symbolic.layers
EmbeddingLayer(scope, num_output_units, *, num_states=2, weight=None, weight_factory=None)
CategoricalLayer(scope, num_output_units, *, num_categories, logits=None, probs=None, logits_factory=None,
 probs_factory=None)
BinomialLayer(scope, num_output_units, *, total_count=2, logits=None, probs=None, logits_factory=None,
 probs_factory=None)
GaussianLayer(scope, num_output_units, *, mean=None, stddev=None, log_partition=None, mean_factory=None,
 stddev_factory=None)
PolynomialLayer(scope, num_output_units, *, degree, coeff=None, coeff_factory=None)
ConstantValueLayer(num_output_units, *, log_space=False, value)
EvidenceLayer(layer, *, observation)
HadamardLayer(num_input_units, arity=2)
KroneckerLayer(num_input_units, arity=2)
SumLayer(num_input_units, num_output_units, arity=1, weight=None, weight_factory=None)

plica.symbolic.circuit
Circuit(layers, in_layers, outputs, *, operation=None)
Circuit.from_operation(layers, in_layers, outputs, *, operation)
Circuit.replace(self, layer, other)

plica.pipeline
PipelineContext(backend='torch', semiring='lse-sum', fold=True, optimize=True)
compile(circuit, ctx=None)
compile_layer(layer, ctx=None)
compile_parameter(parameter, ctx=None)
compile_initializer(initializer, ctx=None)
concatenate(circuits, *, ctx=None)
integrate(circuit, scope=None, *, ctx=None)
multiply(first, *, ctx=None)
differentiate(circuit, order=1, *, ctx=None)
conjugate(circuit, *, ctx=None)

plica.symbolic.semirings
Semiring.sum(self, x, *, dim=None, keepdim=False)

plica.backend.torch.compiler
TorchCompiler(semiring='lse-sum', fold=True, optimize=True)

plica.backend.torch.circuits
TorchCircuit.log_likelihood(self, x)
TorchCircuit.sample(self, n=1, given=None, seed=None)
TorchCircuit.complete(self, x, method='mpe', seed=None)

plica.backend.torch.queries
IntegrateQuery(circuit)
SamplingQuery(circuit)

plica.queries
log_likelihood(circuit, x)
conditional_log_likelihood(circuit, x, given)
sample(circuit, n=1, given=None, seed=None)
mpe(circuit, x)
posterior(circuit, x)
latent_posterior(circuit, x)
mean(circuit, x)
variance(circuit, x)
covariance(circuit, variables)
cdf(circuit, x)
probability(circuit, low, high)
quantile(circuit, variable, p, given=None)
expectation(p, f)
moment(p, orders)
overlap(p, q)
probability_of(p, formula)
entropy(p)
cross_entropy(p, q)
kullback_leibler(p, q)
renyi(p, q, n)
mutual_information(p, first, second)
backdoor(p, treatment, outcome, adjustment)

plica.tables
fit(data, *, columns=None, missing=(), seed=0, device='cpu', dtype='float32')
load(path, *, device='cpu')
TableModel.score(self, rows, *, comparable=False, unknown='missing')
TableModel.complete(self, rows, method='mean', *, seed=0, unknown='missing')
TableModel.sample(self, n=1, given=None, *, seed=0, unknown='missing')
TableModel.predict(self, column, rows, quantiles=(), *, unknown='missing')
TableModel.explain_row(self, rows, *, unknown='missing')
TableModel.save(self, path)

plica.batch
Scorer(path)
Completer(path, method='mean')
Sampler(path, n=1)
Predictor(path, column, quantiles=())

plica.sklearn
CircuitDensity.fit(self, X, y=None)
CircuitDensity.partial_fit(self, X, y=None)
CircuitDensity.score_samples(self, X)
CircuitDensity.sample(self, n_samples=1)
CircuitClassifier.predict_proba(self, X)
CircuitRegressor.predict(self, X, quantiles=None)
CircuitImputer.transform(self, X)

plica.templates.utils
Parameterization(initialization='normal', activation='none', dtype='real', initialization_kwargs, activation_kwargs)
parameterization_to_factory(parameterization)
named_parameterizations_to_factories(parameterizations)
name_to_input_layer_factory(name)
name_to_initializer(name)
name_to_parameter_activation(name)
name_to_dtype(name)

plica.templates.data_modalities
image_data(image_shape, region_graph='quad-graph', *, input_layer, num_input_units, sum_product_layer, num_sum_units,
 num_classes=1, input_params=None, sum_weight_param=None, use_mixing_weights=True, data=None, num_bins=None,
 mi_chunk_size=None)
tabular_data(region_graph='random-binary-tree', *, num_features=None, data=None, input_layers, num_input_units,
 sum_product_layer, num_sum_units, num_classes=1, sum_weight_param=None, use_mixing_weights=True)

plica.templates.pgms
fully_factorized(num_variables, input_layer='categorical', input_params=None, input_layer_kwargs=None)
hmm(ordering, input_layer='categorical', num_latent_states=1, input_params=None, input_layer_kwargs=None,
 weight_param=None)

plica.templates.tensor_factorizations
cp(shape, rank, *, input_layer='embedding', input_params=None, weight_param=None)
tucker(shape, rank, *, input_layer='embedding', input_params=None, core_param=None)
tensor_train(shape, rank, *, factor_param=None)

plica.templates.region_graph
RegionGraph(nodes, in_nodes, outputs)
RegionNode(scope)
PartitionNode(scope)
RegionGraph.is_compatible(self, other, *, scope=None)
RegionGraph.dump(self, file)
RegionGraph.load(file)
RegionGraph.build_circuit(self, *, input_factory, sum_product=None, sum_weight_factory=None,
 nary_sum_weight_factory=None, sum_factory=None, prod_factory=None, num_input_units=1, num_sum_units=1, num_classes=1,
 factorize_multivariate=True)
FullyFactorized(n, *, num_repetitions=1, num_variables=None)
LinearTree(n, *, num_repetitions=1, ordering=None, randomize=False, seed=42, num_variables=None)
RandomBinaryTree(n, *, depth=None, num_repetitions=1, seed=42, num_variables=None)
QuadTree(shape, *, num_patch_splits=2)
QuadGraph(shape)
PoonDomingos(shape, *, delta, max_depth=None)
ChowLiuTree(data, input_type, root=None, chunk_size=None, num_categories=None, num_bins=None, as_region_graph=True, *,
 cat_bins=None, heter_cont_bins=None)

plica.templates
hclt(data, num_latents)

plica.templates.automata
DFA(transitions, accepting, *, start=0, alphabet=None)
DFA.from_regex(pattern, alphabet)
DFA.contains_in_order(words, alphabet)
DFA.contains_any(words, alphabet)
DFA.contains_all(words, alphabet)
DFA.run(self, word)
DFA.accepts(self, word)
DFA.after(self, prefix)
DFA.padded(self, symbol)
DFA.minimized(self)
DFA.count(self, length)
DFA.build_circuit(self, ordering)

plica.templates.logic
LogicalCircuit(nodes, in_nodes, outputs)
LiteralNode(variable)
NegatedLiteralNode(variable)
TopNode()
BottomNode()
ConjunctionNode()
DisjunctionNode()
LogicalCircuit.prune(self)
LogicalCircuit.smooth(self)
LogicalCircuit.node_scope(self, node)
LogicalCircuit.from_cnf(clauses)
LogicalCircuit.from_dimacs(path)
LogicalCircuit.from_nnf(path)
LogicalCircuit.from_pysdd(node)
LogicalCircuit.model_count(self, scope=None)
LogicalCircuit.weighted_model_count(self, weights, scope=None)
LogicalCircuit.models(self, limit=None)
LogicalCircuit.entails(self, clause)
LogicalCircuit.condition(self, assignment)
LogicalCircuit.conjoin(self, other)
LogicalCircuit.negate(self)
LogicalCircuit.build_circuit(self, literal_input_factory=None, negated_literal_input_factory=None, weight_factory=None,
 enforce_smoothness=True)
SDD.load(file)
"""


def _promises() -> list[tuple[str, str]]:
    """Modules, and what is promised of them."""
    found = []
    for block in PROMISES.strip().split("\n\n"):
        module, *lines = block.replace("\n ", " ").split("\n")
        found += [(module, line) for line in lines]
    return found


@grouped(("module", "promise"), _promises(), ids=lambda text: text.partition("(")[0])
def test_calls(module: str, promise: str) -> None:
    name, _, arguments = promise[:-1].partition("(")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    there = list(inspect.signature(found).parameters.values())
    keyword = False
    position = 0
    for argument in filter(None, arguments.split(", ")):
        if argument.startswith("*"):
            keyword = True
            assert argument == "*" or (there[0].kind, there[0].name) == (inspect.Parameter.VAR_POSITIONAL, argument[1:])
            continue
        wanted, _, default = argument.partition("=")
        (parameter,) = (one for one in there if one.name == wanted)
        assert parameter.kind is (parameter.KEYWORD_ONLY if keyword else parameter.POSITIONAL_OR_KEYWORD), wanted
        assert keyword or there[position] is parameter
        position += 1
        if default:
            assert default in {repr(parameter.default), str(parameter.default)}, wanted
    more = [one for one in there if one.name not in arguments]
    assert all(one.default is not one.empty or one.kind in {one.VAR_KEYWORD, one.VAR_POSITIONAL} for one in more)


def _circuit() -> Circuit:
    inputs = [CategoricalLayer([v], 2, num_categories=3) for v in range(2)]
    product, total = HadamardLayer(2), SumLayer(2, 1)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


LISTS = {
    "circuit": (_circuit, "layers inputs input_layers inner_layers sum_layers product_layers outputs"),
    "region graph": (
        lambda: QuadGraph((1, 2, 2)),
        "inputs outputs region_nodes partition_nodes inner_nodes inner_region_nodes",
    ),
    "parameter": (lambda: Parameter.from_input(ConstantParameter(2)), "inputs"),
    "compiled": (lambda: plica.compile(_circuit()), "layers inputs"),
}
VALUES = {
    "circuit": (
        _circuit,
        "scope num_variables layers_inputs layers_outputs is_smooth is_decomposable is_structured_decomposable "
        "is_omni_compatible properties layer_scope layer_inputs layer_outputs topological_ordering "
        "layerwise_topological_ordering subgraph",
    ),
    "layer": (lambda: SumLayer(2, 3), "num_input_units num_output_units arity config params copyref"),
    "input layer": (lambda: CategoricalLayer([3], 2, num_categories=3), "scope num_variables num_output_units config"),
    "region graph": (
        lambda: QuadGraph((1, 2, 2)),
        "region_inputs partition_inputs region_outputs partition_outputs scope num_variables "
        "is_structured_decomposable is_omni_compatible is_compatible dump load build_circuit nodes_inputs "
        "nodes_outputs topological_ordering layerwise_topological_ordering subgraph",
    ),
    "automaton": (
        lambda: DFA([[0, 0]], [0]),
        "transitions accepting start alphabet num_states num_symbols __and__ __or__ __invert__",
    ),
    "context": (
        PipelineContext,
        "compile __getitem__ is_compiled has_symbolic get_compiled_circuit get_symbolic_circuit compile_layer "
        "compile_parameter compile_initializer from_default_backend add_operator_rule add_layer_compilation_rule "
        "add_parameter_compilation_rule add_initializer_compilation_rule __enter__ __exit__ concatenate integrate "
        "multiply differentiate conjugate",
    ),
    "compiled": (
        lambda: plica.compile(_circuit()),
        "scope num_variables properties layers inputs topological_ordering program code reset_parameters forward "
        "explain check state_dict semiring concatenate integrate multiply differentiate conjugate",
    ),
}


@pytest.mark.parametrize(
    ("what", "name"), [(what, name) for what, (_, names) in LISTS.items() for name in names.split()]
)
def test_lists_are_iterators_with_a_length_and_an_index(what: str, name: str) -> None:
    found = getattr(LISTS[what][0](), name)
    first = found[0]
    assert len(found) == len(list(found))
    assert next(getattr(LISTS[what][0](), name)) is not None
    assert type(first) is type(next(iter(getattr(LISTS[what][0](), name))))


@pytest.mark.parametrize("what", VALUES)
def test_attributes(what: str) -> None:
    make, names = VALUES[what]
    made = make()
    for name in names.split():
        assert getattr(made, name) is not None


@pytest.mark.parametrize("what", LISTS)
def test_topological_orders_are_iterators(what: str) -> None:
    owner: Any = LISTS[what][0]()
    order = owner.topological_ordering()
    assert isinstance(order, Iterator)
    assert next(order) is next(iter(owner.topological_ordering()))
    if what != "compiled":
        levels = owner.layerwise_topological_ordering()
        assert isinstance(levels, Iterator)
        assert next(levels)[0] is next(owner.topological_ordering())


def test_one_name_in_two_places() -> None:
    from plica.symbolic.scope import Scope
    from plica.utils.scope import Scope as OtherScope

    assert plica.Scope is Scope is OtherScope
    assert Scope.union(Scope([0]), Scope([2]), Scope([1])) == Scope(range(3))
    assert Scope([0, 1]).difference(Scope([1])) == Scope([0])


def test_integrate_query_takes_masks_scopes_and_sequences_of_scopes() -> None:
    from plica.backend.torch.queries import IntegrateQuery, SamplingQuery

    compiled = plica.compile(fully_factorized(2, input_layer_kwargs={"num_categories": 3}), dtype=torch.float64)
    query, x = IntegrateQuery(compiled), torch.tensor([[0, 1], [2, 2], [1, 0]])
    scope = plica.Scope([1])
    mask = torch.tensor([[False, True]]).expand(3, 2)
    expected = query(x, integrate_vars=mask)
    nan = torch.tensor([[0, np.nan], [2, np.nan], [1, np.nan]], dtype=torch.float64)
    torch.testing.assert_close(expected, compiled(nan))
    for given in (scope, [scope], [scope] * 3):
        torch.testing.assert_close(query(x, integrate_vars=given), expected)
    samples, _ = SamplingQuery(compiled)(num_samples=5)
    assert samples.shape == (5, 2)
    assert SamplingQuery(compiled)()[0].shape == (1, 2)


def test_an_empty_scope_takes_no_argument() -> None:
    from plica.symbolic.layers import ConstantValueLayer

    layer = ConstantValueLayer(2, value=ConstantParameter(2, value=[1.0, 2.0]))
    circuit = Circuit([layer], {}, [layer])
    assert plica.compile(circuit)().shape == (1, 2)


def test_a_context_of_the_default_backend() -> None:
    with PipelineContext.from_default_backend() as context:
        circuit = _circuit()
        assert plica.compile(circuit) is context[circuit]
