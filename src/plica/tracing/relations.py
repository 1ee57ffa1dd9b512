"""Relations between sizes that hold whenever a nested Program runs, found by elimination.

A nested Program knows sizes by names of its own: constants that it captures, and sizes that a loop carries. Of each
constant the outer value is known; of each carried size, the first value and the value after a step. A linear relation
between them with integer coefficients holds always if it holds at first and each step keeps it: for example, "b is
twice as long as a". Both conditions are one, on the polynomial `first + after' * (after - first)` with a mark `after'`.

Source: the domain of linear equalities, after M. Karr, "Affine relationships among variables of a program" (1976).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from plica.ir.program import Var
from plica.ir.sizes import Atom, Dim, Opaque, Size, atoms, single_atom, substitute
from plica.ir.sizes.polynomials import Monomial, polynomial, terms_of

Relations = dict[Var, Dim]


@dataclass(frozen=True, slots=True)
class _Outside:
    """An atom of the enclosing Program, which the nested one does not know."""

    atom: Atom

    @property
    def name(self) -> str:
        """A name that no variable has."""
        return f"{getattr(self.atom, 'name', self.atom)}'"


_AFTER = Size.of("after'")


def invariants(
    constants: Mapping[Var, Dim],
    first: Mapping[Var, Dim],
    step: Callable[[Relations], Mapping[Var, Dim]],
    *,
    related: bool,
) -> Relations:
    """The sizes that others determine, in terms of those; the largest set of relations that steps keep.

    Args:
        constants: The values outside of captured sizes.
        first: The first values of carried sizes, in terms of the enclosing Program.
        step: Gives their values after a step, in terms of the nested Program in which these relations hold.
        related: Whether carried sizes may be expressed by each other, beside constants.

    Returns:
        Relations of the carried sizes alone.
    """
    relations: Relations = _relations(constants, first, None, related=related)
    for _ in range(len(first) + 1):
        after = {var: with_relations(relations, dim) for var, dim in step(relations).items()}
        narrowed = _relations(constants, first, after, related=related)
        if narrowed == relations:
            return {var: dim for var, dim in relations.items() if var in first}
        relations = narrowed
    return {}


def among_constants(constants: Mapping[Var, Dim]) -> Relations:
    """The captured sizes that others determine, in terms of those."""
    return _relations(constants, {}, None, related=True)


def with_relations(relations: Mapping[Var, Dim], dim: Dim) -> Dim:
    """A size in terms of the variables that no others determine."""

    def value(atom: Atom) -> Dim:
        related = relations.get(atom) if isinstance(atom, Var) else None
        return Size.of(atom) if related is None else related

    return substitute(dim, value)


def _relations(
    constants: Mapping[Var, Dim], first: Mapping[Var, Dim], after: Mapping[Var, Dim] | None, *, related: bool
) -> Relations:
    """The sizes that others determine, if these are their values at first and after a step."""
    known: dict[Atom, Dim] = {}
    determined: Relations = {}
    compound: dict[Var, Dim] = {}
    for var, value in constants.items():
        atom = single_atom(value) if isinstance(value, Size) else None
        if atom is None or isinstance(atom, Opaque):
            compound[var] = value
        elif atom in known:
            determined[var] = known[atom]
        else:
            known[atom] = Size.of(var)

    def inside(dim: Dim) -> Dim:
        return substitute(dim, lambda atom: known.get(atom, Size.of(_Outside(atom))))

    rows = _Rows()
    for var, value in sorted(compound.items(), key=_rank):
        relation = rows.relation(var, inside(value), 0)
        if relation is not None:
            determined[var] = relation
    for var, value in sorted(first.items(), key=_rank):
        begin = inside(value)
        relation = rows.relation(var, begin, 0 if after is None else after[var] - begin, is_kept=related)
        if relation is not None:
            determined[var] = relation
    return determined


def _rank(item: tuple[Var, Dim]) -> tuple[int, int, int]:
    """Sizes that others are made of come first: `n` before `n+1`, `2*n` and `n*m`."""
    size = item[1]
    if isinstance(size, int):
        return 0, 0, size
    terms = [(sum(power for _, power in powers), factor) for powers, factor in size.ordered]
    constant = sum(factor for degree, factor in terms if not degree)
    return max(degree for degree, _ in terms), sum(abs(factor) for degree, factor in terms if degree), constant


class _Rows:
    """Sizes that do not determine each other, in echelon form: each has a term of its own, by which others are reduced.

    Of each: what is unknown of it, the term and its coefficient, the combination of variables, and its value at first.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[Size, Monomial, int, Dim, Dim]] = []

    def relation(self, var: Var, first: Dim, change: Dim, *, is_kept: bool = True) -> Dim | None:
        """`var` in terms of others, if they determine it; else it becomes a row, if it `is_kept`."""
        unknown: Dim = _unknown(first) + _AFTER * change
        combination: Dim = Size.of(var)
        value = first
        for row, term, factor, variables, begin in self._rows:
            times, rest = divmod(terms_of(unknown).get(term, 0), factor)
            if times and not rest:
                unknown, combination, value = (
                    unknown - times * row,
                    combination - times * variables,
                    value - times * begin,
                )
        if isinstance(unknown, Size):
            if is_kept:
                powers, factor = unknown.ordered[0]
                self._rows.append((unknown, frozenset(powers), factor, combination, value))
            return None
        by_others = Size.of(var) - combination
        is_sum = isinstance(by_others, int) or all(factor > 0 for _, factor in by_others.ordered)
        return value + by_others if is_sum else None  # a difference of sizes says less than a size does


def _unknown(size: Dim) -> Dim:
    """The terms that the nested Program cannot compute."""
    if isinstance(size, int):
        return 0
    return polynomial({term: factor for term, factor in size.terms if any(map(_is_unknown, dict(term)))})


def _is_unknown(atom: Atom) -> bool:
    return any(isinstance(inner, _Outside) for inner in atoms(Size.of(atom)))
