"""Numbers of input layers added up by the variables that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from plica.graph.fold import FoldIndex
from plica.lower.fold.read import read_folds
from plica.lower.lowering import LoweringScope
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(slots=True)
class ByVariable:
    """Arrays `(N, ...)` whose entry n is about one variable; several may be about the same.

    Args:
        scope: The Program under construction.
    """

    scope: LoweringScope
    _arrays: list[Tracer] = field(default_factory=list)
    _places: dict[int, list[FoldIndex]] = field(default_factory=dict)

    def add(self, variables: Sequence[int], array: Tracer) -> None:
        """Entry n of `array` is about variable number n of `variables`."""
        for place, variable in enumerate(variables):
            self._places.setdefault(variable, []).append((len(self._arrays), place))
        self._arrays.append(array)

    @property
    def variables(self) -> list[int]:
        """All that something was said about, in order."""
        return sorted(self._places)

    def first(self) -> Tracer:
        """What was said first about each variable, in the order of `variables`."""
        return read_folds(self._arrays, [self._places[variable][0] for variable in self.variables], self.scope.constant)

    def total(self) -> Tracer:
        """What was said about each variable, added up, in the order of `variables`."""
        total = self.first()
        turns = max(map(len, self._places.values()))
        for turn in range(1, turns):
            silence = (len(self._arrays), 0)
            places = [found[turn] if turn < len(found) else silence for _, found in sorted(self._places.items())]
            nothing = xp.zeros((1, *total.dims[1:]), dtype=total.dtype)
            total = total + read_folds([*self._arrays, nothing], places, self.scope.constant)
        return total
