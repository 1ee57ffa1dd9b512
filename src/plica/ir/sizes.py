"""Symbolic sizes: polynomials with integer coefficients over named integers, in normal form.

An atom is a variable of the Program (anything hashable with a `name`), a reference into a signature, or an `Opaque`
application of what is no polynomial (floor division, minimum, maximum). Two sizes are the same object of mathematics
exactly if they compare equal; a constant is always a plain `int`. Sizes are hash-consed: equal ones are one object,
which keeps its text and the order of its terms, so that to compare two nested sizes never goes into them.

>>> from plica.ir.types import DBIdx
>>> n = Size.of(DBIdx(0))
>>> n + 1 == 1 + n, (n + 1) * (n + 1) == n * n + 2 * n + 1, n - n
(True, True, 0)
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from math import gcd
from operator import add, index, mul, neg, sub
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

    def evaluate(self, values: list[int]) -> int:
        """The value of the application at the values of its arguments."""
        return _OPAQUE[self.function](*values)


_OPAQUE: Mapping[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
}
SIZE_FUNCTIONS = tuple(_OPAQUE)


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
        """How much there is to write: one for each atom or number, and some more for each opaque application."""
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

    def __floordiv__(self, other: "Dim") -> "Dim":
        return floor_divide(self, other)

    def __bool__(self) -> bool:
        raise ShapeError(
            f"whether the size {self} is zero is not known before the program runs; compare it inside the program."
        )

    def __index__(self) -> int:
        raise ShapeError(f"the size {self} is not known before the program runs, so it cannot be a Python integer.")

    def __str__(self) -> str:
        if not self._text:
            terms = [_term_text(powers, factor) for powers, factor in self.ordered]
            signed = [f"+{term}" if place and not term.startswith("-") else term for place, term in enumerate(terms)]
            object.__setattr__(self, "_text", "".join(signed))
        return self._text

    __repr__ = __str__


Dim = int | Size
_SIZES: WeakValueDictionary[Terms, Size] = WeakValueDictionary()  # those in use: none is kept for being in here


def _consed(terms: Terms) -> Size:
    """The size of these terms."""
    found = _SIZES.get(terms)
    return _SIZES.setdefault(terms, Size(terms)) if found is None else found


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
    return _OPAQUE_WEIGHT + sum(1 if isinstance(one, int) else one.weight for one in atom.arguments)


def _terms(size: Dim) -> dict[Monomial, int]:
    if isinstance(size, Size):
        return dict(size.terms)
    number = index(size)
    return {ONE: number} if number else {}


def _normal(terms: Mapping[Monomial, int]) -> Dim:
    kept = frozenset((monomial, factor) for monomial, factor in terms.items() if factor)
    if not kept:
        return 0
    if len(kept) == 1:
        ((monomial, factor),) = kept
        if monomial == ONE:
            return factor
    return _consed(kept)


def _add(first: Dim, second: Dim) -> Dim:
    terms = _terms(first)
    for monomial, factor in _terms(second).items():
        terms[monomial] = terms.get(monomial, 0) + factor
    return _normal(terms)


def _multiply(first: Dim, second: Dim) -> Dim:
    terms: dict[Monomial, int] = {}
    for left, a in _terms(first).items():
        for right, b in _terms(second).items():
            powers = dict(left)
            for atom, power in right:
                powers[atom] = powers.get(atom, 0) + power
            monomial = frozenset(powers.items())
            terms[monomial] = terms.get(monomial, 0) + a * b
    return _normal(terms)


def floor_divide(first: Dim, second: Dim) -> Dim:
    """`first // second`: a polynomial where the division is exact, else an opaque atom.

    Assumes:
        `second` is not 0 when the program runs.
    """
    if isinstance(second, int) and second == 0:
        raise ShapeError(f"the size {first} is divided by zero.")
    if isinstance(first, int) and isinstance(second, int):
        return first // second
    quotient = _exact_quotient(first, second)
    return opaque("floordiv", first, second) if quotient is None else quotient


def _exact_quotient(first: Dim, second: Dim) -> Dim | None:
    """The polynomial q with `q * second == first`, if there is one: long division by leading terms."""
    if isinstance(second, int):
        terms = _terms(first)
        divides = all(factor % second == 0 for factor in terms.values())
        return _normal({monomial: factor // second for monomial, factor in terms.items()}) if divides else None
    variables = sorted(
        {atom for size in (first, second) for monomial in _terms(size) for atom, _ in monomial}, key=_name
    )

    def leading(size: Dim) -> tuple[dict[Atom, int], int]:
        terms = [(dict(monomial), factor) for monomial, factor in _terms(size).items()]
        return max(terms, key=lambda term: (sum(term[0].values()), [term[0].get(one, 0) for one in variables]))

    powers, factor = leading(second)
    quotient: Dim = 0
    while first != 0:
        found, multiple = leading(first)
        if multiple % factor or any(found.get(atom, 0) < power for atom, power in powers.items()):
            return None
        left = frozenset(
            (atom, power - powers.get(atom, 0)) for atom, power in found.items() if power > powers.get(atom, 0)
        )
        term = _normal({left: multiple // factor})
        quotient, first = quotient + term, first - term * second
    return quotient


def opaque(function: str, *arguments: Dim) -> Dim:
    """The application of `function` to sizes; evaluated at once if every argument is constant.

    Minimum and maximum are written with the positive part of one difference, so that `min(n,1) + max(n-1,0)` is `n`.
    """
    if all(isinstance(argument, int) for argument in arguments):
        return _OPAQUE[function](*arguments)
    if function in ("min", "max"):
        first, second = arguments
        excess = _positive_part(first - second)
        return second + excess if function == "max" else first - excess
    return Size.of(Opaque(function, arguments))


def _positive_part(size: Dim) -> Dim:
    """`max(size, 0)`: of the primitive polynomial whose leading coefficient is positive."""
    if isinstance(size, int):
        return max(size, 0)
    if is_nonnegative(size):
        return size
    content = gcd(*(factor for _, factor in size.terms))
    leading = size.ordered[0][1]
    if leading < 0:
        return size + _positive_part(-size)
    primitive = floor_divide(size, content) if content != 1 else size
    return content * Size.of(Opaque("max", (primitive, 0)))


def is_nonnegative(size: Dim) -> bool:
    """Whether `size` is known never to be negative: sums of products of sizes of axes are not."""
    if isinstance(size, int):
        return size >= 0
    return all(factor >= 0 and all(_atom_is_nonnegative(atom) for atom, _ in term) for term, factor in size.terms)


def _atom_is_nonnegative(atom: Atom) -> bool:
    if not isinstance(atom, Opaque):
        return bool(getattr(atom, "is_size", False))
    if atom.function == "floordiv":
        return all(map(is_nonnegative, atom.arguments))
    return atom.function == "max" and any(isinstance(one, int) and one >= 0 for one in atom.arguments)


def as_size(value: Any) -> Dim | None:
    """What a scalar of a Program stands for: an integer literal, a 64-bit integer variable, or a size; else None."""
    if isinstance(value, Size):
        return value
    dtype = value.type.dtype
    if value.type.shape or dtype != "int64":
        return None
    literal = getattr(value, "value", None)
    return Size.of(value) if literal is None else literal


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


def atoms(size: Dim) -> Iterator[Atom]:
    """The variables of `size`, those within opaque atoms too, in the order of its text; repeats possible."""
    if isinstance(size, int):
        return
    single = single_atom(size)
    if single is not None and not isinstance(single, Opaque):  # most sizes are one variable
        yield single
        return
    for powers, _ in size.ordered:
        for atom, _ in powers:
            if isinstance(atom, Opaque):
                for argument in atom.arguments:
                    yield from atoms(argument)
            else:
                yield atom


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
    part = _normal(first)
    return part, size - part


def substitute(size: Dim, values: Callable[[Atom], Dim], known: dict[Size, Dim] | None = None) -> Dim:
    """`size` with every variable replaced by `values(variable)`, which is asked in the order of the text.

    Args:
        size: The size.
        values: What stands in the place of each variable.
        known: Results for these `values`; new ones are added, those of sizes within `size` too.
    """
    if isinstance(size, int):
        return size
    known = {} if known is None else known
    if size not in known:
        known[size] = _substituted(size, values, known)
    return known[size]


def _substituted(size: Size, values: Callable[[Atom], Dim], known: dict[Size, Dim]) -> Dim:
    atom = single_atom(size)
    if atom is not None:  # most sizes are one variable
        return _substitute_atom(atom, values, known)
    result: Dim = 0
    for powers, factor in size.ordered:
        term: Dim = factor
        for atom, power in powers:
            replaced = _substitute_atom(atom, values, known)
            for _ in range(power):
                term = term * replaced
        result = result + term
    return result


def _substitute_atom(atom: Atom, values: Callable[[Atom], Dim], known: dict[Size, Dim]) -> Dim:
    if not isinstance(atom, Opaque):
        return values(atom)
    arguments = [substitute(argument, values, known) for argument in atom.arguments]
    if atom.function == "floordiv":
        return floor_divide(*arguments)
    return opaque(atom.function, *arguments)


def evaluate(size: Dim, values: Callable[[Atom], int]) -> int:
    """The value of `size` at the given values of its variables."""
    result = substitute(size, values)
    assert isinstance(result, int), "every atom was given a number"
    return result


# Operations on scalar integers whose results are sizes again, and those whose results may be known early, given the
# difference of their operands.
SIZE_ARITHMETIC: Mapping[str, Callable[..., Dim]] = {
    "add": add,
    "subtract": sub,
    "multiply": mul,
    "negative": neg,
    "floor_divide": floor_divide,
    "remainder": partial(opaque, "mod"),
    "minimum": partial(opaque, "min"),
    "maximum": partial(opaque, "max"),
}
SIZE_COMPARISONS: Mapping[str, Callable[[int], bool]] = {
    "equal": lambda difference: difference == 0,
    "not_equal": lambda difference: difference != 0,
    "less": lambda difference: difference < 0,
    "less_equal": lambda difference: difference <= 0,
    "greater": lambda difference: difference > 0,
    "greater_equal": lambda difference: difference >= 0,
}


def _name(atom: Atom) -> str:
    return str(getattr(atom, "name", atom))


def _powers_text(powers: Iterable[tuple[Atom, int]]) -> str:
    return "*".join(_name(atom) if power == 1 else f"{_name(atom)}^{power}" for atom, power in powers)


def _sorted_terms(terms: Terms) -> list[tuple[tuple[tuple[Atom, int], ...], int]]:
    ordered = [(tuple(sorted(monomial, key=lambda one: _name(one[0]))), factor) for monomial, factor in terms]
    return sorted(ordered, key=lambda term: (-sum(power for _, power in term[0]), _powers_text(term[0])))


def _term_text(powers: Iterable[tuple[Atom, int]], factor: int) -> str:
    text = _powers_text(powers)
    if not text:
        return str(factor)
    if abs(factor) == 1:
        return text if factor == 1 else f"-{text}"
    return f"{factor}*{text}"
