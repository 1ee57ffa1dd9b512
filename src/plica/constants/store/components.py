"""The components of a folding, and the values that each keeps: it runs again where a constant that it reads changed.

A component makes some values of constants, and of values that components before it make. The key of a value in the
cache is the Program that makes it alone, without names, and the states of its inputs. So another Program that keeps
other values as well shares it too. A component runs where one of its values is not in the cache.
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

_MAX_TEXTS = 16  # values of one component that have a Program each; with more, the work of this would be quadratic


@dataclass(frozen=True, eq=False)
class Component:
    """A part of a folding.

    Args:
        program: The Program, of constants and of values that other components make, by their names.
        runner: Runs that Program.
    """

    program: Program
    runner: Any

    @cached_property
    def reads(self) -> list[str]:
        """The names of the values that it reads."""
        return [var.name for var in (*self.program.consts, *self.program.arguments)]

    @cached_property
    def makes(self) -> list[str]:
        """The names of the values that it makes."""
        return [var.name for var in self.program.results if isinstance(var, Var)]

    @cached_property
    def texts(self) -> list[tuple[Program, int, list[str]]]:
        """For each value a Program that makes it, its index among the results, and the names of what this reads."""
        program = self.program
        is_static = not program.num_implicit_inputs and not program.num_implicit_outputs
        if not is_static or not 1 < len(self.makes) <= _MAX_TEXTS:
            return [(program, index, self.reads) for index in range(len(self.makes))]
        programs = [_alone(program, result) for result in program.results if isinstance(result, Var)]
        return [(part, 0, [var.name for var in (*part.consts, *part.inputs)]) for part in programs]

    @cached_property
    def work(self) -> list[int]:
        """The work of making each value, by the Program of its text."""
        work: dict[int, int] = {}
        for text, _, _ in self.texts:
            if id(text) not in work:  # many values may share one Program
                work[id(text)] = sum(work_of(equation, {}) for equation in text.equations)
        return [work[id(text)] for text, _, _ in self.texts]


def _alone(program: Program, result: Var) -> Program:
    """The part of a Program without dynamic sizes that makes one of its results."""
    needed, equations = needed_by((), (result,)), []
    for equation in reversed(program.equations):
        if any(var in needed for var in equation.outputs):
            equations.append(equation)
            needed.update(needed_by((equation,), ()))
    consts, inputs = (tuple(var for var in group if var in needed) for group in (program.consts, program.inputs))
    return Program(consts, inputs, tuple(reversed(equations)), (result,))


@dataclass(frozen=True, slots=True, eq=False)
class KeptValues:
    """The values that one component keeps.

    Args:
        states: The states of the constants that they were made of; None where one of them changed meanwhile.
        entries: The values, in order, which several foldings may share.
        is_passing: Whether this folding lets the values go once they are read.
    """

    states: tuple[Hashable, ...] | None
    entries: Sequence[CacheEntry]
    is_passing: bool

    def __post_init__(self) -> None:
        if not self.is_passing:
            for entry in self.entries:
                entry.keepers.add(id(self))

    def __del__(self) -> None:
        for entry in self.entries:
            entry.keepers.discard(id(self))
        self.let_go()

    def let_go(self) -> None:
        """Let values go that no part keeps; an entry stays, by which others know what was made of it."""
        for entry in self.entries:
            if not entry.keepers:
                entry.values = None


KeptByComponent = Sequence[KeptValues | None]


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """Constants as a fold reads them.

    Args:
        states: The state of each constant, by name.
        make: Runs a component, given the results of others by name.
        pins: Gives the objects that stay alive so that no other constant gets the state of this one.
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
        kept: The names of values that are kept; others are let go once the components that read them have run.
        cache: Where values are kept.
        options: Part of the key of values, such as the backend.
        released: The names of constants that are let go, so that values of them could not be made again.
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
        self._is_passing = [kept.keys().isdisjoint(component.makes) for component in self.components]
        self._is_alone: list[bool] = []
        for sources, makers in zip(self._sources, self._makers, strict=True):
            self._is_alone.append(
                any(name in released for name in sources) or any(self._is_alone[name] for name in makers)
            )

    def of_known(self, names: Collection[str]) -> list[int]:
        """The indices of the components that read constants of these names alone."""
        indices: dict[int, None] = {}
        for index, sources in enumerate(self._sources):
            if all(name in names for name in sources) and all(maker in indices for maker in self._makers[index]):
                indices[index] = None
        return list(indices)

    def unchanged(self, states: Mapping[str, Hashable], before: KeptByComponent | None) -> list[KeptValues | None]:
        """The parts that their components would make again; None for others, and for all where `before` is None."""
        parts: list[KeptValues | None] = []
        for index, old in enumerate(before or [None] * len(self.components)):
            is_same = old is not None and old.states == self._states(index, states)
            parts.append(old if is_same and all(parts[maker] is not None for maker in self._makers[index]) else None)
        return parts

    def fold(
        self, constants: Constants, before: KeptByComponent | None = None, indices: Collection[int] | None = None
    ) -> tuple[list[KeptValues | None], dict[str, Any]]:
        """Run the components that are neither unchanged nor in the cache.

        Args:
            constants: The constants.
            before: The parts of an earlier fold.
            indices: The indices of the components; by default all.

        Returns:
            The part of each component, and the kept values by name.
        """
        parts = self.unchanged(constants.states, before)
        values = [None if part is None else self._taken(part) for part in parts]
        todo = range(len(parts)) if indices is None else indices
        wanted = {
            index: parts[index] is None or (values[index] is None and not self._is_passing[index]) for index in todo
        }
        for index in reversed(list(todo)):
            if wanted[index]:
                wanted.update((maker, True) for maker in self._makers[index] if values[maker] is None)
        for index in todo:
            if wanted[index]:
                given = {
                    name: value
                    for maker in self._makers[index]
                    for name, value in zip(self.components[maker].makes, values[maker] or (), strict=True)
                }
                parts[index], values[index] = self._folded(index, constants, parts, given)
        return parts, self._named(values)

    def _folded(
        self, index: int, constants: Constants, parts: KeptByComponent, given: Mapping[str, Any]
    ) -> tuple[KeptValues, list[Any]]:
        component, states = self.components[index], constants.states
        others = {
            name: entry
            for maker in self._makers[index]
            for name, entry in zip(self.components[maker].makes, _entries(parts[maker]), strict=True)
        }
        results: list[Any] = []

        def value(at: int) -> CacheEntry:
            if not results:
                results.extend(constants.make(component, given))
            _, _, reads = component.texts[at]
            work = component.work[at]
            pinned = (pin for name in reads if name not in others for pin in constants.pins(name))
            return CacheEntry((results[at],), (*pinned, *(others[name] for name in reads if name in others)), work)

        entries: list[CacheEntry] = []
        values: list[Any] = []
        are_lasting = True
        for at, (text, number, reads) in enumerate(component.texts):
            read = tuple([id(others[name]) if name in others else states[name] for name in reads])
            key = None if self._is_alone[index] else (text, number, self._options, read)
            buffers, (result,), is_lasting = self._cache.get(key, partial(value, at), constants.is_current)
            entries.append(buffers)
            values.append(result)
            are_lasting = are_lasting and is_lasting
        kept = KeptValues(self._states(index, states) if are_lasting else None, entries, self._is_passing[index])
        return kept, values

    def _taken(self, part: KeptValues) -> list[Any] | None:
        """The values of a part; None where some were evicted."""
        values = [self._cache.take(entry) for entry in part.entries]
        return None if any(entry is None for entry in values) else [value for entry in values for value in entry or ()]

    def _states(self, index: int, states: Mapping[str, Hashable]) -> tuple[Hashable, ...]:
        return tuple([states[name] for name in self._sources[index]])

    @staticmethod
    def are_lasting(parts: KeptByComponent) -> bool:
        """Whether these parts are what the constants make whose states they have."""
        return all(part is None or part.states is not None for part in parts)

    def let_go(self, parts: KeptByComponent) -> None:
        """Let values go that no folding keeps: they were made for others, which are there now."""
        for part in parts:
            if part is not None and part.is_passing:
                part.let_go()

    @property
    def may_evict(self) -> bool:
        """Whether the cache has a limit, so that values may be gone at the next call."""
        return self._cache.max_bytes is not None

    @staticmethod
    def values(parts: KeptByComponent) -> list[Any]:
        """All values of parts that are not evicted."""
        return [value for part in parts for entry in _entries(part) for value in entry.values or ()]

    def taken(self, parts: KeptByComponent) -> dict[str, Any] | None:
        """The kept values by name; None where some were evicted."""
        values = [None if part is None else self._taken(part) for part in parts]
        if any(part is None and not is_passing for part, is_passing in zip(values, self._is_passing, strict=True)):
            return None
        return self._named(values)

    def _named(self, values: Sequence[Sequence[Any] | None]) -> dict[str, Any]:
        rows = zip(self.components, values, self._is_passing, strict=True)
        pairs = (
            zip(component.makes, part, strict=True) for component, part, is_passing in rows if part and not is_passing
        )
        return {name: value for part_pairs in pairs for name, value in part_pairs}


def _entries(part: KeptValues | None) -> Sequence[CacheEntry]:
    return () if part is None else part.entries
