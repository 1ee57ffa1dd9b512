"""Sizes of shapes as text, evaluated when those of the arguments are known.

>>> evaluate("2*n^2+max(m-1,0)", {"n": 3, "m": 0})
18
>>> symbols("2*n^2+max(m-1,0)")
('n', 'm')
"""

import re
from collections.abc import Callable, Iterator, Mapping

from plica.errors import NativeFileError

_TOKEN = re.compile(r"(?:floordiv|mod|min|max)\(|[A-Za-z_][A-Za-z0-9_]*|[0-9]{1,18}|[-+*^(),]")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "floordiv(": lambda a, b: a // b,
    "mod(": lambda a, b: a % b,
    "min(": min,
    "max(": max,
}
"""The functions by their tokens, which include the parenthesis: without it, these words are symbols."""
_MOST_LETTERS = 1000  # of a formula
_MOST_POWER = 8


def is_symbol(size: int | str) -> bool:
    """Whether a size is a name, bound by the argument that has it."""
    return isinstance(size, str) and _SYMBOL.match(size) is not None


def symbols(size: int | str) -> tuple[str, ...]:
    """The symbols of a size, each once, in order.

    Raises:
        NativeFileError: The text is no formula.
    """
    if isinstance(size, int):
        return ()
    names = tuple(dict.fromkeys(token for token in _tokens(size) if is_symbol(token)))
    _Reader(size, dict.fromkeys(names, 1), divides_by_zero=True).value()  # raises if the text is no formula
    return names


def evaluate(size: int | str, known: Mapping[str, int]) -> int:
    """The value of a size.

    Raises:
        NativeFileError: The text is no formula of the symbols that are known.
    """
    if isinstance(size, int):
        return size
    if size in known:
        return known[size]
    return _Reader(size, known).value()


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text)
    if len(text) > _MOST_LETTERS or "".join(tokens) != text:
        raise NativeFileError(
            f"{text[:60]!r} is no size; expected numbers and symbols with + - * ^ min max floordiv mod"
        )
    return tokens


class _Reader:
    """Recursive descent over `sum = term (+|- term)*`, `term = power (* power)*`, `power = atom (^ number)?`."""

    def __init__(self, text: str, known: Mapping[str, int], *, divides_by_zero: bool = False) -> None:
        self.text = text
        self.known = known
        self.divides_by_zero = divides_by_zero  # where only the formula matters: n - 1 is 0 for some n
        self.rest: Iterator[str] = iter(_tokens(text))
        self.token = next(self.rest, "")
        self.depth = 0

    def wrong(self) -> NativeFileError:
        return NativeFileError(f"{self.text[:60]!r} is no size: found an unexpected {self.token or 'end'!r}")

    def value(self) -> int:
        """The value of the whole text."""
        value = self.sum()
        if self.token:
            raise self.wrong()
        return value

    def take(self, token: str) -> bool:
        """Whether the next token is this one; if so, the reader goes past it."""
        if self.token != token:
            return False
        self.token = next(self.rest, "")
        return True

    def sum(self) -> int:
        self.depth += 1
        if self.depth > 20:
            raise self.wrong()
        value = -self.term() if self.take("-") else self.term()
        while self.token in ("+", "-"):
            sign = 1 if self.take("+") else -1
            if sign < 0:
                self.take("-")
            value += sign * self.term()
        self.depth -= 1
        return value

    def term(self) -> int:
        value = self.power()
        while self.take("*"):
            value *= self.power()
        return value

    def power(self) -> int:
        value = self.atom()
        if self.take("^"):
            exponent = self.token
            if not exponent.isdigit() or int(exponent) > _MOST_POWER:
                raise self.wrong()
            self.take(exponent)
            value = value ** int(exponent)
        return value

    def atom(self) -> int:
        token = self.token
        if token.isdigit():
            self.take(token)
            return int(token)
        if token in _FUNCTIONS:
            return self.application(token)
        if token in self.known:
            self.take(token)
            return self.known[token]
        raise self.wrong()

    def application(self, name: str) -> int:
        self.take(name)
        first = self.sum()
        if not self.take(","):
            raise self.wrong()
        second = self.sum()
        divides = name in ("floordiv(", "mod(")
        if not self.take(")") or (divides and second == 0 and not self.divides_by_zero):
            raise self.wrong()
        return 0 if divides and second == 0 else _FUNCTIONS[name](first, second)
