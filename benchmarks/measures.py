"""What is measured of one circuit: forward, forward and backward, a training step, compile time, peak memory.

Each function runs in a process of its own (`benchmarks.run` starts them), so that no circuit meets the caches, the
heap or the peak memory of another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.agreement import compare_values, rows
from benchmarks.circuits import FORWARD_BATCHES, Spec
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.harness import Settings, compare, summary, synchronize
from benchmarks.machine import peak_memory_mib

if TYPE_CHECKING:
    from torch import Tensor, nn

TRAIN_BATCH = 128


def measure_speed(
    spec: Spec, names: Sequence[str], settings: Settings, batches: Sequence[int] = FORWARD_BATCHES
) -> dict[str, Any]:
    """Comparisons: `forward BATCH`, `forward and backward 128`, `training step 128`; compile times; parameters.

    Raises:
        DisagreementError: A contender's values differ from those of the first; then nothing is timed.
    """
    agreement = check_agreement(spec, names, settings.device)
    modules = {name: _module(CONTENDERS[name], spec, settings.device) for name in names}
    report: dict[str, Any] = {
        "agreement": agreement,
        "compile": {name: _compile_times(CONTENDERS[name], spec, settings) for name in names},
        "parameters": {name: sum(p.numel() for p in module.parameters()) for name, module in modules.items()},
    }
    for batch in batches:
        report[f"forward {batch}"] = _compare(modules, forward, spec.data(batch, settings.device), settings)
    x = spec.data(TRAIN_BATCH, settings.device)
    report[f"forward and backward {TRAIN_BATCH}"] = _compare(modules, forward_backward, x, settings)
    report[f"training step {TRAIN_BATCH}"] = _compare(modules, training_step, x, settings)
    return report


def measure_memory(spec: Spec, name: str, device: str) -> dict[str, float]:
    """The peak of this process in MiB at some points; each includes what came before."""
    peaks = {"imports": peak_memory_mib(device)}
    module = _module(CONTENDERS[name], spec, device)
    peaks["compiled"] = peak_memory_mib(device)
    forward(module, spec.data(TRAIN_BATCH, device))()
    peaks[f"forward {TRAIN_BATCH}"] = peak_memory_mib(device)
    step = training_step(module, spec.data(TRAIN_BATCH, device))
    for _ in range(2):
        step()
    peaks[f"training step {TRAIN_BATCH}"] = peak_memory_mib(device)
    return peaks


def check_agreement(spec: Spec, names: Sequence[str], device: str) -> dict[str, Any]:
    """Compare the values of all contenders under equal parameters; modules are made for it and forgotten."""
    if len(names) < 2:
        return {}
    contenders = {name: CONTENDERS[name] for name in names}
    modules = {name: one.compile(one.equal(spec)).to(device) for name, one in contenders.items()}
    return compare_values(modules, rows(spec).to(device))


def forward(module: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """The module without gradients."""

    def call() -> Tensor:
        with torch.no_grad():
            result: Tensor = module(x)
        return result

    return call


def forward_backward(module: nn.Module, x: Tensor) -> Callable[[], None]:
    """Gradients of the mean log-likelihood, from no gradients."""

    def call() -> None:
        module.zero_grad(set_to_none=True)
        (-module(x).mean()).backward()

    return call


def training_step(module: nn.Module, x: Tensor) -> Callable[[], None]:
    """Gradients and a step of the same fused Adam for all."""
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
    gradients = forward_backward(module, x)

    def call() -> None:
        gradients()
        optimizer.step()

    return call


def _compare(
    modules: dict[str, nn.Module],
    task: Callable[[nn.Module, Tensor], Callable[[], object]],
    x: Tensor,
    settings: Settings,
) -> dict[str, Any]:
    return compare({name: task(module, x) for name, module in modules.items()}, settings)


def _module(contender: Contender, spec: Spec, device: str) -> nn.Module:
    torch.manual_seed(0)
    return contender.compile(contender.describe(spec)).to(device)


def _compile_times(contender: Contender, spec: Spec, settings: Settings) -> dict[str, Any]:
    """Seconds to describe, to compile and to answer first, each from nothing but warm imports."""
    x = spec.data(1, settings.device)
    times: dict[str, list[float]] = {"describe": [], "compile": [], "first forward": []}
    for _ in range(min(settings.rounds, 5)):
        description, seconds = _clocked(partial(contender.describe, spec), settings.device)
        times["describe"].append(seconds)
        module, seconds = _clocked(lambda made=description: contender.compile(made), settings.device)  # type: ignore[misc]
        times["compile"].append(seconds)
        times["first forward"].append(_clocked(forward(module.to(settings.device), x), settings.device)[1])
    return {step: summary([1e3 * one for one in values]) for step, values in times.items()}


def _clocked(call: Callable[[], Any], device: str) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    synchronize(device)
    return result, time.perf_counter() - start
