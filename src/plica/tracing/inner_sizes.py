"""Sizes inside a nested function, in terms of the sizes outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plica.ir.program import Var
from plica.ir.sizes import Dim, Size, atoms, single_atom, substitute
from plica.tracing.scope import Trace


class Equalities:
    """Sizes of a scope up to the equalities that its checks establish."""

    def __init__(self, scope: Trace) -> None:
        self._known: dict[Any, Dim] = {}
        for first, second in scope.builder.equalities:
            left, right = self.normal(first), self.normal(second)
            for size, equal in ((left, right), (right, left)):
                atom = single_atom(size) if isinstance(size, Size) else None
                if isinstance(atom, Var) and atom not in list(atoms(equal)):
                    self._known[atom] = equal
                    break

    def normal(self, dim: Dim) -> Dim:
        """A size that all sizes equal to `dim` share."""
        for _ in range(len(self._known) + 1):
            dim = substitute(dim, lambda atom: self._known.get(atom, Size.of(atom)))
        return dim


def outside(scope: Trace, sizes: Mapping[Var, Dim], dim: Dim) -> Dim | None:
    """A size of `scope` in terms of the enclosing one; None if it depends on what only the scope knows."""
    outer = {inner: Size.of(var) for var, inner in scope.captured.items()}
    known = True

    def value(atom: Any) -> Dim:
        nonlocal known
        outer_size = sizes.get(atom, outer.get(atom))
        known = known and outer_size is not None
        return 0 if outer_size is None else outer_size

    result = substitute(dim, value)
    return result if known else None
