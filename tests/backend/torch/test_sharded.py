"""Circuits whose tensors are sharded (FSDP): optimizers write to shards, calls read whole tensors of other memory."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from plica.backend.torch import kernels, looks
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.leaves import Leaves
from tests.harness.devices import forbid_branches
from tests.harness.eval_circuits import X, large

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch deprecates itself


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield
    dist.destroy_process_group()


def test_training_in_eval_mode_is_noticed() -> None:
    circuit, other = TorchCompiler().compile(large()), TorchCompiler().compile(large())
    fully_shard(circuit, mesh=init_device_mesh("cpu", (1,)))
    circuit.eval()
    step = torch.optim.SGD(circuit.parameters(), 10.0)
    for _ in range(3):
        circuit(X).sum().backward()
        step.step()
        step.zero_grad()
        with torch.no_grad():
            found = circuit(X)
        other.load_state_dict({key: one.full_tensor() for key, one in circuit.state_dict().items()})
        with torch.no_grad():
            torch.testing.assert_close(found, other(X), rtol=0.0, atol=0.0)


class _Sum(Leaves):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1, 1, 2))

    def forward(self, x: Tensor) -> Tensor:
        return kernels.log_matmul_exp(x, torch.softmax(self.weight, -1), self.weight, logs="log_softmax")


def test_steps_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_branches(monkeypatch)
    monkeypatch.setattr(looks, "_has_arrived", lambda _: True)
    module = _Sum()
    fully_shard(module, mesh=init_device_mesh("cpu", (1,)))
    step = torch.optim.SGD(module.parameters(), 1.0)
    for number in range(80):
        found = module(torch.tensor([[[-300.0, 0.0]]])).sum()
        assert found.item() == pytest.approx(-2.0 * number, abs=3.0)
        found.backward()
        step.step()
        step.zero_grad()
