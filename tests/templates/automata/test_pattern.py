"""Regular expressions against Python's own matcher, on all words of up to five letters."""

import itertools
import random
import re
import time
from collections.abc import Callable

import pytest

from plica.errors import DTypeError, InputError, UnsupportedError
from plica.templates.automata import DFA

LETTERS = "abc"
WORDS = ["".join(letters) for length in range(6) for letters in itertools.product(LETTERS, repeat=length)]
ATOMS = ("a", "b", "c", ".", "[ab]", "[^a]", "[]a]", "[^]a]", r"\w", r"\d", r"[^\W_]", "bc", r"\x61", "()")
REPEATS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}", "{,}", "{0}", "{2,3}?")


def random_pattern(draw: random.Random, depth: int) -> str:
    def part() -> str:
        return random_pattern(draw, depth - 1)

    if not depth:
        return draw.choice(ATOMS)
    forms: list[Callable[[], str]] = [
        lambda: draw.choice(ATOMS),
        lambda: part() + part(),
        lambda: part() + part(),
        lambda: f"(?:{part()}|{part()})",
        lambda: f"(|{part()}|{part()})",
        lambda: f"({part()}){draw.choice(REPEATS)}",
        lambda: f"(?P<g{draw.randrange(10**9)}>{part()}){draw.choice(REPEATS)}",
    ]
    return draw.choice(forms)()


@pytest.mark.parametrize("seed", range(4))
def test_an_automaton_accepts_what_python_matches_as_a_whole(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        pattern = random_pattern(draw, 4)
        matches = re.compile(pattern).fullmatch
        automaton = DFA.from_regex(pattern, LETTERS)
        assert [automaton.accepts(word) for word in WORDS] == [bool(matches(word)) for word in WORDS], pattern
        assert automaton.num_states == automaton.minimized().num_states


SYMBOLS = "abAé\n 1{},2.-]\\"
TEXTS = ["".join(letters) for length in range(4) for letters in itertools.product(SYMBOLS, repeat=length)]


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "()", "a|", "|", "(|a)b", "(){50}", "((((a))))*"),
        *("a{", "a{}", "a{2", "a{,", "a{2,1", "a{ 2}", "}", "]", "a{,1}", "a{2}", ",-"),
        *(r"\w+", r"\W", r"\d\D", r"\s\S", r"\n", r"\.", r"\\", r"\-", "é", r"\u00e9", r"\N{DIGIT ONE}", r"\x41"),
        *("[a-é]", "[-a]", r"[\w-]", r"[\]a]", "[]-]", "[^]]", "[^^a]", "[a|1]", "[.]", "[+*]"),
        *(".", "..", ".*1", "a.b"),
    ],
)
def test_characters_are_those_that_python_says(pattern: str) -> None:
    matches = re.compile(pattern).fullmatch
    automaton = DFA.from_regex(pattern, SYMBOLS)
    assert [automaton.accepts(text) for text in TEXTS] == [bool(matches(text)) for text in TEXTS]


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        *(("^a", "^"), ("a$", "$"), (r"\Aa", r"\A"), (r"a\Z", r"\Z"), (r"a\b", r"\b"), (r"\Ba", r"\B")),
        *(("(?i)a", "(?i)"), ("(?i:a)", "(?i:a)"), ("(?#no)a", "(?#no)"), (r"(a)\1", r"\1"), (r"\012", r"\0")),
        *(("(?=a)a", "(?=a)"), ("(?!b)a", "(?!b)"), ("(?<=a)b", "(?<=a)"), ("(?P<n>a)(?P=n)", "(?P=n)")),
        *(("(?>a)", "(?>a)"), ("a++", "++"), ("a{2}+", "{2}+"), ("a?+", "?+")),
    ],
)
def test_what_is_not_regular_or_not_known_is_refused(pattern: str, part: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(f"DFA.from_regex: {part!r} at position ")):
        DFA.from_regex(pattern, LETTERS)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        *((")", "unbalanced"), ("(", "unterminated"), ("*a", "nothing to repeat"), ("a**", "multiple repeat")),
        *(("[a", "unterminated character set"), (r"\p", "bad escape"), ("[b-a]", "bad character range")),
        ("a{99999999999999}", "repetition number is too large"),
        ("a{20000}", r"repeats 1 character\(s\) 20000 times, which is more than 10,000 states"),
        ("(a{200}){200}", r"repeats 200 character\(s\) 200 times"),
        (".*a.{15}", "more than 10,000 states; split the constraint"),
    ],
)
def test_patterns_that_are_none_or_too_large_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(InputError, match=f"DFA.from_regex: .*{message}"):
        DFA.from_regex(pattern, LETTERS)


def test_symbols_of_patterns_are_characters() -> None:
    with pytest.raises(DTypeError, match="the symbols of a pattern are the characters of a text, found 3 of type int"):
        DFA.from_regex("a", 3)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="pattern must be a text, found b'a' of type bytes"):
        DFA.from_regex(b"a", LETTERS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'d' is no symbol"):
        DFA.from_regex("d*", LETTERS).accepts("d")


def test_long_patterns() -> None:
    assert DFA.from_regex("(){1000000}", LETTERS).count(0) == 1
    assert DFA.from_regex("ab" * 1000, LETTERS).count(2000) == 1
    assert DFA.from_regex("(ab|c){,1000}", LETTERS).num_states == 2001
    assert DFA.from_regex("|".join(["abc" * 10, "cab" * 10] * 20), LETTERS).count(30) == 2
    assert DFA.from_regex("(" * 50 + "a" + ")*" * 50, LETTERS).num_states == 1


def test_long_texts_take_no_quadratic_time() -> None:
    """A quadratic search for the states that lead to acceptance takes half a minute for these letters."""
    letters = "abcdefghijklmnopqrstuvwxyz "
    text = "".join(letters[(at * at * 7 + at // 3) % 27] for at in range(8000))
    start = time.process_time()
    automaton = DFA.from_regex(text, letters)
    assert automaton.num_states == 8001
    assert automaton.accepts(text)
    assert time.process_time() - start < 5.0
