"""The constants of one function as they are now, and what was folded of them: when again, by whom, and who waits.

A snapshot never changes: a call that has one sees all of its constants and nothing of another snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from plica.constants.store.components import Component, Components, Part
from plica.errors import InputError
from plica.frontend.arguments import is_array
from plica.frontend.constant_shapes import described, sizes_of
from plica.frontend.executors import torch_function
from plica.frontend.released import Released, held, is_same_constant, released, released_error, stand_in
from plica.frontend.sources import Watched, owned, pin, state_of, wants_gradient
from plica.ir.program import Program, Var
from plica.ir.signature import bind_sizes
from plica.ir.types import SCALAR_SIZE
from plica.single_flight import SingleFlight
from plica.tracing.scope import Reference


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What calls run with until a constant changes.

    Args:
        sources: The constants by name; weak references to what was released.
        shown: The constants, and arrays like those that were released.
        given: What had been given for them then.
        watched: Those that are not released, as they were then.
        states: What all were like.
        parts: What each component keeps.
        values: The kept values by name; None where they may be evicted.
        sizes: The values of sizes that constants have.
    """

    sources: Mapping[str, Any]
    shown: Mapping[str, Any]
    given: Mapping[str, Any]
    watched: Watched
    states: Mapping[str, Hashable]
    parts: Sequence[Part | None]
    values: Mapping[str, Any] | None
    sizes: Mapping[Var, int]


class Snapshots:
    """The constants of a function, and what was folded of them.

    Args:
        program: The Program, whose arguments and consts they are.
        components: The folding.
        constants: The names of the arguments that are constant.
        known: Constants whose values are known, captured ones among them, by name.
        is_torch: Whether torch folds.
        checksum: Whether all constants are told by their entries.
        released: The names of constants that are let go once they were folded.

    Attributes:
        latest: What was folded last.
        num_folds: How often a component was folded.
    """

    def __init__(
        self,
        program: Program,
        components: Components,
        constants: Iterable[str],
        known: Mapping[str, Any],
        *,
        is_torch: bool,
        checksum: bool,
        released: Iterable[str],
    ) -> None:
        self.latest: Snapshot | None = None
        self.num_folds = 0
        self._program, self._components, self._constants, self._known = program, components, constants, dict(known)
        self._captured = [var.name for var in program.consts]
        self._references = [(name, known[name]) for name in self._captured if isinstance(known[name], Reference)]
        self._is_torch, self._checksum = is_torch, checksum
        self._released = dict.fromkeys(released)
        self._given: Mapping[str, Any] = {}
        self._early: list[Part | None] = []
        self._states: Mapping[str, Hashable] = {}
        self._flights = SingleFlight()

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept."""
        parts = () if self.latest is None else self.latest.parts
        buffers = (one for part in parts if part is not None for one in part.buffers)
        return sum(one.num_bytes for one in buffers if one.values is not None)

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

    def at_hand(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The constants that are not released: those that were known at first, and those that calls gave.

        Raises:
            InputError: What the Program captures is released.
        """
        latest = {} if self.latest is None else self.latest.sources
        given = {name: one for name, one in {**latest, **self._given}.items() if name in self._constants}
        known, given = ({name: held(one) for name, one in found.items()} for found in (self._known, given))
        gone = [name for name in self._captured if isinstance(known[name], Released)]
        if gone:
            raise released_error(gone, "for a copy, the whole program")
        return _not_released(known), _not_released(given)

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
        known = {name: one.read() if isinstance(one, Reference) else one for name, one in self._known.items()}
        places = self._components.of_known(known)
        watched, self._states = self._watched(known)
        self._early, _ = self._components.fold(
            self._states,
            self._components.unchanged(self._states, None),
            partial(self._make, known),
            partial(self._pins, known),
            partial(self._are_still, known, watched, self._states),
            places,
        )
        others = (one for place, one in enumerate(self._components.components) if place not in places)
        read = dict.fromkeys(name for one in others for name in one.reads)
        self._known = {name: one if name in read else self._let_go(name, one) for name, one in self._known.items()}

    def give(self, constants: Mapping[str, Any]) -> None:
        """Give constants, which are folded at the next call."""
        self._given = {**self._given, **constants}

    # Calls

    def current(self, constants: Mapping[str, Any]) -> tuple[Snapshot, Mapping[str, Any]] | None:
        """The snapshot to run with, and the values that it keeps; None where derivatives of constants are asked for.

        Args:
            constants: The constants that the call gives.

        Raises:
            InputError: A constant was never given, or does not fit.
        """
        while True:
            snapshot = self.latest
            if snapshot is not None and self._is_current(snapshot, constants):
                if wants_gradient(self._tensors(snapshot)):
                    return None
                values = self._components.taken(snapshot.parts) if snapshot.values is None else snapshot.values
                if values is not None:
                    return snapshot, values
            sources = self.sources(constants)
            if wants_gradient(sources.values()):
                if constants:
                    sizes_of(self._program, sources)  # what does not fit is refused, and not kept
                    self.give(constants)
                return None
            made = self._flights.once("fold", partial(self._folded_after, snapshot, sources), sources, _is_same)
            if made is not None:
                return made

    def update(self, constants: Mapping[str, Any]) -> None:
        """Fold new values of some constants beside the old ones."""
        while self._flights.once("fold", lambda: self._folded(self.sources(constants)), None, _is_same) is None:
            pass

    def _is_current(self, snapshot: Snapshot, constants: Mapping[str, Any]) -> bool:
        if snapshot.given is not self._given:
            constants = {**self._given, **constants}
        sources = snapshot.sources
        for name, value in constants.items():
            if value is not sources[name] and not is_same_constant(held(sources[name]), value):
                return False
        if any(leaf.read() is not held(sources[name]) for name, leaf in self._references):
            return False
        return self._are_still(sources, snapshot.watched, snapshot.states)

    def _are_still(self, sources: Mapping[str, Any], watched: Watched, states: Mapping[str, Hashable]) -> bool:
        """Whether constants are as they were, those among them that are released and not gone."""
        released = ((name, held(sources[name])) for name in self._released if name in sources)
        return watched.is_current() and all(
            isinstance(one, Released) or self._state(one) == states[name] for name, one in released
        )

    def _tensors(self, snapshot: Snapshot) -> list[Any]:
        others = [held(snapshot.sources[name]) for name in self._released]
        return snapshot.watched.tensors if not others else [*snapshot.watched.tensors, *others]

    def _state(self, source: Any) -> Hashable:
        """The state of a constant that is released, which nothing may hold."""
        return id(source), state_of(source, checksum=self._checksum)

    def _watched(self, sources: Mapping[str, Any]) -> tuple[Watched, dict[str, Hashable]]:
        """Constants as they are now; those that are gone are as they were."""
        before = None if self.latest is None else self.latest.watched
        kept = {name: one for name, one in sources.items() if name not in self._released}
        watched = Watched(kept, checksum=self._checksum, before=before)
        others = {name: one for name, one in sources.items() if name in self._released}
        told = {
            name: self._states.get(name) if isinstance(one, Released) else self._state(one)
            for name, one in others.items()
        }
        return watched, {**watched.states, **told}

    # Folding

    def _folded_after(
        self, snapshot: Snapshot | None, sources: Mapping[str, Any]
    ) -> tuple[Snapshot, Mapping[str, Any]] | None:
        """The snapshot of these constants; None where another thread has made one since."""
        return self._folded(sources) if self.latest is snapshot else None

    def _folded(self, sources: Mapping[str, Any]) -> tuple[Snapshot, Mapping[str, Any]]:
        """The snapshot of these constants; components whose sources are as they were are not folded again."""
        sizes = sizes_of(self._program, sources)
        watched, states = self._watched(sources)
        before = self._early if self.latest is None else self.latest.parts
        unchanged = self._components.unchanged(states, before)
        make, pins = partial(self._make, sources), partial(self._pins, sources)
        are_still = partial(self._are_still, sources, watched, states)
        parts, values = self._components.fold(states, unchanged, make, pins, are_still)
        self._components.let_go(parts)
        kept = {name: self._let_go(name, one) for name, one in sources.items()}
        given = {name: sources[name] for name in self._constants if name not in self._released}
        shown = {name: stand_in(one) for name, one in kept.items()}
        held_values = None if self._components.may_evict else values
        snapshot = Snapshot(kept, shown, given, watched, states, tuple(parts), held_values, sizes)
        if not self._components.are_lasting(parts):  # for this call alone
            self.give(given)
            return snapshot, values
        self._known = {name: self._let_go(name, one) for name, one in self._known.items()}
        self._early, self._states, self._given, self.latest = [], states, given, snapshot
        return snapshot, values

    def _let_go(self, name: str, source: Any) -> Any:
        """A source, or a weak reference to it where it is to be released."""
        is_kept = name not in self._released or isinstance(source, Released | Reference) or not is_array(source)
        return source if is_kept else released(source)

    def _pins(self, sources: Mapping[str, Any], name: str) -> Sequence[Any]:
        """What keeps the state of a constant from being that of another one."""
        source = sources[name]
        return self._let_go(name, source), pin(source)

    def _make(self, sources: Mapping[str, Any], component: Component, given: Mapping[str, Any]) -> Sequence[Any]:
        """What a component makes of these constants."""
        program = component.program
        names = [name for name in component.reads if name not in given]
        gone = [name for name in names if isinstance(sources[name], Released)]
        if gone:
            raise released_error(gone, f"what is folded of {', '.join(names)}")
        known = {**sources, **given}
        arguments = [known[var.name] for var in program.arguments]
        bind_sizes(program, described(program, arguments))
        with torch_function("folding")() if self._is_torch else nullcontext():
            results = component.runner.specialize(arguments)(arguments)
            self.num_folds += 1
            listed = results if isinstance(results, tuple) else (results,)
            own = [sources[name] for name in names]
            return [
                int(value) if operand.type == SCALAR_SIZE else owned(value, own)
                for operand, value in zip(program.results, listed, strict=True)
            ]


def _not_released(sources: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in sources.items() if not isinstance(one, Released)}


def _is_same(folded: Mapping[str, Any] | None, sources: Mapping[str, Any] | None) -> bool:
    """Whether two calls fold the same constants; what an update folds is its own."""
    if not folded or not sources:
        return False
    return all(is_same_constant(folded[name], sources[name]) for name in sources)
