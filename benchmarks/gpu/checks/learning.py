"""Learning: expected counts, and what each learner makes of the same rows, are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import torch

from benchmarks.gpu.checks import Check
from benchmarks.gpu.checks.circuits import circuit_cases, pair, with_one_unit
from benchmarks.gpu.checks.comparison import DTYPES, require_same
from benchmarks.gpu.devices import Device
from plica.errors import PlicaError
from plica.learn import fit, flows
from plica.learn.learners import LEARNERS
from plica.symbolic.circuit import Circuit
from tests.harness.circuits import data

_ROWS = 12
# Divisions by counts that may be small, and sums of squares.
_SCALE: Mapping[torch.dtype, float] = {torch.float32: 500.0, torch.float64: 100.0}


def checks() -> Iterator[Check]:
    """One check for each circuit, of its counts and of each learner."""
    for name, build in circuit_cases().items():
        yield Check(f"flows, {name}", partial(_check_flows, build))
        for learner in LEARNERS:
            yield Check(f"learning by {learner}, {name}", partial(_check_learner, learner, build))


def _rows(circuit: Circuit) -> torch.Tensor:
    """Rows of which a fifth is missing, where the circuit's data may be."""
    x = torch.from_numpy(data(circuit, _ROWS)).double()
    return x.masked_fill(torch.from_numpy(np.random.default_rng(3).random(x.shape) < 0.2), torch.nan)


def _check_flows(build: Callable[[], Circuit], device: Device) -> str | None:
    for dtype in DTYPES:
        try:
            on_cpu, on_device = pair(lambda: with_one_unit(build()), device, dtype=dtype)
            x = _rows(on_cpu.symbolic)
            expected = flows(on_cpu, x)
        except PlicaError as error:
            return f"refused on the CPU too: {error}"
        counted = flows(on_device, x.to(device.name))
        for key, wanted in expected.counts.items():
            require_same(counted.counts[key], wanted, device, f"{dtype}, {key}", _bound(dtype, wanted))
        sums = zip(expected.statistics.values(), counted.statistics.values(), strict=True)
        for place, (wanted_sums, own_sums) in enumerate(sums):
            for name, wanted in wanted_sums.items():
                what = f"{dtype}, input layer {place}, {name}"
                require_same(own_sums[name], wanted, device, what, _bound(dtype, wanted))
    return None


def _bound(dtype: torch.dtype, wanted: torch.Tensor) -> float:
    """How much more the numbers may differ than values do; they are float64, computed from numbers of `dtype`."""
    own = torch.finfo(dtype).eps / torch.finfo(wanted.dtype).eps if wanted.is_floating_point() else 1.0
    return 10.0 * own


def _check_learner(name: str, build: Callable[[], Circuit], device: Device) -> str | None:
    for dtype in DTYPES:
        try:
            on_cpu, on_device = pair(lambda: with_one_unit(build()), device, dtype=dtype)
            x = _rows(on_cpu.symbolic)
            settings = {"learner": LEARNERS[name](), "epochs": 2, "batch": 4, "seed": 1}
            fit(on_cpu, x, **settings)
        except PlicaError as error:
            return f"refused on the CPU too: {error}"
        fit(on_device, x.to(device.name), **settings)
        for key, wanted in on_cpu.state_dict().items():
            own = on_device.state_dict()[key]
            require_same(own, wanted, device, f"{dtype}, {key}", _SCALE[dtype])
    return None
