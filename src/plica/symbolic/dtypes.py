"""The kinds of number that a parameter may hold; how many bits each takes is the compiler's choice.

>>> DataType.REAL.name
'REAL'
"""

from enum import Enum


class DataType(Enum):
    """A kind of number, ordered so that a later member holds every value of an earlier one."""

    INTEGER = 0
    REAL = 1
    COMPLEX = 2
