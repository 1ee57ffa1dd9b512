"""A process of a run whose circuit is divided among processes: `python -m tests.distributed.sharded FOLDER WORD...`.

The first process writes what it found to the folder.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
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
from plica.symbolic.functional import multiply
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, Layer, SumLayer
from plica.templates.data_modalities import image_data
from tests.harness.circuits import constants
from tests.harness.random_circuits import draw_circuit

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


def square() -> Circuit:
    """A circuit that is compiled together with its operand."""
    return multiply(image(), image())


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


def train(
    circuit: TorchCircuit, rows: Tensor, steps: int = 3, optimizer: torch.optim.Optimizer | None = None
) -> list[float]:
    """The losses of some steps."""
    optimizer = optimizer or torch.optim.AdamW(circuit.parameters(), lr=0.05)
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


def resumed(folder: Path, mesh: DeviceMesh, name: str) -> None:
    """Steps of any number of processes, with the moments that others had: parameters have one order on all."""
    checkpoint, rows = folder / f"{name}-moments", rows_of(name)[mesh.get_local_rank() :: mesh.size()]
    circuit = divided(name, mesh)
    optimizer = torch.optim.AdamW(circuit.parameters(), lr=0.05)
    if checkpoint.exists():
        train(circuit, rows, 1, optimizer)  # makes the moments
        state = {"circuit": get_model_state_dict(circuit), "moments": optimizer.state_dict()}
        load(state, checkpoint_id=checkpoint)
        set_model_state_dict(circuit, state["circuit"])
        optimizer.load_state_dict(state["moments"])
    train(circuit, rows, 2, optimizer)
    if not checkpoint.exists():
        async_save(
            {"circuit": get_model_state_dict(circuit), "moments": optimizer.state_dict()}, checkpoint_id=checkpoint
        ).result()
    found = numbers(circuit.state_dict())
    if mesh.get_local_rank() == 0:
        torch.save((found, [name for name, _ in circuit.named_parameters()]), folder / f"{name}-resumed")


def drawn(folder: Path, mesh: DeviceMesh, family: str) -> None:
    """Random circuits have the values and the gradients of whole ones, also when calls came before the optimizer."""
    del folder
    for seed in range(4):
        draw = draw_circuit(family, seed)
        rows = draw.x[:60]
        expected = plica.compile(draw.circuit, dtype="float64")
        with torch.device("meta" if seed % 2 else "cpu"):
            circuit = plica.compile(draw.circuit, dtype="float64")
        expected.reset_parameters(seed)
        if seed % 2 == 0:
            circuit.reset_parameters(seed + mesh.get_local_rank())
        shard(circuit, mesh, at_most=(1, 100, 10**6)[seed % 3], seed=seed)
        with torch.no_grad():
            torch.testing.assert_close(circuit(rows), expected(rows), rtol=1e-9, atol=1e-9, equal_nan=True)
        with suppress(InputError):
            circuit(rows[:, :0])
        parameters = dict(circuit.named_parameters())
        assert list(parameters) == [name for name, _ in expected.named_parameters()]
        if not parameters or not len(rows):
            continue
        for own in (circuit, expected):
            values = own(rows)
            torch.where(values.isfinite(), values, 0.0).mean().backward()
        for name, parameter in expected.named_parameters():
            assert (parameter.grad is None) == (parameters[name].grad is None)
            if parameter.grad is not None:
                gradient = cast(DTensor, parameters[name].grad).full_tensor()
                torch.testing.assert_close(gradient, parameter.grad, rtol=1e-8, atol=1e-8, equal_nan=True)


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
    for call in (
        lambda: sample(circuit, 2),
        lambda: circuit.integrate(),
        lambda: fit(circuit, ROWS, learner=Adam()),
        lambda: plica.jit(circuit.forward)(ROWS),
        lambda: circuit.float(),
    ):
        with pytest.raises(UnsupportedError, match="divided"):
            call()
    assert circuit.double().dtype == torch.float64
    assert "explorer" in circuit._repr_html_()
    with pytest.raises(UnsupportedError, match="divided already"):
        shard(circuit, mesh)
    with pytest.raises(FileFormatError):
        plica.save(circuit, folder / "missing" / "file.plica")
    with pytest.raises(InputError, match="16"):
        circuit(ROWS[:, :3])
    with pytest.raises(InputError, match="a mesh of one axis"):
        shard(whole(name), init_device_mesh("cpu", (1, mesh.size())))
    squared = plica.compile(square(), dtype="float64")
    with pytest.raises(UnsupportedError, match=r"copy\.deepcopy"):
        shard(squared, mesh)
    copied = deepcopy(squared)
    shard(copied, mesh)
    if mesh.get_local_rank() == 0:
        expected = squared(ROWS).detach()
    values = copied(ROWS).detach()
    if mesh.get_local_rank() == 0:
        torch.testing.assert_close(values, expected)
    constant = plica.compile(constants())
    shard(constant, mesh)
    plica.save(constant, folder / f"constant-{mesh.get_local_rank()}.plica")
    torch.manual_seed(mesh.get_local_rank())
    own = plica.compile(CIRCUITS[name](), dtype="float64")  # other numbers on each process
    first = {key: tensor.clone() for key, tensor in own.state_dict().items()}
    shard(own, mesh)
    if mesh.get_local_rank() == 0:
        torch.save(first, folder / "first")
    for key, value in numbers(own.state_dict()).items():
        assert mesh.get_local_rank() or torch.equal(value, first[key])


_WORDS = {"trained": trained, "loaded": loaded, "resumed": resumed, "drawn": drawn, "refused": refused}


def main(folder: Path, words: list[str]) -> None:
    """Do what words say: `trained:image`."""
    with launched(60.0) as ranks:
        mesh = init_device_mesh("cpu", (ranks.size,))
        for word in words:
            what, name = word.split(":")
            _WORDS[what](folder, mesh, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
