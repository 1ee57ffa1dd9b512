"""One circuit on a device: forward and training at several batch sizes, eager, as a CUDA graph, compiled, and peers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.agreement import DisagreementError, compare_values
from benchmarks.gpu.devices import Device
from benchmarks.gpu.events import Measured, Planned, Skipped, tell
from benchmarks.gpu.models import Model, batches
from benchmarks.gpu.peers import PEERS, installed
from benchmarks.harness import Settings, compare
from benchmarks.measures import forward, forward_backward, training_step
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler

Call = Callable[[], object]
Maker = Callable[[], Call]
EAGER, GRAPH, COMPILED = "eager", "CUDA graph", "torch.compile"
TASKS: Mapping[str, Callable[[nn.Module, Tensor], Call]] = {"forward": forward, "training step": training_step}
_SETTINGS = Settings(rounds=7, warmup=1, seconds=0.02)
_REHEARSAL = Settings(rounds=1, warmup=0, seconds=0.0)
_CONTRACTIONS = ("log_matmul_exp", "log_einsum_exp")  # where the multiplications of a circuit are
_CPU_ROWS = 2
_LONG, _FAR = 1.0, 20.0  # seconds of one call, and times those of an eager one, of what is not called again


@dataclass(slots=True)
class Stage:
    """What is measured in one process.

    Args:
        model: The circuit.
        device: Where.
        until: When the process will be ended, by `time.monotonic`.
    """

    model: Model
    device: Device
    until: float
    modules: dict[str, nn.Module] = field(default_factory=dict)
    slowest: dict[bool, float] = field(default_factory=dict)  # seconds that a measurement took, compiled or not

    def run(self) -> None:
        """Measure, and tell of each finding at once."""
        titles = {title: (task, batch, compiled) for title, task, batch, compiled in self._titles()}
        tell(Planned(("making", "agreement", *titles)))
        self._make()
        self._make_peers()
        for title, (task, batch, compiled) in titles.items():
            left = self.until - time.monotonic()
            if left < 1.5 * self.slowest.get(compiled, 0.0):
                tell(Skipped(title, f"{left:.0f} seconds are left, and the one before took more than that"))
                continue
            start = time.monotonic()
            self._measure(title, task, batch, compiled)
            self.slowest[compiled] = time.monotonic() - start

    def _titles(self) -> Iterator[tuple[str, str, int, bool]]:
        for compiled in (False, True):
            for batch in batches(self.device.is_rehearsal):
                for task in TASKS:
                    yield f"{COMPILED + ', ' if compiled else ''}{task}, batch {batch}", task, batch, compiled

    def _make(self) -> None:
        """Describe and compile the circuit, and compare the device with the CPU."""
        start = time.monotonic()
        torch.manual_seed(0)
        symbolic = self.model.describe("plica")
        described = time.monotonic()
        compiled = TorchCompiler().compile(symbolic)
        made = time.monotonic()
        rows = self.model.data(_CPU_ROWS)
        with torch.no_grad():
            expected = compiled(rows)
            self.modules[EAGER] = compiled.to(self.device.name)
            found = compiled(rows.to(self.device.name)).cpu()
        facts = {
            "seconds to describe": round(described - start, 2),
            "seconds to compile": round(made - described, 2),
            "parameters": sum(one.numel() for one in compiled.parameters()),
            "multiply-adds for each row": multiplications(compiled),
        }
        tell(Measured("making", facts))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, msg=lambda text: f"device and CPU: {text}")

    def _make_peers(self) -> None:
        """Compile with other libraries; those that fail or disagree are not timed."""
        agreement: dict[str, Any] = {"plica on the CPU": f"equal on {_CPU_ROWS} random rows"}
        peers = {name: peer for name, peer in PEERS.items() if isinstance(self.model, peer.models)}
        missing = peers.keys() - installed().keys()
        for name, peer in peers.items():
            if name in missing:
                tell(Skipped(name, f"it is not installed; the package is {peer.distribution}"))
        if len(missing) < len(peers):
            ours = TorchCompiler().compile(self.model.equal("plica")).to(self.device.name)
            x = self.model.equal_rows().to(self.device.name)
        for name, peer in peers.items():
            if name in missing:
                continue
            try:
                equal = peer.equal(self.model).to(self.device.name)
                agreement[name] = compare_values({"plica": ours, name: equal}, x) | {"note": peer.note}
                self.modules[name] = peer.timed(self.model).to(self.device.name)
            except Exception as error:  # a library of others may fail in any way; that must not end the measurement
                tell(Skipped(name, f"{type(error).__name__}: {str(error)[:500]}"))
        tell(Measured("agreement", agreement))

    def _measure(self, title: str, task: str, batch: int, compiled: bool) -> None:
        x = self.model.data(batch).to(self.device.name)
        calls: dict[str, Call] = {}
        memory: dict[str, float] = {}
        seconds: dict[str, float] = {}
        for name, make in self._makers(task, x, compiled).items():

            def prepare(name: str = name, make: Maker = make) -> None:
                calls[name] = make()
                calls[name]()

            try:
                peak = self.device.peak(prepare)
            except torch.OutOfMemoryError:
                calls.pop(name, None)
                tell(Skipped(f"{title}, {name}", "it does not fit into the memory of the device"))
                self._forget()
                continue
            except (RuntimeError, DisagreementError) as error:
                calls.pop(name, None)
                if self.device.is_lost() or name == EAGER:
                    raise
                tell(Skipped(f"{title}, {name}", f"{type(error).__name__}: {str(error)[:500]}"))
                continue
            if peak is not None:
                memory[name] = round(peak / 2**20, 1)
            seconds[name], eager = self._once(calls[name]), seconds.get(EAGER, math.inf)
            if seconds[name] > max(_LONG, _FAR * eager):
                del calls[name]
                times = f"{seconds[name] / eager:.0f} times an eager one"
                tell(Skipped(f"{title}, {name}", f"one call takes {seconds[name]:.3g} seconds, {times}"))
        if EAGER in calls:
            self._time(title, calls, memory)
        calls.clear()
        self._forget()

    def _once(self, call: Call) -> float:
        start = time.monotonic()
        self.device.peak(call)  # waits for the device
        return time.monotonic() - start

    def _time(self, title: str, calls: Mapping[str, Call], memory: Mapping[str, float]) -> None:
        settings = replace(_REHEARSAL if self.device.is_rehearsal else _SETTINGS, device=self.device.name)
        try:
            report = compare(calls, settings)
        except torch.OutOfMemoryError:
            tell(Skipped(title, "its contenders do not fit into the memory of the device together"))
            return
        tell(Measured(title, report | ({"MiB beside parameters and data": dict(memory)} if memory else {})))

    def _makers(self, task: str, x: Tensor, compiled: bool) -> dict[str, Maker]:
        """How the contenders are made; the first is what the others are compared with."""
        module = self.modules[EAGER]
        makers: dict[str, Maker] = {EAGER: partial(TASKS[task], module, x)}
        if compiled:
            return makers | {COMPILED: partial(_compiled, task, module, x, self.device)}
        makers[GRAPH] = partial(_captured, task, module, x, self.device)
        for name, peer in PEERS.items():
            if name in self.modules:
                run = forward if task == "forward" else peer.training_step
                makers[name] = partial(run, self.modules[name], x)
        return makers

    def _forget(self) -> None:
        for module in self.modules.values():
            module.zero_grad(set_to_none=True)
        self.device.forget()


def _captured(task: str, module: nn.Module, x: Tensor, device: Device) -> Call:
    """The work of one call on memory that stays where it is; new rows are copied there before each replay."""
    rows, held = x.clone(), {}

    def call() -> None:
        held["values"] = forward(module, rows)()

    capturable = not device.is_rehearsal
    replay = device.capture(call if task == "forward" else _capturable_step(module, rows, capturable))
    if task == "forward":
        replay()
        _require_equal(held["values"], module, x)

    def again() -> None:
        rows.copy_(x)
        replay()

    return again


def _capturable_step(module: nn.Module, x: Tensor, capturable: bool) -> Call:
    """A training step whose optimizer counts its steps on the device."""
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True, capturable=capturable)
    gradients = forward_backward(module, x)

    def call() -> None:
        gradients()
        optimizer.step()

    return call


def _compiled(task: str, module: nn.Module, x: Tensor, device: Device) -> Call:
    """The module through torch's compiler, for this batch size alone."""
    compiled: Any = torch.compile(module, dynamic=False, backend=device.compiler)
    call = TASKS[task](compiled, x)
    if task == "forward":
        _require_equal(call(), module, x)
    return call


def _require_equal(found: Any, module: nn.Module, x: Tensor) -> None:
    """Check values before they are timed.

    Raises:
        DisagreementError: They are not those of the module.
    """
    expected: Any = forward(module, x)()
    if not torch.allclose(found, expected, rtol=1e-4, atol=1e-4):
        difference = float((found - expected).abs().max())
        raise DisagreementError(f"the values differ from eager ones by up to {difference:g}")


def multiplications(compiled: TorchCircuit) -> int:
    """Multiply-adds of one row: one for each entry of each weight that a sum reads."""
    total = 0
    for equation in compiled.program.equations:
        if equation.op.name in _CONTRACTIONS:
            total += int(torch.Size([int(size) for size in equation.inputs[-1].type.shape]).numel())
    return total
