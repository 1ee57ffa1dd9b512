"""Before = after: a circuit and what rules made of it, as values and gradients of the same tensors in float64."""

from typing import Any

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.lower.optimize import DEFAULT_RULES, Optimized, Rules
from plica.symbolic.circuit import Circuit
from tests.harness.circuits import data

TOLERANCE = 1e-9


def values_and_gradients(compiled: Any, x: Tensor) -> tuple[Tensor, list[Tensor | None]]:
    """The result for `x`, and the gradient of a weighted sum of it for each tensor."""
    result = compiled(x)
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(result.shape, generator=generator, dtype=result.dtype)
    tensors = [tensor for tensor in compiled.parameters() if tensor.requires_grad]
    gradients = torch.autograd.grad((result * weights).sum(), tensors, allow_unused=True) if tensors else ()
    return result, list(gradients)


def assert_same(circuit: Circuit, *optimized: Optimized, semiring: str = "lse-sum", rows: int = 5) -> None:
    """Assert that `circuit` and the optimized ones are the same function of the same tensors."""
    torch.manual_seed(0)
    compiler = TorchCompiler(semiring, fold=False, optimize=False, dtype="float64")
    before = compiler.compile(circuit)
    x = torch.from_numpy(data(circuit, rows))
    expected, wanted = values_and_gradients(before, x)
    for one in optimized:
        _assert_equal(before, compiler.compile(one.circuit), x, expected, wanted)


def _assert_equal(before: TorchCircuit, after: TorchCircuit, x: Tensor, expected: Tensor, wanted: list[Any]) -> None:
    found, got = values_and_gradients(after, x)
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert {id(tensor) for tensor in after.parameters()} <= {id(tensor) for tensor in before.parameters()}
    places = {id(tensor): place for place, tensor in enumerate(before.parameters())}
    for tensor, gradient in zip(after.parameters(), got, strict=True):
        one = wanted[places[id(tensor)]]
        torch.testing.assert_close(
            torch.zeros_like(tensor) if gradient is None else gradient,
            torch.zeros_like(tensor) if one is None else one,
            rtol=TOLERANCE,
            atol=TOLERANCE,
        )


def kinds(circuit: Circuit) -> dict[str, int]:
    """How many layers of each class there are."""
    counted: dict[str, int] = {}
    for layer in circuit.layers:
        name = type(layer).__name__.removesuffix("Layer")
        counted[name] = counted.get(name, 0) + 1
    return counted


def fired(optimized: Optimized) -> dict[str, int]:
    """How often each rule fired."""
    return {one.rule: one.count for one in optimized.report.fired}


def missed(optimized: Optimized) -> dict[str, str]:
    """Why each rule did not fire where it nearly did: its last reason."""
    return {one.rule: one.why for one in optimized.report.missed}


def only(*names: str) -> Rules:
    """The default rules of these names."""
    tables = (DEFAULT_RULES.parameters, DEFAULT_RULES.shatter, DEFAULT_RULES.fuse)
    return Rules(*(tuple(rule for rule in table if rule.name in names) for table in tables))
