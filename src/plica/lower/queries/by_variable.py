"""Numbers of input layers, added up for each variable."""

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
    """Arrays `(N, ...)` whose entry n belongs to one variable; several may belong to the same.

    Args:
        scope: The Program under construction.
    """

    scope: LoweringScope
    _arrays: list[Tracer] = field(default_factory=list)
    _folds: dict[int, list[FoldIndex]] = field(default_factory=dict)

    def add(self, variables: Sequence[int], array: Tracer) -> None:
        """Add an array whose entry n belongs to `variables[n]`."""
        for index, variable in enumerate(variables):
            self._folds.setdefault(variable, []).append((len(self._arrays), index))
        self._arrays.append(array)

    @property
    def variables(self) -> list[int]:
        """The variables that have entries, in order."""
        return sorted(self._folds)

    def first(self) -> Tracer:
        """The first entry of each variable, in the order of `variables`."""
        return read_folds(self._arrays, [self._folds[variable][0] for variable in self.variables], self.scope.constant)

    def total(self) -> Tracer:
        """The sum of the entries of each variable, in the order of `variables`."""
        total = self.first()
        for number in range(1, max(map(len, self._folds.values()))):
            zero_row = (len(self._arrays), 0)
            rows = [
                entries[number] if number < len(entries) else zero_row for _, entries in sorted(self._folds.items())
            ]
            zeros = xp.zeros((1, *total.dims[1:]), dtype=total.dtype)
            total = total + read_folds([*self._arrays, zeros], rows, self.scope.constant)
        return total
