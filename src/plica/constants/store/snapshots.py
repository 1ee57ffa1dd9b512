"""`Snapshots`: the values folded for one function or circuit, and which thread folds while others wait.

A snapshot never changes: a call that has one sees one version of all constants and nothing of another version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Generic, TypeVar, final

from plica.constants.store.components import Components, Constants, KeptValues
from plica.single_flight import SingleFlight

Version = TypeVar("Version")
Ready = TypeVar("Ready")


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot(Generic[Version, Ready]):
    """The values that calls run with until a constant changes.

    Args:
        version: The constants.
        parts: The part that each component keeps.
        ready: The object that runs with the kept values; None where the cache alone holds these, to evict them.
    """

    version: Version
    parts: Sequence[KeptValues | None]
    ready: Ready | None


@final
class Snapshots(Generic[Version, Ready]):
    """The snapshots of one folding, of which the latest is kept.

    Args:
        components: They fold the constants.
        prepare: Makes the object to run with, from a version and the kept values by name.
        is_replaced_early: Whether old values are dropped before new ones are made, so that memory never holds both.
            Otherwise calls that run meanwhile have the old snapshot.

    Attributes:
        latest: The snapshot that calls run with; the caller of `folded` sets it.
    """

    def __init__(
        self,
        components: Components,
        prepare: Callable[[Version, Mapping[str, Any]], Ready],
        *,
        is_replaced_early: bool = False,
    ) -> None:
        self.latest: Snapshot[Version, Ready] | None = None
        self._components, self._prepare, self._is_replaced_early = components, prepare, is_replaced_early
        self._early: Sequence[KeptValues | None] = ()
        self._flights = SingleFlight()

    def ready(self, snapshot: Snapshot[Version, Ready]) -> Ready | None:
        """The object to run with; None where some values of the snapshot were evicted."""
        if snapshot.ready is not None:
            return snapshot.ready
        values = self._components.kept_values(snapshot.parts)
        return None if values is None else self._prepare(snapshot.version, values)

    def once(
        self, fold: Callable[[], Ready | None], subject: Any, is_same: Callable[[Any, Any], bool] = is_
    ) -> Ready | None:
        """Call `fold`, unless another thread has folded meanwhile: then the result is None.

        Args:
            fold: Folds the constants, and returns the object to run with.
            subject: The constants. Threads that wait for the same ones raise the same error.
            is_same: Whether the constants of two threads are the same.
        """
        return self._flights.once("fold", fold, subject, is_same)

    def folded(self, version: Version, constants: Constants) -> tuple[Snapshot[Version, Ready] | None, Ready]:
        """The snapshot of a version, and the object to run with; components whose constants are as before do not run.

        The snapshot is None where a constant changed meanwhile: then the object is for one call.
        """
        before = self._early if self.latest is None else self.latest.parts
        if self._is_replaced_early:
            before, self.latest = self._components.unchanged(constants.states, before), None
        parts, values = self._components.fold(constants, before)
        self._components.drop_handed_on(parts)
        ready = self._prepare(version, values)
        if not self._components.are_lasting(parts):
            return None, ready
        self._early = ()
        return Snapshot(version, tuple(parts), None if self._components.may_evict else ready), ready

    def fold_early(self, names: Collection[str], constants: Constants) -> dict[str, None]:
        """Fold components that read constants of these names alone; returns the names that other components read."""
        indices = self._components.reading_only(names)
        self._early, _ = self._components.fold(constants, indices=indices)
        others = (component for index, component in enumerate(self._components.components) if index not in indices)
        return dict.fromkeys(name for component in others for name in component.reads)

    def values(self) -> list[Any]:
        """All values that are kept now."""
        snapshot = self.latest
        return [] if snapshot is None else self._components.values(snapshot.parts)
