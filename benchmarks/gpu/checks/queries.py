"""Queries: what is drawn on the device has the probabilities that the CPU computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

import plica.queries
from benchmarks.gpu.checks import Check
from benchmarks.gpu.checks.circuits import circuit_cases, pair
from benchmarks.gpu.checks.comparison import DTYPES, require_same
from benchmarks.gpu.devices import Device
from plica.backend.torch.circuits import TorchCircuit
from plica.errors import PlicaError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer, SumLayer
from tests.harness.circuits import data, is_finite

Comparison = Callable[[TorchCircuit, TorchCircuit, Device], None]

_DRAWS = 4096
_SPREADS = 6.0  # standard deviations: one false alarm in 10^9 frequencies, and the seed is fixed


def checks() -> Iterator[Check]:
    """One check for each query and circuit."""
    for query, check in QUERIES.items():
        for name, build in circuit_cases().items():
            yield Check(f"query {query}, {name}", partial(_run, check, build))


def _run(check: Comparison, build: Callable[[], Circuit], device: Device) -> str | None:
    circuit = _with_one_unit(build())
    for dtype in DTYPES:
        on_cpu, on_device = pair(circuit, device, dtype=dtype)
        try:
            plica.queries.mpe(on_cpu, torch.from_numpy(data(circuit, 1)))
        except PlicaError as error:
            return f"refused on the CPU too: {error}"
        check(on_cpu, on_device, device)
    return None


def _with_one_unit(circuit: Circuit) -> Circuit:
    """The circuit of the first output alone, its units mixed if there are several."""
    first = circuit.outputs[0]
    circuit = circuit.subgraph(first)
    if first.num_output_units == 1:
        return circuit
    root = SumLayer(first.num_output_units, 1)
    edges: dict[Layer, Sequence[Layer]] = {layer: circuit.layer_inputs(layer) for layer in circuit.inner_layers}
    return Circuit([*circuit.layers, root], edges | {root: [first]}, [root])


def _check_samples(on_cpu: TorchCircuit, on_device: TorchCircuit, device: Device) -> None:
    """Samples lie on the device, are possible, and each state is as frequent as its marginal says."""
    samples = plica.queries.sample(on_device, _DRAWS, seed=7)
    x = _possible(samples, on_cpu, device)
    if is_finite(on_cpu.symbolic):
        nothing = torch.full_like(x[:1], torch.nan, dtype=on_cpu.dtype)
        for variable in on_cpu.scope:
            _check_frequencies(on_cpu, x, nothing, variable)
    given = torch.from_numpy(data(on_cpu.symbolic, 2)).to(on_cpu.dtype)
    free = max(on_cpu.scope)
    given[1, free] = torch.nan
    completed = plica.queries.sample(on_device, _DRAWS, given.to(device.name), seed=8)
    x = _possible(completed, on_cpu, device)
    wanted = given.repeat_interleave(_DRAWS, 0)
    kept = ~wanted.isnan()
    assert torch.equal(x.to(wanted.dtype)[kept], wanted[kept]), "what was given has changed"
    if is_finite(on_cpu.symbolic):
        _check_frequencies(on_cpu, x[_DRAWS:], given[1:], free)


def _possible(samples: Tensor, on_cpu: TorchCircuit, device: Device) -> Tensor:
    """The samples on the CPU, where their probabilities are positive."""
    assert samples.device.type == device.name, f"found samples on {samples.device}, expected {device.name}"
    x = samples.cpu()
    with torch.no_grad():
        values = on_cpu(x)
    assert bool(values.isfinite().all()), f"found {int((~values.isfinite()).sum())} samples of probability 0"
    return x


def _check_frequencies(on_cpu: TorchCircuit, samples: Tensor, given: Tensor, variable: int) -> None:
    """The states of a variable, given the other numbers of a row."""
    states = int(samples[:, variable].max()) + 1
    rows = given.repeat(states + 1, 1)
    rows[:-1, variable] = torch.arange(states, dtype=rows.dtype)
    with torch.no_grad():
        logs = on_cpu(rows).flatten().double()
    expected = (logs[:-1] - logs[-1]).exp()
    found = torch.bincount(samples[:, variable].long(), minlength=states).double() / len(samples)
    spread = (expected * (1 - expected) / len(samples)).sqrt() + 1 / len(samples)
    assert bool(((found - expected).abs() < _SPREADS * spread).all()), (
        f"variable {variable}: found frequencies {found.tolist()}, expected {expected.tolist()}"
    )


def _check_explanations(on_cpu: TorchCircuit, on_device: TorchCircuit, device: Device) -> None:
    """Rows are completed as on the CPU, and are as probable."""
    x = torch.from_numpy(data(on_cpu.symbolic, 6)).to(on_cpu.dtype)
    x[torch.arange(x.numel()).reshape(x.shape) % 3 == 0] = torch.nan
    expected, found = plica.queries.mpe(on_cpu, x), plica.queries.mpe(on_device, x.to(device.name))
    for place, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        require_same(one, wanted, device, f"result {place}")


QUERIES: dict[str, Comparison] = {"sample": _check_samples, "mpe": _check_explanations}
"""One check for each public query."""
