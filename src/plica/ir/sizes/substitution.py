"""The variables of sizes, and their substitution."""

from collections.abc import Callable, Iterator

from plica.ir.sizes.functions import opaque
from plica.ir.sizes.polynomials import Atom, Dim, Opaque, Size, single_atom


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


def substitute(size: Dim, values: Callable[[Atom], Dim], known: dict[Size, Dim] | None = None) -> Dim:
    """`size` with every variable replaced by `values(variable)`, called in the order of the text.

    Args:
        size: The size.
        values: The replacement of each variable.
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
    return opaque(atom.function, *(substitute(argument, values, known) for argument in atom.arguments))


def evaluate(size: Dim, values: Callable[[Atom], int]) -> int:
    """The value of `size` at the given values of its variables."""
    result = substitute(size, values)
    assert isinstance(result, int), "every atom was given a number"
    return result
