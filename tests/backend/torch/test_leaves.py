"""State dicts: unfolded names and shapes whatever was folded, and messages that name them."""

import copy
from functools import partial
from keyword import kwlist
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.leaves import Leaves, attribute_of, foldwise_initializer_
from plica.errors import GraphError, ShapeError
from plica.lower.leaves import Leaf, Pointer
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer, NormalInitializer, UniformInitializer
from plica.symbolic.layers import HadamardLayer, SumLayer
from plica.symbolic.parameters import HadamardParameter, Parameter, TensorParameter
from tests.harness.circuits import CIRCUITS, bag, chain, coin, constant, data, gaussians, mixture, shared
from tests.harness.oracle import keys, numbers
from tests.harness.together import grouped

FLAGS = pytest.mark.parametrize("fold", [True, False])


@FLAGS
@grouped("name", CIRCUITS)
def test_keys_are_layer_and_parameter_and_shapes_are_unfolded(name: str, fold: bool) -> None:
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(fold=fold).compile(circuit)
    expected = {key: leaf.shape for leaf, key in keys(circuit).items()}
    assert {key: tuple(value.shape) for key, value in compiled.state_dict().items()} == expected


def test_keys_spelled_out() -> None:
    def keys_of(circuit: Circuit) -> list[str]:
        return sorted(TorchCompiler().compile(circuit).state_dict())

    assert keys_of(gaussians(2, num_variables=1, log_partition=True)) == [
        "0.log_partition",
        "0.mean",
        "0.stddev",
        "2.weight",
    ]
    assert keys_of(shared()) == ["2.logits", "3.weight", "7.weight", "table"]
    normal = NormalInitializer()
    factors = TensorParameter(1, 2, initializer=normal), TensorParameter(1, 2, initializer=normal, learnable=False)
    weight = Parameter.from_binary(HadamardParameter((1, 2), (1, 2)), *factors)
    assert keys_of(chain(coin([0], 2), SumLayer(2, 1, weight=weight))) == ["0.logits", "1.weight.0", "1.weight.1"]


def test_two_tensors_of_one_name_are_refused() -> None:
    layers = [SumLayer(2, 2, weight=TensorParameter(2, 2, initializer=NormalInitializer(), name="w")) for _ in range(2)]
    with pytest.raises(GraphError, match="two tensors of the circuit have the key 'w'"):
        TorchCompiler().compile(chain(coin([0], 2), *layers))


def test_leaves_shared_by_reference_are_one_tensor() -> None:
    compiled = TorchCompiler(fold=False).compile(shared())
    assert len(list(compiled.parameters())) == 4
    x = torch.tensor([[0, 0, 1], [1, 1, 2]])
    before = compiled(x)
    state = {key: value.clone() for key, value in compiled.state_dict().items()}
    state["table"] += torch.arange(3.0)
    compiled.load_state_dict(state)
    assert not torch.equal(compiled(x), before)


def test_learnable_leaves_are_parameters_and_the_others_buffers() -> None:
    fixed = TensorParameter(1, 2, initializer=UniformInitializer(), learnable=False)
    compiled = TorchCompiler().compile(chain(coin([0], 2), SumLayer(2, 1, weight=fixed)))
    assert [tuple(parameter.shape) for parameter in compiled.parameters()] == [(1, 2, 2)]
    assert sorted(compiled.state_dict()) == ["0.logits", "1.weight"]
    assert not compiled.state_dict()["1.weight"].requires_grad


@FLAGS
def test_a_state_dict_moves_between_circuits(fold: bool) -> None:
    circuit = CIRCUITS["quad graph, mixing"]()
    source, target = TorchCompiler().compile(circuit), TorchCompiler(fold=fold).compile(circuit)
    x = torch.from_numpy(data(circuit, 4))
    assert not torch.allclose(source(x), target(x))
    assert target.load_state_dict(source.state_dict()).missing_keys == []
    torch.testing.assert_close(source(x), target(x), rtol=1e-6, atol=1e-6)


def test_assigned_tensors_are_used_with_their_dtype() -> None:
    circuit = mixture(2)
    compiled = TorchCompiler().compile(circuit)
    state = {key: value.double() + 1 for key, value in compiled.state_dict().items()}
    compiled.load_state_dict(state, assign=True)
    assert compiled.dtype == torch.float64
    assert all(torch.equal(value, state[key]) for key, value in compiled.state_dict().items())
    assert compiled(torch.tensor([[1]])).dtype == torch.float64
    compiled.load_state_dict({key: value.float() for key, value in state.items()})  # copied: the dtype stays
    assert compiled.dtype == torch.float64


WRONG = {
    "missing": (lambda state: state.pop("1.logits"), r'Missing key\(s\) in state_dict: "1.logits"'),
    "unexpected": (lambda state: state.update(other=torch.ones(1)), r'Unexpected key\(s\) in state_dict: "other"'),
    "shape": (
        lambda state: state.update({"1.logits": torch.ones(2, 2)}),
        r"size mismatch for 1.logits: expected shape \(3, 3\), found \(2, 2\)",
    ),
}


@FLAGS
@pytest.mark.parametrize("prefix", ["", "1."])
@pytest.mark.parametrize("problem", WRONG)
def test_errors_name_unfolded_keys(fold: bool, prefix: str, problem: str) -> None:
    """Alone, and inside another module."""
    compiled = TorchCompiler(fold=fold).compile(mixture(2))
    module = torch.nn.Sequential(torch.nn.Identity(), compiled) if prefix else compiled
    state = compiled.state_dict()
    change, message = WRONG[problem]
    change(state)
    message = message.replace('"1.', f'"{prefix}1.').replace("for 1.", f"for {prefix}1.").replace('"o', f'"{prefix}o')
    with pytest.raises(RuntimeError, match=message) as caught:
        module.load_state_dict({f"{prefix}{key}": value for key, value in state.items()})
    assert "leaves" not in str(caught.value)


@FLAGS
def test_without_strict_what_is_there_is_loaded(fold: bool) -> None:
    compiled = TorchCompiler(fold=fold).compile(mixture(3))
    before = numbers(compiled)
    result = compiled.load_state_dict({"1.logits": torch.zeros(3, 3), "other": torch.ones(1)}, strict=False)
    assert sorted(result.missing_keys) == ["0.logits", "2.logits", "3.weight"]
    assert result.unexpected_keys == ["other"]
    after = numbers(compiled)
    assert not after["1.logits"].any()
    assert all(np.array_equal(after[key], before[key]) for key in before if key != "1.logits")


def test_initial_values_come_from_initializers_and_the_seed() -> None:
    circuit = mixture(2, weight_factory=lambda shape: TensorParameter(*shape, initializer=UniformInitializer(2, 3)))
    first, second = TorchCompiler().compile(circuit), TorchCompiler(fold=False).compile(circuit)
    assert 2 <= float(first.state_dict()["2.weight"].min()) <= float(first.state_dict()["2.weight"].max()) <= 3
    assert not np.array_equal(numbers(first)["0.logits"], numbers(second)["0.logits"])
    for reset in (lambda c: c.reset_parameters(11), lambda c: (torch.manual_seed(12), c.reset_parameters())):
        reset(first)
        reset(second)
        assert all(np.array_equal(value, numbers(second)[key]) for key, value in numbers(first).items())
    logits = numbers(first)
    assert not np.array_equal(logits["0.logits"], logits["1.logits"])  # each tensor draws its own


def test_constants_are_no_part_of_the_state() -> None:
    weight = constant([[0.5, 0.5]])
    compiled = TorchCompiler().compile(bag(SumLayer(2, 1, weight=weight), coin([0], 2)))
    assert list(compiled.state_dict()) == ["0.logits"]


def test_a_name_of_ones_own_is_the_key() -> None:
    named = TensorParameter(2, 2, initializer=NormalInitializer(), name="shared.weight")
    product = HadamardLayer(2, 2)
    inputs = [coin([v], 2) for v in range(2)]
    sums = [SumLayer(2, 2, weight=named), SumLayer(2, 2, weight=Parameter.from_input(named).ref())]
    edges: dict[Any, Any] = {sums[0]: [inputs[0]], sums[1]: [inputs[1]], product: sums}
    compiled = TorchCompiler().compile(Circuit([*inputs, *sums, product], edges, [product]))
    assert sorted(compiled.state_dict()) == ["0.logits", "1.logits", "shared.weight"]


TAKEN = (
    "a",
    "logits_0",
    "if",
    "__debug__",
    "device",
    "training",
    "items",
    "_keys",
    "state_dict",
    "leaves",
    "torch",
    "range",
    "x",
    "b",
)


@pytest.mark.parametrize("name", TAKEN)
def test_tensors_may_have_any_name(name: str) -> None:
    table = TensorParameter(1, 2, initializer=UniformInitializer(), name=name)
    compiled = TorchCompiler().compile(chain(coin([0], 2), SumLayer(2, 1, weight=table)))
    x = torch.tensor([[0], [1]])
    value = compiled(x)
    assert sorted(compiled.state_dict()) == sorted(["0.logits", name])
    compiled.load_state_dict(compiled.state_dict())
    assert torch.equal(copy.deepcopy(compiled)(x), value)
    assert torch.equal(plica.jit(lambda rows: compiled(rows))(x), value)
    assert torch.equal(mpe(compiled, x)[0], x)
    assert torch.equal(sample(compiled, 1, x), x)


def test_no_two_leaves_get_one_attribute() -> None:
    taken = {*kwlist, *(name for name in dir(Leaves()) if not name.startswith("___"))}  # those are torch.compile's
    names = {f"{name}{'_' * count}" for name in (*taken, "w", "w_", "_") for count in range(4)}
    attributes = {attribute_of(name) for name in names}
    assert len(attributes) == len(names)
    assert not attributes & taken


def test_whole_numbers_beyond_int64_may_start_a_tensor() -> None:
    """numpy makes unsigned integers of them, of a type that torch does not know."""
    start = TensorParameter(1, 1, initializer=ConstantTensorInitializer(2**63))
    compiled = TorchCompiler("sum-product").compile(chain(coin([0], 1), SumLayer(1, 1, weight=start)))
    assert compiled.state_dict()["1.weight"].item() == 2.0**63


def test_a_folded_tensor_is_filled_fold_by_fold() -> None:
    tensor = torch.full((3, 2), -1.0)
    fill = partial(foldwise_initializer_, initializers=[torch.nn.init.ones_, None, lambda fold: fold.fill_(7)])
    assert fill(tensor) is tensor
    assert tensor.tolist() == [[1, 1], [-1, -1], [7, 7]]
    learned = torch.nn.Parameter(torch.zeros(1, 2))
    foldwise_initializer_(learned, initializers=[torch.nn.init.ones_])
    assert learned.tolist() == [[1, 1]]
    with pytest.raises(ShapeError, match=r"2 initializers for the 3 folds of a tensor of shape \(3, 2\)"):
        foldwise_initializer_(tensor, initializers=[None, None])


# folds that are read, whether the result is a view
POINTED: dict[str, tuple[list[int], bool]] = {
    "all": ([0, 1, 2, 3, 4], True),
    "one": ([3], True),
    "a run": ([1, 2, 3], True),
    "every second": ([0, 2, 4], True),
    "a list": ([4, 0, 1], False),
    "one twice": ([2, 2], False),
    "backwards": ([2, 1], False),
}


@pytest.mark.parametrize("name", POINTED)
def test_a_pointer_reads_folds_of_a_leaf(name: str) -> None:
    folds, is_view = POINTED[name]
    inputs = [coin([place], 2) for place in range(5)]
    circuit = bag(HadamardLayer(2, 5), *inputs)
    compiler = TorchCompiler()
    compiled = compiler.compile(circuit)
    tensors: list[Any] = [next(iter(layer.params["logits"].leaves)) for layer in inputs]
    (whole,) = (tensor for _, tensor in compiled.leaves.items())
    found = compiler.view_of(*[tensors[fold] for fold in folds])
    assert torch.equal(found, whole[folds])
    assert (found.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()) == is_view
    if is_view:
        with torch.no_grad():
            found.fill_(0.25)
        assert torch.equal(whole[folds], torch.full((len(folds), 2, 2), 0.25))


def test_pointers_fold_to_one_leaf_alone() -> None:
    leaves = [Leaf(tuple(TensorParameter(2, initializer=NormalInitializer()) for _ in range(3))) for _ in range(2)]
    first, second, other = Pointer(leaves[0], (2,)), Pointer(leaves[0], (0, 1)), Pointer(leaves[1], (0,))
    joined = Pointer.join([first, second])
    assert (joined.folds, joined.shape) == ((2, 0, 1), (3, 2))
    assert joined.members == (leaves[0].members[2], *leaves[0].members[:2])
    with pytest.raises(GraphError, match="pointers that fold must point to one leaf, found 2 leaves"):
        Pointer.join([first, other])
    with pytest.raises(GraphError, match="no leaf holds the tensor"):
        Pointer.to(leaves[1].members, {})


@pytest.mark.parametrize("folds", [(), (3,), (-1,), (0, 3), (-2, -1)])
def test_a_pointer_to_folds_that_the_leaf_lacks_is_refused(folds: tuple[int, ...]) -> None:
    """Slices would give no entries, or fewer, without a word."""
    leaf = Leaf(tuple(TensorParameter(2, initializer=NormalInitializer()) for _ in range(3)))
    with pytest.raises(GraphError, match="of a leaf that has 3; give at least one of them, counted from 0 to 2"):
        Pointer(leaf, folds)
    with pytest.raises(ShapeError, match="a leaf of 3 folds was given an array of 2"):
        Pointer(leaf, (0, 1)).view(torch.zeros(2, 2))
