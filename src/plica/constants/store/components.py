"""The components of a folding: Programs that each fold some constants, and run again when one of these changes.

A component computes values from constants, and from values that components before it *hand on*. A value is cached
under the Program that computes this value alone, without names, and the states of what that reads. So functions share
a value although their components compute different other ones. A component runs if one of its values is not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from plica.constants.analysis.facts import work_of
from plica.constants.analysis.origins import makers_of
from plica.constants.store.cache import CacheEntry, FoldCache
from plica.forks import cached_property
from plica.ir.program import Program, Var

_MAX_PROGRAMS = 16  # of a component with more values, none gets a Program of its own: the work would be quadratic


@dataclass(frozen=True, eq=False)
class Component:
    """A part of a folding.

    Args:
        program: The Program. Its arguments are constants and values of other components, by name.
        runner: Runs the Program.
    """

    program: Program
    runner: Any

    @cached_property
    def reads(self) -> list[str]:
        """The names of the values that it reads."""
        return [var.name for var in (*self.program.consts, *self.program.arguments)]

    @cached_property
    def makes(self) -> list[str]:
        """The names of the values that it computes."""
        return [var.name for var in self.program.results if isinstance(var, Var)]

    @cached_property
    def value_programs(self) -> list[tuple[Program, int, list[str]]]:
        """For each value a Program that computes it, the value's index in its results, and the names that it reads."""
        program = self.program
        is_static = not program.num_implicit_inputs and not program.num_implicit_outputs
        if not is_static or not 1 < len(self.makes) <= _MAX_PROGRAMS:
            return [(program, index, self.reads) for index in range(len(self.makes))]
        programs = [_program_of(program, result) for result in program.results if isinstance(result, Var)]
        return [(part, 0, [var.name for var in (*part.consts, *part.inputs)]) for part in programs]

    @cached_property
    def work(self) -> list[int]:
        """The work of computing each value by its Program in `value_programs`."""
        work: dict[int, int] = {}
        for program, _, _ in self.value_programs:
            if id(program) not in work:  # many values may share one Program
                work[id(program)] = sum(work_of(equation, {}) for equation in program.equations)
        return [work[id(program)] for program, _, _ in self.value_programs]


def _program_of(program: Program, result: Var) -> Program:
    """The part of a Program without dynamic sizes that computes one of its results."""
    equations, needed = makers_of(program.equations, (result,))
    consts, inputs = (tuple(var for var in group if var in needed) for group in (program.consts, program.inputs))
    return Program(consts, inputs, tuple(reversed(equations)), (result,))


@dataclass(frozen=True, slots=True, eq=False)
class KeptValues:
    """The values that one component keeps.

    Args:
        states: The states of the constants that they were computed from; None if one of these changed meanwhile.
        entries: The cache entries of the values, in order; several foldings may share one.
        is_handed_on: Whether the values are for other components alone, and are dropped after these ran.
    """

    states: tuple[Hashable, ...] | None
    entries: Sequence[CacheEntry]
    is_handed_on: bool

    def __post_init__(self) -> None:
        if not self.is_handed_on:
            for entry in self.entries:
                entry.keepers.add(id(self))

    def __del__(self) -> None:
        for entry in self.entries:
            entry.keepers.discard(id(self))
        self.drop()

    def drop(self) -> None:
        """Drop the values that nobody keeps. The entries stay: they are in the keys of values computed from them."""
        for entry in self.entries:
            if not entry.keepers:
                entry.values = None


KeptByComponent = Sequence[KeptValues | None]


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """The constants of a fold.

    Args:
        states: The state of each constant, by name.
        make: Runs a component, given the values that others hand on to it, by name.
        pins: For a name, objects that must stay alive so that no other constant gets the same state.
        is_current: Whether the constants still have these states. If another thread wrote to one meanwhile, the call
            gets the results, but no later call does (`are_lasting`).
    """

    states: Mapping[str, Hashable]
    make: Callable[[Component, Mapping[str, Any]], Sequence[Any]]
    pins: Callable[[str], Iterable[Any]]
    is_current: Callable[[], bool]


@final
class Components:
    """The components of one folding. Methods take and return the `KeptValues` of each as a list of *parts*.

    Args:
        components: The components, each after those whose values it reads.
        kept: The names of values to keep. Others are dropped once the components that read them have run.
        cache: The cache of values.
        options: Further parts of the keys of values, such as the backend.
        released: The names of constants that are released, so that values of them cannot be computed again.
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
        maker = {name: index for index, component in enumerate(self.components) for name in component.makes}
        self._makers = [
            dict.fromkeys(maker[name] for name in component.reads if name in maker) for component in self.components
        ]
        self._sources = [[name for name in component.reads if name not in maker] for component in self.components]
        self._is_handed_on = [kept.keys().isdisjoint(component.makes) for component in self.components]
        self._is_unrepeatable: list[bool] = []
        for sources, makers in zip(self._sources, self._makers, strict=True):
            self._is_unrepeatable.append(
                any(name in released for name in sources) or any(self._is_unrepeatable[maker] for maker in makers)
            )

    def reading_only(self, names: Collection[str]) -> list[int]:
        """The indices of the components that depend on constants of these names alone."""
        indices: dict[int, None] = {}
        for index, sources in enumerate(self._sources):
            if all(name in names for name in sources) and all(maker in indices for maker in self._makers[index]):
                indices[index] = None
        return list(indices)

    def unchanged(self, states: Mapping[str, Hashable], before: KeptByComponent | None) -> list[KeptValues | None]:
        """The parts of an earlier fold, `before`, whose constants have the same states still; None for the others."""
        parts: list[KeptValues | None] = []
        for index, part in enumerate(before or [None] * len(self.components)):
            is_same = part is not None and part.states == self._states(index, states)
            parts.append(part if is_same and all(parts[maker] is not None for maker in self._makers[index]) else None)
        return parts

    def fold(
        self, constants: Constants, before: KeptByComponent | None = None, indices: Collection[int] | None = None
    ) -> tuple[list[KeptValues | None], dict[str, Any]]:
        """Fold: run the components whose values are neither unchanged nor cached.

        Args:
            constants: The constants.
            before: The parts of an earlier fold.
            indices: The components to fold; by default all.

        Returns:
            The part of each component, and the kept values by name.
        """
        parts = self.unchanged(constants.states, before)
        values = [None if part is None else self._used_values(part) for part in parts]
        indices = range(len(parts)) if indices is None else indices
        is_needed = {
            index: parts[index] is None or (values[index] is None and not self._is_handed_on[index])
            for index in indices
        }
        for index in reversed(list(indices)):
            if is_needed[index]:
                is_needed.update((maker, True) for maker in self._makers[index] if values[maker] is None)
        for index in indices:
            if is_needed[index]:
                handed_on = {
                    name: value
                    for maker in self._makers[index]
                    for name, value in zip(self.components[maker].makes, values[maker] or (), strict=True)
                }
                parts[index], values[index] = self._fold_component(index, constants, parts, handed_on)
        return parts, self._named(values)

    def _fold_component(
        self, index: int, constants: Constants, parts: KeptByComponent, handed_on: Mapping[str, Any]
    ) -> tuple[KeptValues, list[Any]]:
        """The part and the values of a component: from the cache, or from one run of it if a value is not there."""
        component, states = self.components[index], constants.states
        entries_read = {
            name: entry
            for maker in self._makers[index]
            for name, entry in zip(self.components[maker].makes, _entries(parts[maker]), strict=True)
        }
        results: list[Any] = []

        def make_entry(position: int) -> CacheEntry:
            if not results:
                results.extend(constants.make(component, handed_on))
            _, _, reads = component.value_programs[position]
            pins = [pin for name in reads if name not in entries_read for pin in constants.pins(name)]
            sources = (*pins, *(entries_read[name] for name in reads if name in entries_read))
            return CacheEntry((results[position],), sources, component.work[position])

        entries: list[CacheEntry] = []
        values: list[Any] = []
        are_lasting = True
        for position, (program, result_index, reads) in enumerate(component.value_programs):
            read_states = tuple([id(entries_read[name]) if name in entries_read else states[name] for name in reads])
            key = None if self._is_unrepeatable[index] else (program, result_index, self._options, read_states)
            entry, (value,), is_lasting = self._cache.get(key, partial(make_entry, position), constants.is_current)
            entries.append(entry)
            values.append(value)
            are_lasting = are_lasting and is_lasting
        kept = KeptValues(self._states(index, states) if are_lasting else None, entries, self._is_handed_on[index])
        return kept, values

    def _used_values(self, part: KeptValues) -> list[Any] | None:
        """The values of a part, which count as used now; None if one was evicted."""
        values = [self._cache.take(entry) for entry in part.entries]
        return None if any(entry is None for entry in values) else [value for entry in values for value in entry or ()]

    def _states(self, index: int, states: Mapping[str, Hashable]) -> tuple[Hashable, ...]:
        return tuple([states[name] for name in self._sources[index]])

    @staticmethod
    def are_lasting(parts: KeptByComponent) -> bool:
        """Whether later calls may use these parts: no constant changed while one of them was computed."""
        return all(part is None or part.states is not None for part in parts)

    def drop_handed_on(self, parts: KeptByComponent) -> None:
        """Drop the values that were handed on to other components, unless another folding keeps them."""
        for part in parts:
            if part is not None and part.is_handed_on:
                part.drop()

    @property
    def may_evict(self) -> bool:
        """Whether the cache has a limit, so that values may be gone at the next call."""
        return self._cache.max_bytes is not None

    @staticmethod
    def values(parts: KeptByComponent) -> list[Any]:
        """All values of parts that are not evicted."""
        return [value for part in parts for entry in _entries(part) for value in entry.values or ()]

    def kept_values(self, parts: KeptByComponent) -> dict[str, Any] | None:
        """The kept values by name, which count as used now; None if one was evicted."""
        values = [None if part is None else self._used_values(part) for part in parts]
        if any(part is None and not handed_on for part, handed_on in zip(values, self._is_handed_on, strict=True)):
            return None
        return self._named(values)

    def _named(self, values: Sequence[Sequence[Any] | None]) -> dict[str, Any]:
        """The kept values by name, from the values of each component."""
        named: dict[str, Any] = {}
        for component, part, is_handed_on in zip(self.components, values, self._is_handed_on, strict=True):
            if part and not is_handed_on:
                named.update(zip(component.makes, part, strict=True))
        return named


def _entries(part: KeptValues | None) -> Sequence[CacheEntry]:
    return () if part is None else part.entries
