r"""Regular expressions as position automata, whose states are the places of characters in the pattern.

The dialect is that of Python's module `re`, which also says for which characters `.`, `\w` and `[^a-z]` stand. A
pattern has characters, classes, groups, alternatives and repetitions; all else is refused. The libraries that make
automata of patterns have dialects of their own: for them `[]a]` is empty, `é` no `\w`, or `.` a line break.

>>> table = table_of("a(b|c)*", "abc")
>>> table.following.tolist(), table.accepting.tolist()
([[1, -1, -1], [-1, 1, 1]], [False, True])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from plica.errors import InputError, UnsupportedError
from plica.templates.automata.table import MAX_STATES, Table, check_size, minimal

_OWNER = "DFA.from_regex"
_TOKEN = re.compile(
    r"""(?P<repeat>(?:[*+?]|\{(?P<least>[0-9]+)?(?P<comma>,)?(?P<most>[0-9]+)?(?<!\{)\})(?P<kind>[?+])?)
    |(?P<open>\((?:\?:|\?P<\w+>|(?!\?)))
    |(?P<close>\))
    |(?P<bar>\|)
    |(?P<refused>\(\?[^)]*\)?|[\^$]|\\[AZbB0-9])
    |(?P<characters>\[\^?\]?(?:\\.|[^\]\\])*\]|\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|.)|.)""",
    re.VERBOSE | re.DOTALL,
)
_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True, slots=True)
class _Expression:
    """A part of a pattern; sets of positions are the bits of integers.

    Args:
        symbols: Which symbols each position stands for, `(S,)` booleans packed as bytes.
        following: The positions that may come after each position.
        first: The positions that a word may begin with.
        last: The positions that it may end with.
        empty: Whether the empty word is one.

    Source: Glushkov, "The abstract theory of automata", 1961.
    """

    symbols: tuple[bytes, ...] = ()
    following: tuple[int, ...] = ()
    first: int = 0
    last: int = 0
    empty: bool = True

    def beside(self, other: _Expression) -> _Expression:
        """Either of two parts."""
        shift = len(self.symbols)
        return _Expression(
            self.symbols + other.symbols,
            self.following + tuple(after << shift for after in other.following),
            self.first | other.first << shift,
            self.last | other.last << shift,
            self.empty or other.empty,
        )

    def then(self, other: _Expression) -> _Expression:
        """One part, and the other one after it."""
        both, start = self.beside(other), other.first << len(self.symbols)
        following = tuple(after | start if self.last >> at & 1 else after for at, after in enumerate(self.following))
        return _Expression(
            both.symbols,
            following + both.following[len(following) :],
            both.first if self.empty else self.first,
            both.last if other.empty else other.last << len(self.symbols),
            self.empty and other.empty,
        )

    def again(self) -> _Expression:
        """The part once or more."""
        following = tuple(
            after | self.first if self.last >> at & 1 else after for at, after in enumerate(self.following)
        )
        return replace(self, following=following)

    def repeated(self, least: int, most: int | None) -> _Expression:
        """The part so many times."""
        size = len(self.symbols)
        if not size or most == 0:
            return _Expression()
        copies = max(least, 1) if most is None else most
        if copies * size > MAX_STATES:
            raise InputError(
                f"{_OWNER}: the pattern repeats {size} character(s) {copies} times, which is more than {MAX_STATES:,} "
                "states; repeat less"
            )
        whole = _sequence([self] * (copies - 1) + [self.again() if most is None else self])
        ends = reduce(int.__or__, (self.last << at * size for at in range(max(least, 1) - 1, copies)))
        return replace(whole, last=whole.last | ends, empty=whole.empty or not least)


@dataclass(slots=True)
class _Group:
    """A group that is being read: its alternatives so far, and the parts of the last one."""

    alternatives: list[_Expression] = field(default_factory=list)
    parts: list[_Expression] = field(default_factory=list)

    def closed(self) -> _Expression:
        """The expression of the group."""
        return reduce(_Expression.beside, [*self.alternatives, _sequence(self.parts)])


def table_of(pattern: str, characters: str) -> Table:
    """The minimal table of the words that match a pattern as a whole.

    Raises:
        InputError: `pattern` is none, or has too many states.
        UnsupportedError: It has a part that is not regular, or not known here.
    """
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError, TypeError) as error:
        raise InputError(f"{_OWNER}: {pattern!r:.80} is no regular expression: {error}") from error
    expression = _parsed(pattern, characters)
    return _determinized(expression, len(characters))


def _parsed(pattern: str, characters: str) -> _Expression:
    groups = [_Group()]
    for token in _tokens(pattern):
        parts = groups[-1].parts
        match token.lastgroup:
            case "open":
                groups.append(_Group())
            case "close":
                closed = groups.pop().closed()
                groups[-1].parts.append(closed)
            case "bar":
                groups[-1].alternatives.append(_sequence(parts))
                groups[-1].parts = []
            case "repeat":
                parts.append(parts.pop().repeated(*_bounds(token)))
            case _:
                parts.append(_position(token.group(), characters))
        check_size(_OWNER, len(groups[-1].parts))
    assert len(groups) == 1, "Python has checked the parentheses"
    return groups[0].closed()


def _tokens(pattern: str) -> Iterator[re.Match[str]]:
    for token in _TOKEN.finditer(pattern):
        if token.group("refused") is not None or token.group("kind") == "+":
            raise UnsupportedError(
                f"{_OWNER}: {token.group()!r} at position {token.start()} of {pattern!r:.80} is not supported: a "
                "pattern has characters, classes, groups, alternatives and repetitions, and matches words as a whole; "
                "leave out anchors, flags, references, and looks ahead or back."
            )
        yield token


def _bounds(token: re.Match[str]) -> tuple[int, int | None]:
    """How often at least and at most the part before a token stands."""
    if token.group()[0] != "{":
        return _SIGNS[token.group()[0]]
    least, most = token.group("least"), token.group("most")
    if token.group("comma") is None:
        return int(least), int(least)
    return int(least or 0), None if most is None else int(most)


def _position(text: str, characters: str) -> _Expression:
    """The expression of a character or a class."""
    matching = re.compile(text if text[0] in "[\\." else re.escape(text)).fullmatch
    symbols = np.array([matching(character) is not None for character in characters])
    return _Expression((symbols.tobytes(),), (0,), first=1, last=1, empty=False)


def _sequence(parts: Sequence[_Expression]) -> _Expression:
    """Parts one after another, joined in pairs, so that long ones are copied seldom."""
    joined = list(parts) or [_Expression()]
    while len(joined) > 1:
        pairs = [first.then(second) for first, second in zip(joined[::2], joined[1::2], strict=False)]
        joined = pairs + joined[len(joined) // 2 * 2 :]
    return joined[0]


def _determinized(expression: _Expression, num_symbols: int) -> Table:
    """The minimal table of an expression; before, a state is the positions that may come next."""
    check_size(_OWNER, len(expression.symbols))
    marks = np.array([np.frombuffer(symbols, dtype=np.bool_) for symbols in expression.symbols])
    marks = marks.reshape(len(expression.symbols), num_symbols)
    classes, class_of = np.unique(marks, axis=1, return_inverse=True)
    readers = [_bits(np.flatnonzero(column).tolist()) for column in classes.T]
    states = [(expression.first, expression.empty)]
    number, rows = {states[0]: 0}, []
    for waiting, _ in states:  # which grows
        row = []
        for positions in readers:
            read = waiting & positions
            state = _all_after(read, expression), bool(read & expression.last)
            if state not in number:
                number[state] = len(states)
                states.append(state)
            row.append(number[state])
        rows.append(row)
        check_size(_OWNER, len(states))
    following = np.array(rows)[:, class_of.reshape(-1)]
    return minimal(Table(following, np.array([accepts for _, accepts in states]), 0))


def _all_after(positions: int, expression: _Expression) -> int:
    after = 0
    while positions:
        lowest = positions & -positions
        after |= expression.following[lowest.bit_length() - 1]
        positions ^= lowest
    return after


def _bits(positions: Iterable[int]) -> int:
    return sum(1 << position for position in positions)
