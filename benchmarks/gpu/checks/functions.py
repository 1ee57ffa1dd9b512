"""Compiled functions: loops, scans and branches on the device, their gradients, and where the host may not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import plica
import plica.numpy as pnp
from benchmarks.gpu.checks import Check
from benchmarks.gpu.checks.circuits import pair
from benchmarks.gpu.checks.comparison import DTYPES, require_no_waiting, require_same
from benchmarks.gpu.devices import Device
from tests.harness.circuits import CIRCUITS, data


@dataclass(frozen=True, slots=True)
class Function:
    """A function of an array `(6,)`.

    Args:
        run: What is compiled.
        waits: Whether what it asks for is known on the device alone: a condition, a size.
        any_size: Whether the size of the array has a name, so that arrays may grow.
    """

    run: Callable[[Any], Any]
    waits: bool = False
    any_size: bool = False


def _nested(x: Any) -> Any:
    def inner(i: Any, a: Any) -> Any:
        return plica.for_loop(0, i, 1, lambda j, b: pnp.tanh(b * x) + a * j, a)

    return plica.for_loop(0, 4, 1, inner, x)


def _scan_of_several(x: Any) -> Any:
    rows = pnp.stack([x, pnp.sin(x)], axis=1)
    return plica.scan(lambda c, row: (c * row[0] + row[1], {"c": c, "r": row}), pnp.sum(x), rows, reverse=True)


def _filled(x: Any) -> Any:
    return plica.for_loop(1, x.shape[0], 1, lambda i, a: pnp.at(a)[i].set(a[i - 1] * 0.9 + x[i]), x)


def _branches_in_a_loop(x: Any) -> Any:
    return plica.for_loop(0, 5, 1, lambda i, a: plica.cond(i % 2 == 0, lambda: a * x, lambda: pnp.cos(a)), x)


FUNCTIONS: dict[str, Function] = {
    "elementwise": Function(lambda x: pnp.exp(x) * 2 - pnp.where(x > 0.2, x, 1.0) / (x + 3)),
    "reductions and shapes": Function(
        lambda x: pnp.sum(pnp.reshape(x, (2, 3)), axis=0) @ pnp.ones((3, 2), dtype=x.dtype)
    ),
    "creation": Function(
        lambda x: pnp.arange(6, dtype=x.dtype) + pnp.eye(6, dtype=x.dtype)[2] + pnp.linspace(0, 1, 6) * x
    ),
    "for_loop": Function(lambda x: plica.for_loop(0, 5, 1, lambda i, a: a * x + i, x)),
    "for_loop backwards": Function(lambda x: plica.for_loop(5, 0, -2, lambda i, a: a + x * i, x)),
    "for_loop in a for_loop": Function(_nested),
    "for_loop that grows": Function(
        lambda x: plica.for_loop(0, 3, 1, lambda i, a: pnp.concat([a, x * i]), x), any_size=True
    ),
    "for_loop that fills": Function(_filled),
    "for_loop with branches": Function(_branches_in_a_loop),
    "scan": Function(lambda x: plica.scan(lambda c, row: (c * row + 1, pnp.sin(c)), pnp.sum(x), x)),
    "scan of several, reversed": Function(_scan_of_several),
    "while_loop over sizes": Function(
        lambda x: plica.while_loop(lambda a: a.shape[0] < 20, lambda a: pnp.concat([a, a * x[0]]), x), any_size=True
    ),
    "while_loop": Function(
        lambda x: plica.while_loop(lambda a: pnp.sum(a * a) < 50.0, lambda a: a * 1.5 + x * x, x), waits=True
    ),
    "cond": Function(lambda x: plica.cond(pnp.sum(x) > 0, lambda: x * x, lambda: pnp.exp(x)), waits=True),
    "cond, the other branch": Function(
        lambda x: plica.cond(pnp.sum(x) < 0, lambda: x * x, lambda: pnp.exp(x)), waits=True
    ),
    "a size from data": Function(lambda x: pnp.sum(x[x > 0.2]) * x, waits=True),
    "random numbers": Function(lambda x: pnp.random.uniform(pnp.random.key(3), (6,), dtype=x.dtype) + x),
}


def checks() -> Iterator[Check]:
    """One check for each function, and a circuit that a function calls."""
    for name, function in FUNCTIONS.items():
        yield Check(f"function {name}", partial(_check, function))
    yield Check("function that calls a circuit", _check_circuit)


def _check(function: Function, device: Device) -> None:
    for dtype in DTYPES:
        x = torch.linspace(0.3, 1.1, 6, dtype=dtype)
        compiled = plica.jit(function.run, abstracted_axes=({0: "n"},) if function.any_size else None)
        _compare(compiled, x, device, f"{dtype}, compiled")
        _compare(function.run, x, device, f"{dtype}, called as it is")
        there = x.to(device.name)
        compiled(there)
        if not function.waits:
            require_no_waiting(device, lambda compiled=compiled, there=there: compiled(there), f"{dtype}")  # type: ignore[misc]


def _compare(run: Callable[[Tensor], Any], x: Tensor, device: Device, what: str) -> None:
    """Results and gradients, here and there."""
    found, expected = (_results(run, x.detach().to(name).requires_grad_()) for name in (device.name, "cpu"))
    for place, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        require_same(one, wanted, device, f"{what}, result {place}", 10.0)


def _results(run: Callable[[Tensor], Any], x: Tensor) -> list[Tensor]:
    """The arrays of a result, and the gradient of their sum; what a function makes lies where its array is."""
    with x.device:
        returned = run(x)
    found = [one for one in tree_leaves(returned) if isinstance(one, Tensor)]
    learned = [one.double().sum() for one in found if one.requires_grad]
    return [*found, *(torch.autograd.grad(learned, x) if learned else ())]


def _check_circuit(device: Device) -> None:
    """The parameters of a circuit are captured by reference, on its device."""
    on_cpu, on_device = pair(CIRCUITS["hadamard"], device)
    x = torch.from_numpy(data(on_cpu.symbolic, 4))
    expected, found = (
        plica.jit(lambda rows, model=model: pnp.sum(model(rows)))(rows)
        for model, rows in ((on_cpu, x), (on_device, x.to(device.name)))
    )
    require_same(found, expected, device, "the sum of log-likelihoods")
