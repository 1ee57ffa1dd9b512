"""`NamedConstants`: the constants of one function, which calls give by name, and the values folded of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from plica.constants.changes.states import Watched, owned, pin, state_of, wants_gradient
from plica.constants.changes.tensors import tensors
from plica.constants.store.components import Component, Components, Constants
from plica.constants.store.released import Released, is_same_constant, placeholder, released, released_error, resolved
from plica.constants.store.shapes import sizes_of
from plica.constants.store.snapshots import Snapshot, Snapshots
from plica.errors import InputError
from plica.ir.program import Program, Var
from plica.ir.signature import bind_sizes
from plica.ir.types import SCALAR_SIZE
from plica.tracing.leaves import described, is_array
from plica.tracing.scope import Reference

Ready = TypeVar("Ready")


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """The constants of a function at one time.

    Args:
        sources: The constants by name; weak references to released ones.
        with_placeholders: The constants by name; placeholders for released ones.
        given: The constants that calls had passed by then, by name.
        watched: The states of those that are not released.
        states: The states of all, by name.
        sizes: The values of the symbolic sizes in their types.
    """

    sources: Mapping[str, Any]
    with_placeholders: Mapping[str, Any]
    given: Mapping[str, Any]
    watched: Watched
    states: Mapping[str, Hashable]
    sizes: Mapping[Var, int]


class NamedConstants(Generic[Ready]):
    """The constants of a function, and the values folded of them.

    Args:
        program: The Program, whose arguments and consts they are.
        components: They fold the constants, each part of the Program for itself.
        constants: The names of the arguments that are constant.
        known: Constants whose values are known, captured ones among them, by name.
        is_torch: Whether torch folds.
        checksum: Whether the entries of all constants are compared.
        released: The names of constants of which only weak references stay once they were folded.
        prepare: Makes the object that calls run with, from a version and the kept values by name.

    Attributes:
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
        prepare: Callable[[Version, Mapping[str, Any]], Ready],
    ) -> None:
        self.num_folds = 0
        self._program, self._constants, self._known = program, constants, dict(known)
        self._snapshots: Snapshots[Version, Ready] = Snapshots(components, prepare)
        self._captured = [var.name for var in program.consts]
        self._references = [(name, known[name]) for name in self._captured if isinstance(known[name], Reference)]
        self._is_torch, self._checksum = is_torch, checksum
        self._released = dict.fromkeys(released)
        self._given: Mapping[str, Any] = {}
        self._states: Mapping[str, Hashable] = {}

    @property
    def latest(self) -> Version | None:
        """The constants that were folded last."""
        snapshot = self._snapshots.latest
        return None if snapshot is None else snapshot.version

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept."""
        return sum(getattr(value, "nbytes", 0) for value in self._snapshots.values())

    # Constants

    def sources(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """All constants as they are now.

        Raises:
            InputError: A constant was never given.
        """
        newest = self._newest(constants)
        missing = [name for name in self._constants if name not in newest]
        if missing:
            raise InputError(f"the constant {missing[0]!r} was not given yet; pass {missing[0]}=... at the first call.")
        return {name: source.read() if isinstance(source, Reference) else source for name, source in newest.items()}

    def unreleased(self) -> dict[str, Any]:
        """The constants that are not released; references are not read.

        Raises:
            InputError: A captured array is released.
        """
        constants = self._newest({})
        missing = [name for name in self._captured if isinstance(constants[name], Released)]
        if missing:
            raise released_error(missing, "for a copy, the whole program")
        return {name: source for name, source in constants.items() if not isinstance(source, Released)}

    def _newest(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """The constants that were given last, by name, and those that the Program captures."""
        latest = self.latest
        before = {} if latest is None else latest.sources
        captured = {name: self._known[name] for name in self._captured}
        newest = {**self._known, **before, **self._given, **constants, **captured}
        return {name: resolved(source) for name, source in newest.items()}

    def all_sources(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """All constants as they are now, for the Program as a whole.

        Raises:
            InputError: A constant was never given, or is released.
        """
        sources = self.sources(constants)
        missing = [name for name, source in sources.items() if isinstance(source, Released)]
        if missing:
            raise released_error(missing, "the whole program")
        return sources

    def fold_known(self) -> None:
        """Fold the values that depend only on constants whose values are known."""
        known = {
            name: source.read() if isinstance(source, Reference) else source for name, source in self._known.items()
        }
        watched, self._states = self._watched(known)
        read = self._snapshots.fold_early(known, self._for_fold(known, watched, self._states))
        self._known = {
            name: source if name in read else self._weak_if_released(name, source)
            for name, source in self._known.items()
        }

    def give(self, constants: Mapping[str, Any]) -> None:
        """Give constants, which are folded at the next call."""
        self._given = {**self._given, **constants}

    # Calls

    def current(self, constants: Mapping[str, Any]) -> Ready | None:
        """The object to run with; None where derivatives with respect to constants are wanted.

        Args:
            constants: The constants that the call gives.

        Raises:
            InputError: A constant was never given, or does not fit.
        """
        while True:
            snapshot = self._snapshots.latest
            if snapshot is not None and self._is_current(snapshot.version, constants):
                if wants_gradient(self._tensors(snapshot.version)):
                    return None
                ready = self._snapshots.ready(snapshot)
                if ready is not None:
                    return ready
            sources = self.sources(constants)
            if wants_gradient(sources.values()):
                if constants:
                    sizes_of(self._program, sources)  # refuses constants that do not fit before they are kept
                    self.give(constants)
                return None
            ready = self._snapshots.once(partial(self._folded_after, snapshot, sources), sources, _is_same)
            if ready is not None:
                return ready

    def update(self, constants: Mapping[str, Any]) -> None:
        """Fold new values of some constants; the others keep theirs."""
        while self._snapshots.once(lambda: self._folded(self.sources(constants)), None, _is_same) is None:
            pass

    def _is_current(self, version: Version, constants: Mapping[str, Any]) -> bool:
        if version.given is not self._given:
            constants = {**self._given, **constants}
        sources = version.sources
        for name, value in constants.items():
            if value is not sources[name] and not is_same_constant(resolved(sources[name]), value):
                return False
        if any(leaf.read() is not resolved(sources[name]) for name, leaf in self._references):
            return False
        return self._are_still(sources, version.watched, version.states)

    def _are_still(self, sources: Mapping[str, Any], watched: Watched, states: Mapping[str, Hashable]) -> bool:
        """Whether constants are as they were, also released ones that something else still holds."""
        released = ((name, resolved(sources[name])) for name in self._released if name in sources)
        return watched.is_current() and all(
            isinstance(source, Released) or self._state(source) == states[name] for name, source in released
        )

    def _tensors(self, version: Version) -> list[Any]:
        """The tensors among the constants, whose derivatives may be wanted."""
        others = [resolved(version.sources[name]) for name in self._released]
        return version.watched.tensors if not others else [*version.watched.tensors, *others]

    def _state(self, source: Any) -> Hashable:
        """The state of a constant that is released, without a reference to it."""
        return id(source), state_of(source, checksum=self._checksum)

    def _watched(self, sources: Mapping[str, Any]) -> tuple[Watched, dict[str, Hashable]]:
        """The watch on constants that are not released, and the states of all; the last known ones of released ones."""
        latest = self.latest
        unreleased = {name: source for name, source in sources.items() if name not in self._released}
        watched = Watched(unreleased, checksum=self._checksum, before=None if latest is None else latest.watched)
        others = {name: source for name, source in sources.items() if name in self._released}
        states = {
            name: self._states.get(name) if isinstance(source, Released) else self._state(source)
            for name, source in others.items()
        }
        return watched, {**watched.states, **states}

    # Folding

    def _folded_after(self, snapshot: Snapshot[Version, Ready] | None, sources: Mapping[str, Any]) -> Ready | None:
        """Fold these constants, and return the object to run with; None where another thread has folded since."""
        return self._folded(sources) if self._snapshots.latest is snapshot else None

    def _folded(self, sources: Mapping[str, Any]) -> Ready:
        """Fold these constants, and return the object to run with."""
        sizes = sizes_of(self._program, sources)
        watched, states = self._watched(sources)
        given = {name: sources[name] for name in self._constants if name not in self._released}
        weakened = {name: self._weak_if_released(name, source) for name, source in sources.items()}
        with_placeholders = {name: placeholder(source) for name, source in weakened.items()}
        version = Version(weakened, with_placeholders, given, watched, states, sizes)
        snapshot, ready = self._snapshots.folded(version, self._for_fold(sources, watched, states))
        if snapshot is None:  # for this call alone
            self.give(given)
            return ready
        self._known = {name: self._weak_if_released(name, self._known[name]) for name in self._captured}
        self._states, self._given, self._snapshots.latest = states, given, snapshot
        return ready

    def _for_fold(self, sources: Mapping[str, Any], watched: Watched, states: Mapping[str, Hashable]) -> Constants:
        """The states of constants, and the functions through which a fold reads them."""
        are_still = partial(self._are_still, sources, watched, states)
        return Constants(states, partial(self._make, sources), partial(self._pins, sources), are_still)

    def _weak_if_released(self, name: str, source: Any) -> Any:
        """A constant, or a weak reference to it if it is one of those to release."""
        is_strong = name not in self._released or isinstance(source, Released | Reference) or not is_array(source)
        return source if is_strong else released(source)

    def _pins(self, sources: Mapping[str, Any], name: str) -> Sequence[Any]:
        """The objects that stay alive so that no other constant gets the state of this one."""
        source = sources[name]
        return self._weak_if_released(name, source), pin(source)

    def _make(self, sources: Mapping[str, Any], component: Component, given: Mapping[str, Any]) -> Sequence[Any]:
        """Run a component with these constants, and with values that other components have `given`, by name."""
        program = component.program
        names = [name for name in component.reads if name not in given]
        missing = [name for name in names if isinstance(sources[name], Released)]
        if missing:
            raise released_error(missing, f"the value folded from {', '.join(names)}")
        known = {**sources, **given}
        arguments = [known[var.name] for var in program.arguments]
        bind_sizes(program, described(program, arguments))
        with tensors().folding() if self._is_torch else nullcontext():
            results = component.runner.specialize(arguments)(arguments)
            self.num_folds += 1
            listed = results if isinstance(results, tuple) else (results,)
            own = [sources[name] for name in names]
            return [
                int(value) if operand.type == SCALAR_SIZE else owned(value, own)
                for operand, value in zip(program.results, listed, strict=True)
            ]


def _is_same(folded: Mapping[str, Any] | None, sources: Mapping[str, Any] | None) -> bool:
    """Whether two calls fold the same constants; an update shares its fold with no call."""
    if not folded or not sources:
        return False
    return all(is_same_constant(folded[name], sources[name]) for name in sources)
