"""Queries: what is drawn on the device has the probabilities that the CPU computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu.checks import Check
from benchmarks.gpu.checks.circuits import circuit_cases, pair
from benchmarks.gpu.checks.comparison import DTYPES
from benchmarks.gpu.devices import Device
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries import SamplingQuery
from plica.errors import PlicaError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer, SumLayer
from tests.harness.circuits import is_finite

_DRAWS = 4096
_SPREADS = 6.0  # standard deviations: one false alarm in 10^9 frequencies, and the seed is fixed


def checks() -> Iterator[Check]:
    """One check for each query and circuit."""
    for query, check in QUERIES.items():
        for name, build in circuit_cases().items():
            yield Check(f"query {query}, {name}", partial(_run, check, build))


def _run(
    check: Callable[[TorchCircuit, TorchCircuit, Device], None], build: Callable[[], Circuit], device: Device
) -> str | None:
    circuit = _with_one_unit(build())
    for dtype in DTYPES:
        on_cpu, on_device = pair(circuit, device, dtype=dtype)
        try:
            SamplingQuery(on_cpu)
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


def _check_sampling(on_cpu: TorchCircuit, on_device: TorchCircuit, device: Device) -> None:
    """Samples lie on the device, are possible, and each state is as frequent as its marginal says."""
    generator = torch.Generator(device.name).manual_seed(7)
    samples, choices = SamplingQuery(on_device)(_DRAWS, generator=generator)
    for one in (samples, *choices.values()):
        assert one.device.type == device.name, f"found samples on {one.device}, expected {device.name}"
    x = samples.cpu()
    with torch.no_grad():
        values = on_cpu(x)
    assert bool(values.isfinite().all()), f"found {int((~values.isfinite()).sum())} samples of probability 0"
    if is_finite(on_cpu.symbolic):
        for variable in on_cpu.scope:
            _check_frequencies(on_cpu, x, variable)


def _check_frequencies(on_cpu: TorchCircuit, samples: Tensor, variable: int) -> None:
    states = int(samples[:, variable].max()) + 1
    rows = torch.full((states + 1, samples.shape[1]), torch.nan, dtype=on_cpu.dtype)
    rows[:-1, variable] = torch.arange(states, dtype=on_cpu.dtype)
    with torch.no_grad():
        logs = on_cpu(rows).flatten().double()
    expected = (logs[:-1] - logs[-1]).exp()
    found = torch.bincount(samples[:, variable].long(), minlength=states).double() / len(samples)
    spread = (expected * (1 - expected) / len(samples)).sqrt() + 1 / len(samples)
    assert bool(((found - expected).abs() < _SPREADS * spread).all()), (
        f"variable {variable}: found frequencies {found.tolist()}, expected {expected.tolist()}"
    )


QUERIES: dict[str, Callable[[TorchCircuit, TorchCircuit, Device], None]] = {"sampling": _check_sampling}
