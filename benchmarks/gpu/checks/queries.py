"""Queries: what is drawn on the device has the probabilities that the CPU computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import plica.queries
from benchmarks.gpu.checks import Check
from benchmarks.gpu.checks.circuits import circuit_cases, pair, with_one_unit
from benchmarks.gpu.checks.comparison import DTYPES, require_same
from benchmarks.gpu.devices import Device
from plica.backend.torch.circuits import TorchCircuit
from plica.errors import PlicaError
from plica.symbolic.circuit import Circuit
from plica.templates.logic import LiteralNode, LogicalCircuit
from tests.harness.circuits import data, is_finite

Comparison = Callable[[TorchCircuit, TorchCircuit, Device], None]

_DRAWS = 4096
_SPREADS = 6.0  # standard deviations: one false alarm in 10^9 frequencies, and the seed is fixed


def checks() -> Iterator[Check]:
    """One check for each query and circuit."""
    for query in QUERIES:
        for name, build in circuit_cases().items():
            yield Check(f"query {query}, {name}", partial(_run, query, build))


def _run(query: str, build: Callable[[], Circuit], device: Device) -> str | None:
    for dtype in DTYPES:
        try:
            on_cpu, on_device = pair(lambda: with_one_unit(build()), device, dtype=dtype)
            x = _with_holes(on_cpu)
            expected = QUERIES[query](on_cpu, x)
        except PlicaError as error:
            return f"refused on the CPU too: {error}"
        if query in CHECKS:
            CHECKS[query](on_cpu, on_device, device)
            continue
        found = QUERIES[query](on_device, x.to(device.name))
        for place, (one, wanted) in enumerate(zip(_tensors(found), _tensors(expected), strict=True)):
            require_same(one, wanted, device, f"result {place}")
    return None


def _with_holes(circuit: TorchCircuit) -> Tensor:
    """Rows of which a third is missing."""
    x = torch.from_numpy(data(circuit.symbolic, 6)).to(circuit.dtype)
    x[torch.arange(x.numel()).reshape(x.shape) % 3 == 0] = torch.nan
    return x


def _tensors(result: Any) -> list[Tensor]:
    """The tensors of an answer: of itself, of its fields or of its entries."""
    if isinstance(result, Tensor):
        return [result]
    if is_dataclass(result):
        result = tuple(getattr(result, field.name) for field in fields(result))
    parts = result.values() if isinstance(result, dict) else result
    return [one for one in parts if isinstance(one, Tensor)]


def _check_samples(on_cpu: TorchCircuit, on_device: TorchCircuit, device: Device) -> None:
    """Samples lie on the device, are possible, and each state is as frequent as its marginal says."""
    samples = plica.queries.sample(on_device, _DRAWS, seed=7)
    x = _possible(samples, on_cpu, device)
    if is_finite(on_cpu.symbolic):
        nothing = torch.full_like(x[:1], torch.nan, dtype=on_cpu.dtype)
        for variable in on_cpu.scope:
            _check_frequencies(on_cpu, x, nothing, variable)
    given = x[:2].to(on_cpu.dtype)  # rows that are possible
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


def _first(circuit: TorchCircuit) -> int:
    return min(circuit.scope)


def _without(x: Tensor, variable: int) -> Tensor:
    """Rows that lack a variable."""
    return x.index_fill(1, torch.tensor([variable], device=x.device), torch.nan)


def _of_itself(query: str, *settings: Any) -> Callable[[TorchCircuit, Tensor], Any]:
    """A query of two circuits, of a circuit and itself."""
    return lambda c, x: getattr(plica.queries, query)(c, c, *settings)  # noqa: ARG005


def _is_true(variable: int) -> LogicalCircuit:
    """The formula that a variable is true."""
    literal = LiteralNode(variable)
    return LogicalCircuit([literal], {}, [literal])


QUERIES: dict[str, Callable[[TorchCircuit, Tensor], Any]] = {
    "backdoor": lambda c, x: plica.queries.backdoor(c, {0: x[:, 0]}, {1: x[:, -1]}, [2]),
    "cross_entropy": _of_itself("cross_entropy"),
    "entropy": lambda c, x: plica.queries.entropy(c),  # noqa: ARG005
    "expectation": _of_itself("expectation"),
    "kullback_leibler": _of_itself("kullback_leibler"),
    "moment": lambda c, x: plica.queries.moment(c, {_first(c): 2}),  # noqa: ARG005
    "mutual_information": lambda c, x: plica.queries.mutual_information(c, [0], [1]),  # noqa: ARG005
    "overlap": _of_itself("overlap"),
    "probability_of": lambda c, x: plica.queries.probability_of(c, _is_true(_first(c))),  # noqa: ARG005
    "renyi": _of_itself("renyi", 2),
    "conditional_log_likelihood": lambda c, x: plica.queries.conditional_log_likelihood(c, x, ~x.isnan()),
    "covariance": lambda c, x: plica.queries.covariance(c, [_first(c)], x),
    "cdf": plica.queries.cdf,
    "latent_posterior": plica.queries.latent_posterior,
    "log_likelihood": plica.queries.log_likelihood,
    "mean": plica.queries.mean,
    "mpe": plica.queries.mpe,
    "mpe_bounds": plica.queries.mpe_bounds,
    "posterior": plica.queries.posterior,
    "probability": lambda c, x: plica.queries.probability(c, x, x + 1),
    "quantile": lambda c, x: plica.queries.quantile(c, _first(c), 0.37, _without(x, _first(c))),
    "sample": lambda c, x: plica.queries.mpe(c, x[:1]),  # refused where this is
    "variance": plica.queries.variance,
}
"""One question for each public query, asked of the same rows on the CPU and on the device."""

CHECKS: dict[str, Comparison] = {"sample": _check_samples}
"""Those whose answers are compared in other ways than with each other."""
