"""What a compiled circuit computes from its tensors alone, and keeps between calls in eval mode.

A Program of the circuit is split (`passes/constants`): what depends on no data runs once, the rest at each call. Each
kept value has a Program of its own, by which, and by the tensors that it reads, it is shared: between Programs of one
circuit (linear, scaled, queries, data of other dtypes) and between circuits that share tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, final
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd import forward_ad

from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import Leaves
from plica.backend.torch.operations import ROWS
from plica.backend.torch.sources import apart, folding
from plica.backend.torch.watch import Watch, can_watch
from plica.ir.program import Equation, Operand, Program, Var
from plica.lower.leaves import Constant, Leaf
from plica.passes.constants.facts import bits_of
from plica.passes.constants.fold import fold
from plica.passes.constants.policy import SMALL, FoldPolicy
from plica.passes.constants.split import escaping, needed_by


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Ready:
    """What runs at each call: `run(leaves, *arguments, *values)`.

    Args:
        run: The generated function.
        leaves: What has the tensors that it still reads.
        values: What is kept.
        escaping: The places of results that may lie in the memory of a value: the caller gets copies.
    """

    run: Callable[..., Any]
    leaves: Any
    values: tuple[Tensor, ...]
    escaping: Sequence[int] = ()

    def __call__(self, *arguments: Any) -> Any:
        """The results of the Program."""
        made = self.run(self.leaves, *arguments, *self.values)
        if not self.escaping:
            return made
        if not isinstance(made, tuple):
            return apart(made, self.values)
        return tuple(apart(one, self.values) if place in self.escaping else one for place, one in enumerate(made))


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class _Buffer:
    """A kept value.

    Args:
        key: By what it is shared.
        value: The value.
        watch: What it was made of, whose memory stays alive so that no other tensor takes its place.
    """

    key: Hashable
    value: Tensor
    watch: Watch


_SHARED: WeakValueDictionary[Hashable, _Buffer] = WeakValueDictionary()
_SHARED_LOCK = Lock()


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """How one kept value is made.

    Args:
        whole: The Program from tensors to the value, which says what it is.
        run: What makes it of the tensors and of the kept values that it reads.
        given: The places of these.
        sources: The places of the tensors that `whole` reads, or what stands for a constant.
        is_transposed: Whether the value is read with its last two axes the other way round, and lies in memory so.
    """

    whole: Program
    run: Callable[..., Tensor]
    given: tuple[int, ...]
    sources: tuple[int | str, ...]
    is_transposed: bool

    def key(self, watch: Watch, device: torch.device) -> Hashable:
        """By what the value is shared."""
        states = (watch.state(one) if isinstance(one, int) else one for one in self.sources)
        return (self.whole, device, *states)


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What calls run with until a tensor changes; never changed itself, so that a call sees all of one.

    Args:
        watch: The tensors.
        buffers: The kept values.
        ready: What runs.
    """

    watch: Watch
    buffers: tuple[_Buffer, ...]
    ready: Ready


@final
class _FoldedProgram:
    """A Program whose constants are computed once.

    Args:
        program: The Program.
        captured: What stands behind each of its consts.
        places: The place of each leaf among the tensors that are watched.
        policy: How much memory what is kept may take.
    """

    def __init__(
        self,
        program: Program,
        captured: Sequence[Leaf | Constant],
        places: Mapping[Leaf, int],
        policy: FoldPolicy,
    ) -> None:
        split = fold(program, policy=policy, is_held=True).split
        self.entry = split.entry
        self._run = emit(split.entry, "folded", reuses=True)
        self._escaping = escaping(split.entry, split.kept)
        behind = {
            var.name: one.digest if isinstance(one, Constant) else places[one]
            for var, one in zip(program.consts, captured, strict=True)
        }
        transposed = dict.fromkeys(_transposed(split.entry))
        self._steps = [] if split.runtime_fold is None else list(_steps(split.runtime_fold, behind, transposed))
        self._kept: _Kept | None = None
        self._lock = Lock()

    def ready(self, watch: Watch, reads: Callable[[], Any]) -> Ready:
        """What runs with the tensors that are watched."""
        kept = self._kept
        if kept is None or kept.watch is not watch:
            kept = self._folded(watch, reads)
        return kept.ready

    def _folded(self, watch: Watch, reads: Callable[[], Any]) -> _Kept:
        with self._lock:
            kept = self._kept
            if kept is not None and kept.watch is watch:
                return kept
            leaves = reads()
            keys = [step.key(watch, leaves.device) for step in self._steps]
            wanted = dict.fromkeys(keys)
            still = [] if kept is None else [one for one in kept.buffers if one.key in wanted]
            self._kept = kept = None  # what has changed goes before the new is made
            buffers: list[_Buffer] = []
            with folding():
                for step, key in zip(self._steps, keys, strict=True):
                    buffers.append(_shared(key, step, leaves, buffers, watch))
            if leaves.device.type == "cuda":  # another stream may read them next
                torch.cuda.current_stream(leaves.device).synchronize()
            del still
            ready = Ready(self._run, leaves, tuple(one.value for one in buffers), self._escaping)
            self._kept = kept = _Kept(watch, tuple(buffers), ready)
            return kept

    def buffers(self) -> Sequence[_Buffer]:
        """What is kept."""
        kept = self._kept
        return () if kept is None else kept.buffers

    def forget(self) -> None:
        """Keep nothing."""
        self._kept = None


def _shared(key: Hashable, step: _Step, leaves: Any, before: Sequence[_Buffer], watch: Watch) -> _Buffer:
    with _SHARED_LOCK:
        found = _SHARED.get(key)
    if found is None:
        value = step.run(leaves, *(before[place].value for place in step.given))
        found = _Buffer(key, _own(value, watch, step.is_transposed), watch)
        with _SHARED_LOCK:
            found = _SHARED.setdefault(key, found)
    return found


def _own(value: Tensor, watch: Watch, is_transposed: bool) -> Tensor:
    """A value in memory of its own and in the order of its reading, unless that is the memory of a tensor."""
    storage = value.untyped_storage()
    found = value.detach()
    if storage.data_ptr() in (one.untyped_storage().data_ptr() for one in watch.tensors):
        return found
    found = found.mT.contiguous().mT if is_transposed else found.contiguous()
    return found if found.untyped_storage().nbytes() == found.nbytes else found.clone()


def _transposed(entry: Program) -> Iterator[Operand]:
    """What a Program reads with its last two axes the other way round."""
    for equation in entry.equations:
        row = ROWS.get(equation.op.name)
        place = None if row is None else row.transposed(equation)
        if place is not None:
            yield equation.inputs[place]


def _steps(program: Program, behind: Mapping[str, int | str], transposed: Mapping[Operand, None]) -> list[_Step]:
    """How each result of a Program is made, in order; it may read those before it."""
    made = {var: one for one in program.equations for var in one.outputs}
    found: list[_Step] = []
    results = [var for var in program.results if isinstance(var, Var)]
    for place, var in enumerate(results):
        whole = _making(program, made, var, {})
        step = _making(program, made, var, dict.fromkeys(results[:place]))
        given = tuple(results.index(one) for one in step.arguments)
        sources = tuple(behind[one.name] for one in whole.consts)
        found.append(_Step(whole, emit(step, "fold"), given, sources, var in transposed))
    return found


def _making(program: Program, made: Mapping[Var, Equation], result: Var, given: Mapping[Var, None]) -> Program:
    """The part of a Program that makes one result of its consts and of what is given."""
    needed = {result: None}
    equations: dict[Equation, None] = {}
    waiting = [result]
    while waiting:
        var = waiting.pop()
        if var in made and var not in given and made[var] not in equations:
            equations[made[var]] = None
            read = needed_by([made[var]], ())
            waiting += [one for one in read if one not in needed]
            needed.update(read)
    ordered = tuple(one for one in program.equations if one in equations)
    inside = dict.fromkeys(var for one in ordered for var in one.outputs)
    consts = tuple(var for var in program.consts if var in needed)
    arguments = tuple(var for var in given if var in needed and var not in inside)
    return Program(consts, arguments, ordered, (result,))


@final
class CircuitConstants:
    """The folded Programs of one circuit.

    Args:
        policy: How much memory what is kept may take, for each Program; by default as much as the tensors that it
            reads, and one MiB.
    """

    def __init__(self, policy: FoldPolicy | None = None) -> None:
        self.policy = policy
        self._programs: dict[Hashable, _FoldedProgram] = {}
        self._watch: Watch | None = None

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept beside the tensors of the circuit, those that other circuits share among them."""
        kept = [one for program in tuple(self._programs.values()) for one in program.buffers()]
        held = [] if self._watch is None else self._watch.tensors
        own = {one.value.untyped_storage().data_ptr(): one.value.untyped_storage().nbytes() for one in kept}
        return sum(own.values()) - sum(own.get(one.untyped_storage().data_ptr(), 0) for one in held)

    def forget(self) -> None:
        """Keep no values."""
        self._watch = None
        for one in tuple(self._programs.values()):
            one.forget()

    def renewed(self) -> CircuitConstants:
        """Those of a copy of the circuit, which keep nothing yet."""
        return CircuitConstants(self.policy)

    def of(
        self,
        key: Hashable,
        program: Program,
        captured: Sequence[Leaf | Constant],
        leaves: Leaves,
        reads: Callable[[], Any] | None = None,
    ) -> Ready | None:
        """What runs at each call; None where the Program has to run unfolded.

        Args:
            key: What tells the Program from the others of the circuit.
            program: The Program.
            captured: What stands behind each of its consts.
            leaves: The tensors of the circuit.
            reads: Makes what has the tensors as attributes named like the Program's consts, where that is not `leaves`.
        """
        if _is_recorded(leaves.device):
            return None
        tensors = leaves.tensors()
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            return None
        watch = self._watch
        if watch is None or not watch.is_current(tensors, leaves.epoch):
            if not all(map(can_watch, tensors)):
                return None
            checksum = self.policy is not None and self.policy.check == "checksum"
            with torch.inference_mode(False):
                self._watch = watch = Watch(tensors, leaves.epoch, checksum=checksum)
        found = self._programs.get(key)
        if found is None:
            places = {leaf: place for place, leaf in enumerate(leaves.held())}
            found = _FoldedProgram(program, captured, places, self._policy_for(program))
            found = self._programs.setdefault(key, found)
        return found.ready(watch, (lambda: leaves) if reads is None else reads)

    def _policy_for(self, program: Program) -> FoldPolicy:
        if self.policy is not None:
            return self.policy
        size = sum((bits_of(var.type, {}) or 0) // 8 for var in program.consts)
        return replace(FoldPolicy(), max_growth=size + SMALL, widen=True)


def _is_recorded(device: torch.device) -> bool:
    """Whether calls become part of a graph, which would read what is kept now for ever, or have forward derivatives."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
        or (device.type == "cuda" and torch.cuda.is_current_stream_capturing())
    )
