r"""Reads text files of formulas line by line, and says which line is wrong.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "formula.cnf"
>>> _ = path.write_text("p cnf 1 1\n1 zero\n")
>>> lines(path, lambda words: [integer(word) for word in words if word not in ("p", "cnf")])
Traceback (most recent call last):
plica.errors.FileFormatError: ...formula.cnf, line 2: expected a number, found 'zero'; write the file again
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from plica.errors import FileFormatError
from plica.paths import as_path
from plica.symbolic.scope import MAX_VARIABLE

__all__ = [
    "DamageError",
    "count_of_variables",
    "cut_line",
    "damage_of",
    "integer",
    "is_decimal",
    "lines",
    "variable_of",
]

_LONGEST = 18  # characters of a number, so that it fits 64 bits
_DECIMAL = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")


class DamageError(Exception):
    """A problem of a file; `damage_of` adds the name of the file, and `lines` the line.

    Args:
        message: What is wrong.
        advice: One thing to try.
    """

    def __init__(self, message: str, advice: str = "write the file again") -> None:
        super().__init__(message)
        self.advice = advice


@contextmanager
def damage_of(where: str) -> Iterator[None]:
    """A context that turns a DamageError into a FileFormatError of a place.

    Args:
        where: The place: a file, or a line of it.

    Raises:
        FileFormatError: A DamageError was raised within.
    """
    try:
        yield
    except DamageError as error:
        raise FileFormatError(f"{where}: {error}; {error.advice}") from None


def lines(file: str | Path, read: Callable[[list[str]], None], *, must_end: bool = False) -> bool:
    """Call `read` with the words of each line that has some; returns whether the last line has a line break.

    Args:
        file: The file.
        read: Reads a line, given as its words.
        must_end: Whether the last line must have a line break. Without one, its last number may have been cut.

    Raises:
        DTypeError: The file is no path.
        FileFormatError: The file cannot be read, or `read` raised a DamageError.
    """
    path = as_path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: it is no text
        raise FileFormatError(f"{file}: the file cannot be read ({error}); check the path") from error
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if words:
            with damage_of(f"{file}, line {number}"):
                read(words)
    has_ended = not text or text.endswith("\n")
    if must_end and not has_ended:
        with damage_of(str(file)):
            raise cut_line()
    return has_ended


def cut_line() -> DamageError:
    """The problem of a file whose last line may have been cut."""
    return DamageError("the last line has no line break, and may be cut", "add one if the file is whole")


def integer(word: str) -> int:
    """A word as an integer of at most 18 characters.

    Raises:
        DamageError: The word is none.
    """
    if not (word.isascii() and word.removeprefix("-").isdecimal()) or len(word) > _LONGEST:
        raise DamageError(f"expected a number, found {word[:40]!r}")
    return int(word)


def is_decimal(word: str) -> bool:
    """Whether a word is a decimal number such as -0.25 or 1e-7, in ASCII digits, with an exponent of four at most.

    >>> [is_decimal(word) for word in ("-.5", "1e-7", "1_0", "+1", "nan", "1e99999")]
    [True, True, False, False, False, False]
    """
    return _DECIMAL.fullmatch(word) is not None


def count_of_variables(count: int) -> int:
    """The number of variables that the first line of a file announces.

    Raises:
        DamageError: It is negative, or above the number of variables that a circuit may have.
    """
    if not 0 <= count <= MAX_VARIABLE + 1:
        raise DamageError(f"expected 0 to {MAX_VARIABLE + 1} variables, found {count}")
    return count


def variable_of(literal: int, count: int = MAX_VARIABLE + 1) -> int:
    """The variable of a literal of a file: v of both v + 1 and -(v + 1).

    Raises:
        DamageError: It is no literal of `count` variables.
    """
    variable = abs(literal) - 1
    if not 0 <= variable < count:
        raise DamageError(f"{literal} is no literal; variables are 1 to {count}, negative where negated")
    return variable
