"""Symbolic sizes: polynomials with integer coefficients over named integers, in normal form.

An atom is a variable of the Program (anything hashable with a `name`), a reference into a signature, or an `Opaque`
application of a function that is no polynomial (floor division, remainder, maximum). Sizes that compare equal are equal
for all values of their variables; a constant is always a plain `int`. Sizes are hash-consed: equal ones are one object,
which keeps its text and the order of its terms. So a comparison never descends into nested sizes.

>>> from plica.ir.types import DBIdx
>>> n = Size.of(DBIdx(0))
>>> n + 1 == 1 + n, (n + 1) * (n + 1) == n * n + 2 * n + 1, n - n
(True, True, 0)
>>> floor_divide(n + 2, 2) == floor_divide(n, 2) + 1
True
"""

from plica.ir.sizes.divisions import floor_divide as floor_divide
from plica.ir.sizes.divisions import remainder as remainder
from plica.ir.sizes.functions import SIZE_FUNCTIONS as SIZE_FUNCTIONS
from plica.ir.sizes.functions import is_nonnegative as is_nonnegative
from plica.ir.sizes.functions import is_nonnegative_by_cases as is_nonnegative_by_cases
from plica.ir.sizes.functions import opaque as opaque
from plica.ir.sizes.polynomials import Atom as Atom
from plica.ir.sizes.polynomials import Dim as Dim
from plica.ir.sizes.polynomials import Opaque as Opaque
from plica.ir.sizes.polynomials import Size as Size
from plica.ir.sizes.polynomials import halves as halves
from plica.ir.sizes.polynomials import is_light as is_light
from plica.ir.sizes.polynomials import product as product
from plica.ir.sizes.polynomials import same as same
from plica.ir.sizes.polynomials import signed_parts as signed_parts
from plica.ir.sizes.polynomials import single_atom as single_atom
from plica.ir.sizes.polynomials import sorted_terms as sorted_terms
from plica.ir.sizes.polynomials import total as total
from plica.ir.sizes.scalars import SIZE_ARITHMETIC as SIZE_ARITHMETIC
from plica.ir.sizes.scalars import SIZE_COMPARISONS as SIZE_COMPARISONS
from plica.ir.sizes.scalars import as_size as as_size
from plica.ir.sizes.substitution import atoms as atoms
from plica.ir.sizes.substitution import evaluate as evaluate
from plica.ir.sizes.substitution import substitute as substitute
