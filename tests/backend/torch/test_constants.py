"""Circuits in eval mode: parameters are computed once, the values are the same bits, gradients are untouched."""

import copy
import gc
import pickle
from typing import Any

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.constants.policy import SMALL, FoldPolicy
from plica.constants.store.cache import SHARED
from plica.errors import UnsupportedError
from plica.lower import cascade
from plica.pipeline import PipelineContext
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import KroneckerParameter, Parameter, SoftmaxParameter, normal
from plica.symbolic.semirings import Bound
from plica.templates.data_modalities import image_data
from tests.harness.circuits import CIRCUITS, chain, coin, data, product_then_sum, tensor
from tests.harness.eval_circuits import ParameterOperations, X, edges, image, operations, unfolded
from tests.harness.layer_cases.holding import OBSERVED_ROW, observed
from tests.harness.oracle import gradients

FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])
WAYS = pytest.mark.parametrize("way", ["exact", "scaled"])


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if way == "scaled" else 10**12)


@FLOATS
@WAYS
def test_no_operation_on_parameters_runs_after_the_first_call(dtype, way, monkeypatch) -> None:
    by(way, monkeypatch)
    circuit = TorchCompiler(dtype=dtype).compile(image())
    assert operations(circuit, X) > 5
    assert operations(circuit, X) > 5, "in train mode they run at each call"
    circuit.eval()
    assert operations(circuit, X) > 5
    assert operations(circuit, X) == 0
    assert operations(circuit, X[:1]) == 0, "another batch size folds nothing"
    assert operations(circuit, X[:0]) == 0
    circuit.train()
    assert operations(circuit, X) > 5


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "semiring"),
    [
        pytest.param(name, semiring, marks=pytest.mark.full if place % 2 == turn else [])  # the others take turns
        for place, name in enumerate(CIRCUITS)
        for turn, semiring in enumerate(["sum-product", "max-product", "lse-sum"])
    ],
)
def test_the_values_are_those_without_folding_bit_for_bit(name, semiring) -> None:
    try:
        circuit = TorchCompiler(semiring).compile(CIRCUITS[name]())
    except UnsupportedError:
        return  # the semiring does not carry the numbers of this circuit: tested where semirings are
    rows: list[Any] = [torch.from_numpy(data(circuit.symbolic, 5))] if circuit.scope else [None]
    if circuit.scope:
        rows += [rows[0][:0], rows[0].to(circuit.dtype)]
    for x in rows:
        with torch.no_grad():
            expected = circuit.train()(x)
            circuit.eval()
            for _ in range(2):
                assert torch.equal(circuit(x).nan_to_num(7.0), expected.nan_to_num(7.0))


@FLOATS
@WAYS
def test_rows_that_underflow_take_the_fallback(dtype, way, monkeypatch) -> None:
    by(way, monkeypatch)
    first = CategoricalLayer([0], 2, num_categories=2, logits=tensor([[0.0, -5000.0], [-9000.0, 0.0]]))
    total = SumLayer(2, 1, weight=Parameter.from_unary(SoftmaxParameter((1, 2)), tensor([[0.0, -3000.0]])))
    circuit = TorchCompiler(dtype=dtype).compile(chain(first, total))
    x = torch.tensor([[0], [1]])
    with torch.no_grad():
        expected = circuit(x)
        assert expected.flatten().tolist() == [0.0, -3000.0]
        circuit.eval()
        assert torch.equal(circuit(x), expected)
        assert torch.equal(circuit(x), expected)


# Gradients


def test_gradients_are_those_of_train_mode() -> None:
    circuit = TorchCompiler().compile(image())

    def found():
        circuit.zero_grad()
        circuit(X).sum().backward()
        return gradients(circuit)

    expected = found()
    circuit.eval()
    assert_same_gradients(found(), expected)
    assert circuit.constants.num_bytes == 0
    with torch.no_grad():
        assert not circuit(X).requires_grad
    assert_same_gradients(found(), expected)


def assert_same_gradients(found, expected) -> None:
    assert list(found) == list(expected)
    assert all((found[key] == expected[key]).all() for key in expected)


def test_gradients_of_data_go_through_what_is_kept() -> None:
    circuit = TorchCompiler().compile(CIRCUITS["gaussian"]()).requires_grad_(False)
    x = torch.from_numpy(data(circuit.symbolic, 4)).to(circuit.dtype)
    grads: list[Any] = []
    for one in (circuit.train(), circuit.eval()):
        with torch.inference_mode():
            one(x)
        row = x.clone().requires_grad_()
        one(row).sum().backward()
        grads.append(row.grad)
    assert circuit.constants.num_bytes > 0
    assert torch.equal(*grads)
    circuit.requires_grad_(True)
    circuit(x).sum().backward()
    assert all(one.grad is not None for one in circuit.parameters())


def test_forward_derivatives_of_parameters() -> None:
    circuit = TorchCompiler(dtype="float64").compile(image()).eval()
    params = {name: one.detach() for name, one in circuit.named_parameters()}
    ones = {name: torch.ones_like(one) for name, one in params.items()}

    def value(values):
        return torch.func.functional_call(circuit, values, (X,))

    with torch.no_grad():
        circuit(X)
        tangent = torch.func.jvp(value, (params,), (ones,))[1]
        step = {name: one + 1e-6 for name, one in params.items()}
        torch.testing.assert_close(tangent, (value(step) - value(params)) / 1e-6, atol=1e-5, rtol=1e-4)


# What is kept


def test_programs_and_circuits_share_what_they_keep(monkeypatch) -> None:
    by("exact", monkeypatch)
    compiler = TorchCompiler()
    circuit = compiler.compile(image()).eval()
    with torch.no_grad():
        circuit(X)
        kept = circuit.constants.num_bytes
        circuit(X.float())
        assert circuit.constants.num_bytes == kept, "data of floats reads the same weights"
        by("scaled", monkeypatch)
        circuit(X)
        table = next(circuit.leaves.parameters()).nbytes
        assert kept + table < circuit.constants.num_bytes < kept + 1.5 * table, (
            "linear inputs beside logarithms, row sums"
        )
        again = compiler.compile(Circuit(circuit.symbolic.layers, edges(circuit.symbolic), circuit.symbolic.outputs))
        gc.collect()
        before = len(SHARED)
        again.eval()  # which says that the tensors may have changed
        for one in (circuit, again):
            one(X)
        by("exact", monkeypatch)
        circuit(X), again(X), circuit(X.float())
        pointers = [
            {one.data_ptr() for program in each.constants._programs.values() for one in program.values()}
            for each in (circuit, again)
        ]
    assert pointers[0] == pointers[1]
    assert len(SHARED) <= before


def test_a_table_of_few_states_is_shared_with_data_that_may_be_missing(monkeypatch) -> None:
    by("exact", monkeypatch)
    sizes: dict[str, Any] = {"num_values": 7, "num_input_units": 8, "num_sum_units": 8}
    circuit = TorchCompiler().compile(
        image_data((1, 4, 4), "quad-tree-2", input_layer="categorical", sum_product_layer="cp", **sizes)
    )
    with torch.no_grad():
        circuit.eval()(torch.zeros(1, 16, dtype=torch.int64))
        kept = circuit.constants.num_bytes
        assert kept > 16 * 7 * 8 * 4, "sums of each state of each pixel"
        missing = torch.full((1, 16), torch.nan)
        torch.testing.assert_close(circuit(missing), torch.zeros(1, 1, 1), atol=1e-5, rtol=0.0)
        assert circuit.constants.num_bytes == kept + 16 * 8 * 4, "sums of the row for what is missing"


def test_what_is_missing_is_one_more_of_several_states(monkeypatch) -> None:
    by("exact", monkeypatch)
    sizes: dict[str, Any] = {"num_values": 16, "num_input_units": 8, "num_sum_units": 8}
    circuit = TorchCompiler().compile(
        image_data((1, 4, 4), "quad-tree-2", input_layer="categorical", sum_product_layer="cp", **sizes)
    )
    x = torch.randint(16, (5, 16)).float()
    x[torch.rand(x.shape) < 0.5] = torch.nan
    with torch.no_grad():
        expected = circuit(x)
        torch.testing.assert_close(circuit.eval()(x), expected)
        program = next(iter(circuit.constants._programs.values()))
        assert any(one.shape[0] == 16 * 17 for one in program.values())


def test_what_is_kept_goes_with_train_mode_and_with_the_circuit() -> None:
    gc.collect()
    before = len(SHARED)
    circuit = TorchCompiler().compile(image()).eval()
    with torch.no_grad():
        circuit(X)
    assert len(SHARED) > before
    assert circuit.constants.num_bytes > 0
    circuit.train()
    with torch.no_grad():
        circuit(X)
        assert len(SHARED) == before, "the first call in train mode gives back what was kept"
        assert circuit.constants.num_bytes == 0
        circuit.eval()(X)
    del circuit
    gc.collect()
    assert len(SHARED) == before


def _kronecker() -> Circuit:
    """A weight of 128 x 4096 numbers that is computed from few."""
    weight = Parameter.from_binary(KroneckerParameter((16, 64), (8, 64)), normal((16, 64)), normal((8, 64)))
    inputs = [CategoricalLayer([variable], 4096, num_categories=2) for variable in range(2)]
    both = HadamardLayer(4096)
    total = SumLayer(4096, 128, weight=Parameter.from_unary(SoftmaxParameter((128, 4096)), weight))
    last = SumLayer(128, 1)
    return Circuit([*inputs, both, total, last], {both: inputs, total: [both], last: [total]}, [last])


@pytest.mark.parametrize(("policy", "most"), [(None, 2**18 + SMALL), (FoldPolicy(max_growth=1000), 1000)])
def test_what_is_kept_is_within_the_policy(policy, most) -> None:
    context = PipelineContext(optimize=False, policy=policy)
    circuit = context.compile(_kronecker()).eval()
    x = torch.tensor([[0, 1], [1, 1]])
    with torch.no_grad():
        torch.testing.assert_close(circuit(x), unfolded(circuit, x))
    assert 0 < circuit.constants.num_bytes <= most
    whole = PipelineContext(optimize=False, policy=FoldPolicy(max_growth=None)).compile(circuit.symbolic).eval()
    with torch.no_grad():
        whole(x)
    assert whole.constants.num_bytes > 128 * 4096 * 4


@pytest.mark.parametrize(("policy", "fate"), [(None, "folded"), (FoldPolicy(max_growth=0), "cut")])
def test_explain_tells_what_is_folded_and_what_is_not(policy, fate, monkeypatch) -> None:
    by("exact", monkeypatch)
    circuit = TorchCompiler(policy=policy).compile(image()).eval()
    report = circuit.constant_report()
    (softmax, *_) = (one for one in report.values if one.operation == "softmax")
    assert softmax.fate.value == fate
    assert report.before is not None
    assert report.after is not None
    assert report.after == report.before or fate == "folded"
    text = circuit.explain()
    assert "constants, in eval mode (0 bytes are kept now):\n" + str(report) in text
    with torch.no_grad():
        circuit(X)
    assert circuit.constants.num_bytes == report.after - report.before, "as it is foretold"
    assert circuit.explain() == text.replace("(0 bytes", f"({circuit.constants.num_bytes:,} bytes")


def test_parts_of_tensors_are_read_where_they_are() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    with torch.no_grad():
        circuit(X)
    (program,) = circuit.constants._programs.values()
    own = {one.untyped_storage().data_ptr() for one in circuit.leaves.tensors()}
    kept = program.values()
    views = [one for one in kept if one.untyped_storage().data_ptr() in own]
    assert views, "the weights of several groups lie in one tensor"
    others = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in kept}
    assert circuit.constants.num_bytes == sum(size for place, size in others.items() if place not in own)


def test_state_dicts_and_copies_have_nothing_of_what_is_kept() -> None:
    circuit = TorchCompiler().compile(image())
    state = {key: value.clone() for key, value in circuit.state_dict().items()}
    size = len(pickle.dumps(circuit))
    circuit.eval()
    with torch.no_grad():
        expected = circuit(X)
    sample(circuit, 2, seed=0)
    assert list(circuit.state_dict()) == list(state)
    assert all(torch.equal(value, state[key]) for key, value in circuit.state_dict().items())
    assert len(list(circuit.buffers())) == 1, "what carries the dtype"
    assert len(pickle.dumps(circuit)) < size + 1000
    for other in (copy.deepcopy(circuit), pickle.loads(pickle.dumps(circuit))):
        assert not other.training
        with torch.no_grad():
            assert torch.equal(other(X), expected)
            for one in other.parameters():
                one.mul_(2.0)
            assert torch.equal(other(X), unfolded(other))
            assert torch.equal(circuit(X), expected)


def test_a_result_is_the_callers_to_write_to() -> None:
    inputs = [observed(coin([place], 2), 1) for place in range(2)]
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(OBSERVED_ROW)
    circuit = compiler.compile(product_then_sum(HadamardLayer(2, 2), inputs)).eval()
    with torch.no_grad():
        expected = circuit.train()().clone()
        for _ in range(3):
            found = circuit.eval()()
            assert torch.equal(found, expected)
            assert torch.equal(circuit().mul_(7.0), 7.0 * expected)
            assert torch.equal(circuit(), expected)


# Ways to call


def test_queries_keep_what_they_compute_and_see_changes() -> None:
    circuit = TorchCompiler().compile(image())
    x = X.float()
    x[:, :4] = float("nan")
    for _ in range(2):
        drawn, best = sample(circuit.train(), 3, seed=0), mpe(circuit, x)
        circuit.eval()
        for _ in range(2):
            assert torch.equal(sample(circuit, 3, seed=0), drawn)
            assert all(map(torch.equal, mpe(circuit, x), best))
        with ParameterOperations(circuit) as mode:
            sample(circuit, 3, seed=0), mpe(circuit, x)
        assert mode.count == 0
        with torch.no_grad():
            for one in circuit.parameters():
                one.mul_(-1.0)
        assert not torch.equal(sample(circuit, 30, seed=0), sample(circuit, 30, seed=1))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_queries_in_other_dtypes(dtype) -> None:
    circuit = TorchCompiler(dtype=dtype).compile(image())
    drawn = sample(circuit, 3, seed=0)
    circuit.eval()
    assert torch.equal(sample(circuit, 3, seed=0), drawn)
    with torch.no_grad():
        expected = circuit.train()(X)
        assert torch.equal(circuit.eval()(X), expected)


def test_a_first_call_in_inference_mode_and_training_after_it() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    with torch.inference_mode():
        expected = circuit(X)
    with torch.no_grad():
        assert torch.equal(circuit(X), expected)
    optimizer = torch.optim.SGD(circuit.train().parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (-circuit(X).sum()).backward()
        optimizer.step()
    with torch.inference_mode():
        assert circuit.eval()(X).sum() > expected.sum()
        assert torch.equal(circuit(X), unfolded(circuit))


def test_torch_compile_reads_the_parameters() -> None:
    torch._dynamo.reset()
    circuit = TorchCompiler().compile(image()).eval()
    fast = torch.compile(circuit, fullgraph=True, backend="eager")
    with torch.no_grad():
        circuit(X)
        for _ in range(2):
            torch.testing.assert_close(fast(X), circuit(X))
            for one in circuit.parameters():
                one.mul_(2.0)


def test_a_circuit_without_variables_and_one_on_the_meta_device() -> None:
    circuit = TorchCompiler().compile(image()).eval()
    with torch.no_grad():
        assert circuit.to("meta")(X.to("meta")).is_meta
