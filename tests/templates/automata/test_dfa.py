"""Automata against direct simulation: all words of short lengths."""

import copy
import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from plica.errors import DTypeError, InputError, ShapeError
from plica.templates.automata import DFA, Alphabet

LETTERS = "abc"
UNHASHABLE: Any = [[1], [2]]
WORDS = ["".join(letters) for length in range(7) for letters in itertools.product(LETTERS, repeat=length)]


def accepted(automaton: DFA) -> list[str]:
    return [word for word in WORDS if automaton.accepts(word)]


def random_automaton(generator: np.random.Generator, states: int, symbols: int = 3) -> DFA:
    transitions = generator.integers(-1, states, size=(states, symbols))
    accepting = np.flatnonzero(generator.random(states) < 0.4).tolist()
    start = int(generator.integers(states))
    return DFA(transitions, accepting, start=start, alphabet=LETTERS[:symbols])


def simulated(transitions: Sequence[Sequence[int]], accepting: Sequence[int], start: int, word: str) -> bool:
    state = start
    for letter in word:
        state = transitions[state][LETTERS.index(letter)]
        if state == -1:
            return False
    return state in accepting


def test_a_table_is_followed_symbol_by_symbol() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        automaton = random_automaton(generator, int(generator.integers(1, 7)))
        table = automaton.transitions.tolist()
        expected = [word for word in WORDS if simulated(table, automaton.accepting, automaton.start, word)]
        assert accepted(automaton) == expected


def test_the_smallest_automaton_accepts_the_same_words() -> None:
    generator = np.random.default_rng(1)
    for _ in range(30):
        automaton = random_automaton(generator, int(generator.integers(1, 9)))
        smallest = automaton.minimized()
        assert accepted(smallest) == accepted(automaton)
        # 6 letters tell apart whichever of the at most 8 states behave differently here
        reached = dict.fromkeys(automaton.run(word) for word in WORDS)
        behaviours = {
            tuple(accepted(DFA(automaton.transitions, automaton.accepting, start=state, alphabet=LETTERS)))
            for state in reached
            if state is not None
        }
        assert smallest.num_states == max(len(behaviours - {()}), 1)
        again = smallest.minimized()
        np.testing.assert_array_equal(again.transitions, smallest.transitions)


def test_negation_and_both_and_either_are_those_of_the_words() -> None:
    generator = np.random.default_rng(2)
    for _ in range(25):
        first, second = (random_automaton(generator, int(generator.integers(1, 6))) for _ in range(2))
        one, other = set(accepted(first)), set(accepted(second))
        assert set(accepted(~first)) == set(WORDS) - one
        assert set(accepted(first & second)) == one & other
        assert set(accepted(first | second)) == one | other
    with pytest.raises(InputError, match="DFA & DFA: one reads 'abc', the other 'ab'; give both one alphabet"):
        first & DFA.from_regex("a", "ab")
    with pytest.raises(TypeError, match="unsupported operand"):
        first | "ab"  # type: ignore[operator]


def in_order(word: str, parts: Sequence[str]) -> bool:
    place = 0
    for part in parts:
        place = word.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


Condition = Callable[[str, Sequence[str]], bool]
SEARCHES: dict[str, Condition] = {
    "contains_in_order": in_order,
    "contains_any": lambda word, parts: any(part in word for part in parts),
    "contains_all": lambda word, parts: all(part in word for part in parts),
}
PARTS = [
    ["a"],
    ["ab", "ba"],
    ["aab", "aab"],
    ["abab"],
    ["a", "ab", "abc"],
    ["cab", "ab", "b"],
    ["aa", "aaa"],
    ["abcabc"],
]


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("parts", PARTS, ids="-".join)
def test_words_are_found_as_python_finds_them(name: str, parts: list[str]) -> None:
    automaton = getattr(DFA, name)(parts, LETTERS)
    assert accepted(automaton) == [word for word in WORDS if SEARCHES[name](word, parts)]
    assert automaton.num_states == automaton.minimized().num_states
    if name == "contains_in_order":
        assert automaton.num_states == sum(map(len, parts)) + 1


def test_words_may_be_of_any_symbols() -> None:
    tokens = DFA.contains_in_order([[7, 7, 9], [0]], 50_000)
    assert tokens.accepts([1, 7, 7, 7, 9, 49_999, 0])
    assert not tokens.accepts([0, 7, 7, 9])
    named = DFA.contains_any([["new", "york"]], ["new", "old", "york"])
    assert named.accepts(["old", "new", "york"])
    assert not named.accepts(["new", "old", "york"])
    assert named.accepts(("new", "new", "york")), "the first 'new' may be another one"


def test_what_follows_a_prefix() -> None:
    automaton = DFA.from_regex("a(b|c)*a", LETTERS)
    for prefix in WORDS[:121]:
        after = automaton.after(prefix)
        assert accepted(after)[:50] == [word for word in WORDS if automaton.accepts(prefix + word)][:50]
    assert automaton.run("b") is None
    assert automaton.run("a") == automaton.run("abc")


def test_padding_follows_words_and_is_not_in_them() -> None:
    inner = DFA.from_regex("(ab)*", LETTERS)
    padded = inner.padded("c")
    assert [word for word in WORDS if padded.accepts(word)] == [
        word for word in WORDS if inner.accepts(word.rstrip("c")) and "c" not in word.rstrip("c")
    ]
    with pytest.raises(InputError, match="'_' is no symbol of the alphabet 'abc'; add it"):
        inner.padded("_")


def test_words_are_counted_exactly() -> None:
    generator = np.random.default_rng(3)
    for _ in range(10):
        automaton = random_automaton(generator, 4)
        for length in range(7):
            assert automaton.count(length) == sum(len(word) == length for word in accepted(automaton))
    anything = DFA([[0] * 10], [0])
    assert anything.count(40) == 10**40
    with pytest.raises(ShapeError, match="length must be at least 0"):
        anything.count(-1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DFA([[0, 2]], [0]), InputError, "leads to state 2, but the 1 state"),
        (lambda: DFA([[0, -2]], [0]), InputError, "leads to state -2"),
        (lambda: DFA([[0.0]], [0]), DTypeError, "transitions are numbers of states"),
        (lambda: DFA([0, 0], [0]), ShapeError, r"shape \(states, symbols\), at least one of each, found \(2,\)"),
        (lambda: DFA(np.zeros((0, 2), int), []), ShapeError, "at least one of each"),
        (lambda: DFA([[0, 0], [0]], []), ShapeError, "give every row the same length"),
        (lambda: DFA([[0, 0]], [1]), InputError, "an accepting state must be one of 0 to 0, found 1"),
        (lambda: DFA([[0, 0]], [-1]), InputError, "an accepting state must be one of 0 to 0, found -1"),
        (lambda: DFA([[0, 0]], [0], start=3), InputError, "start must be one of 0 to 0, found 3"),
        (lambda: DFA([[0, 0]], ["a"]), DTypeError, "state must be an integer"),  # type: ignore[list-item]
        (lambda: DFA([[0, 0]], 0), DTypeError, "accepting must be a sequence"),  # type: ignore[arg-type]
        (lambda: DFA([[0, 0]], [0], alphabet="abc"), ShapeError, r"has 3 symbol\(s\), and the transitions 2"),
        (lambda: DFA.contains_any(["ab"], "aba"), InputError, "has the symbol 'a' twice"),
        (lambda: DFA.contains_any(["ab"], ""), ShapeError, "at least one symbol"),
        (lambda: DFA.contains_any(["ab"], 0), ShapeError, "at least one symbol"),
        (lambda: DFA.contains_any(["ab"], UNHASHABLE), InputError, r"a symbol needs a hash, found \[1\]"),
        (lambda: DFA.contains_any(["ad"], LETTERS), InputError, "'d' is no symbol of the alphabet 'abc'"),
        (
            lambda: DFA.contains_any(["a"], {"a", "b"}),
            DTypeError,
            "alphabet .* of type set, which has no order; sort it",
        ),
        (lambda: DFA.contains_in_order({"a", "b"}, LETTERS), DTypeError, "words .* of type set, which has no order"),
        (lambda: DFA.contains_any([[3]], 3), InputError, r"3 is no symbol of the alphabet range\(0, 3\)"),
        (lambda: DFA.contains_any([[-1]], 3), InputError, "-1 is no symbol"),
        (lambda: DFA.contains_any("ab", LETTERS), DTypeError, r"a sequence of words, .* write \['ab'\]"),
        (lambda: DFA.contains_all([], LETTERS), ShapeError, "at least one word, and none without symbols"),
        (lambda: DFA.contains_in_order(["a", ""], LETTERS), ShapeError, "at least one word, and none without symbols"),
        (lambda: DFA.from_regex("a", LETTERS).accepts("ad"), InputError, "'d' is no symbol"),
        (lambda: DFA.from_regex("a", LETTERS).accepts(["ab"]), InputError, "'ab' is no symbol"),
        (lambda: DFA.from_regex("a", LETTERS).accepts(7), DTypeError, "a word must be a sequence"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_refused(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_an_automaton_does_not_change() -> None:
    automaton = DFA.from_regex("ab", Alphabet.of(LETTERS))
    assert repr(automaton) == "DFA(3 states, 3 symbols)"
    with pytest.raises(AttributeError, match="cannot assign to field 'alphabet'"):
        automaton.alphabet = Alphabet.of("ab")  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        automaton.transitions[0, 0] = 1
    for again in (pickle.loads(pickle.dumps(automaton)), copy.deepcopy(automaton)):
        assert accepted(again) == accepted(automaton)


def test_long_words_take_no_recursion_and_no_quadratic_time() -> None:
    text = "ab" * 2500
    automaton = DFA.contains_in_order([text], LETTERS)
    assert automaton.num_states == 5001
    assert automaton.accepts("c" + text)
    assert automaton.minimized().num_states == 5001
    with pytest.raises(InputError, match="DFA & DFA: the automaton has more than 10,000 states; split the constraint"):
        DFA.contains_in_order(["a"] * 150, LETTERS) & DFA.contains_in_order(["b"] * 150, LETTERS)
