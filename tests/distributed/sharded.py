"""A process of a run whose circuit is divided among processes: `python -m tests.distributed.sharded FOLDER WORD...`.

The first process writes what it found to the folder.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

import plica
from plica.backend.torch.circuits import TorchCircuit
from plica.distributed import shard
from plica.distributed.ranks import launched
from plica.errors import FileFormatError, InputError, UnsupportedError
from plica.learn import Adam, fit
from plica.queries import sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, Layer, SumLayer
from plica.templates.data_modalities import image_data

SEED = 3
ROWS = torch.randint(0, 4, (12, 16), generator=torch.Generator().manual_seed(1))  # a multiple of 2 and 3 processes


def image() -> Circuit:
    """Layers of several sizes, whose folds are divided."""
    return image_data(
        (1, 4, 4),
        "quad-tree-2",
        input_layer="categorical",
        num_values=4,
        num_input_units=24,
        sum_product_layer="cp",
        num_sum_units=24,
    )


def odd() -> Circuit:
    """Numbers of units that no number of processes divides; and a weight that is read in two places."""
    first, second = (CategoricalLayer([variable], 5, num_categories=7) for variable in (0, 1))
    below = SumLayer(5, 5)
    again = SumLayer(5, 5, weight=below.weight.ref())
    product, mix = HadamardLayer(5, 2), SumLayer(5, 1)
    edges: dict[Layer, list[Layer]] = {
        first: [],
        second: [],
        below: [first],
        again: [second],
        product: [below, again],
        mix: [product],
    }
    return Circuit(list(edges), edges, [mix])


CIRCUITS = {"image": image, "odd": odd}


def rows_of(name: str) -> Tensor:
    """The rows of a circuit."""
    return ROWS if name == "image" else ROWS[:, :2]


def whole(name: str) -> TorchCircuit:
    """A circuit with its first numbers."""
    circuit = plica.compile(CIRCUITS[name](), dtype="float64")
    circuit.reset_parameters(SEED)
    return circuit


def divided(name: str, mesh: DeviceMesh, *, seed: int = SEED, at_most: int | None = None) -> TorchCircuit:
    """The same circuit, made without memory and divided."""
    with torch.device("meta"):
        circuit = plica.compile(CIRCUITS[name](), dtype="float64")
    shard(circuit, mesh, at_most=at_most, seed=seed)
    return circuit


def train(circuit: TorchCircuit, rows: Tensor, steps: int = 3) -> list[float]:
    """The losses of some steps."""
    optimizer = torch.optim.AdamW(circuit.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        loss = -circuit(rows).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def numbers(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """A state dict, gathered."""
    return {key: value.full_tensor() if hasattr(value, "full_tensor") else value for key, value in state.items()}


def trained(folder: Path, mesh: DeviceMesh, name: str) -> None:
    """Train a divided circuit, and write what it has become in three ways."""
    circuit = divided(name, mesh, at_most=20_000)
    losses = train(circuit, rows_of(name)[mesh.get_local_rank() :: mesh.size()])
    scores = circuit.eval()(rows_of(name))
    async_save(get_model_state_dict(circuit), checkpoint_id=folder / f"{name}-checkpoint").result()
    plica.save(circuit, folder / f"{name}.plica")
    full = get_model_state_dict(circuit, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    state = numbers(circuit.state_dict())
    parts = {key: tuple(cast(DTensor, tensor).to_local().shape) for key, tensor in circuit.named_parameters()}
    if mesh.get_local_rank() == 0:
        told = {"losses": losses, "scores": scores.detach(), "full": full, "state": state, "parts": parts}
        torch.save({**told, "units": len(set(circuit.leaves.units.values()))}, folder / name)


def loaded(folder: Path, mesh: DeviceMesh, name: str) -> None:
    """Load a checkpoint of any number of processes, and state dicts of whole tensors."""
    circuit = divided(name, mesh, seed=0)
    state = get_model_state_dict(circuit)
    load(state, checkpoint_id=folder / f"{name}-checkpoint")
    set_model_state_dict(circuit, state)
    found = numbers(circuit.state_dict())
    other = divided(name, mesh, seed=0)
    other.load_state_dict(found)
    third = divided(name, mesh, seed=0)
    set_model_state_dict(third, dict(found), options=StateDictOptions(full_state_dict=True))
    for again in (other, third):
        for key, value in numbers(again.state_dict()).items():
            assert torch.equal(value, found[key])
    if mesh.get_local_rank() == 0:
        torch.save(found, folder / f"{name}-loaded")


def refused(folder: Path, mesh: DeviceMesh, name: str) -> None:
    """What needs whole tensors is refused; an error of the process that writes is raised on all."""
    circuit = divided(name, mesh)
    for call in (lambda: sample(circuit, 2), lambda: circuit.integrate(), lambda: fit(circuit, ROWS, learner=Adam())):
        with pytest.raises(UnsupportedError, match="divided"):
            call()
    with pytest.raises(UnsupportedError, match="divided already"):
        shard(circuit, mesh)
    with pytest.raises(FileFormatError):
        plica.save(circuit, folder / "missing" / "file.plica")
    with pytest.raises(InputError, match="16"):
        circuit(ROWS[:, :3])
    torch.manual_seed(mesh.get_local_rank())
    own = plica.compile(CIRCUITS[name](), dtype="float64")  # other numbers on each process
    first = {key: tensor.clone() for key, tensor in own.state_dict().items()}
    shard(own, mesh)
    if mesh.get_local_rank() == 0:
        torch.save(first, folder / "first")
    for key, value in numbers(own.state_dict()).items():
        assert mesh.get_local_rank() or torch.equal(value, first[key])


def main(folder: Path, words: list[str]) -> None:
    """Do what words say: `trained:image`."""
    with launched(60.0) as ranks:
        mesh = init_device_mesh("cpu", (ranks.size,))
        for word in words:
            what, name = word.split(":")
            {"trained": trained, "loaded": loaded, "refused": refused}[what](folder, mesh, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
