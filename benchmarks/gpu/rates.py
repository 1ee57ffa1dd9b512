"""What the machine can do at best, measured in the same run: bytes copied and matrices multiplied in a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.gpu.devices import Device
from benchmarks.harness import summary, timed

_SAMPLES = 7


@dataclass(frozen=True, slots=True)
class Rate:
    """Something that a machine does.

    Args:
        unit: What is counted.
        make: From the bytes that may be used to the call and how many units one call is.
        setting: What holds while it runs.
    """

    unit: str
    make: Callable[[str, int], tuple[Callable[[], object], float]]
    setting: Callable[[], AbstractContextManager[None]] = nullcontext


def _copy(device: str, size: int) -> tuple[Callable[[], object], float]:
    source = torch.zeros(size // 8, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return (lambda: target.copy_(source)), 2.0 * source.numel() * source.element_size()  # read and written


def _product(dtype: torch.dtype, most: int = 8192) -> Callable[[str, int], tuple[Callable[[], object], float]]:
    """Square matrices."""

    def make(device: str, size: int) -> tuple[Callable[[], object], float]:
        side = min(most, 64 * max(1, int((size / (3 * dtype.itemsize)) ** 0.5) // 64))
        x, y = (torch.rand(side, side, device=device).to(dtype) for _ in range(2))
        return (lambda: torch.mm(x, y)), 2.0 * side**3

    return make


def _batched_product(device: str, size: int) -> tuple[Callable[[], object], float]:
    """Many small matrices, as sum layers of folded circuits have: `(F, B, I) @ (F, I, O)`."""
    rows, units = (256, 256) if size > 2**28 else (16, 16)
    folds = max(1, min(1024, size // (4 * (2 * rows * units + units * units))))
    x, y = (torch.rand(folds, one, units, device=device) for one in (rows, units))
    return (lambda: torch.bmm(x, y)), 2.0 * folds * rows * units * units


@contextmanager
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


RATES: dict[str, Rate] = {
    "copy": Rate("bytes", _copy),
    "matrix product, float32": Rate("flops", _product(torch.float32)),
    "matrix product, float32 as tf32": Rate("flops", _product(torch.float32), _tf32),
    "matrix product, bfloat16": Rate("flops", _product(torch.bfloat16)),
    "matrix product, float64": Rate("flops", _product(torch.float64, 4096)),
    "batched matrix products, float32": Rate("flops", _batched_product),
}


def measure_rate(name: str, device: Device) -> dict[str, Any]:
    """Units in a second, by the median of some samples, and the spread of the times."""
    rate = RATES[name]
    with rate.setting():
        call, units = rate.make(device.name, device.memory() // 16)
        for _ in range(3):
            call()
        seconds = [timed(call, 5, device.name) for _ in range(_SAMPLES)]
    times = summary([1e3 * one for one in seconds])
    return {f"{rate.unit} in a second": float(f"{1e3 * units / times['median']:.4g}"), "milliseconds": times}
