"""Symbolic sizes: polynomials with integer coefficients over named integers, in normal form.

An atom is a variable of the Program (anything hashable with a `name`), a reference into a signature, or an `Opaque`
application of what is no polynomial (floor division, remainder, maximum). Two sizes are the same object of mathematics
if they compare equal; a constant is always a plain `int`. Sizes are hash-consed: equal ones are one object, which keeps
its text and the order of its terms, so that to compare two nested sizes never goes into them.

>>> from plica.ir.types import DBIdx
>>> n = Size.of(DBIdx(0))
>>> n + 1 == 1 + n, (n + 1) * (n + 1) == n * n + 2 * n + 1, n - n
(True, True, 0)
>>> floor_divide(n + 2, 2) == floor_divide(n, 2) + 1
True
"""

from plica.ir.sizes.divisions import floor_divide, remainder
from plica.ir.sizes.functions import SIZE_FUNCTIONS, is_nonnegative, is_nonnegative_by_cases, opaque
from plica.ir.sizes.polynomials import (
    Atom,
    Dim,
    Opaque,
    Size,
    halves,
    is_light,
    product,
    same,
    signed_parts,
    single_atom,
    sorted_terms,
    total,
)
from plica.ir.sizes.scalars import SIZE_ARITHMETIC, SIZE_COMPARISONS, as_size
from plica.ir.sizes.substitution import atoms, evaluate, substitute

__all__ = [
    "SIZE_ARITHMETIC",
    "SIZE_COMPARISONS",
    "SIZE_FUNCTIONS",
    "Atom",
    "Dim",
    "Opaque",
    "Size",
    "as_size",
    "atoms",
    "evaluate",
    "floor_divide",
    "halves",
    "is_light",
    "is_nonnegative",
    "is_nonnegative_by_cases",
    "opaque",
    "product",
    "remainder",
    "same",
    "signed_parts",
    "single_atom",
    "sorted_terms",
    "substitute",
    "total",
]
