"""Limits the memory that the sizes declared in a file may ask for: a file of a few bytes must not fill a machine.

>>> budget = Budget(1000)
>>> budget.spend("layer 0", "its units", 100)
>>> budget.spend("layer 1", "its units", 100)
Traceback (most recent call last):
plica.errors.FileFormatError: layer 1: its units ask for more memory than the 1000 bytes allowed for...
"""

from plica.errors import FileFormatError

BYTES_PER_NUMBER = 8

_FREE = 2**30  # bytes that a file of any size may ask for
_PER_BYTE = 2**10  # further bytes for each byte of the file, since a Kronecker product squares the number of weights


def default_limit(file_size: int) -> int:
    """The default limit in bytes for a file of that size."""
    return _FREE + _PER_BYTE * file_size


class Budget:
    """A number of bytes that declared sizes use up.

    Args:
        limit: The number of bytes.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._spent = 0
        self._reserved = 0

    def spend(self, where: str, subject: str, numbers: int) -> None:
        """Count memory that is needed in addition to earlier calls."""
        self._spent += numbers * BYTES_PER_NUMBER
        self._check(where, subject)

    def reserve(self, where: str, subject: str, numbers: int) -> None:
        """Count memory that is used again and again: only the largest reservation counts."""
        self._reserved = max(self._reserved, numbers * BYTES_PER_NUMBER)
        self._check(where, subject)

    def _check(self, where: str, subject: str) -> None:
        if self._spent + self._reserved > self._limit:
            raise FileFormatError(
                f"{where}: {subject} ask for more memory than the {self._limit} bytes allowed for a file of this size; "
                "if the file is not damaged, raise the limit: plica.load(..., max_bytes=...)"
            )
