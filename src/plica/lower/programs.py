"""`Programs`: the Programs that a circuit, or a part of one, was lowered to, by key; each is lowered once."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, final

from plica.lower.leaves import Owners, owners_of
from plica.lower.queries.score import Lowered
from plica.single_flight import SingleFlight


@final
class Programs:
    """Programs over the same leaves, by key.

    Args:
        owners: The leaves that exist already; those of each new Program join them.
    """

    def __init__(self, owners: Owners | None = None) -> None:
        self._owners: Owners = owners or {}
        self._lowered: dict[Any, Lowered] = {}
        self._flights = SingleFlight()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lowered": {}}  # they are lowered again

    def once(self, key: Hashable, lower: Callable[[Owners], Lowered]) -> Lowered:
        """The Program of a key.

        Args:
            key: The key, which no other Program of these leaves has.
            lower: Lowers it, given the leaves that exist already.
        """
        while key not in self._lowered:
            self._flights.once(key, partial(self._add, key, lower))
        return self._lowered[key]

    def _add(self, key: Hashable, lower: Callable[[Owners], Lowered]) -> None:
        if key not in self._lowered:
            lowered = lower(self._owners)
            self._owners = {**owners_of(lowered.captured), **self._owners}
            self._lowered[key] = lowered
