"""The constants of one function as they are now, and what was folded of them: when again, by whom, and who waits.

An epoch never changes: a call that has one sees all of its constants and nothing of another epoch. A fold is a flight:
one thread makes it, others that come meanwhile wait until it has landed, or failed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from plica.errors import InputError
from plica.frontend.arguments import is_array
from plica.frontend.buffers import Buffers, FoldCache, owned, pin, state_of, wants_gradient
from plica.frontend.constant_shapes import described, sizes_of
from plica.frontend.executors import torch_function
from plica.frontend.released import Released, held, is_same_constant, released, released_error, stand_in
from plica.ir.program import Program, Var
from plica.ir.signature import bind_sizes
from plica.ir.types import SCALAR_SIZE
from plica.passes.constants.facts import work_of
from plica.tracing.scope import Reference


@dataclass(frozen=True, eq=False)
class Component:
    """A part of the folding that shares no computed value with others.

    Args:
        program: What computes it.
        executor: What runs that.
    """

    program: Program
    executor: Any

    @cached_property
    def names(self) -> list[str]:
        """The names of the constants that it is made of."""
        return [var.name for var in (*self.program.consts, *self.program.arguments)]

    @cached_property
    def kept(self) -> list[str]:
        """The names of the values that it makes."""
        return [var.name for var in self.program.results if isinstance(var, Var)]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What one component keeps.

    Args:
        own: What it was made of; weak references to what was released.
        states: What that was then.
        buffers: The values.
    """

    own: tuple[Any, ...]
    states: tuple[Hashable, ...]
    buffers: Buffers


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """What calls run with until a constant changes.

    Args:
        sources: The constants by name; weak references to what was released.
        shown: The constants, and arrays like those that were released.
        given: What had been given for them then.
        parts: What each component keeps.
        sizes: The values of sizes that constants have.
    """

    sources: Mapping[str, Any]
    shown: Mapping[str, Any]
    given: Mapping[str, Any]
    parts: tuple[_Part, ...]
    sizes: Mapping[Var, int]


@dataclass(slots=True)
class _Flight:
    """A fold that is under way, and of what."""

    sources: Mapping[str, Any] | None
    landed: Future[None] = field(default_factory=Future)


class Epochs:
    """The constants of a function, and what was folded of them.

    Args:
        program: The Program, whose arguments and consts they are.
        components: The folding.
        constants: The names of the arguments that are constant.
        known: Constants whose values are known, captured ones among them, by name.
        options: What tells foldings of one text apart: the backend, and how it rewrites.
        is_torch: Whether torch folds.
        checksum: Whether all constants are told by their entries.
        cache: Where values are kept.
        released: The names of constants that are let go once they were folded.

    Attributes:
        latest: What was folded last.
        num_folds: How often a component was folded.
    """

    def __init__(
        self,
        program: Program,
        components: Sequence[Component],
        constants: Iterable[str],
        known: Mapping[str, Any],
        options: Hashable,
        *,
        is_torch: bool,
        checksum: bool,
        cache: FoldCache,
        released: Iterable[str],
    ) -> None:
        self.latest: Epoch | None = None
        self.num_folds = 0
        self._program, self._components, self._constants, self._known = program, components, constants, dict(known)
        self._captured = [var.name for var in program.consts]
        self._options, self._is_torch, self._checksum, self._cache = options, is_torch, checksum, cache
        self._released = dict.fromkeys(released)
        self._given: Mapping[str, Any] = {}
        self._early: list[_Part | None] = [None] * len(components)
        self._lock = Lock()
        self._flight: _Flight | None = None

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept."""
        return (
            0
            if self.latest is None
            else sum(part.buffers.num_bytes for part in self.latest.parts if part.buffers.values)
        )

    # Constants

    def sources(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """All constants as they are now.

        Raises:
            InputError: One was never given.
        """
        latest = {} if self.latest is None else self.latest.sources
        found = {**self._known, **latest, **self._given, **constants}
        found = {name: held(one) for name, one in found.items()}
        missing = [name for name in self._constants if name not in found]
        if missing:
            raise InputError(f"the constant {missing[0]!r} was not given yet; pass {missing[0]}=... at the first call.")
        for name in self._captured:
            leaf = self._known[name]
            found[name] = leaf.read() if isinstance(leaf, Reference) else held(leaf)
        return found

    def all_sources(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """All constants as they are now, for the Program as a whole.

        Raises:
            InputError: One was never given, or is released.
        """
        found = self.sources(constants)
        gone = [name for name, one in found.items() if isinstance(one, Released)]
        if gone:
            raise released_error(gone, "the whole program")
        return found

    def fold_known(self) -> None:
        """Fold what is made of constants alone whose values are known."""
        for place, component in enumerate(self._components):
            if all(name in self._known and name not in self._captured for name in component.names):
                self._early[place], _ = self._part(component, None, self._known)
        read = [name for one, part in zip(self._components, self._early, strict=True) if not part for name in one.names]
        self._known = {name: one if name in read else self._let_go(name, one) for name, one in self._known.items()}

    # Calls

    def current(self, constants: Mapping[str, Any]) -> tuple[Epoch, Mapping[str, Any]] | None:
        """The epoch to run with, and the values that it keeps; None where derivatives of constants are asked for.

        Args:
            constants: The constants that the call gives.

        Raises:
            InputError: A constant was never given, or does not fit.
        """
        while True:
            epoch = self.latest
            if epoch is not None and self._is_current(epoch, constants):
                if wants_gradient(map(held, epoch.sources.values())):
                    return None
                values = self._taken(epoch)
                if values is not None:
                    return epoch, values
            sources = self.sources(constants)
            if wants_gradient(sources.values()):
                if constants:
                    sizes_of(self._program, sources)  # what does not fit is refused, and not kept
                    self._given = {**self._given, **constants}
                return None
            with self._lock:
                if self.latest is not epoch:
                    continue
                flight, mine = self._flight, _Flight(sources)
                if flight is None:
                    self._flight = mine
            if flight is None:
                return self._landed(mine, lambda sources=sources: self._folded(sources))  # type: ignore[misc]
            self._wait(flight, sources)

    def _wait(self, flight: _Flight, sources: Mapping[str, Any] | None) -> None:
        """Wait until another thread has folded; its error counts where it folded the same constants."""
        try:
            flight.landed.result()
        except BaseException:
            folded = flight.sources
            if folded and sources and all(is_same_constant(folded[name], sources[name]) for name in sources):
                raise

    def update(self, constants: Mapping[str, Any]) -> None:
        """Fold new values of some constants beside the old ones."""
        while True:
            with self._lock:
                flight, mine = self._flight, _Flight(None)
                if flight is None:
                    self._flight = mine
            if flight is None:
                self._landed(mine, lambda: self._folded(self.sources(constants)))
                return
            self._wait(flight, None)

    def _landed(
        self, flight: _Flight, fold: Callable[[], tuple[Epoch, Mapping[str, Any]]]
    ) -> tuple[Epoch, Mapping[str, Any]]:
        """Fold, and let all who wait know."""
        try:
            found = fold()
        except BaseException as error:
            with self._lock:
                self._flight = None
            flight.landed.set_exception(error)
            raise
        with self._lock:
            self.latest, self._given, self._flight = found[0], found[0].given, None
            self._known = {name: self._let_go(name, one) for name, one in self._known.items()}
            self._early = [None] * len(self._components)
        flight.landed.set_result(None)
        return found

    def _is_current(self, epoch: Epoch, constants: Mapping[str, Any]) -> bool:
        if epoch.given is not self._given:
            constants = {**self._given, **constants}
        if any(not is_same_constant(held(epoch.sources[name]), value) for name, value in constants.items()):
            return False
        for name in self._captured:
            leaf = self._known.get(name)
            if isinstance(leaf, Reference) and leaf.read() is not held(epoch.sources[name]):
                return False
        return all(self._is_as_it_was(part) for part in epoch.parts)

    def _is_as_it_was(self, part: _Part) -> bool:
        return all(
            isinstance(one, Released) or self._state(one) == state
            for one, state in zip(map(held, part.own), part.states, strict=True)
        )

    def _state(self, source: Any) -> Hashable:
        return state_of(source, checksum=self._checksum)

    def _taken(self, epoch: Epoch) -> dict[str, Any] | None:
        """The values that an epoch keeps; None where some were evicted."""
        found: dict[str, Any] = {}
        for component, part in zip(self._components, epoch.parts, strict=True):
            values = self._cache.take(part.buffers)
            if values is None:
                return None
            found.update(zip(component.kept, values.values(), strict=True))
        return found

    # Folding

    def _folded(self, sources: Mapping[str, Any]) -> tuple[Epoch, dict[str, Any]]:
        """The epoch of these constants; components whose sources are as they were are not folded again."""
        sizes = sizes_of(self._program, sources)
        before = self._early if self.latest is None else self.latest.parts
        parts: list[_Part] = []
        found: dict[str, Any] = {}
        for component, old in zip(self._components, before, strict=True):
            part, values = self._part(component, old, sources)
            parts.append(part)
            found.update(zip(component.kept, values.values(), strict=True))
        kept = {name: self._let_go(name, one) for name, one in sources.items()}
        given = {name: sources[name] for name in self._constants if name not in self._released}
        shown = {name: stand_in(one) for name, one in kept.items()}
        return Epoch(kept, shown, given, tuple(parts), sizes), found

    def _part(
        self, component: Component, old: _Part | None, sources: Mapping[str, Any]
    ) -> tuple[_Part, Mapping[str, Any]]:
        """What a component keeps of these constants, and its values."""
        own = tuple(sources[name] for name in component.names)
        if old is not None and all(map(is_same_constant, map(held, old.own), own)) and self._is_as_it_was(old):
            values = self._cache.take(old.buffers)
            if values is not None:
                return old, values
        gone = [name for name, one in zip(component.names, own, strict=True) if isinstance(one, Released)]
        if gone:
            raise released_error(gone, f"what is folded of {', '.join(component.names)}")
        states = tuple(map(self._state, own))
        kept = tuple(self._let_go(name, one) for name, one in zip(component.names, own, strict=True))

        def fold() -> Buffers:
            work = sum(work_of(one, {}) for one in component.program.equations)
            return Buffers(self._run(component, own), (*kept, *map(pin, own)), work)

        if any(name in self._released for name in component.names):  # it could not be folded again, once evicted
            buffers = fold()
            values = buffers.values
            assert values is not None, "it is in no cache that could evict it"
        else:
            key = (component.program, self._options, tuple(map(id, own)), states)
            buffers, values = self._cache.get(key, fold)
        return _Part(kept, states, buffers), values

    def _let_go(self, name: str, source: Any) -> Any:
        """A source, or a weak reference to it where it is to be released."""
        is_kept = name not in self._released or isinstance(source, Released | Reference) or not is_array(source)
        return source if is_kept else released(source)

    def _run(self, component: Component, own: tuple[Any, ...]) -> dict[str, Any]:
        program = component.program
        arguments = own[len(program.consts) :]
        bind_sizes(program, described(program, arguments))
        with torch_function("folding")() if self._is_torch else nullcontext():
            results = component.executor.specialize(arguments)(arguments)
            self.num_folds += 1
            listed = results if isinstance(results, tuple) else (results,)
            return {
                str(place): int(value) if operand.type == SCALAR_SIZE else owned(value, own)
                for place, (operand, value) in enumerate(zip(program.results, listed, strict=True))
            }
