"""`DFA`: a deterministic finite automaton over the symbols of an alphabet, and the circuit of its words."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

import numpy as np

from plica.arguments import elements, found, integer, is_permutation, listed, shown
from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import numbers_of
from plica.templates.automata import pattern as patterns
from plica.templates.automata import words as searches
from plica.templates.automata.alphabet import Alphabet, Symbols, ordered
from plica.templates.automata.build import chain
from plica.templates.automata.table import Booleans, Integers, Table, complete, minimal, product, trimmed


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class DFA:
    """A deterministic finite automaton: it reads a word, symbol by symbol, and accepts it or not.

    >>> even = DFA([[1, 0], [0, 1]], accepting=[0], alphabet="ab")  # an even number of a's
    >>> even.accepts("abba"), even.accepts("ab"), even.count(4)
    (True, False, 8)

    Args:
        transitions: `(Q, S)` integers: the state that follows state q at symbol s; -1 where the word is rejected.
        accepting: The states in which a word may end.
        start: The state before the first symbol.
        alphabet: The symbols, of which symbol s is the value s of a variable: a text for its characters, a sequence, or
            their number. By default the integers below S.

    Raises:
        ShapeError: The table has no state or no symbol, is no matrix, or the alphabet has another size.
        InputError: A state that there is not; a symbol stands twice in the alphabet.
        DTypeError: Transitions or states are no integers.
    """

    alphabet: Alphabet
    _table: Table

    def __init__(
        self, transitions: Any, accepting: Iterable[int], *, start: int = 0, alphabet: Symbols | None = None
    ) -> None:
        following = numbers_of("DFA", transitions)
        if following.ndim != 2 or 0 in following.shape:
            raise ShapeError(
                "DFA: expected transitions of shape (states, symbols), at least one of each, found "
                f"{following.shape}; give a row for each state"
            )
        if following.dtype.kind not in "iu":
            raise DTypeError(f"DFA: transitions are numbers of states, found an array of {following.dtype}")
        count, num_symbols = following.shape
        if following.min() < -1 or following.max() >= count:
            worst = following.min() if following.min() < -1 else following.max()
            raise InputError(
                f"DFA: a transition leads to state {worst}, but the {count} state(s) are 0 to {count - 1}; -1 rejects"
            )
        letters = Alphabet.of(num_symbols if alphabet is None else alphabet)
        if len(letters) != num_symbols:
            raise ShapeError(
                f"DFA: the alphabet has {len(letters)} symbol(s), and the transitions {num_symbols} column(s); give a "
                "column for each symbol"
            )
        accepts = np.zeros(count, dtype=np.bool_)
        accepts[[_state("an accepting state", state, count) for state in elements("DFA", "accepting", accepting)]] = (
            True
        )
        self._assign(Table(following.astype(np.int64), accepts, _state("start", start, count)), letters)

    def _assign(self, table: Table, alphabet: Alphabet) -> None:
        for array in table[:2]:
            array.setflags(write=False)
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "alphabet", alphabet)

    @classmethod
    def _of(cls, table: Table, alphabet: Alphabet) -> DFA:
        automaton = cls.__new__(cls)
        automaton._assign(table, alphabet)
        return automaton

    @classmethod
    def from_regex(cls, pattern: str, alphabet: str | Alphabet) -> DFA:
        r"""The smallest automaton of the words that `re.fullmatch(pattern, word)` matches.

        >>> DFA.from_regex(r"\d{4}-\d\d", "0123456789-").num_states
        8

        Args:
            pattern: Characters, classes such as `[^a-z]` and `\w`, groups, alternatives and repetitions.
            alphabet: Characters.

        Raises:
            InputError: `pattern` is no regular expression, or needs too many states.
            UnsupportedError: It has anchors, flags, references, or looks ahead or back.
            DTypeError: The symbols are no characters.
        """
        letters = Alphabet.of(alphabet)
        characters = letters.symbols
        if not isinstance(characters, str):
            raise DTypeError(
                f"DFA.from_regex: the symbols of a pattern are the characters of a text, {found(alphabet)}"
            )
        if not isinstance(pattern, str):
            raise DTypeError(f"DFA.from_regex: pattern must be a text, {found(pattern)}")
        return cls._of(patterns.table_of(pattern, characters), letters)

    @classmethod
    def contains_in_order(cls, words: Iterable[Iterable[Any]], alphabet: Symbols) -> DFA:
        """The automaton of texts that have all of these words, each after the end of the one before it.

        >>> DFA.contains_in_order(["an", "na"], "abn").accepts("banana")
        True

        It has a state for each symbol of the words, and one more.

        Raises:
            ShapeError: There is no word, or an empty one.
            InputError: A symbol that the alphabet does not have.
            DTypeError: The words are no sequence, or a set.
        """
        letters = Alphabet.of(alphabet)
        if not isinstance(words, str):
            words = ordered("DFA.contains_in_order", "words", words)
        return cls._of(searches.in_order(_words("contains_in_order", words, letters), len(letters)), letters)

    @classmethod
    def contains_any(cls, words: Iterable[Iterable[Any]], alphabet: Symbols) -> DFA:
        """The smallest automaton of texts that have one of these words somewhere; it raises as `contains_in_order`."""
        letters = Alphabet.of(alphabet)
        return cls._of(searches.any_of(_words("contains_any", words, letters), len(letters)), letters)

    @classmethod
    def contains_all(cls, words: Iterable[Iterable[Any]], alphabet: Symbols) -> DFA:
        """The smallest automaton of texts that have all of these words, in any order; words may overlap.

        It raises as `contains_in_order`; and InputError if there are too many states, of which there may be as many as
        the product of the lengths of the words.
        """
        letters = Alphabet.of(alphabet)
        encoded = _words("contains_all", words, letters)
        parts = [cls._of(searches.in_order([word], len(letters)), letters) for word in encoded]
        return reduce(operator.and_, parts).minimized()

    @property
    def transitions(self) -> Integers:
        """`(Q, S)`, the state that follows state q at symbol s; -1 where the word is rejected."""
        return self._table.following

    @property
    def accepting(self) -> tuple[int, ...]:
        """The states in which a word may end."""
        return tuple(np.flatnonzero(self._table.accepting).tolist())

    @property
    def start(self) -> int:
        """The state before the first symbol."""
        return self._table.start

    @property
    def num_states(self) -> int:
        """Q, the number of states."""
        return len(self._table.accepting)

    @property
    def num_symbols(self) -> int:
        """S, the number of symbols."""
        return len(self.alphabet)

    def run(self, word: Iterable[Any]) -> int | None:
        """The state after a word; None if the automaton rejects it, whatever follows.

        Raises:
            InputError: A symbol that the alphabet does not have.
        """
        state = self.start
        for symbol in self.alphabet.encode(word):
            state = int(self.transitions[state, symbol]) if state >= 0 else -1
        return None if state < 0 else state

    def accepts(self, word: Iterable[Any]) -> bool:
        """Whether a word is one of the automaton's; it raises as `run`."""
        state = self.run(word)
        return state is not None and bool(self._table.accepting[state])

    def after(self, prefix: Iterable[Any]) -> DFA:
        """The automaton of the words that may follow a prefix; it raises as `run`.

        >>> DFA.from_regex("ab*c", "abc").after("ab").accepts("bc")
        True
        """
        state = self.run(prefix)
        if state is None:
            nothing = np.full((1, self.num_symbols), -1)
            return self._of(Table(nothing, np.zeros(1, dtype=np.bool_), 0), self.alphabet)
        return self._of(self._table._replace(start=state), self.alphabet)

    def padded(self, symbol: Any) -> DFA:
        """The automaton of the same words, followed by any number of times the symbol, which no word itself has.

        Words of several lengths then are words of one: `DFA.from_regex("a+", "a_").padded("_")` accepts `aa__`.

        Raises:
            InputError: The alphabet does not have the symbol.
        """
        (padding,) = self.alphabet.encode([symbol])
        table, ended = self._table, self.num_states
        following = np.vstack([table.following, np.full((1, self.num_symbols), -1)])
        accepting = np.append(table.accepting, True)
        following[:, padding] = np.where(accepting, ended, -1)
        return self._of(Table(following, accepting, table.start), self.alphabet)

    def minimized(self) -> DFA:
        """The smallest automaton of the same words; its states are numbered from the start, breadth first."""
        return self._of(minimal(self._table), self.alphabet)

    def __invert__(self) -> DFA:
        """The automaton of all other words."""
        full = complete(self._table)
        return self._of(full._replace(accepting=~full.accepting), self.alphabet)

    def __and__(self, other: DFA) -> DFA:
        """The smallest automaton of the words of both.

        Raises:
            InputError: The alphabets differ, or there are too many states.
        """
        return self._joined("&", other, np.logical_and) if isinstance(other, DFA) else NotImplemented

    def __or__(self, other: DFA) -> DFA:
        """The smallest automaton of the words of either; it raises as `&`."""
        return self._joined("|", other, np.logical_or) if isinstance(other, DFA) else NotImplemented

    def _joined(self, sign: str, other: DFA, accepts: Callable[[Booleans, Booleans], Booleans]) -> DFA:
        if other.alphabet != self.alphabet:
            raise InputError(
                f"DFA {sign} DFA: one reads {shown(self.alphabet.symbols)}, the other {shown(other.alphabet.symbols)}; "
                "give both one alphabet"
            )
        return self._of(product(f"DFA {sign} DFA", self._table, other._table, accepts), self.alphabet)

    def count(self, length: int) -> int:
        """How many words of a length the automaton accepts, exactly."""
        table = trimmed(self._table)
        arcs: list[list[tuple[int, int]]] = []
        for row in table.following:
            targets, times = np.unique(row[row >= 0], return_counts=True)
            arcs.append(list(zip(targets.tolist(), times.tolist(), strict=True)))
        ways = [int(accepts) for accepts in table.accepting]
        for _ in range(integer("DFA.count", "length", length, least=0)):
            ways = [sum(times * ways[target] for target, times in row) for row in arcs]
        return ways[table.start]

    def build_circuit(self, ordering: Iterable[int]) -> Circuit:
        """The circuit over as many variables as a word has symbols: 1 where the automaton accepts, 0 elsewhere.

        It is deterministic, and split as `templates.pgms.hmm(ordering)`: its product with that model is a chain of as
        many steps, with a unit for each pair of states. Where variables are missing, it counts.

        Args:
            ordering: The variables in the order of the word: a permutation of 0..n-1.

        Raises:
            InputError: `ordering` is no permutation.
        """
        steps = listed(ordering)
        if not is_permutation(steps, len(steps) or 1):
            raise InputError(
                "DFA.build_circuit: ordering must be a permutation of 0..n-1, each variable once; found "
                f"{shown(list(steps) if steps else ordering)}"
            )
        return chain(trimmed(self._table), [operator.index(step) for step in steps])

    def __repr__(self) -> str:
        return f"DFA({self.num_states} states, {self.num_symbols} symbols)"


def _state(what: str, state: Any, count: int) -> int:
    number = integer("DFA", what, state)
    if not 0 <= number < count:
        raise InputError(f"DFA: {what} must be one of 0 to {count - 1}, found {number}")
    return number


def _words(what: str, words: Iterable[Iterable[Any]], alphabet: Alphabet) -> Sequence[tuple[int, ...]]:
    if isinstance(words, str):
        raise DTypeError(f"DFA.{what}: expected a sequence of words, {found(words)}; write [{words!r}]")
    encoded = [alphabet.encode(word) for word in elements(f"DFA.{what}", "words", words)]
    if not encoded or () in encoded:
        raise ShapeError(f"DFA.{what}: expected at least one word, and none without symbols, found {shown(words)}")
    return encoded
