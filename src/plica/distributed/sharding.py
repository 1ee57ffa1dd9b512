"""Circuits whose weights are divided among processes, each of which keeps a part: `shard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from plica.arguments import found, integer
from plica.arguments import seed as checked_seed
from plica.errors import DTypeError, InputError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def shard(circuit: Any, mesh: DeviceMesh, *, at_most: int | None = None, seed: int | None = None) -> None:
    """Divide the learned tensors of a compiled circuit among processes, by FSDP2 (`fully_shard`).

    Groups of layers form units. The tensors of a unit are gathered before it is computed, and freed after it; the
    backward pass gathers them again, and computes what is between the units again. Gradients are means over processes,
    so that a loss is the mean over the rows of a process. All processes call this, the circuit and its state dict
    together, with rows of their own.

    A circuit that was compiled on the meta device (`with torch.device("meta")`) has no numbers until each process draws
    its part, one entry of the state dict after another. Another circuit starts as that of the first process.

    The forward pass, optimizers, state dicts, checkpoints of torch and `plica.save` work; queries, operators and
    parameters of a call need whole tensors, and are refused. Weights are not looked at: one that has become negative is
    not refused, and rows may be NaN (as on devices other than CPUs). The dtype stays.

    Args:
        circuit: The compiled circuit, which changes.
        mesh: The processes, along one axis: `init_device_mesh("cpu", (2,))`.
        at_most: The bytes of a unit, unless one group of layers has more. By default a sixteenth of the weights of a
            process: gathering takes several times this memory.
        seed: The seed of the draws on the meta device, for which they are those of `reset_parameters(seed)`; drawn by
            the first process by default.

    Raises:
        DTypeError: `circuit` is no compiled circuit, or `mesh` no mesh.
        InputError: The mesh has several axes.
        UnsupportedError: The circuit is divided already, shares tensors (a copy does not: `copy.deepcopy(circuit)`),
            holds modules, or learns complex numbers.
    """
    from torch.distributed.device_mesh import DeviceMesh as Mesh

    method = getattr(circuit, "shard", None)
    if not isinstance(circuit, torch.nn.Module) or method is None:
        raise DTypeError(f"shard takes a compiled circuit, {found(circuit)}; compile it first: plica.compile(...)")
    if not isinstance(mesh, Mesh):
        raise DTypeError(f"shard takes a mesh of processes, {found(mesh)}; make one: init_device_mesh('cpu', (2,))")
    if mesh.ndim != 1:
        raise InputError(f"shard: expected a mesh of one axis, found {mesh.ndim}; pass one of its axes: mesh['name']")
    if at_most is not None:
        at_most = integer("shard", "at_most", at_most, least=1)
    method(mesh, at_most, _common(mesh) if seed is None else checked_seed("shard", seed))


def _common(mesh: DeviceMesh) -> int:
    """A seed that the first process of a mesh draws."""
    drawn = torch.randint(2**62, (), device="cpu").to(mesh.device_type)
    group = mesh.get_group()
    dist.broadcast(drawn, dist.get_global_rank(group, 0), group=group)
    return int(drawn)
