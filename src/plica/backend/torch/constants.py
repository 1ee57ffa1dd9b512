"""What a compiled circuit computes from its tensors alone, and keeps between calls in eval mode.

A Program of the circuit is split (`constants/`): what depends on no data runs once, the rest at each call. Each
kept value has a Program of its own, by which, and by the tensors that it reads, it is shared: between Programs of one
circuit (linear, scaled, queries, data of other dtypes) and between circuits that share tensors.
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
    """A Program of a circuit, and what stands behind each of its captured variables."""

    @property
    def program(self) -> Program:
        """The Program."""

    @property
    def captured(self) -> Sequence[Leaf | Constant]:
        """What stands behind each of its captured variables."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Ready:
    """What runs at each call: `run(leaves, *arguments, *values)`.

    Args:
        run: The generated function.
        leaves: What has the tensors that it still reads.
        values: What is kept.
        watch: The tensors that it was computed from.
        constant: The places of results that depend on no argument.
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
            made: Tensor = self.run(self.leaves, *arguments, *self.values)[0]
        return made.clone()

    def __call__(self, *arguments: Any) -> Any:
        """The results of the Program."""
        return self.run(self.leaves, *arguments, *self.values)


_Version = tuple[Watch, Any]
"""What watches the tensors, and what has them as attributes."""


def _ready(
    run: Callable[..., Any], kept: Sequence[str], constant: Sequence[int], version: _Version, values: Mapping[str, Any]
) -> Ready:
    watch, leaves = version
    return Ready(run, leaves, tuple([values[name] for name in kept]), watch, constant)


@final
class _FoldedProgram:
    """A Program whose constants are computed once.

    Args:
        program: The Program.
        captured: What stands behind each of its consts.
        places: The place of each leaf among the tensors that are watched.
        device: Where the tensors are.
        policy: How much memory what is kept may take.
        cache: Where it is kept.
    """

    @without_collection()
    def __init__(
        self,
        program: Program,
        captured: Sequence[Leaf | Constant],
        places: Mapping[Leaf, int],
        device: torch.device,
        policy: FoldPolicy,
        cache: FoldCache,
    ) -> None:
        self.device = device
        folding = fold(program, policy=policy, is_held=True)
        split, self.report = folding.split, folding.report
        self.entry = split.entry
        self._transposed = dict.fromkeys(_transposed(split.entry))
        self._behind = {
            var.name: one.digest if isinstance(one, Constant) else places[one]
            for var, one in zip(program.consts, captured, strict=True)
        }
        kept = [var.name for var in split.kept]
        made = [Component(one, emit(one, "fold", shares=True)) for one in folding.components]
        self._snapshots: Snapshots[_Version, Ready] = Snapshots(
            Components(made, kept, cache, device),
            partial(_ready, emit(split.entry, "folded", reuses=True), kept, constant_results(split)),
            is_replaced_early=True,
        )

    def ready(self, watch: Watch, reads: Callable[[], Any]) -> Ready:
        """What runs with the tensors that are watched."""
        while True:
            ready = self._current(watch)
            if ready is None:
                ready = self._snapshots.once(partial(self._newest, watch, reads), watch)
            if ready is not None:
                return ready

    def _current(self, watch: Watch) -> Ready | None:
        """What runs with the tensors that are watched, where nothing has to be folded."""
        snapshot = self._snapshots.latest
        return None if snapshot is None or snapshot.version[0] is not watch else self._snapshots.ready(snapshot)

    def _newest(self, watch: Watch, reads: Callable[[], Any]) -> Ready:
        ready = self._current(watch)
        return self._folded(watch, reads()) if ready is None else ready

    def _folded(self, watch: Watch, leaves: Any) -> Ready:
        states = watch.states
        behind = {name: states[one] if isinstance(one, int) else one for name, one in self._behind.items()}

        def make(component: Component, given: Mapping[str, Any]) -> list[Tensor]:
            made = component.runner(leaves, *(given[var.name] for var in component.program.arguments))
            rows = zip(component.makes, made if isinstance(made, tuple) else (made,), strict=True)
            return [_own(one, watch, name in self._transposed) for name, one in rows]

        def pins(name: str) -> Sequence[Tensor]:
            place = self._behind[name]
            return watch.pins(place) if isinstance(place, int) else ()

        constants = Constants(behind, make, pins, lambda: watch.is_current(watch.tensors))
        with undisturbed():
            snapshot, ready = self._snapshots.folded((watch, leaves), constants)
        if leaves.device.type == "cuda":  # another stream may read them next
            torch.cuda.current_stream(leaves.device).synchronize()
        self._snapshots.latest = snapshot
        return ready

    def values(self) -> Sequence[Tensor]:
        """What is kept."""
        return self._snapshots.values()

    def forget(self) -> None:
        """Keep nothing."""
        self._snapshots.latest = None


def _own(value: Tensor, watch: Watch, is_transposed: bool) -> Tensor:
    """A value in memory of its own and in the order of its reading, unless that is the memory of a tensor."""
    storage = value.untyped_storage()
    if storage.data_ptr() in (one.untyped_storage().data_ptr() for one in watch.tensors):
        return value.view_as(value)  # known to be a view of the tensor; gradients are not recorded here
    found = value.detach()
    found = found.mT.contiguous().mT if is_transposed else found.contiguous()
    return seal(found if found.untyped_storage().nbytes() == found.nbytes else found.clone())


def _transposed(entry: Program) -> Iterator[str]:
    """The names of what a Program reads with its last two axes the other way round."""
    for equation in entry.equations:
        row = ROWS.get(equation.op.name)
        place = None if row is None else row.transposed(equation)
        if place is not None:
            operand = equation.inputs[place]
            if isinstance(operand, Var):
                yield operand.name


@final
class CircuitConstants:
    """The folded Programs of one circuit, or of a part that is compiled alone.

    Args:
        policy: How much memory what is kept may take, for each Program; by default as much as the tensors that it
            reads, or twice that for queries, and one MiB.
        cache: Where it is kept; by default where functions and other circuits keep theirs too.
    """

    def __init__(self, policy: FoldPolicy | None = None, cache: FoldCache | None = None) -> None:
        self.policy, self.cache = policy, cache
        self._programs: dict[Hashable, _FoldedProgram] = {}
        self._watch: Watch | None = None
        self._lock = ForkSafeLock()

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept beside the tensors of the circuit, those that other circuits share among them."""
        kept = [one for program in tuple(self._programs.values()) for one in program.values()]
        held = [] if self._watch is None else self._watch.tensors
        own = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in kept}
        return sum(own.values()) - sum(own.get(one.untyped_storage().data_ptr(), 0) for one in held)

    def report(self, key: Hashable, program: Program) -> FoldReport:
        """What becomes of the constants of a Program.

        Args:
            key: What tells the Program from the others.
            program: The Program.
        """
        found = self._programs.get(key)
        if found is not None:
            return found.report
        return fold(program, policy=self._policy_for(program), is_held=True).report

    def forget(self) -> None:
        """Keep no values."""
        if self._watch is not None:
            self._watch = None
            for one in tuple(self._programs.values()):
                one.forget()

    def __reduce__(self) -> tuple[Any, ...]:
        return CircuitConstants, (self.policy, self.cache)  # those of a copy of the circuit keep nothing yet

    def watching(self, leaves: Leaves, *, training: bool) -> Watch | None:
        """What watches the tensors as they are now; None where Programs have to run unfolded.

        Args:
            leaves: The tensors.
            training: Whether in train mode, in which nothing is kept.
        """
        if training:
            self.forget()
            return None
        if _is_recorded(leaves.device):
            return None
        tensors = leaves.tensors()
        if tensors is None:
            return None
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
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
        """What runs at each call.

        Args:
            key: What tells the Program from the others of the circuit.
            lower: Makes the Program where its key is new, with what stands behind its consts.
            leaves: The tensors of the circuit.
            watch: What watches them as they are now.
            reads: Makes what has the tensors as attributes named like the Program's consts, where that is not `leaves`.
            room: How many times as much memory as its tensors take what is kept may take, where no policy says so.
        """
        found = self._programs.get(key)
        if found is None or found.device != leaves.device:
            lowered = lower()
            places = {leaf: place for place, (_, leaf) in enumerate(leaves.attributes())}
            with self._lock:
                found = self._programs.get(key)
                if found is None or found.device != leaves.device:
                    policy = self._policy_for(lowered.program, room)
                    cache = SHARED if self.cache is None else self.cache
                    found = _FoldedProgram(lowered.program, lowered.captured, places, leaves.device, policy, cache)
                    self._programs[key] = found
        return found.ready(watch, (lambda: leaves) if reads is None else reads)

    def _watching(self, tensors: Sequence[Tensor]) -> Watch | None:
        """What watches the tensors as they are now; None where that is not possible."""
        watch = self._watch
        if watch is not None and watch.is_current(tensors):
            return watch
        with self._lock:
            other = self._watch
            if other is not None and other is not watch and other.is_current(tensors):
                return other
            if not all(map(can_watch, tensors)):
                return None
            checksum = self.policy is not None and self.policy.check == "checksum"
            with torch.inference_mode(False):
                self._watch = watch = Watch(tensors, checksum=checksum, before=other)
            return watch

    def _policy_for(self, program: Program, room: int = 1) -> FoldPolicy:
        if self.policy is not None:
            return self.policy
        size = sum((bits_of(var.type, {}) or 0) // 8 for var in program.consts)
        return replace(FoldPolicy(), max_growth=room * size + SMALL, widen=True)


def _is_recorded(device: torch.device) -> bool:
    """Whether calls become part of a graph, which would read what is kept now for ever, or have forward derivatives."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
        or (device.type == "cuda" and torch.cuda.is_current_stream_capturing())
    )
