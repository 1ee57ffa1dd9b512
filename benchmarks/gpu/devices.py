"""The devices that can be checked and measured, one row each: what differs between them is a column."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Device:
    """A device.

    Args:
        name: What torch calls it.
        is_rehearsal: Sizes are tiny: nothing is learned but that all of it runs.
        watched: A context in which it is an error that the host waits for the device.
        is_lost: Whether nothing runs there any more, after an assertion of the device for instance.
        compiler: What `torch.compile` hands its graphs to.
        capture: A call that repeats the work of another without its Python, on the memory that it used.
        forget: Forget what was compiled, and give memory back that nothing uses.
        memory: The number of bytes there are.
        peak: The most bytes that are there during a call beside those before it; None where that is not counted.
    """

    name: str
    is_rehearsal: bool
    watched: Callable[[], AbstractContextManager[None]]
    is_lost: Callable[[], bool]
    compiler: str
    capture: Callable[[Call], Call]
    forget: Call
    memory: Callable[[], int]
    peak: Callable[[Call], int | None]


@contextmanager
def _error_where_the_host_waits() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def _is_lost() -> bool:
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _capture(call: Call) -> Call:
    """As torch asks: some calls on another stream first, then one that is recorded."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def _forget() -> None:
    torch.compiler.reset()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def _peak(call: Call) -> int:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _uncounted(call: Call) -> None:
    call()


DEVICES: dict[str, Device] = {
    "cuda": Device(
        name="cuda",
        is_rehearsal=False,
        watched=_error_where_the_host_waits,
        is_lost=_is_lost,
        compiler="inductor",
        capture=_capture,
        forget=_forget,
        memory=lambda: int(torch.cuda.get_device_properties(0).total_memory),
        peak=_peak,
    ),
    "cpu": Device(
        name="cpu",
        is_rehearsal=True,
        watched=nullcontext,
        is_lost=lambda: False,
        compiler="eager",
        capture=lambda call: call,
        forget=torch.compiler.reset,
        memory=lambda: 2**24,
        peak=_uncounted,
    ),
}
