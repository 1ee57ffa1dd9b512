"""Functions of sizes that are no polynomials, by the names that they have in the text."""

from collections.abc import Callable, Mapping
from math import gcd

from plica.ir.sizes.divisions import floor_divide, remainder
from plica.ir.sizes.polynomials import Atom, Dim, Opaque, Size, polynomial


def opaque(function: str, *arguments: Dim) -> Dim:
    """The application of `function` to sizes, in normal form; evaluated at once if every argument is constant."""
    return _FUNCTIONS[function](*arguments)


def maximum(first: Dim, second: Dim) -> Dim:
    """The greater of two sizes, written with the positive part of their difference.

    Minimum and maximum are both written with it, so that `min(n,1) + max(n-1,0)` is `n`.
    """
    return second + _positive_part(first - second)


def minimum(first: Dim, second: Dim) -> Dim:
    """The smaller of two sizes."""
    return first - _positive_part(first - second)


_FUNCTIONS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floor_divide,
    "mod": remainder,
    "min": minimum,
    "max": maximum,
}
SIZE_FUNCTIONS = tuple(_FUNCTIONS)


def _positive_part(size: Dim) -> Dim:
    """`max(size, 0)`, written with the primitive polynomial whose leading coefficient is positive."""
    if isinstance(size, int):
        return max(size, 0)
    if is_nonnegative(size):
        return size
    content = gcd(*(factor for _, factor in size.terms))
    leading = size.ordered[0][1]
    if leading < 0:
        return size + _positive_part(-size)
    primitive = polynomial({monomial: factor // content for monomial, factor in size.terms})
    return content * Size.of(Opaque("max", (primitive, 0)))


def is_nonnegative(size: Dim) -> bool:
    """Whether `size` is known never to be negative: sums of products of sizes of axes are not."""
    if isinstance(size, int):
        return size >= 0
    return all(factor >= 0 and all(_atom_is_nonnegative(atom) for atom, _ in term) for term, factor in size.terms)


def is_nonnegative_by_cases(size: Dim) -> bool:
    """`is_nonnegative` by cases: `r - max(p, 0)` is the smaller of `r - p` and `r`, `r + max(p, 0)` the greater."""
    if isinstance(size, int) or is_nonnegative(size):
        return is_nonnegative(size)
    for term, factor in sorted(
        size.ordered, key=lambda entry: entry[1] > 0
    ):  # negative factors first: their two cases are exact
        atom, power = term[0] if len(term) == 1 else (None, 0)
        if isinstance(atom, Opaque) and atom.function == "max" and power == 1:
            rest = size - factor * Size.of(atom)
            cases = (is_nonnegative_by_cases(rest + factor * argument) for argument in atom.arguments)
            return all(cases) if factor < 0 else any(cases)
    return False


def _atom_is_nonnegative(atom: Atom) -> bool:
    if not isinstance(atom, Opaque):
        return bool(getattr(atom, "is_size", False))
    match atom.function:
        case "floordiv":
            return all(map(is_nonnegative, atom.arguments))
        case "mod":
            return is_nonnegative(atom.arguments[1])
    return any(isinstance(argument, int) and argument >= 0 for argument in atom.arguments)
