"""Symbolic sizes on the command line: `NAME=NUMBER`.

>>> sizes_of(("n=10", "b=3"))
{'n': 10, 'b': 3}
"""

from collections.abc import Sequence

from plica.errors import InputError

_DIGITS = 18  # of a size


def sizes_of(words: Sequence[str]) -> dict[str, int]:
    """Sizes by name.

    Raises:
        InputError: A word is no name with a number.
    """
    sizes = {}
    for word in words:
        name, _, number = word.partition("=")
        if not number.isdecimal() or len(number) > _DIGITS:
            raise InputError(f"--size {word:.60}: expected a name and a number, as n=10")
        sizes[name] = int(number)
    return sizes
