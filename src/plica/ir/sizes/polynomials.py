"""Polynomials with integer coefficients over atoms: the arithmetic, the order and the text of sizes."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add, index, mul
from typing import Any
from weakref import WeakValueDictionary

from plica.errors import ShapeError

Atom = Hashable
Monomial = frozenset[tuple[Atom, int]]
Terms = frozenset[tuple[Monomial, int]]
Ordered = tuple[tuple[tuple[tuple[Atom, int], ...], int], ...]
ONE: Monomial = frozenset()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function of sizes that is no polynomial: `floordiv`, `mod`, or `max` of a polynomial and 0."""

    function: str
    arguments: tuple["Dim", ...]

    @property
    def name(self) -> str:
        """The application as text."""
        return f"{self.function}({','.join(str(argument) for argument in self.arguments)})"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Size:
    """A polynomial that is not constant; build one with `Size.of` and arithmetic."""

    terms: Terms
    _ordered: Ordered = field(default=(), init=False)
    _text: str = field(default="", init=False)
    _weight: int = field(default=0, init=False)

    @staticmethod
    def of(atom: Atom) -> "Size":
        """The size that is `atom` itself."""
        return _consed(frozenset({(frozenset({(atom, 1)}), 1)}))

    def __eq__(self, other: object) -> bool:  # two threads may make one size at once
        return self is other or (isinstance(other, Size) and self.terms == other.terms)

    def __hash__(self) -> int:
        return hash(self.terms)  # which a frozenset computes once

    def __reduce__(self) -> tuple[Any, ...]:
        return _consed, (self.terms,)

    @property
    def ordered(self) -> Ordered:
        """The terms as they are written: by degree, then by text; each with the powers of its atoms, and its factor."""
        if not self._ordered:
            ordered = tuple(_sorted_terms(self.terms))
            object.__setattr__(self, "_ordered", ordered)
        return self._ordered

    @property
    def weight(self) -> int:
        """The length of its text: one for each atom or number, and some more for each opaque application."""
        if not self._weight:
            object.__setattr__(self, "_weight", sum(_term_weight(monomial) for monomial, _ in self.terms))
        return self._weight

    def __add__(self, other: "Dim") -> "Dim":
        return _add(self, other)

    __radd__ = __add__

    def __neg__(self) -> "Dim":
        return _multiply(self, -1)

    def __sub__(self, other: "Dim") -> "Dim":
        return _add(self, _multiply(other, -1))

    def __rsub__(self, other: "Dim") -> "Dim":
        return _add(other, _multiply(self, -1))

    def __mul__(self, other: "Dim") -> "Dim":
        return _multiply(self, other)

    __rmul__ = __mul__

    def __bool__(self) -> bool:
        raise ShapeError(
            f"whether the size {self} is zero is not known before the program runs; compare it inside the program."
        )

    def __index__(self) -> int:
        raise ShapeError(f"the size {self} is not known before the program runs, so it cannot be a Python integer.")

    def __str__(self) -> str:
        if not self._text:
            terms = [_term_text(powers, factor) for powers, factor in self.ordered]
            signed = [
                f"+{term}" if position and not term.startswith("-") else term for position, term in enumerate(terms)
            ]
            object.__setattr__(self, "_text", "".join(signed))
        return self._text

    __repr__ = __str__


Dim = int | Size
_SIZES: WeakValueDictionary[Terms, Size] = WeakValueDictionary()  # the sizes in use; it keeps none alive


def _consed(terms: Terms) -> Size:
    """The size of these terms."""
    known = _SIZES.get(terms)
    return _SIZES.setdefault(terms, Size(terms)) if known is None else known


# Sizes stay small: what weighs more becomes a variable of its own (`Builder.light`). Otherwise the text of
# concat([x, x[1:]]), whose size has that of x twice, would double with each step.
MOST_WEIGHT = 64
_OPAQUE_WEIGHT = 4  # so that applications are nested 12 deep at most, well within what Python's parser takes


def is_light(size: Dim) -> bool:
    """Whether `size` may stand in types as it is."""
    return isinstance(size, int) or size.weight <= MOST_WEIGHT


def _term_weight(monomial: Monomial) -> int:
    return sum(power * _atom_weight(atom) for atom, power in monomial) or 1


def _atom_weight(atom: Atom) -> int:
    if not isinstance(atom, Opaque):
        return 1
    return _OPAQUE_WEIGHT + sum(1 if isinstance(argument, int) else argument.weight for argument in atom.arguments)


def terms_of(size: Dim) -> dict[Monomial, int]:
    """The coefficient of each monomial."""
    if isinstance(size, Size):
        return dict(size.terms)
    number = index(size)
    return {ONE: number} if number else {}


def polynomial(terms: Mapping[Monomial, int]) -> Dim:
    """The size with these coefficients, which may be 0."""
    nonzero = frozenset((monomial, factor) for monomial, factor in terms.items() if factor)
    if not nonzero:
        return 0
    if len(nonzero) == 1:
        ((monomial, factor),) = nonzero
        if monomial == ONE:
            return factor
    return _consed(nonzero)


def _add(first: Dim, second: Dim) -> Dim:
    terms = terms_of(first)
    for monomial, factor in terms_of(second).items():
        terms[monomial] = terms.get(monomial, 0) + factor
    return polynomial(terms)


def _multiply(first: Dim, second: Dim) -> Dim:
    terms: dict[Monomial, int] = {}
    for left, a in terms_of(first).items():
        for right, b in terms_of(second).items():
            powers = dict(left)
            for atom, power in right:
                powers[atom] = powers.get(atom, 0) + power
            monomial = frozenset(powers.items())
            terms[monomial] = terms.get(monomial, 0) + a * b
    return polynomial(terms)


def product(sizes: Iterable[Dim]) -> Dim:
    """The product of `sizes`; 1 if there are none."""
    return reduce(mul, sizes, 1)


def total(sizes: Iterable[Dim]) -> Dim:
    """The sum of `sizes`."""
    return reduce(add, sizes, 0)


def same(first: Dim, second: Dim) -> bool | None:
    """Whether two sizes are equal: yes, no, or `None` where it depends on the values of their variables."""
    if first == second:
        return True
    return False if isinstance(_add(first, _multiply(second, -1)), int) else None


def single_atom(size: Size) -> Atom | None:
    """The atom that `size` is, if it is one alone."""
    if len(size.terms) != 1:
        return None
    ((monomial, factor),) = size.terms
    if factor != 1 or len(monomial) != 1:
        return None
    ((atom, power),) = monomial
    return atom if power == 1 else None


def sorted_terms(size: Size) -> Iterator[tuple[list[Atom], int]]:
    """The terms in the order of the text: the atoms, each as often as its power says, and the factor."""
    for powers, factor in size.ordered:
        yield [atom for atom, power in powers for _ in range(power)], factor


def halves(size: Size) -> tuple[Dim, Dim]:
    """Two sizes of about half the weight each, whose sum is `size`; the second is 0 where it has but one term."""
    first: dict[Monomial, int] = {}
    weight = 0
    for powers, factor in size.ordered:
        monomial = frozenset(powers)
        if first and 2 * (weight + _term_weight(monomial)) > size.weight + 1:
            break
        first[monomial] = factor
        weight += _term_weight(monomial)
    part = polynomial(first)
    return part, size - part


def signed_parts(size: Size) -> tuple[Dim, Dim]:
    """Two sizes without negative coefficients, whose difference is `size`."""
    positive = polynomial({monomial: factor for monomial, factor in size.terms if factor > 0})
    return positive, positive - size


def name_of(atom: Atom) -> str:
    """An atom as it is written."""
    return str(getattr(atom, "name", atom))


def _powers_text(powers: Iterable[tuple[Atom, int]]) -> str:
    return "*".join(name_of(atom) if power == 1 else f"{name_of(atom)}^{power}" for atom, power in powers)


def _sorted_terms(terms: Terms) -> list[tuple[tuple[tuple[Atom, int], ...], int]]:
    ordered = [
        (tuple(sorted(monomial, key=lambda atom_power: name_of(atom_power[0]))), factor) for monomial, factor in terms
    ]
    return sorted(ordered, key=lambda term: (-sum(power for _, power in term[0]), _powers_text(term[0])))


def _term_text(powers: Iterable[tuple[Atom, int]], factor: int) -> str:
    text = _powers_text(powers)
    if not text:
        return str(factor)
    if abs(factor) == 1:
        return text if factor == 1 else f"-{text}"
    return f"{factor}*{text}"
