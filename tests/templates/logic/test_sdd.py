import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import FileFormatError
from plica.templates.logic import SDD
from tests.harness.formulas import VARIABLES, derivations, diagram, rows_of, truth

# (A and B) or (B and C) or (C and D), of the vtree ((B A) (D C)): the first example of Darwiche, 2011, with A the first
# variable. Primes: A and B, not A and B, not B.
PAPER = """c an SDD of three primes
c
sdd 13
L 0 0 2
L 1 2 1
L 2 2 -1
L 3 0 -2
F 4
T 5
D 6 1 2 0 1 3 4
D 7 1 2 0 2 3 4
L 8 6 3
L 9 4 4
L 10 4 -4

D 12 5 2 9 8 10 4
D 11 3 3 6 5 7 8 3 12
"""


def load(text: str, folder: Path) -> Any:
    path = folder / "formula.sdd"
    path.write_text(text)
    return SDD.load(path)


def test_the_example_of_the_paper(tmp_path: Path) -> None:
    formula = load(PAPER, tmp_path)
    rows = rows_of(4)
    a, b, c, d = rows.T == 1
    np.testing.assert_array_equal(truth(formula, rows), (a & b) | (b & c) | (c & d))
    assert formula.is_deterministic
    assert formula.is_decomposable
    assert formula.num_variables == 4


@given(st.lists(st.booleans(), min_size=2**VARIABLES, max_size=2**VARIABLES), st.permutations(range(VARIABLES)))
def test_any_truth_table(tmp_path_factory: Any, table: list[bool], order: list[int]) -> None:
    formula = load(diagram(table, order), tmp_path_factory.mktemp("sdd"))
    np.testing.assert_array_equal(truth(formula, rows_of(VARIABLES)), table)


def test_constants(tmp_path: Path) -> None:
    assert repr(load("sdd 1\nT 0\n", tmp_path).outputs[0]) == "TopNode()"
    assert repr(load("c\n\nsdd 1\r\nF 3\r\n", tmp_path).outputs[0]) == "BottomNode()"


SMALL = "sdd 4\nL 0 0 1\nL 1 0 -1\nT 2\nD 3 1 2 0 2 1 2\n"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (SMALL, "", "expected a line 'sdd' with the number of nodes, found none"),
        ("sdd 4\n", "", "line 1: expected sdd and the number of nodes, found 'L'"),
        ("sdd 4", "sdd 4 4", "line 1: expected 1 numbers after sdd, found 2"),
        ("sdd 4", "sdd 5", "expected 5 nodes, at least one, found 4"),
        (SMALL, "sdd 0\n", "expected 0 nodes, at least one, found 0"),
        ("T 2", "sdd 4", "line 4: expected a node, found 'sdd'"),
        ("T 2", "X 2", "line 4: expected a line of F, T, L or D, found 'X'"),
        ("T 2", "T two", "line 4: expected a number, found 'two'"),
        ("T 2", "T", "line 4: expected 1 numbers after T, found 0"),
        ("T 2", "T 1", "line 4: node 1 is there twice"),
        ("L 1 0 -1", "L 1 0", "line 3: expected 3 numbers after L, found 2"),
        ("L 1 0 -1", "L 1 0 0", "line 3: 0 is no literal"),
        ("L 1 0 -1", "L 1 0 99999999999999999999", "line 3: expected a number, found '9999"),
        ("L 1 0 -1", "L 1 0 999999999999", "line 3: 999999999999 is no literal; variables are 1 to"),
        ("2 1 2\n", "2 1\n", "line 5: expected 2 elements of a prime and a sub, found 3 numbers"),
        ("D 3 1 2 0 2 1 2", "D 3 1 0", "line 5: expected 0 elements of a prime and a sub, found 0 numbers"),
        ("2 1 2\n", "2 1 7\n", "line 5: node 7 is not among the lines before"),
        ("2 1 2\n", "2 1 3\n", "line 5: node 3 is not among the lines before"),
        ("D 3 1 2 0 2 1 2", "D 3 1 1 0 2", "line 5: the primes 0 are not exclusive and exhaustive"),
        ("D 3 1 2 0 2 1 2", "D 3 1 3 0 2 1 2 0 2", "line 5: the primes 0, 1, 0 are not exclusive"),
        ("L 1 0 -1", "L 1 0 1", "line 5: the primes 0, 1 are not exclusive and exhaustive: exactly one must be true"),
        ("L 0 0 1", "L 0 0 -1", "line 5: the primes 0, 1 are not exclusive and exhaustive: exactly one must be true"),
        ("T 2", "T ٢", "line 4: expected a number"),
        ("2 1 2\n", "2 1 2", "the last line has no line break, and may be cut; add one if the file is whole"),
        ("2 1 2\n", "2 1 0\n", "line 5: the prime 1 and its sub 0 have a variable in common"),
    ],
)
def test_a_damaged_file_is_refused_with_one_line(before: str, after: str, message: str, tmp_path: Path) -> None:
    load(SMALL, tmp_path)
    with pytest.raises(FileFormatError, match=message) as caught:
        load(SMALL.replace(before, after), tmp_path)
    assert "formula.sdd" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"missing\.sdd: the file cannot be read"):
        SDD.load(tmp_path / "missing.sdd")
    (tmp_path / "bytes.sdd").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match=r"bytes\.sdd: the file cannot be read"):
        SDD.load(str(tmp_path / "bytes.sdd"))


_TOKENS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "99",
    "+1",
    "1.0",
    "",
    "F",
    "T",
    "L",
    "D",
    "sdd",
    "c",
    "9" * 30,
    "\u0661",
    "\x00",
    "nan",
]


def _mutated(lines: list[list[str]], rng: random.Random) -> str:
    """A line or a word that is gone, repeated, moved or another one."""
    place = rng.randrange(len(lines))
    line = lines[place]
    match rng.randrange(6):
        case 0:
            del lines[place]
        case 1:
            line[rng.randrange(len(line))] = rng.choice(_TOKENS)
        case 2:
            lines.insert(rng.randrange(len(lines)), list(line))
        case 3:
            rng.shuffle(lines)
        case 4:
            del line[rng.randrange(len(line))]
        case _:
            line.insert(rng.randrange(len(line) + 1), rng.choice(_TOKENS))
    return "\n".join(map(" ".join, lines)) + "\n"


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_mutated_file_counts_no_model_twice_or_is_refused(count: int, tmp_path: Path) -> None:
    rng = random.Random(0)
    messages = []
    for _ in range(count):
        size = rng.randint(1, VARIABLES)
        text = diagram([rng.random() < 0.5 for _ in range(2**size)], rng.sample(range(size), size))
        try:
            formula = load(_mutated([line.split(" ") for line in text.splitlines()], rng), tmp_path)
        except FileFormatError as error:
            messages.append(str(error))
            continue
        assert formula.is_decomposable
        if formula.scope and max(formula.scope) < VARIABLES:
            rows = rows_of(VARIABLES)
            np.testing.assert_array_equal(derivations(formula, rows), truth(formula, rows))
    assert 0 < len(messages) < count
    assert all(len(message.splitlines()) == 1 for message in messages)
