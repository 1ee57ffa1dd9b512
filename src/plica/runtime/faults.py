"""Errors that native code finds while it runs: a size that does not fit, an index beyond its axis.

Code fails with a text that names the error of Plica that it stands for and what it says, with `{0}`, `{1}` in the place
of numbers. The numbers are kept in the code's own state; the function `VALUES` of the module gives them.

>>> text = marked("BoundsError", "index {0} does not lie within axis 1 of size {1}.")
>>> raised(RuntimeError(f"Error invoking function: FAILED_PRECONDITION; {text}; "), lambda: [7, 3])
BoundsError('index 7 does not lie within axis 1 of size 3.')
"""

import re
from collections.abc import Callable, Sequence

from plica import errors

VALUES = "plica_values"
_MARKED = re.compile(r"<plica (\w+)>(.*)</plica>", re.DOTALL)


def marked(error: str, message: str) -> str:
    """The text with which code fails.

    Args:
        error: The name of a class in `plica.errors`.
        message: What it says, a format for the numbers.
    """
    return f"<plica {error}>{message}</plica>"


def raised(error: BaseException, values: Callable[[], Sequence[int]]) -> errors.PlicaError | None:
    """The error of Plica that an error of the IREE runtime stands for; None if it is another one.

    Args:
        error: What a call raised.
        values: Calls the function `VALUES` of the module.
    """
    found = _MARKED.search(str(error))
    kind = getattr(errors, found[1], None) if found else None
    if found is None or not (isinstance(kind, type) and issubclass(kind, errors.PlicaError)):
        return None
    made: errors.PlicaError = kind(found[2].format(*values()) if "{" in found[2] else found[2])
    return made
