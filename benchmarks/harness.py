"""Timing of contenders side by side: interleaved rounds, with an A/A control that shows the noise.

A round times every contender once, in an order of its own, so that drifts of the machine, and what one contender
leaves behind in caches and the heap, meet all alike. The control is the first contender a second time, under another
name: where its ratio is not 1, a ratio as far from 1 means nothing. Ratios are taken within a round, then summarised.

>>> report = compare({"sum": lambda: sum(range(100)), "twice": lambda: sum(range(200))}, Settings(rounds=2, seconds=0))
>>> sorted(report["ratios"])
['sum', 'sum (again)', 'twice']
"""

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.elsewhere import Asked

Contenders = Mapping[str, Callable[[], object]]
AGAIN = " (again)"


@dataclass(frozen=True, slots=True)
class Settings:
    """How long to measure.

    Args:
        rounds: Samples of each contender.
        warmup: Calls of each contender before the first round.
        seconds: The shortest sample: fast calls are repeated within a sample until it takes as long.
        device: Where the work happens; timings wait for it.
        pause: Seconds before each sample, in which threads of the contender before go to sleep: those of some libraries
            turn for milliseconds once they have nothing to do.
    """

    rounds: int = 20
    warmup: int = 2
    seconds: float = 0.01
    device: str = "cpu"
    pause: float = 0.0


def compare(contenders: Contenders, settings: Settings) -> dict[str, Any]:
    """Times of all contenders in milliseconds for each call, and ratios to the first; everything fits into JSON."""
    return report_of(measure(contenders, settings))


def report_of(samples: Mapping[str, list[float]]) -> dict[str, Any]:
    """What `compare` says of samples; the first are the baseline's."""
    first = next(iter(samples))
    baseline = samples[first]
    ratios = {name: [one / base for one, base in zip(times, baseline, strict=True)] for name, times in samples.items()}
    return {
        "baseline": first,
        "milliseconds": {name: summary([1e3 * one for one in times]) for name, times in samples.items()},
        "ratios": {name: summary(values) for name, values in ratios.items()},
    }


def measure(contenders: Contenders, settings: Settings) -> dict[str, list[float]]:
    """Seconds for each call, one sample for each round, of each contender and of the control."""
    first = next(iter(contenders))
    calls = dict(contenders) | {f"{first}{AGAIN}": contenders[first]}
    for call in calls.values():
        for _ in range(settings.warmup):
            call()
    repeats = _repeats(contenders[first], settings)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    orders = _orders(list(calls))
    enabled = gc.isenabled()
    try:
        for _ in range(settings.rounds):
            gc.collect()
            gc.disable()
            for name in next(orders):
                time.sleep(settings.pause)
                calls[name]()  # what another one left in caches and in the allocator is not this one's
                samples[name].append(timed(calls[name], repeats, settings.device))
    finally:
        if enabled:
            gc.enable()
    return samples


def _orders(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Random orders; of as many in a row as there are names, each name is at each place once."""
    drawn = random.Random(0)
    while True:
        order = drawn.sample(names, len(names))
        for place in range(len(names)):
            yield order[place:] + order[:place]


def timed(call: Callable[[], object], repeats: int, device: str) -> float:
    """Seconds for each of `repeats` calls, the device's work included.

    A GPU's own clock is read where its work begins and where it ends: how long the host waits then does not count. A
    call in another process (`elsewhere.py`) has a clock there.
    """
    if isinstance(call, Asked):
        return call.timed(repeats)
    synchronize(device)
    if device.startswith("cuda"):
        return _seconds_between_events(call, repeats) / repeats
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronize(device)
    return (time.perf_counter() - start) / repeats


def _seconds_between_events(call: Callable[[], object], repeats: int) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return 1e-3 * float(start.elapsed_time(end))


def synchronize(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)


def summary(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": _short(middle), "q1": _short(low), "q3": _short(high)}


def table(report: Mapping[str, Any], title: str) -> str:
    """One comparison as text: a line for each contender."""
    lines = [title]
    for name, times in report["milliseconds"].items():
        ratio = report["ratios"][name]
        spread = f"{times['q1']:.3f} to {times['q3']:.3f}"
        lines.append(f"  {name:28s} {times['median']:10.3f} ms  ({spread:>20s})  ratio {ratio['median']:.2f}")
    return "\n".join(lines)


def _repeats(call: Callable[[], object], settings: Settings) -> int:
    if settings.seconds <= 0:
        return 1
    return max(1, math.ceil(settings.seconds / max(timed(call, 1, settings.device), 1e-7)))


def _short(value: float) -> float:
    return float(f"{value:.5g}")
