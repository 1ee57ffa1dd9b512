"""Floor division and remainder of sizes, in normal form.

The dividend is divided by the divisor with remainder, as polynomials. The quotient is a polynomial, and only the
remainder of this division stays within `floordiv` or `mod`. For a positive integer k and integers a, b, c, r, and x of any value,

    floor((a k x + r) / k)        = a x + floor(r / k)
    floor((b x + r) / (b c))      = floor((x + floor(r / b)) / c)        (b x + r) mod (b c) = b ((x + r // b) mod c) + r mod b
    floor((floor(x / a) + r) / c) = floor((x + a r) / (a c))             (x mod (a k) + r) mod k = (x + r) mod k

so that `(n+2)//2` is `n//2 + 1`, `(2*n+1)//2` is `n`, and `n//2//2` is `n//4`.
"""  # noqa: E501 - identities side by side

from collections.abc import Mapping
from math import gcd

from plica.errors import ShapeError
from plica.ir.sizes.polynomials import (
    ONE,
    Dim,
    Monomial,
    Opaque,
    Size,
    name_of,
    polynomial,
    terms_of,
)


def floor_divide(first: Dim, second: Dim) -> Dim:
    """`first // second`.

    Raises:
        ShapeError: `second` is the number 0.

    Assumes:
        `second` is not 0 when the program runs.
    """
    first, second, _ = _positive(first, second)
    if isinstance(first, int) and isinstance(second, int):
        return first // second
    quotient, rest = _divided(first, second)
    if rest == 0 or _is_below(rest, second):
        return quotient
    if not isinstance(second, int):
        common = _content(rest, second)
        return quotient + Size.of(Opaque("floordiv", (_over(rest, common), _over(second, common))))
    common = _common(rest, second)
    if common != 1:
        return quotient + floor_divide(_over(rest, common), second // common)
    nested = [atom for atom, factor in _linear(rest, "floordiv") if factor == 1 and isinstance(atom.arguments[1], int)]
    if len(nested) == 1:
        ((inner, divisor),) = [atom.arguments for atom in nested]
        assert isinstance(divisor, int), "only those were taken"
        remaining = rest - Size.of(nested[0])
        return quotient + floor_divide(inner + divisor * remaining, divisor * second)
    return quotient + Size.of(Opaque("floordiv", (rest, second)))


def remainder(first: Dim, second: Dim) -> Dim:
    """`first % second`, whose sign is that of `second`.

    Raises:
        ShapeError: `second` is the number 0.

    Assumes:
        `second` is not 0 when the program runs.
    """
    first, second, sign = _positive(first, second)
    if isinstance(first, int) and isinstance(second, int):
        return sign * (first % second)
    _, rest = _divided(first, second)
    if rest == 0 or _is_below(rest, second):
        return sign * rest
    if not isinstance(second, int):
        common = _content(rest, second)
        return sign * common * Size.of(Opaque("mod", (_over(rest, common), _over(second, common))))
    for atom, factor in _linear(rest, "mod"):
        inner, modulus = atom.arguments
        if isinstance(modulus, int) and factor * modulus % second == 0:
            return sign * remainder(rest + factor * (inner - Size.of(atom)), second)
    common = _common(rest, second)
    if common != 1:
        constant = terms_of(rest).get(ONE, 0) % common
        return sign * (common * remainder(_over(rest, common), second // common) + constant)
    return sign * Size.of(Opaque("mod", (rest, second)))


def _positive(first: Dim, second: Dim) -> tuple[Dim, Dim, int]:
    """Both with the other sign where the divisor's leading coefficient is negative, which changes no quotient."""
    if isinstance(second, int) and second == 0:
        raise ShapeError(f"the size {first} is divided by zero.")
    leading = second if isinstance(second, int) else _leading(second)[1]
    return (first, second, 1) if leading > 0 else (-first, -second, -1)


def _divided(first: Dim, second: Dim) -> tuple[Dim, Dim]:
    """The polynomials q and r with `first == q * second + r`, of which r cannot be divided further: long division.

    In r, monomials that the leading monomial of `second` divides have coefficients from 0 up to its own, exclusive.
    """
    if isinstance(second, int):
        terms = terms_of(first)
        return (
            polynomial({monomial: factor // second for monomial, factor in terms.items()}),
            polynomial({monomial: factor % second for monomial, factor in terms.items()}),
        )
    leading, coefficient = _leading(second)
    quotient: Dim = 0
    done: set[Monomial] = set()
    while divisible := [
        candidate
        for candidate in terms_of(first)
        if candidate not in done and _quotient(candidate, leading) is not None
    ]:
        monomial = max(divisible, key=_rank)
        done.add(monomial)
        power = _quotient(monomial, leading)
        assert power is not None, "only those were taken"
        term = polynomial({power: terms_of(first)[monomial] // coefficient})
        quotient, first = quotient + term, first - term * second
    return quotient, first


def _quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial that times `divisor` is `monomial`."""
    powers = dict(monomial)
    for atom, power in divisor:
        powers[atom] = powers.get(atom, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return frozenset((atom, power) for atom, power in powers.items() if power)


def _leading(size: Size) -> tuple[Monomial, int]:
    """The largest monomial, and its coefficient."""
    return max(size.terms, key=lambda term: _rank(term[0]))


def _rank(monomial: Monomial) -> tuple[int, list[tuple[str, int]]]:
    """An order of monomials that multiplication keeps: by degree, then by powers of atoms in the order of names."""
    powers = sorted(((name_of(atom), power) for atom, power in monomial), reverse=True)
    return sum(power for _, power in powers), powers


def _over(size: Dim, divisor: int) -> Dim:
    """Each coefficient divided by `divisor`, rounded down."""
    return polynomial({monomial: factor // divisor for monomial, factor in terms_of(size).items()})


def _content(*sizes: Dim) -> int:
    """The greatest integer that divides all coefficients."""
    return gcd(*(factor for size in sizes for factor in terms_of(size).values()))


def _common(size: Dim, divisor: int) -> int:
    """The greatest integer that divides the divisor and all coefficients but that of the constant."""
    return gcd(divisor, *(factor for monomial, factor in terms_of(size).items() if monomial != ONE))


def _linear(size: Dim, function: str) -> list[tuple[Opaque, int]]:
    """The applications of a function that are terms of their own, with their coefficients."""
    applications = []
    for monomial, factor in terms_of(size).items():
        for atom, power in monomial:
            if len(monomial) == power == 1 and isinstance(atom, Opaque) and atom.function == function:
                applications.append((atom, factor))
    return applications


def _is_below(rest: Dim, divisor: Dim) -> bool:
    """Whether `rest`, a number or a sum of remainders, is known to be smaller than the divisor."""
    if not isinstance(divisor, int):
        return False
    largest, bounds = 0, _upper_bounds(rest)
    for monomial, factor in terms_of(rest).items():
        if monomial not in bounds:
            return False
        largest += factor * bounds[monomial]
    return largest < divisor


def _upper_bounds(size: Dim) -> Mapping[Monomial, int]:
    """The largest value of each term that has one, without its coefficient."""
    bounds = {ONE: 1}
    for atom, _ in _linear(size, "mod"):
        modulus = atom.arguments[1]
        if isinstance(modulus, int):
            bounds[frozenset({(atom, 1)})] = modulus - 1
    return bounds
