"""Constant folding of compiled circuits in eval mode: values of tensors alone are computed once.

A Program of the circuit is split (`constants/`): one part depends on no data and runs once, the other runs at each
call. Each cached value has a Program of its own. Values of equal Programs of the same tensors are shared: between
Programs of one circuit (linear, scaled, queries, data of other dtypes) and between circuits that share tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, final

import torch
from torch import Tensor
from torch.autograd import forward_ad

from plica.backend.torch.emit import emit
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.leaves import Leaves
from plica.backend.torch.operations import ROWS
from plica.backend.torch.sources import folding as undisturbed
from plica.backend.torch.sources import seal
from plica.backend.torch.watch import Watch, can_watch
from plica.constants.analysis.facts import bits_of
from plica.constants.cut.split import constant_results
from plica.constants.fold import fold
from plica.constants.policy import SMALL, FoldPolicy
from plica.constants.report import FoldReport
from plica.constants.store.cache import SHARED, FoldCache
from plica.constants.store.components import Component, Components, Constants
from plica.constants.store.snapshots import Snapshots
from plica.forks import ForkSafeLock
from plica.ir.program import Program, Var
from plica.lower.leaves import Constant, Leaf


class LoweredProgram(Protocol):
    """A Program of a circuit, and the source of each of its captured variables."""

    @property
    def program(self) -> Program:
        """The Program."""

    @property
    def captured(self) -> Sequence[Leaf | Constant]:
        """The source of each of its captured variables."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Ready:
    """A folded Program, ready for calls: `run(leaves, *arguments, *values)`.

    Args:
        run: The generated function.
        leaves: The holder of the tensors that it still reads.
        values: The cached values.
        watch: The tensors from which they were computed.
        constant: The numbers of the results that depend on no argument.
    """

    run: Callable[..., Any]
    leaves: Any
    values: tuple[Tensor, ...]
    watch: Watch
    constant: Sequence[int] = ()

    def first(self, *arguments: Any) -> Tensor:
        """The first of several results of the Program, in memory of its own."""
        if torch.is_grad_enabled():  # of the data
            own: Tensor = self.run(self.leaves, *arguments, *self.values)[0]
            return own
        with torch._C._InferenceMode(True):  # 7 % less at one row: no view is noted, and no write counted
            result: Tensor = self.run(self.leaves, *arguments, *self.values)[0]
        return result.clone()

    def __call__(self, *arguments: Any) -> Any:
        """The results of the Program."""
        return self.run(self.leaves, *arguments, *self.values)


_Version = tuple[Watch, Any]
"""The watch of the tensors, and the holder that has them as attributes."""


def _ready(
    run: Callable[..., Any],
    cached: Sequence[str],
    constant: Sequence[int],
    version: _Version,
    values: Mapping[str, Any],
) -> Ready:
    watch, leaves = version
    return Ready(run, leaves, tuple([values[name] for name in cached]), watch, constant)


@final
class _FoldedProgram:
    """A Program whose constants are computed once.

    Args:
        program: The Program.
        captured: The source of each of its consts.
        indices: The index of each leaf among the watched tensors.
        device: The device of the tensors.
        policy: The budget of the cached values.
        cache: The cache.
    """

    @without_collection()
    def __init__(
        self,
        program: Program,
        captured: Sequence[Leaf | Constant],
        indices: Mapping[Leaf, int],
        device: torch.device,
        policy: FoldPolicy,
        cache: FoldCache,
    ) -> None:
        self.device = device
        folding = fold(program, policy=policy, sources_stay=True)
        split, self.report = folding.split, folding.report
        self.entry = split.entry
        self._transposed = dict.fromkeys(_transposed(split.entry))
        self._sources = {
            var.name: source.digest if isinstance(source, Constant) else indices[source]
            for var, source in zip(program.consts, captured, strict=True)
        }
        cached = [var.name for var in split.kept]
        components = [Component(component, emit(component, "fold", shares=True)) for component in folding.components]
        self._snapshots: Snapshots[_Version, Ready] = Snapshots(
            Components(components, cached, cache, device),
            partial(_ready, emit(split.entry, "folded", reuses=True), cached, constant_results(split)),
            is_replaced_early=True,
        )

    def ready(self, watch: Watch, reads: Callable[[], Any]) -> Ready:
        """The folded Program for the watched tensors."""
        while True:
            ready = self._current(watch)
            if ready is None:
                ready = self._snapshots.once(partial(self._newest, watch, reads), watch)
            if ready is not None:
                return ready

    def _current(self, watch: Watch) -> Ready | None:
        """The folded Program for the watched tensors; None if it has yet to be folded."""
        snapshot = self._snapshots.latest
        return None if snapshot is None or snapshot.version[0] is not watch else self._snapshots.ready(snapshot)

    def _newest(self, watch: Watch, reads: Callable[[], Any]) -> Ready:
        ready = self._current(watch)
        return self._folded(watch, reads()) if ready is None else ready

    def _folded(self, watch: Watch, leaves: Any) -> Ready:
        states = watch.states
        states_of = {
            name: states[source] if isinstance(source, int) else source for name, source in self._sources.items()
        }

        def make(component: Component, given: Mapping[str, Any]) -> list[Tensor]:
            results = component.runner(leaves, *(given[var.name] for var in component.program.arguments))
            rows = zip(component.makes, results if isinstance(results, tuple) else (results,), strict=True)
            return [_own(value, watch, name in self._transposed) for name, value in rows]

        def pins(name: str) -> Sequence[Tensor]:
            source = self._sources[name]
            return watch.pins(source) if isinstance(source, int) else ()

        constants = Constants(states_of, make, pins, lambda: watch.is_current(watch.tensors))
        with undisturbed():
            snapshot, ready = self._snapshots.folded((watch, leaves), constants)
        if leaves.device.type == "cuda":  # another stream may read them next
            torch.cuda.current_stream(leaves.device).synchronize()
        self._snapshots.latest = snapshot
        return ready

    def values(self) -> Sequence[Tensor]:
        """The cached values."""
        return self._snapshots.values()

    def forget(self) -> None:
        """Empty the cache."""
        self._snapshots.latest = None


def _own(value: Tensor, watch: Watch, is_transposed: bool) -> Tensor:
    """A value in memory of its own, laid out as it is read; a view of a watched tensor stays one."""
    storage = value.untyped_storage()
    if storage.data_ptr() in (tensor.untyped_storage().data_ptr() for tensor in watch.tensors):
        return value.view_as(value)  # known to be a view of the tensor; gradients are not recorded here
    owned = value.detach()
    owned = owned.mT.contiguous().mT if is_transposed else owned.contiguous()
    return seal(owned if owned.untyped_storage().nbytes() == owned.nbytes else owned.clone())


def _transposed(entry: Program) -> Iterator[str]:
    """The names of operands that a Program reads with their last two axes swapped."""
    for equation in entry.equations:
        row = ROWS.get(equation.op.name)
        index = None if row is None else row.transposed(equation)
        if index is not None:
            operand = equation.inputs[index]
            if isinstance(operand, Var):
                yield operand.name


@final
class CircuitConstants:
    """The folded Programs of one circuit, or of a part that is compiled alone.

    Args:
        policy: The budget of each Program; by default as much as the tensors that it reads, or twice that for queries,
            and one MiB.
        cache: The cache; by default the one of functions and of other circuits.
    """

    def __init__(self, policy: FoldPolicy | None = None, cache: FoldCache | None = None) -> None:
        self.policy, self.cache = policy, cache
        self._programs: dict[Hashable, _FoldedProgram] = {}
        self._watch: Watch | None = None
        self._lock = ForkSafeLock()

    @property
    def num_bytes(self) -> int:
        """The bytes of cached values beside the tensors of the circuit, values that other circuits share included."""
        values = [value for program in tuple(self._programs.values()) for value in program.values()]
        tensors = [] if self._watch is None else self._watch.tensors
        own = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in values}
        return sum(own.values()) - sum(own.get(tensor.untyped_storage().data_ptr(), 0) for tensor in tensors)

    def report(self, key: Hashable, program: Program) -> FoldReport:
        """Which values of constants of a Program are cached, and why.

        Args:
            key: Identifies the Program.
            program: The Program.
        """
        folded = self._programs.get(key)
        if folded is not None:
            return folded.report
        return fold(program, policy=self._policy_for(program), sources_stay=True).report

    def forget(self) -> None:
        """Empty the caches of all Programs."""
        if self._watch is not None:
            self._watch = None
            for program in tuple(self._programs.values()):
                program.forget()

    def __reduce__(self) -> tuple[Any, ...]:
        return CircuitConstants, (self.policy, self.cache)  # a copy of the circuit has cached nothing yet

    def watching(self, leaves: Leaves, *, training: bool) -> Watch | None:
        """A watch of the tensors as they are now; None if Programs have to run unfolded.

        Args:
            leaves: The tensors.
            training: Whether the circuit is in train mode, in which nothing is cached.
        """
        if training:
            self.forget()
            return None
        if _is_recorded(leaves.device):
            return None
        tensors = leaves.tensors()
        if tensors is None:
            return None
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            return None
        return self._watching(tensors)

    def of(
        self,
        key: Hashable,
        lower: Callable[[], LoweredProgram],
        leaves: Leaves,
        watch: Watch,
        reads: Callable[[], Any] | None = None,
        room: int = 1,
    ) -> Ready:
        """The folded Program of a key.

        Args:
            key: Identifies the Program among those of the circuit.
            lower: Gives the Program if its key is new.
            leaves: The tensors of the circuit.
            watch: A watch of them as they are now.
            reads: Makes a holder with the tensors under the names of the Program's consts, unless `leaves` is one.
            room: The budget in multiples of the memory of its tensors, where there is no policy.
        """
        folded = self._programs.get(key)
        if folded is None or folded.device != leaves.device:
            lowered = lower()
            indices = {leaf: index for index, (_, leaf) in enumerate(leaves.attributes())}
            with self._lock:
                folded = self._programs.get(key)
                if folded is None or folded.device != leaves.device:
                    policy = self._policy_for(lowered.program, room)
                    cache = SHARED if self.cache is None else self.cache
                    folded = _FoldedProgram(lowered.program, lowered.captured, indices, leaves.device, policy, cache)
                    self._programs[key] = folded
        return folded.ready(watch, (lambda: leaves) if reads is None else reads)

    def _watching(self, tensors: Sequence[Tensor]) -> Watch | None:
        """A watch of the tensors as they are now; None if they cannot be watched."""
        watch = self._watch
        if watch is not None and watch.is_current(tensors):
            return watch
        with self._lock:
            latest = self._watch
            if latest is not None and latest is not watch and latest.is_current(tensors):
                return latest
            if not all(map(can_watch, tensors)):
                return None
            checksum = self.policy is not None and self.policy.check == "checksum"
            with torch.inference_mode(False):
                self._watch = watch = Watch(tensors, checksum=checksum, before=latest)
            return watch

    def _policy_for(self, program: Program, room: int = 1) -> FoldPolicy:
        if self.policy is not None:
            return self.policy
        size = sum((bits_of(var.type, {}) or 0) // 8 for var in program.consts)
        return replace(FoldPolicy(), max_growth=room * size + SMALL, widen=True)


def _is_recorded(device: torch.device) -> bool:
    """Whether calls become part of a graph, which would read the present cache forever, or have forward derivatives."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
        or (device.type == "cuda" and torch.cuda.is_current_stream_capturing())
    )
