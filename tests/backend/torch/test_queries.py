"""Samples against exact probabilities, and what comes with them; seeds are fixed, so that tests are deterministic."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from plica.backend.torch import queries
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import SamplingQuery, query_of
from plica.errors import InputError, ShapeError, StructuralPropertyError, UnsupportedError
from plica.lower.queries.sample import SAMPLING
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    ConstantValueLayer,
    EvidenceLayer,
    GaussianLayer,
    HadamardLayer,
    InputLayer,
    KroneckerLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, Parameter, SoftmaxParameter
from plica.symbolic.scope import Scope
from plica.templates.region_graph import LinearTree, QuadGraph, QuadTree, RandomBinaryTree
from tests.harness.allocations import peak_bytes
from tests.harness.circuits import (
    bag,
    chain,
    coin,
    constant,
    exp_normal,
    gaussians,
    graph_circuit,
    mixing,
    mixture,
    pixels,
    product_then_sum,
    several_sizes,
    shared,
    tensor,
    unnormalized,
)
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.own_layers import NEIGHBOURS, NEIGHBOURS_WITHOUT_CHOICE, PAIRS, NeighbourSum, PairLayer
from tests.harness.statistics import assert_distribution, frequencies

NUMBER = 20_000


def zeros() -> Circuit:
    """Most states have probability zero: x1 = x0, and neither is 1; the first state of a row is never drawn."""
    rows = [[0.0, 0, 1, 0], [0.25, 0, 0, 0.75]]
    inputs = [CategoricalLayer([v], 2, num_categories=4, probs=constant(rows)) for v in range(2)]
    return product_then_sum(HadamardLayer(2, 2), inputs, weight=constant([[3.0, 1.0]]))


def with_an_impossible_branch() -> Circuit:
    """A weight of zero, and an input whose total is zero under a large weight."""
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.0, 0.0], [0.3, 0.7]]))
    second = CategoricalLayer([0], 2, num_categories=2, probs=constant([[1.0, 1.0], [0.5, 0.5]]))
    return bag(SumLayer(2, 1, 2, weight=constant([[9.0, 1.0, 0.0, 2.0]])), first, second)


def quad_graph(sum_product: str, **settings) -> Circuit:
    return graph_circuit(QuadGraph((1, 2, 2)), sum_product, nary_sum_weight_factory=mixing, **settings)


def with_known(last: InputLayer) -> Circuit:
    """Kronecker products of two coins and a layer of what is known: evidence, or what a marginal leaves."""
    return product_then_sum(KroneckerLayer(2, 3), [*(coin([v], 2) for v in range(2)), last], weight_factory=exp_normal)


CIRCUITS = {
    "evidence": lambda: with_known(EvidenceLayer(coin([2], 2), observation=[1])),
    "marginal": lambda: with_known(ConstantValueLayer(2, value=ConstantParameter(2, value=[0.25, 2.0]))),
    "one input": lambda: chain(coin([0], 1, 5)),
    "mixture": lambda: mixture(3, outputs=1),
    "tree": lambda: graph_circuit(RandomBinaryTree(5), "cp"),
    "two trees, dense": lambda: graph_circuit(RandomBinaryTree(4, num_repetitions=2), "cp-t"),
    "linear tree": lambda: graph_circuit(LinearTree(4, ordering=[2, 0, 3, 1]), "tucker"),
    "quad graph, mixing": lambda: quad_graph("cp-t", units=3),
    "quad graph, cp": lambda: quad_graph("cp"),
    "tucker": lambda: quad_graph("tucker"),
    "kronecker of 3": lambda: product_then_sum(KroneckerLayer(2, 3), [coin([v], 2) for v in range(3)]),
    "kronecker of 4": lambda: graph_circuit(QuadTree((1, 2, 2), num_patch_splits=4), "tucker"),
    "unnormalized": unnormalized,
    "unnormalized tree": lambda: graph_circuit(RandomBinaryTree(4), "cp", sum_weight_factory=exp_normal),
    "shared tensors": shared,
    "zeros": zeros,
    "impossible branch": with_an_impossible_branch,
}


def assert_samples(compiled, samples: torch.Tensor) -> None:
    states = all_states(compiled.symbolic)
    logs = Oracle(compiled.symbolic, numbers(compiled)).log(states)[:, 0, 0]
    assert_distribution(frequencies(states, samples.numpy()), np.exp(logs - logs.max()).astype(float))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "fold"),
    [
        pytest.param(name, fold, marks=pytest.mark.full if (place + fold) % 2 else [])  # they take turns
        for place, name in enumerate(CIRCUITS)
        for fold in (True, False)
    ],
)
def test_samples_follow_the_exact_distribution(name: str, fold: bool) -> None:
    torch.manual_seed(1)
    compiled = TorchCompiler(fold=fold).compile(CIRCUITS[name]())
    samples, _ = SamplingQuery(compiled)(NUMBER, generator=torch.Generator().manual_seed(2))
    assert samples.dtype == torch.int64
    assert samples.shape == (NUMBER, compiled.num_variables)
    assert_samples(compiled, samples)


def test_gaussian_samples_by_kolmogorov_and_smirnov() -> None:
    for circuit in (gaussians(1, num_variables=1), gaussians(3), gaussians(2, log_partition=True)):
        torch.manual_seed(3)
        compiled = TorchCompiler(dtype="float64").compile(circuit)
        samples, _ = SamplingQuery(compiled)(NUMBER, generator=torch.Generator().manual_seed(4))
        assert samples.dtype == torch.float64
        oracle = Oracle(circuit, numbers(compiled))
        weight = np.ravel(oracle.parameter(circuit.sum_layers[0].weight))
        for layer in circuit.input_layers:  # of a product of normal densities, each is weighted by the others' totals
            total = np.ones(layer.num_output_units)
            for other in circuit.input_layers:
                if "log_partition" in other.params:
                    total = total * np.exp(oracle.parameter(other.params["log_partition"]))
            shares = (weight * total / (weight * total).sum()).astype(float)
            mean, stddev = (oracle.parameter(layer.params[name]).astype(float) for name in ("mean", "stddev"))

            def distribution(x, mean=mean, stddev=stddev, shares=shares):
                return (shares * stats.norm.cdf(x[:, None], mean, stddev)).sum(axis=1)

            (variable,) = layer.scope
            assert stats.kstest(samples[:, variable].numpy(), distribution).pvalue > 1e-3


def test_samples_of_several_kinds_of_variables() -> None:
    torch.manual_seed(5)
    compiled = TorchCompiler(dtype="float64").compile(several_sizes())
    samples, _ = SamplingQuery(compiled)(NUMBER)
    assert samples.dtype == torch.float64
    assert not samples[:, 2].any()  # no layer reads column 2
    states = np.array([[a, b, 0, 0] for a in range(2) for b in range(4)], float)
    states[:, 3] = np.nan
    counts = frequencies(states[:, :2], samples[:, :2].numpy())
    weights = compiled(torch.from_numpy(states)).exp().flatten().detach().numpy()
    assert_distribution(counts, weights)


def test_choices_and_samples_have_the_right_joint_distribution() -> None:
    """A column h*I + i of the weight is unit i of input h."""
    torch.manual_seed(6)
    circuit = mixture(3, outputs=1)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    samples, choices = SamplingQuery(compiled)(NUMBER)
    assert list(choices) == [3]
    oracle = Oracle(circuit, numbers(compiled))
    weight = oracle.parameter(circuit.sum_layers[0].weight)[0]
    inputs = np.concatenate(
        [oracle.part(layer).linear(np.arange(3)[:, None])[:, 0] for layer in circuit.input_layers], 1
    )
    pairs = np.array([[column, state] for column in range(9) for state in range(3)])
    weights = np.array([weight[column] * inputs[state, column] for column, state in pairs], float)
    assert_distribution(frequencies(pairs, torch.stack([choices[3], samples[:, 0]], 1).numpy()), weights)


def one_state(variable: int, states: list[int]) -> CategoricalLayer:
    """Unit k is always `states[k]`."""
    return CategoricalLayer([variable], len(states), num_categories=4, probs=constant(np.eye(4)[states]))


def test_choices_tell_the_sample() -> None:
    """Every state stands for one path, so that the choices along it are known."""
    inputs = [one_state(0, [0, 1]), one_state(0, [2, 3])]
    low, high = SumLayer(2, 2, weight=constant([[0.5, 0.5], [0.0, 1.0]])), SumLayer(2, 2, weight=constant(np.eye(2)))
    mixed = SumLayer(2, 2, 2, weight_factory=mixing)
    root = SumLayer(2, 1)
    edges: dict[Any, Any] = {low: [inputs[0]], high: [inputs[1]], mixed: [low, high], root: [mixed]}
    circuit = Circuit([*inputs, *edges], edges, [root])
    samples, choices = SamplingQuery(TorchCompiler().compile(circuit))(500)
    by_layer = {layer: choices[circuit.layer_index(layer)] for layer in edges}
    state, from_high = samples[:, 0], samples[:, 0] >= 2
    assert torch.equal(by_layer[mixed], from_high.long())
    assert torch.equal(by_layer[high], torch.where(from_high, by_layer[root], -1))
    assert torch.equal(by_layer[high][from_high], state[from_high] - 2)
    assert torch.equal(by_layer[low][~from_high], state[~from_high])
    assert (by_layer[low][from_high] == -1).all()
    assert len(set(state.tolist())) == 4


def test_layers_that_the_output_does_not_read_do_not_matter() -> None:
    first, second = one_state(0, [2]), one_state(0, [1])
    unread, root = SumLayer(1, 1, 2), SumLayer(1, 1)
    circuit = Circuit([first, second, unread, root], {unread: [first, second], root: [first]}, [root])
    samples, choices = SamplingQuery(TorchCompiler().compile(circuit))(20)
    assert (samples == 2).all()
    assert {index: set(values.tolist()) for index, values in choices.items()} == {
        circuit.layer_index(unread): {-1},
        circuit.layer_index(root): {0},
    }


def test_no_samples() -> None:
    for circuit, dtype in ((mixture(2, outputs=1), torch.int64), (gaussians(), torch.float32)):
        samples, choices = SamplingQuery(TorchCompiler().compile(circuit))(0)
        assert samples.shape == (0, circuit.num_variables)
        assert samples.dtype == dtype
        assert [values.shape for values in choices.values()] == [(0,)]
    assert SamplingQuery(TorchCompiler().compile(chain(coin([0], 1))))()[0].shape == (1, 1)


@pytest.mark.parametrize("chunk", [1, 1000, 12_345])
def test_samples_in_chunks(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    compiled = TorchCompiler().compile(CIRCUITS["quad graph, mixing"]())
    query = SamplingQuery(compiled)
    number = NUMBER if chunk > 1 else 50
    expected, expected_choices = query(number, generator=torch.Generator().manual_seed(7))
    monkeypatch.setattr(queries.TorchQuery, "rows_at_once", lambda _: chunk)
    samples, choices = query(number, generator=torch.Generator().manual_seed(7))
    assert torch.equal(samples, expected)
    assert len(samples) == number
    assert all(torch.equal(choices[index], expected_choices[index]) for index in expected_choices)


def test_generators_decide() -> None:
    query = SamplingQuery(TorchCompiler().compile(CIRCUITS["tree"]()))

    def draw(seed: int) -> torch.Tensor:
        return query(50, generator=torch.Generator().manual_seed(seed))[0]

    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))
    torch.manual_seed(0)
    first = query(50)[0]
    assert not torch.equal(first, query(50)[0])
    torch.manual_seed(0)
    assert torch.equal(first, query(50)[0])


def test_copies_and_circuits_with_shared_tensors_sample_alike() -> None:
    circuit = CIRCUITS["two trees, dense"]()
    compiler = TorchCompiler()
    compiler.compile(circuit.subgraph(circuit.sum_layers[0]))  # owns some of the tensors
    compiled = compiler.compile(circuit)
    alone = TorchCompiler(fold=False).compile(circuit)
    alone.load_state_dict(compiled.state_dict())
    expected, _ = SamplingQuery(compiled)(100, generator=torch.Generator().manual_seed(9))
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.equal(SamplingQuery(other)(100, generator=torch.Generator().manual_seed(9))[0], expected)
    for one in (compiled, alone):
        assert_samples(one, SamplingQuery(one)(NUMBER)[0])


def test_samples_follow_the_parameters_and_the_dtype() -> None:
    compiled = TorchCompiler().compile(chain(coin([0], 1)))
    query = SamplingQuery(compiled)
    for state in range(2):
        compiled.load_state_dict({"0.logits": torch.tensor([[1.0 - state, float(state)]]) * 1000})
        assert (query(20)[0] == state).all()
    compiled = TorchCompiler().compile(gaussians())
    query = SamplingQuery(compiled)
    assert query(3)[0].dtype == torch.float32
    compiled.double()
    assert query(3)[0].dtype == torch.float64
    assert "f32" not in str(query.program)
    assert not query(3)[0].requires_grad


def negative() -> Circuit:
    weight = tensor([[1.0, -0.5]])
    return chain(
        CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.5, 0.5]] * 2)), SumLayer(2, 1, weight=weight)
    )


def nothing() -> Circuit:
    return chain(coin([0], 2), SumLayer(2, 1, weight=constant([[0.0, 0.0]])))


COINS = [coin([0], 1), coin([1], 1)]
REFUSED = {
    "not smooth": (lambda: bag(SumLayer(1, 1, 2), *COINS), StructuralPropertyError, "sampling needs a smooth circuit"),
    "not decomposable": (
        lambda: bag(HadamardLayer(1, 2), COINS[0], COINS[0]),
        StructuralPropertyError,
        "sampling needs a decomposable circuit",
    ),
    "two outputs": (lambda: Circuit(COINS, {}, COINS), ShapeError, "needs one output of one unit, found 2 of 1"),
    "two units": (lambda: chain(coin([0], 2)), ShapeError, "needs one output of one unit, found 1 of 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_circuits_that_cannot_be_sampled(case: str) -> None:
    build, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        SamplingQuery(TorchCompiler().compile(build()))


def test_weights_that_cannot_be_sampled() -> None:
    query = SamplingQuery(TorchCompiler("sum-product").compile(negative()))
    with pytest.raises(StructuralPropertyError, match="weights that are not negative, but a layer has a negative one"):
        query(3)
    with pytest.raises(InputError, match="logarithm of the circuit's total is -inf, so there is nothing to sample"):
        SamplingQuery(TorchCompiler().compile(nothing()))(3)
    with pytest.raises(InputError, match="num_samples is -1, expected at least 0"):
        query(-1)


def test_inputs_with_negative_numbers_are_no_distributions() -> None:
    layer = CategoricalLayer([0], 1, num_categories=2, probs=constant([[1.5, -0.5]]))
    compiled = TorchCompiler("sum-product").compile(chain(layer))
    for ask in (lambda: sample(compiled, 3), lambda: mpe(compiled, torch.tensor([[np.nan]]))):
        with pytest.raises(StructuralPropertyError, match="weights that are not negative, but a layer has a negative"):
            ask()


def of_ones_own() -> Circuit:
    """Sums and inputs with rows of a user's."""
    rng = np.random.default_rng(20)
    inputs = [PairLayer(Scope([0, 2]), 3, 2, Parameter.from_input(tensor(rng.uniform(size=(3, 4))))) for _ in range(2)]
    other = coin([1], 3)
    sums = [
        NeighbourSum(3, len(read), Parameter.from_input(tensor(rng.normal(size=(3, 2 * len(read))))))
        for read in (inputs, [other])
    ]
    product, root = HadamardLayer(3, 2), SumLayer(3, 1)
    edges: dict[Any, Any] = {sums[0]: inputs, sums[1]: [other], product: sums, root: [product]}
    return Circuit([*inputs, other, *edges], edges, [root])


@pytest.mark.parametrize("fold", [True, False])
def test_layers_of_ones_own_are_sampled(fold: bool) -> None:
    compiler = TorchCompiler(fold=fold, dtype="float64")
    compiler.add_layer_rule(NEIGHBOURS)
    compiler.add_layer_rule(PAIRS)
    compiled = compiler.compile(of_ones_own())
    samples, choices = SamplingQuery(compiled)(NUMBER, generator=torch.Generator().manual_seed(21))
    states = all_states(compiled.symbolic)
    weights = compiled(torch.from_numpy(states)).exp().flatten().detach().numpy()
    assert_distribution(frequencies(states, samples.numpy()), weights)
    assert [int(choices[index].max()) for index in sorted(choices)] == [3, 1, 2]  # terms of 2 * arity, then 3 columns


def test_a_sum_that_does_not_say_how_it_chooses() -> None:
    compiler = TorchCompiler()
    compiler.add_layer_rule(NEIGHBOURS_WITHOUT_CHOICE)
    compiler.add_layer_rule(PAIRS)
    compiled = compiler.compile(of_ones_own())
    with pytest.raises(
        UnsupportedError, match=r"sampling does not support NeighbourSum\(3, .*its SumRow does not say how"
    ):
        SamplingQuery(compiled)


def test_sampling_from_either_semiring() -> None:
    torch.manual_seed(8)
    compiled = TorchCompiler("sum-product").compile(CIRCUITS["tree"]())
    assert_samples(compiled, SamplingQuery(compiled)(NUMBER)[0])


MEMORY = """
import resource, torch
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import SamplingQuery, query_of
from plica.templates.data_modalities import image_data
imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # torch alone has 200 MiB, and 500 where it knows CUDA
circuit = image_data((1, 28, 28), "quad-tree-2", input_layer="categorical", num_input_units=32,
                     sum_product_layer="cp", num_sum_units=32)
samples, _ = SamplingQuery(TorchCompiler().compile(circuit))(1000)
assert samples.shape == (1000, 784) and samples.max() < 256
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - imported)
"""


def test_samples_take_less_than_the_rows_that_they_choose() -> None:
    """Gathering those would take 196 * 1000 * 256 numbers, of four bytes each; the limit is half of it."""
    circuit = pixels(14, 32, values=256)
    query = SamplingQuery(TorchCompiler().compile(circuit))
    assert peak_bytes(lambda: query(1000)) < 196 * 1000 * 256 * 2


@pytest.mark.full
def test_a_thousand_samples_of_784_variables_take_less_than_384_mib() -> None:
    """32 units and 256 values: gathering the rows that samples choose would take 784 * 1000 * 256 numbers."""
    result = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert int(result.stdout) * 1024 < 3 * 2**27


def table(*rows: list[float], variable: int = 0) -> CategoricalLayer:
    """A categorical layer of constant probabilities."""
    return CategoricalLayer([variable], len(rows), num_categories=len(rows[0]), probs=constant(list(rows)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_states_of_probability_zero_are_never_drawn_from_subnormal_tables(dtype: torch.dtype) -> None:
    """A uniform number times a subnormal total may round up to the total, which lies beyond every state."""
    smallest = {torch.float32: 2.0**-149, torch.float64: 2.0**-1074}[dtype]
    rows = [[0.0, smallest, 0.0], [2 * smallest, smallest, 0.0], [smallest, 0.0, 3 * smallest]]
    for row in rows:
        compiled = TorchCompiler(dtype=dtype).compile(chain(table(row)))
        samples, _ = SamplingQuery(compiled)(2000, generator=torch.Generator().manual_seed(30))
        assert_distribution(np.bincount(samples[:, 0].numpy(), minlength=3), np.array(row) / smallest)


def test_searches_of_subnormal_tables_find_no_place_without_weight() -> None:
    """In a row of a user's that does not normalize its table."""
    inputs = PairLayer(Scope([0, 1]), 1, 2, Parameter.from_input(constant([[0.0, 2.0**-149, 0.0, 0.0]])))
    compiler = TorchCompiler(dtype="float32")
    compiler.add_layer_rule(PAIRS)
    samples, _ = SamplingQuery(compiler.compile(chain(inputs)))(500)
    assert samples.unique(dim=0).tolist() == [[0, 1]]


def test_a_uniform_number_of_zero_draws_nothing_that_is_next_to_impossible() -> None:
    """The smallest uniform numbers stand for an interval: not for a first state of probability 1e-40."""
    compiled = TorchCompiler(dtype="float32").compile(chain(table([1e-40, 0.5, 0.5])))
    query = query_of(compiled, SAMPLING, None)
    drawn = query.uniforms(3, torch.device("cpu"), None)
    assert drawn is not None
    assert float(drawn.min()) > 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", lambda shape, **settings: torch.zeros(shape, dtype=settings["dtype"]))
        answer, _ = query(compiled, None, query.uniforms(2, torch.device("cpu"), None))
        assert answer.rows.flatten().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_gaussians_of_any_dtype_are_finite_and_right(dtype: torch.dtype) -> None:
    """float16 has 2048 uniform numbers, 0 among them, and rounds others to 1."""
    layer = GaussianLayer([0], 1, mean=constant([3.0]), stddev=constant([2.0]))
    compiled = TorchCompiler(dtype=dtype).compile(chain(layer))
    samples, _ = SamplingQuery(compiled)(NUMBER, generator=torch.Generator().manual_seed(31))
    assert samples.dtype == dtype
    assert torch.isfinite(samples).all()
    rounding = {torch.float16: 0.004}.get(dtype, 0.0)  # half of a step of float16 near 5, times the density
    found = stats.kstest(samples[:, 0].double().numpy(), stats.norm(3, 2).cdf).statistic
    assert found < stats.kstwo.isf(1e-3, NUMBER) + rounding
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", lambda shape, **settings: torch.zeros(shape, dtype=settings["dtype"]))
        assert torch.isfinite(SamplingQuery(compiled)(1)[0]).all()


def test_samples_that_float16_does_not_have_are_its_largest_number() -> None:
    layer = GaussianLayer([0], 1, mean=constant([65000.0]), stddev=constant([1000.0]))
    samples, _ = SamplingQuery(TorchCompiler(dtype="float16").compile(chain(layer)))(500)
    assert torch.isfinite(samples).all()
    assert (samples == torch.finfo(torch.float16).max).any()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_weights_of_extreme_scales(dtype: str) -> None:
    """Logits around -4000 and 4000, which no float holds as ordinary numbers."""
    logits = [[-4000.0, -3999.0], [3996.0, 4000.0]]
    inputs = [CategoricalLayer([v], 2, num_categories=2, logits=tensor(logits)) for v in range(2)]
    inputs.append(CategoricalLayer([2], 2, num_categories=2, logits=tensor([[8000.0, 8000.0], [-8001.0, -8001.0]])))
    weight = Parameter.from_unary(SoftmaxParameter((1, 2)), tensor([[-2000.0, -2000.0]]))
    compiled = TorchCompiler(dtype=dtype).compile(product_then_sum(HadamardLayer(2, 3), inputs, weight=weight))
    assert_samples(compiled, SamplingQuery(compiled)(4000, generator=torch.Generator().manual_seed(32))[0])
