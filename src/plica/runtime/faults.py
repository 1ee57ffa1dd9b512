"""Errors that native code finds while it runs: a size that does not fit, an index beyond its axis.

A function of a shared library returns the number of a `Fault` of the manifest, and reports the numbers of its message.
IREE's code fails with a text that names a class of Plica's errors and holds its message, with `{0}`, `{1}` for numbers.
The code stores the numbers in its state; the function `VALUES` of the module returns them.

>>> text = marked("BoundsError", "index {0} does not lie within axis 1 of size {1}.")
>>> raised(RuntimeError(f"Error invoking function: FAILED_PRECONDITION; {text}; "), lambda: [7, 3])
BoundsError('index 7 does not lie within axis 1 of size 3.')
"""

import re
from collections.abc import Callable, Sequence

from plica import errors
from plica.runtime.manifest import Fault

VALUES = "plica_values"
_MARKED = re.compile(r"<plica (\w+)>(.*)</plica>", re.DOTALL)


def error_of(fault: Fault, numbers: Sequence[int]) -> errors.PlicaError:
    """The error of a fault, with the numbers that the function reported.

    >>> error_of(Fault("BoundsError", ("index ", 0, " does not lie within axis 1 of size ", 1, ".")), [7, 3])
    BoundsError('index 7 does not lie within axis 1 of size 3.')
    """
    message = "".join(part if isinstance(part, str) else str(numbers[part]) for part in fault.message)
    error: errors.PlicaError = getattr(errors, fault.error)(message)
    return error


def marked(error: str, message: str) -> str:
    """The text with which code fails.

    Args:
        error: The name of a class in `plica.errors`.
        message: Its message, a format for the numbers.
    """
    return f"<plica {error}>{message}</plica>"


def raised(error: BaseException, values: Callable[[], Sequence[int]]) -> errors.PlicaError | None:
    """The error of Plica that an error of the IREE runtime stands for; None if it is another one.

    Args:
        error: The error that a call raised.
        values: Calls the function `VALUES` of the module.
    """
    match = _MARKED.search(str(error))
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not (isinstance(kind, type) and issubclass(kind, errors.PlicaError)):
        return None
    fault: errors.PlicaError = kind(match[2].format(*values()) if "{" in match[2] else match[2])
    return fault
