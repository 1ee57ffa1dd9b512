"""`torch.distributed.checkpoint` of circuits: their state dicts are found by keys, which are no paths of modules."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.nn.parallel import DistributedDataParallel

import plica
from plica.backend.torch.circuits import TorchCircuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import BernoulliLayer, CategoricalLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import TensorParameter

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch deprecates itself


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield
    dist.destroy_process_group()


def made(seed: int) -> TorchCircuit:
    """A circuit with folded leaves, one with a name of its own, and one that is not learned."""
    named = TensorParameter(2, 3, initializer=NormalInitializer(), name="faces.of.die")
    fixed = TensorParameter(2, 3, initializer=NormalInitializer(), learnable=False)
    inputs: list[Layer] = [
        BernoulliLayer([0], 2),
        BernoulliLayer([1], 2),
        CategoricalLayer([2], 2, num_categories=3, logits=named),
        CategoricalLayer([3], 2, num_categories=3, logits=fixed),
    ]
    product, mixture = HadamardLayer(2, 4), SumLayer(2, 1)
    edges: dict[Layer, list[Layer]] = {layer: [] for layer in inputs}
    edges |= {product: inputs, mixture: [product]}
    circuit = plica.compile(plica.Circuit(list(edges), edges, [mixture]))
    circuit.reset_parameters(seed=seed)
    return circuit


class Holder(nn.Module):
    """A module that holds a circuit."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.scale, self.inner = nn.Parameter(torch.full((), float(seed))), made(seed)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.inner(x)


def assert_equal(one: nn.Module, other: nn.Module) -> None:
    assert one.state_dict().keys() == other.state_dict().keys()
    for key, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key


@pytest.mark.parametrize("make", [made, Holder])
@pytest.mark.usefixtures("group")
def test_state_dicts_have_the_keys_of_files_with_and_without_ddp(make: type[Holder]) -> None:
    first, second, third = make(1), make(2), make(3)
    state = get_model_state_dict(first)
    assert list(state) == list(first.state_dict())
    wrapped = DistributedDataParallel(second)
    assert sorted(get_model_state_dict(wrapped)) == sorted(state)
    result = set_model_state_dict(wrapped, dict(state))
    assert not result.missing_keys
    assert not result.unexpected_keys
    assert_equal(first, second)
    set_model_state_dict(third, get_model_state_dict(wrapped))
    assert_equal(first, third)
    whole = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    for model in (make(4), DistributedDataParallel(make(5))):
        set_model_state_dict(model, {key: value.clone() for key, value in state.items()}, options=whole)
        assert_equal(first, getattr(model, "module", model))


@pytest.mark.usefixtures("group")
def test_keys_that_are_missing_or_unknown_are_told() -> None:
    state = get_model_state_dict(made(1))
    lacking = {key: value for key, value in state.items() if key != "faces.of.die"}
    for model in (made(2), DistributedDataParallel(made(2))):
        with pytest.raises(RuntimeError, match=r"faces\.of\.die"):
            set_model_state_dict(model, dict(lacking))
        with pytest.raises(RuntimeError, match="nonsense"):
            set_model_state_dict(model, {**state, "nonsense.weight": torch.zeros(1)})


@pytest.mark.usefixtures("group")
def test_saved_and_loaded(tmp_path: Path) -> None:
    first, second, third = made(1), made(2), made(3)
    save(get_model_state_dict(first), checkpoint_id=tmp_path / "now")
    async_save(get_model_state_dict(first), checkpoint_id=tmp_path / "soon").result()
    for path, circuit in ((tmp_path / "now", second), (tmp_path / "soon", DistributedDataParallel(third))):
        state = get_model_state_dict(circuit)
        load(state, checkpoint_id=path)
        set_model_state_dict(circuit, state)
        assert_equal(first, getattr(circuit, "module", circuit))


def test_a_circuit_has_no_attributes_more() -> None:
    circuit = made(1)
    assert list(circuit.modules()) == [circuit, circuit.leaves]
    assert not hasattr(circuit, "0")
    assert not hasattr(circuit, "faces")
    circuit.eval()
    assert not circuit.leaves.training
