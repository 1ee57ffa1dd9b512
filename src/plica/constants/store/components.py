"""The components of a folding, and what each of them keeps: folded again where something that it reads has changed.

A component makes some values of constants, and of values that components before it make. Each of them is found in the
cache by the Program that makes it alone, which does not depend on names, and by the state of what that reads: so a
Program that keeps other values beside shares it too. Where one of them is not found, the component runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from plica.constants.analysis.facts import work_of
from plica.constants.analysis.origins import needed_by
from plica.constants.store.cache import CacheEntry, FoldCache
from plica.forks import cached_property
from plica.ir.program import Program, Var

_MOST = 16  # the values of one component that are told apart, so that what tells them stays linear


@dataclass(frozen=True, eq=False)
class Component:
    """A part of a folding.

    Args:
        program: What computes it: of constants and of what other components make, by their names.
        runner: What runs that.
    """

    program: Program
    runner: Any

    @cached_property
    def reads(self) -> list[str]:
        """The names of what it is made of."""
        return [var.name for var in (*self.program.consts, *self.program.arguments)]

    @cached_property
    def makes(self) -> list[str]:
        """The names of the values that it makes."""
        return [var.name for var in self.program.results if isinstance(var, Var)]

    @cached_property
    def texts(self) -> list[tuple[Program, int, list[str]]]:
        """For each value a Program that makes it, at which place, and the names of what that reads."""
        program = self.program
        is_static = not program.num_implicit_inputs and not program.num_implicit_outputs
        if not is_static or not 1 < len(self.makes) <= _MOST:
            return [(program, place, self.reads) for place in range(len(self.makes))]
        alone = [_alone(program, result) for result in program.results if isinstance(result, Var)]
        return [(one, 0, [var.name for var in (*one.consts, *one.inputs)]) for one in alone]

    @cached_property
    def work(self) -> list[int]:
        """What it takes to make each value, by the Program of its text."""
        found: dict[int, int] = {}
        for text, _, _ in self.texts:
            if id(text) not in found:  # one Program for many values is asked once
                found[id(text)] = sum(work_of(one, {}) for one in text.equations)
        return [found[id(text)] for text, _, _ in self.texts]


def _alone(program: Program, result: Var) -> Program:
    """The part of a Program without dynamic sizes that makes one of its results."""
    needed, equations = needed_by((), (result,)), []
    for equation in reversed(program.equations):
        if any(var in needed for var in equation.outputs):
            equations.append(equation)
            needed.update(needed_by((equation,), ()))
    consts, inputs = (tuple(var for var in given if var in needed) for given in (program.consts, program.inputs))
    return Program(consts, inputs, tuple(reversed(equations)), (result,))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one component keeps.

    Args:
        states: The states of the constants that it was made of; None where one of them changed meanwhile.
        entries: The values, in order.
    """

    states: tuple[Hashable, ...] | None
    entries: Sequence[CacheEntry]


Parts = Sequence[Part | None]


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """Constants as a fold reads them.

    Args:
        states: The state of each constant, by name.
        make: Runs a component, given the results of others by name.
        pins: What keeps the state of a constant from being that of another one.
        is_current: Whether the constants still have these states. Results made while another thread wrote to them are
            returned, and never found again (`are_lasting`).
    """

    states: Mapping[str, Hashable]
    make: Callable[[Component, Mapping[str, Any]], Sequence[Any]]
    pins: Callable[[str], Iterable[Any]]
    is_current: Callable[[], bool]


@final
class Components:
    """The components of one folding, each behind those that it reads.

    Args:
        components: The components.
        kept: The names of values that are kept; others are let go once what reads them was made.
        cache: Where values are kept.
        options: What tells foldings of one text apart, such as the backend.
        released: The names of constants that are let go, so that what is made of them could not be made again.
    """

    def __init__(
        self,
        components: Iterable[Component],
        kept: Iterable[str],
        cache: FoldCache,
        options: Hashable,
        released: Collection[str] = (),
    ) -> None:
        self.components = tuple(components)
        self._cache, self._options = cache, options
        kept = dict.fromkeys(kept)
        maker = {name: place for place, one in enumerate(self.components) for name in one.makes}
        self._given = [dict.fromkeys(maker[name] for name in one.reads if name in maker) for one in self.components]
        self._sources = [[name for name in one.reads if name not in maker] for one in self.components]
        self._is_passing = [kept.keys().isdisjoint(one.makes) for one in self.components]
        self._is_alone: list[bool] = []
        for own, given in zip(self._sources, self._given, strict=True):
            self._is_alone.append(any(one in released for one in own) or any(self._is_alone[one] for one in given))

    def of_known(self, names: Collection[str]) -> list[int]:
        """The places of the components that are made of constants of these names alone."""
        found: dict[int, None] = {}
        for place, own in enumerate(self._sources):
            if all(name in names for name in own) and all(one in found for one in self._given[place]):
                found[place] = None
        return list(found)

    def unchanged(self, states: Mapping[str, Hashable], before: Parts | None) -> list[Part | None]:
        """Which parts are still what their components would make; without any before, none."""
        found: list[Part | None] = []
        for place, old in enumerate(before or [None] * len(self.components)):
            is_same = old is not None and old.states == self._states(place, states)
            found.append(old if is_same and all(found[one] is not None for one in self._given[place]) else None)
        return found

    def fold(
        self, constants: Constants, before: Parts | None = None, places: Collection[int] | None = None
    ) -> tuple[list[Part | None], dict[str, Any]]:
        """What the components keep, and the kept values by name; those run that are neither unchanged nor in the cache.

        Args:
            constants: The constants.
            before: What the components kept before.
            places: The places of the components; by default all.
        """
        parts = self.unchanged(constants.states, before)
        found = [None if one is None else self._taken(one) for one in parts]
        todo = range(len(parts)) if places is None else places
        wanted = {
            place: parts[place] is None or (found[place] is None and not self._is_passing[place]) for place in todo
        }
        for place in reversed(list(todo)):
            if wanted[place]:
                wanted.update((one, True) for one in self._given[place] if found[one] is None)
        for place in todo:
            if wanted[place]:
                given = {
                    name: value
                    for one in self._given[place]
                    for name, value in zip(self.components[one].makes, found[one] or (), strict=True)
                }
                parts[place], found[place] = self._folded(place, constants, parts, given)
        return parts, self._named(found)

    def _folded(
        self, place: int, constants: Constants, parts: Parts, given: Mapping[str, Any]
    ) -> tuple[Part, list[Any]]:
        component, states = self.components[place], constants.states
        others = {
            name: one
            for maker in self._given[place]
            for name, one in zip(self.components[maker].makes, _entries(parts[maker]), strict=True)
        }
        made: list[Any] = []

        def value(at: int) -> CacheEntry:
            if not made:
                made.extend(constants.make(component, given))
            _, _, reads = component.texts[at]
            work = component.work[at]
            pinned = (pin for name in reads if name not in others for pin in constants.pins(name))
            return CacheEntry((made[at],), (*pinned, *(others[name] for name in reads if name in others)), work)

        found: list[CacheEntry] = []
        values: list[Any] = []
        are_lasting = True
        for at, (text, number, reads) in enumerate(component.texts):
            read = tuple([id(others[name]) if name in others else states[name] for name in reads])
            key = None if self._is_alone[place] else (text, number, self._options, read)
            buffers, (result,), is_lasting = self._cache.get(key, partial(value, at), constants.is_current)
            found.append(buffers)
            values.append(result)
            are_lasting = are_lasting and is_lasting
        return Part(self._states(place, states) if are_lasting else None, found), values

    def _taken(self, part: Part) -> list[Any] | None:
        """The values of a part; None where some were evicted."""
        found = [self._cache.take(one) for one in part.entries]
        return None if any(one is None for one in found) else [value for one in found for value in one or ()]

    def _states(self, place: int, states: Mapping[str, Hashable]) -> tuple[Hashable, ...]:
        return tuple([states[name] for name in self._sources[place]])

    @staticmethod
    def are_lasting(parts: Parts) -> bool:
        """Whether these parts are what the constants make whose states they have."""
        return all(part is None or part.states is not None for part in parts)

    def let_go(self, parts: Parts) -> None:
        """Let values go that are not kept: they were made for others, which are there now."""
        for part, is_passing in zip(parts, self._is_passing, strict=True):
            if is_passing:
                for one in _entries(part):
                    one.values = None

    @property
    def may_evict(self) -> bool:
        """Whether the cache has a limit, so that values may be gone at the next call."""
        return self._cache.max_bytes is not None

    @staticmethod
    def values(parts: Parts) -> list[Any]:
        """All values of parts that are not evicted."""
        return [value for part in parts for one in _entries(part) for value in one.values or ()]

    def taken(self, parts: Parts) -> dict[str, Any] | None:
        """The kept values by name; None where some were evicted."""
        found = [None if part is None else self._taken(part) for part in parts]
        if any(one is None and not is_passing for one, is_passing in zip(found, self._is_passing, strict=True)):
            return None
        return self._named(found)

    def _named(self, found: Sequence[Sequence[Any] | None]) -> dict[str, Any]:
        rows = zip(self.components, found, self._is_passing, strict=True)
        made = (zip(one.makes, values, strict=True) for one, values, is_passing in rows if values and not is_passing)
        return {name: value for pairs in made for name, value in pairs}


def _entries(part: Part | None) -> Sequence[CacheEntry]:
    return () if part is None else part.entries
