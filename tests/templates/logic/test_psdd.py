"""PSDD files: the circuit against the distribution that the text describes, row by row."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import FileFormatError
from plica.queries import sample
from plica.symbolic.layers import SumLayer
from plica.templates.logic import PSDD
from tests.harness.formulas import rows_of

VTREE = "vtree 5\nL 0 1\nL 2 2\nL 4 3\nI 3 2 4\nI 1 0 3\n"
# x1: not x1 with 0.25. Given x1: x2 with 0.6, x3 with 0.1; given not x1: x2 xor x3, x2 with 0.3.
TEXT = f"""c a comment
psdd 9
L 0 0 1
L 1 0 -1
T 2 2 2 {math.log(0.6)}
T 3 4 3 {math.log(0.9)} {math.log(0.1)}
L 4 2 2
L 5 2 -2
L 6 4 3
L 7 4 -3
D 8 3 1 2 3 0.0
D 9 3 2 4 7 {math.log(0.3)} 5 6 {math.log(0.7)}
D 10 1 2 0 8 {math.log(0.75)} 1 9 {math.log(0.25)}
""".replace("psdd 9", "psdd 11")


def probability(row: Any) -> float:
    x, y, z = row
    if x:
        return 0.75 * (0.6 if y else 0.4) * (0.1 if z else 0.9)
    return 0.25 * (y != z) * (0.3 if y else 0.7)


def load(text: str, folder: Path, vtree: str | None = None) -> Any:
    path, tree = folder / "model.psdd", folder / "model.vtree"
    path.write_text(text)
    if vtree is not None:
        tree.write_text(vtree)
    return PSDD.load(path, None if vtree is None else tree)


@pytest.mark.parametrize("vtree", [None, VTREE])
def test_the_distribution_of_a_file(vtree: str | None, tmp_path: Path) -> None:
    circuit = load(TEXT, tmp_path, vtree)
    assert circuit.is_smooth
    assert circuit.is_structured_decomposable
    compiled = plica.compile(circuit, dtype=torch.float64)
    rows = rows_of(3)
    found = compiled(torch.as_tensor(rows)).exp()[:, 0, 0].detach().numpy()
    np.testing.assert_allclose(found, [probability(row) for row in rows], atol=1e-12)
    assert compiled(torch.full((1, 3), float("nan"))).item() == pytest.approx(0, abs=1e-12)
    assert all(probability(row) > 0 for row in sample(compiled, 50, seed=0).tolist())
    assert sum(parameter.numel() for parameter in compiled.parameters()) == 8  # of two T lines and two decisions


def test_learning_starts_from_the_file(tmp_path: Path) -> None:
    compiled = plica.compile(load(TEXT, tmp_path), dtype=torch.float64)
    compiled(torch.tensor([[1, 1, 0], [0, 0, 1]])).sum().backward()
    assert all(torch.isfinite(one.grad).all() for one in compiled.parameters())
    assert sum(one.grad.abs().sum().item() for one in compiled.parameters()) > 0


def test_elements_of_probability_zero_are_left_out(tmp_path: Path) -> None:
    text = TEXT.replace(f"0 8 {math.log(0.75)} 1 9 {math.log(0.25)}", "0 8 0.0 1 9 -inf")
    text = text.replace(f"T 2 2 2 {math.log(0.6)}", "T 2 2 2 0.0")
    circuit = load(text, tmp_path)
    compiled = plica.compile(circuit, semiring="sum-product", dtype=torch.float64)
    assert compiled(torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 0]])).flatten().tolist() == pytest.approx([0.9, 0, 0])
    assert not any(isinstance(layer, SumLayer) for layer in circuit.live_layers)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (TEXT, "", "expected a line psdd with a number of nodes, found 0"),
        ("psdd 11\n", "", "line 2: expected psdd and the number of nodes, found 'L 0 0 1'"),
        ("psdd 11", "psdd 12", "expected 12 nodes, found 11"),
        ("L 1 0 -1", "L 0 0 -1", "line 4: node 0 is there twice"),
        ("L 1 0 -1", "L 1 0 0", "line 4: 0 is no literal"),
        ("L 1 0 -1", "L 1 0", "line 4: expected a line of L, T or D, found 'L 1 0'"),
        ("T 2 2 2", "T 2 2 -2", "line 5: -2 is no variable"),
        ("T 2 2 2 -0.5", "T 2 2 2 0.5", "line 5: expected the logarithm of a probability, at most 0, found '0.5"),
        ("T 2 2 2 -0.5", "T 2 2 2 x0.5", "line 5: expected the logarithm of a probability, found 'x0.5"),
        ("T 2 2 2 -0.5", "T 2 2 2 -0_0.5", "line 5: expected the logarithm of a probability, found '-0_0.5"),
        ("T 2 2 2 -0.5", "T 2 2 2 -\u0660.5", "line 5: expected the logarithm of a probability, found '-"),
        ("T 3 4 3 -0.1", "T 3 4 3 -0.2", "line 6: expected probabilities that add up to 1, found 0.9"),
        ("8 3 1 2 3 0.0", "8 3 1 2 3 nan", "line 11: expected the logarithm of a probability, at most 0, found 'nan'"),
        ("8 3 1 2 3 0.0", "8 3 2 2 3 0.0", "line 11: expected 2 elements of a prime, a sub and a logarithm"),
        ("8 3 1 2 3 0.0", "8 3 0", "line 11: expected 0 elements of a prime, a sub and a logarithm, at least one"),
        ("8 3 1 2 3 0.0", "8 3 1 2 2 0.0", "line 11: the prime 2 and its sub 2 have a variable in common"),
        ("8 3 1 2 3 0.0", "8 3 1 2 30 0.0", "line 11: node 30 is not among the lines before"),
        ("1 9 -", "1 7 -", "line 13: the element 1 7 has other variables than the first element"),
        ("1 9 -1.38", "1 9 -0.38", "line 13: expected probabilities that add up to 1, found 1.42957"),
    ],
)
def test_damaged_files_are_refused_with_one_line(before: str, after: str, message: str, tmp_path: Path) -> None:
    assert before in TEXT
    with pytest.raises(FileFormatError, match=message) as caught:
        load(TEXT.replace(before, after, 1), tmp_path)
    assert "model.psdd" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_vtree_of_another_diagram(tmp_path: Path) -> None:
    with pytest.raises(
        FileFormatError, match=r"line 3: node 0 has variables \{0\}, which node 0 of the vtree does not"
    ):
        load(TEXT, tmp_path, VTREE.replace("L 0 1", "L 0 2").replace("L 2 2", "L 2 1"))


def test_cut_files_are_refused(tmp_path: Path) -> None:
    refused = 0
    for end in range(0, len(TEXT), 3):
        try:
            load(TEXT[:end], tmp_path)
        except FileFormatError:
            refused += 1
    assert refused == len(range(0, len(TEXT), 3))


@pytest.mark.parametrize("flags", [{}, {"fold": False, "optimize": False}])
@pytest.mark.parametrize(
    ("semiring", "sign"), [("lse-sum", 1), ("max-sum", 1), ("complex-lse-sum", 1), ("min-plus", -1)]
)
def test_probabilities_too_small_for_float32_keep_their_logarithms(
    semiring: str, sign: int, flags: dict[str, Any], tmp_path: Path
) -> None:
    """Decisions of two and of three elements, one of them below the other, of e^-110 to e^-300."""
    text = """psdd 11
L 0 0 1
L 1 0 -1
L 2 2 2
L 3 2 -2
L 4 4 3
L 5 4 -3
D 6 3 2 2 4 0.0 3 5 -150.0
D 7 3 2 2 5 -110.0 3 4 0.0
D 8 3 1 2 5 0.0
D 9 3 2 2 4 -300.0 3 5 0.0
D 10 1 2 0 6 0.0 1 7 -130.0
"""
    circuit = load(text.replace("psdd 11", f"psdd {text.count(chr(10)) - 1}"), tmp_path)
    compiled = plica.compile(circuit, semiring=semiring, dtype=torch.float32, **flags)
    rows = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]])
    for module in (compiled.train(), compiled.eval()):
        values = sign * module(rows).real.flatten()
        torch.testing.assert_close(values, torch.tensor([0.0, -150.0, -240.0, -130.0, -math.inf]))
