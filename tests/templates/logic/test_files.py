"""Files of formulas: what they mean, and damaged ones."""

import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import DTypeError, FileFormatError, GraphError, InputError
from plica.symbolic.scope import Scope
from plica.templates.logic import CNF, SDD, LiteralNode, LogicalCircuit, Vtree
from tests.harness.formulas import (
    VARIABLES,
    c2d_text,
    d4_text,
    derivations,
    random_clauses,
    rows_of,
    satisfied,
    truth,
)

ROWS = rows_of(VARIABLES)
TABLES = st.lists(st.booleans(), min_size=2**VARIABLES, max_size=2**VARIABLES)
ORDERS = st.permutations(range(VARIABLES))


def written(text: str, folder: Path, name: str = "formula.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# Negation normal form


@pytest.mark.parametrize("dialect", [c2d_text, d4_text])
@given(table=TABLES, order=ORDERS)
def test_any_truth_table_in_both_dialects(
    dialect: Any, table: list[bool], order: list[int], tmp_path_factory: Any
) -> None:
    path = written(dialect(table, order), tmp_path_factory.mktemp("nnf"), "formula.nnf")
    formula = LogicalCircuit.from_nnf(path)
    np.testing.assert_array_equal(derivations(formula, ROWS), table)
    assert (formula.is_deterministic, formula.is_decomposable) == (True, True)
    assert formula.model_count(range(VARIABLES)) == sum(table)
    assert formula.negate().model_count(range(VARIABLES)) == 2**VARIABLES - sum(table)


C2D = "c a comment\nnnf 7 6 3\nL 1\nL -1\nL 2\nL -3\nA 2 0 2\nA 2 1 3\nO 1 2 4 5\n"
D4 = "c a comment\no 1 0\na 2 0\nt 3 0\n1 2 1 0\n1 3 -1 -3 0\n2 3 2 0\n"


def test_the_same_formula_in_both_dialects(tmp_path: Path) -> None:
    """x1 and x2, or not x1 and not x3."""
    x, y, z = rows_of(3).T == 1
    for text in (C2D, D4):
        formula = LogicalCircuit.from_nnf(written(text, tmp_path))
        np.testing.assert_array_equal(truth(formula, rows_of(3)), x & y | ~x & ~z)
        assert formula.model_count() == 4
    assert LogicalCircuit.from_nnf(written(C2D.replace("6 3", "6 5"), tmp_path)).model_count() == 16


@pytest.mark.parametrize(
    ("text", "count"),
    [("nnf 1 0 2\nA 0\n", 4), ("nnf 1 0 2\nO 0 0\n", 0), ("nnf 1 0 2\nL -2\n", 2), ("t 1 0\n", 4), ("f 1 0\n", 0)],
)
def test_files_of_one_node(text: str, count: int, tmp_path: Path) -> None:
    assert LogicalCircuit.from_nnf(written(text, tmp_path)).model_count(range(2)) == count


def test_inputs_that_are_not_opposite_are_known_to_exclude_each_other_by_word_alone(tmp_path: Path) -> None:
    path = written("nnf 3 2 2\nL 1\nL 2\nO 0 2 0 1\n", tmp_path)
    assert not LogicalCircuit.from_nnf(path).is_deterministic
    assert LogicalCircuit.from_nnf(path, is_deterministic=True).is_deterministic


def test_deep_files(tmp_path: Path) -> None:
    """A conjunction of 5,000 literals, nested."""
    count = 5000
    lines = [f"nnf {2 * count - 1} {2 * count - 2} {count}", "L 1"]
    for variable in range(2, count + 1):
        lines += [f"L {variable}", f"A 2 {len(lines) - 1} {len(lines) - 2}"]
    formula = LogicalCircuit.from_nnf(written("\n".join(lines) + "\n", tmp_path))
    assert formula.model_count() == 1
    assert formula.negate().model_count() == 2**count - 1
    assert list(formula.models()) == [dict.fromkeys(range(count), 1)]


# Clauses


def test_clauses_with_weights(tmp_path: Path) -> None:
    text = (
        "c a comment\np cnf 4 3\nc p weight 1 0.4 0\nc p weight -1 3/5 0\nc p show 1 2 3 4 0\n1 -3\n0 2 3 -1 0\n-4 0\n"
        "%\n0\n"
    )
    cnf = CNF.load(written(text, tmp_path))
    assert cnf.clauses == ((1, -3), (2, 3, -1), (-4,))
    assert cnf.weights == {0: (Fraction(3, 5), Fraction(2, 5))}
    models = rows_of(4)[satisfied(cnf.clauses, rows_of(4))]
    formula = LogicalCircuit.from_dimacs(tmp_path / "formula.txt")
    assert formula.model_count() == len(models)
    assert formula.weighted_model_count(cnf.weights) == sum(cnf.weights[0][x] for x in models[:, 0].tolist())


@pytest.mark.parametrize("seed", range(4))
def test_any_clauses(seed: int, tmp_path: Path) -> None:
    clauses = random_clauses(np.random.default_rng(seed), VARIABLES)
    lines = [f"p cnf {VARIABLES + 1} {len(clauses)}", *(" ".join(map(str, [*clause, 0])) for clause in clauses)]
    formula = LogicalCircuit.from_dimacs(written("\n".join(lines), tmp_path))
    assert formula.scope == Scope(range(VARIABLES + 1))
    assert formula.model_count() == 2 * satisfied(clauses, ROWS).sum()


# Vtrees

VTREE = "c a comment\nvtree 5\nL 0 1\nL 2 2\nL 4 3\nI 3 2 4\nI 1 0 3\n"
DIAGRAM = "sdd 6\nL 0 0 1\nL 1 0 -1\nL 2 2 2\nL 3 4 -3\nT 4\nD 5 1 2 0 2 1 3\n"


def test_a_diagram_with_its_vtree(tmp_path: Path) -> None:
    vtree = written(VTREE, tmp_path, "formula.vtree")
    formula = SDD.load(written(DIAGRAM, tmp_path), vtree)
    x, y, z = rows_of(3).T == 1
    np.testing.assert_array_equal(truth(formula, rows_of(3)), x & y | ~x & ~z)
    assert repr(formula.vtree) == repr(Vtree.load(vtree)) == "Vtree(5 nodes, 3 variables)"
    assert formula.build_circuit().is_structured_decomposable


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("L 2 2 2", "L 2 4 2", r"formula.txt, line 4: node 4 of the vtree is no leaf of variable 2"),
        ("L 2 2 2", "L 2 9 2", r"line 4: the vtree has no node 9; is it that of another diagram\?"),
        ("D 5 1", "D 5 3", "line 7: the prime 0 has variables that are not below node 3 of the vtree, on that side"),
        ("D 5 1", "D 5 0", "line 7: node 0 of the vtree is a leaf, and that of a decomposition has two children"),
    ],
)
def test_a_vtree_of_another_diagram(before: str, after: str, message: str, tmp_path: Path) -> None:
    vtree = written(VTREE, tmp_path, "formula.vtree")
    with pytest.raises(FileFormatError, match=message):
        SDD.load(written(DIAGRAM.replace(before, after), tmp_path), vtree)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "expected nodes of which each but the last, the root, has one parent"),
        ([(0,), (1,)], "each but the last"),
        ([()], r"node 0 is \(\); expected \(variable,\) or \(left, right\)"),
        ([(0,), (0,), (0, 1)], "variable 0 has two leaves"),
        ([(0,), (1,), (0, 0)], "node 2 reads node 0, which is no earlier node or has a parent already"),
        ([(0,), (1,), (0, 5)], "node 2 reads node 5"),
        ([1], "a node must be a sequence, found 1"),
        ([(0,), (1,), ("a", 0)], "a child must be an integer, found 'a'"),
        (None, "nodes must be a sequence, found None"),
    ],
)
def test_refuses_what_is_no_tree(nodes: Any, message: str) -> None:
    with pytest.raises((GraphError, DTypeError), match=message):
        Vtree(nodes)


def test_a_conjunction_that_does_not_follow_the_vtree_is_refused() -> None:
    from plica.templates.logic import ConjunctionNode

    tree = Vtree([(0,), (1,), (2,), (0, 1), (3, 2)])
    literals, both, all_of = [LiteralNode(v) for v in range(3)], ConjunctionNode(), ConjunctionNode()
    follows: dict[Any, Any] = {both: literals[:2], all_of: [both, literals[2]]}
    assert LogicalCircuit([*literals, both, all_of], follows, [all_of], vtree=tree).vtree is tree
    others: tuple[dict[Any, Any], ...] = ({both: literals[1:], all_of: [literals[0], both]}, {all_of: literals})
    for nodes in others:
        with pytest.raises(GraphError, match="does not split its variables as the vtree does"):
            LogicalCircuit([*literals, *nodes], nodes, [all_of], vtree=tree)
    with pytest.raises(
        InputError, match=r"the vtree has variables \{0..2\}|the vtree has variables \{0, 1, 2\}, and the scope is"
    ):
        LogicalCircuit(literals, {}, literals, vtree=tree, scope=range(4))


# Damaged files

LOADERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "c2d": (C2D, LogicalCircuit.from_nnf),
    "d4": (D4, LogicalCircuit.from_nnf),
    "dimacs": ("p cnf 3 2\nc p weight 1 0.4 0\nc p weight -1 0.6 0\n1 -3 0\n2 3 0\n", CNF.load),
    "vtree": (VTREE, Vtree.load),
}


@pytest.mark.parametrize(
    ("kind", "before", "after", "message"),
    [
        ("c2d", C2D, "", "expected a line of nnf .c2d., or of o, a, t or f .d4., found none"),
        ("c2d", "nnf 7 6 3\n", "", "line 2: expected a line of nnf .c2d., or of o, a, t or f .d4., found 'L'"),
        ("c2d", "nnf 7", "nnf 8", "expected 8 nodes, found 7"),
        ("c2d", "7 6", "7 5", "expected 5 edges, found 6"),
        ("c2d", "O 1 2 4 5\n", "", "expected 7 nodes, found 6"),
        ("c2d", "L 2\n", "L 4\n", "line 5: 4 is no literal; variables are 1 to 3"),
        ("c2d", "L 2\n", "L 0\n", "line 5: 0 is no literal"),
        ("c2d", "L 2\n", "L two\n", "line 5: expected a number, found 'two'"),
        ("c2d", "A 2 0 2", "A 2 0 4", "line 7: node 4 is not among the 4 nodes before"),
        ("c2d", "A 2 0 2", "A 3 0 2", "line 7: expected nnf with three numbers once"),
        ("c2d", "O 1 2", "O 9 2", "line 9: 9 is no literal"),
        ("c2d", "4 5\n", "4 5", "the last line has no line break, and may be cut"),
        ("c2d", "A 2 0 2", "X 2 0 2", "line 7: expected nnf with three numbers once"),
        ("d4", "o 1 0", "o 1", "line 2: expected the id of a node and 0 after o"),
        ("d4", "a 2 0", "a 1 0", "line 3: node 1 is there twice"),
        ("d4", "2 3 2 0\n", "", "node 2 has no edges; lines of edges are missing"),
        ("d4", "1 2 1 0\n", "", "no edge leads to node 2; lines of edges are missing"),
        ("d4", "2 3 2 0", "2 7 2 0", "line 7: node 7 is not among the lines before"),
        ("d4", "2 3 2 0", "2 1 2 0", "the edges make a cycle"),
        ("d4", "2 3 2 0", "3 2 2 0", "line 7: node 3 is a constant, which has no edges"),
        ("d4", "2 3 2 0", "2 3 2", "line 7: expected two nodes, literals and 0 at the end"),
        ("d4", "2 3 2 0", "2 3 0 2 0", "line 7: expected two nodes, literals and 0 at the end"),
        ("dimacs", "p cnf 3 2\n", "", "line 3: expected p cnf .* once, found '1 -3 0'"),
        ("dimacs", "cnf 3 2", "cnf 3 3", "expected 3 clauses, found 2"),
        ("dimacs", "cnf 3 2", "cnf 2 2", "line 4: -3 is no literal; variables are 1 to 2"),
        ("dimacs", "cnf 3 2", "wcnf 3 2", "line 1: expected p cnf"),
        ("dimacs", "2 3 0", "2 3", "the last clause, 2 3, does not end with 0"),
        ("dimacs", "2 3 0", "2 x 0", "line 5: expected a number, found 'x'"),
        ("dimacs", "-1 0.6", "-1 0,6", "line 3: expected a weight such as 0.4 or 2/5, found '0,6'"),
        ("dimacs", "-1 0.6", "1 0.6", "line 3: the literal 1 has two weights"),
        ("dimacs", "c p weight -1 0.6 0\n", "", "the literal 1 has a weight and -1 has none; give both"),
        ("dimacs", "1 -3 0", "c p show 1 2 0\n1 -3 0", "c p show asks .* not supported; remove these lines"),
        (
            "dimacs",
            "p cnf 3 2",
            "p cnf 999999999999 2",
            "line 1: expected 0 to 134217728 variables, found 999999999999",
        ),
        ("dimacs", "p cnf 3 2", "p cnf 3 -2", "line 1: expected a number of clauses from 0 on, found -2"),
        *(
            ("dimacs", "-1 0.6", f"-1 {word}", f"line 3: expected a weight such as 0.4 or 2/5, found '{word}'")
            for word in ("1_0", "\u0661", "1e99999999", "1e-99999999", "1/\u0662", "1/-3", "0x1", "nan", "1/")
        ),
        ("c2d", "7 6 3", "7 6 999999999999", "line 2: expected 0 to 134217728 variables, found 999999999999"),
        ("vtree", "4\nI 1 0 3\n", "4\nI 1 0 3", "the last line has no line break, and may be cut"),
        ("vtree", VTREE, "", "expected a line vtree with a number of nodes, found 0"),
        ("vtree", "vtree 5\n", "", "line 2: expected vtree and the number of nodes, found 'L 0 1'"),
        ("vtree", "vtree 5", "vtree 6", "expected 6 nodes, found 5"),
        ("vtree", "I 1 0 3\n", "", "expected 5 nodes, found 4"),
        ("vtree", "L 2 2", "L 2 1", "variable 0 has two leaves"),
        ("vtree", "L 2 2", "L 2 -2", "line 4: expected L id variable, or I id left right, found 'L 2 -2'"),
        ("vtree", "L 2 2", "L 0 2", "line 4: node 0 is there twice"),
        ("vtree", "I 3 2 4", "I 3 2 8", "line 6: node 8 is not among the lines before"),
        ("vtree", "I 3 2 4", "I 3 2 2", "reads node 1, which is no earlier node or has a parent already"),
    ],
)
def test_damaged_files_are_refused_with_one_line(
    kind: str, before: str, after: str, message: str, tmp_path: Path
) -> None:
    text, load = LOADERS[kind]
    load(written(text, tmp_path))
    assert before in text
    with pytest.raises(FileFormatError, match=message) as caught:
        load(written(text.replace(before, after, 1), tmp_path))
    assert "formula.txt" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kind", LOADERS)
def test_cut_and_mutated_files_load_or_are_refused(kind: str, tmp_path: Path) -> None:
    """A cut or changed file is another formula of the format, or a FileFormatError, and never another error."""
    text, load = LOADERS[kind]
    rng = random.Random(0)
    words = [line.split(" ") for line in text.splitlines()]
    texts = [text[:end] for end in range(len(text))]
    for _ in range(300):
        lines = [list(line) for line in words]
        line = rng.choice(lines)
        line[rng.randrange(len(line))] = rng.choice(
            ["0", "1", "-1", "2", "99", "9" * 30, "x", "", "\x00", "\u0661", "1.5"]
        )
        rng.shuffle(lines) if rng.random() < 0.1 else None
        texts.append("\n".join(map(" ".join, lines)) + "\n")
    messages = []
    for one in texts:
        try:
            load(written(one, tmp_path))
        except FileFormatError as error:
            messages.append(str(error))
    assert 0 < len(messages) < len(texts)
    assert all(len(message.splitlines()) == 1 for message in messages)


def test_a_weight_whose_digits_may_have_been_cut_is_refused(tmp_path: Path) -> None:
    text = "p cnf 1 1\n1 0\nc p weight 1 0.45 0\nc p weight -1 0.65"
    for cut in (text, text[:-1]):
        with pytest.raises(FileFormatError, match=r"the last line has no line break, and may be cut; add one"):
            CNF.load(written(cut, tmp_path))
    for whole in (f"{text}\n", f"{text} 0"):
        assert CNF.load(written(whole, tmp_path)).weights == {0: (Fraction(13, 20), Fraction(9, 20))}


def test_a_hundred_million_variables_are_read_at_once(tmp_path: Path) -> None:
    assert len(CNF.load(written("p cnf 100000000 0\n", tmp_path)).scope) == 10**8
    assert LogicalCircuit.from_nnf(written("nnf 1 0 100000000\nL 1\n", tmp_path)).num_variables == 10**8


@pytest.mark.parametrize("kind", LOADERS)
def test_files_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    _, load = LOADERS[kind]
    with pytest.raises(FileFormatError, match="missing: the file cannot be read"):
        load(tmp_path / "missing")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="bytes: the file cannot be read"):
        load(tmp_path / "bytes")
