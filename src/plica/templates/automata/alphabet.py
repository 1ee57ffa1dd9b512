"""The symbols that automata read: characters, tokens or integers, each known by its place among them.

>>> letters = Alphabet.of("abc")
>>> letters.encode("cab"), letters
((2, 0, 1), Alphabet('abc'))
>>> Alphabet.of(50_000).encode([7, 49_999])
(7, 49999)
"""

import operator
from collections.abc import Hashable, Iterable, KeysView, Set
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypeAlias, final

from plica.arguments import elements, found, known, shown
from plica.errors import DTypeError, InputError, ShapeError

Symbols: TypeAlias = "str | int | Iterable[Hashable] | Alphabet"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Alphabet:
    """Symbols in an order: symbol s of the alphabet is the state s of a variable.

    Args:
        symbols: A text, whose symbols are its characters; a range; or a tuple of any values that hash.
    """

    symbols: str | range | tuple[Hashable, ...]
    _numbers: dict[Hashable, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {} if isinstance(self.symbols, range) else {symbol: at for at, symbol in enumerate(self.symbols)}
        object.__setattr__(self, "_numbers", numbers)

    @staticmethod
    def of(given: Symbols) -> "Alphabet":
        """An alphabet: of the characters of a text, the integers below a number, or the items of a sequence.

        Raises:
            ShapeError: There is no symbol.
            InputError: A symbol stands twice, or has no hash.
            DTypeError: `given` is none of these, or a set, which has no order.
        """
        if isinstance(given, Alphabet):
            return given
        symbols = _symbols(given)
        if not symbols:
            raise ShapeError(f"DFA: an alphabet has at least one symbol, found {shown(given)}")
        if isinstance(symbols, range):
            return Alphabet(symbols)
        unhashable = [symbol for symbol in symbols if not known(symbol, (symbol,))]
        if unhashable:
            raise InputError(f"DFA: a symbol needs a hash, found {shown(unhashable[0])}; take texts or integers")
        alphabet = Alphabet(symbols)
        if len(alphabet._numbers) < len(symbols):
            twice = next(symbol for at, symbol in enumerate(symbols) if alphabet._numbers[symbol] != at)
            raise InputError(f"DFA: the alphabet {shown(given)} has the symbol {twice!r} twice; list each symbol once")
        return alphabet

    def __len__(self) -> int:
        return len(self.symbols)

    def __repr__(self) -> str:
        return f"Alphabet({shown(self.symbols)})"

    def encode(self, word: Iterable[Any]) -> tuple[int, ...]:
        """The places of the symbols of a word.

        Raises:
            InputError: A symbol that the alphabet does not have.
        """
        return tuple(map(self._number, elements("DFA", "a word", word)))

    def _number(self, symbol: Any) -> int:
        if isinstance(self.symbols, range):
            number = operator.index(symbol) if hasattr(symbol, "__index__") else -1
            if number in self.symbols:
                return number
        elif known(symbol, self._numbers):
            return self._numbers[symbol]
        raise InputError(
            f"DFA: {shown(symbol)} is no symbol of the alphabet {shown(self.symbols)}; add it, or leave it out of the "
            "word"
        )


def ordered(owner: str, name: str, value: Any) -> tuple[Any, ...]:
    """The items of a sequence whose order has a meaning.

    Raises:
        DTypeError: The value is no sequence, or a set.
    """
    if isinstance(value, Set) and not isinstance(value, KeysView):
        raise DTypeError(f"{owner}: {name} must be a sequence, {found(value)}, which has no order; sort it")
    return elements(owner, name, value)


def _symbols(given: Any) -> str | range | tuple[Hashable, ...]:
    if isinstance(given, str):
        return given
    if isinstance(given, Integral):
        return range(int(given))
    return ordered("DFA", "the alphabet", given)
