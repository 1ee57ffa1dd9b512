"""Compiled circuits whose leaves are divided among processes by FSDP2, one group of layers after another.

The leaves of a unit are held by a module of their own, `LeafUnit`. A Program runs in parts (`segments.py`), each within
a call of the units whose leaves it reads. So `fully_shard` gathers the leaves of a unit before its part and frees them
after it. Backward passes compute a part again, so that no softmax of all weights is kept.

Source: Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023; Chen et al.,
"Training Deep Nets with Sublinear Memory Cost", 2016.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import Leaves, attribute_of
from plica.backend.torch.segments import segments, units_of
from plica.errors import UnsupportedError
from plica.ir.program import Program

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_UNITS = 16  # of the weights of one process; each needs several times its memory while it is gathered


@final
class LeafUnit(nn.Module):
    """Leaves that are gathered together; a call runs a function while they are."""

    def forward(self, run: Callable[..., Any], *inputs: Any) -> Any:
        """The results of a function of tensors."""
        return run(*inputs)


@final
class ShardedRun:
    """A Program of a circuit in parts.

    Args:
        program: The Program.
        leaves: The leaves of the circuit, in units.
    """

    def __init__(self, program: Program, leaves: Leaves) -> None:
        units = leaves.units
        numbers = {module: number for number, module in enumerate(dict.fromkeys(units.values()))}
        of_const = {var: attribute_of(var.name) for var in program.consts}
        read = {var: numbers[units[name]] for var, name in of_const.items() if name in units}
        modules = list(numbers)
        self._parts = [
            (emit(part.program), part.reads, part.program.results, [modules[unit] for unit in part.units])
            for part in segments(program, read)
        ]

    def __call__(self, leaves: Leaves, *arguments: Tensor) -> Any:
        """The results of the Program."""
        known: dict[Any, Any] = {}
        results: Any = ()
        with warnings.catch_warnings():
            # of writes to a view that a unit returns; generated code writes to none while gradients are recorded
            warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
            for run, reads, names, modules in self._parts:
                compute: Callable[..., Any] = partial(_computed, partial(run, _Gathered(leaves)))
                for module in modules:
                    compute = partial(module, compute)
                results = compute(*arguments, *(known[var] for var in reads))
                known.update(zip(names, results if isinstance(results, tuple) else (results,), strict=True))
        return tuple(map(_unshared, results)) if isinstance(results, tuple) else _unshared(results)


@final
class _Gathered:
    """The attributes of leaves, wherever they are, for generated functions."""

    def __init__(self, leaves: Leaves) -> None:
        self._tensor = leaves.tensor

    def __getattr__(self, name: str) -> Any:
        return self._tensor(name)


def _computed(run: Callable[..., Any], *inputs: Tensor) -> Any:
    """The results of a part; where gradients are recorded, the backward pass computes it again."""
    if not torch.is_grad_enabled():
        return run(*inputs)
    return checkpoint(run, *inputs, use_reentrant=False, preserve_rng_state=False)


def _unshared(result: Tensor) -> Tensor:
    """A result in memory of its own, as FSDP warns of each call that returns a view."""
    return result.clone() if result._is_view() else result


def shard(circuit: nn.Module, leaves: Leaves, program: Program, mesh: DeviceMesh, at_most: int | None) -> None:
    """Divide the leaves of a circuit among the processes of a mesh, which start with the tensors of its first one.

    Args:
        circuit: The circuit.
        leaves: Its leaves.
        program: The Program that says in which order leaves are read.
        mesh: The processes, along one axis.
        at_most: Bytes of a unit; by default a sixteenth of the leaves of a process.

    Raises:
        UnsupportedError: The leaves are divided already, or shared, or some are complex and learned.
    """
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    _check(leaves)
    size = mesh.size()
    learned = {name for name, leaf in leaves.attributes() if leaf.learnable}
    names = {var: attribute_of(var.name) for var in program.consts}
    sizes = {var: leaves.tensor(name).nbytes for var, name in names.items() if name in learned}
    if at_most is None:
        at_most = sum(sizes.values()) // (_UNITS * size)
    units: dict[int, list[str]] = {}
    for var, unit in units_of(program, sizes, at_most).items():
        units.setdefault(unit, []).append(names[var])
    if leaves.device.type != "meta":
        _copy_first(circuit, mesh)
    modules = [LeafUnit() for _ in units]
    leaves.divide(list(zip(modules, units.values(), strict=True)))

    def placement(parameter: nn.Parameter) -> Shard:
        return Shard(axis_of(parameter.shape, size))

    for module in modules:
        fully_shard(module, mesh=mesh, reshard_after_forward=True, shard_placement_fn=placement)
    fully_shard(circuit, mesh=mesh, reshard_after_forward=True, shard_placement_fn=placement)
    circuit.register_forward_hook(_free_after_error, always_call=True)
    leaves.publish()
    if leaves.device.type == "meta":
        circuit.to_empty(device=mesh.device_type)


def _free_after_error(circuit: nn.Module, _: object, result: Tensor | None) -> None:
    """Free what a call that has raised has gathered, as FSDP does after one that returns.

    Until then the parameters of the circuit would be copies, which an optimizer would change in vain.
    """
    from torch.distributed.fsdp import FSDPModule

    for module in circuit.modules() if result is None else ():
        if isinstance(module, FSDPModule):
            module.reshard()


def axis_of(shape: Sequence[int], size: int) -> int:
    """The axis along which a leaf `(F, *shape)` is divided: the first that is a multiple of the processes, after folds.

    Folds stay whole where they can, so that each entry of a state dict is divided as its leaf is. Otherwise whole folds
    are given to processes.
    """
    return next((axis for axis, length in enumerate(shape) if axis and length % size == 0 and length), 0)


def _copy_first(circuit: nn.Module, mesh: DeviceMesh) -> None:
    """Have all processes of a mesh start with the tensors of its first one."""
    import torch.distributed as dist

    group = mesh.get_group()
    first = dist.get_global_rank(group, 0)
    with torch.no_grad():
        for tensor in (*circuit.parameters(), *circuit.buffers()):
            if tensor.numel():
                dist.broadcast(torch.view_as_real(tensor) if tensor.is_complex() else tensor, first, group=group)


def _check(leaves: Leaves) -> None:
    if leaves.is_sharded:
        raise UnsupportedError("shard: the circuit is divided already; make another one by plica.compile")
    if leaves.is_shared:
        raise UnsupportedError(
            "shard: other circuits of its context, such as the operands that it was made from, need its tensors "
            "whole; shard a copy, which has tensors of its own: copy.deepcopy(circuit)"
        )
    if any(tensor.is_complex() for tensor in leaves.parameters()):
        raise UnsupportedError("shard: FSDP does not divide complex numbers; learn their parts as real numbers")
