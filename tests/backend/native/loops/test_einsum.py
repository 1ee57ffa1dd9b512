"""Random Einstein sums as loop nests, in batches of products where these are large, are those of numpy in float64."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.nest import Product, all_of
from plica.backend.native.loops.rows import batches, linalg
from tests.harness.libraries import compile_library

_SOME = (
    "fbi,foi->fbo",  # layers
    "fbi,fbj,foij->fbo",
    "fbi,fbi,fio->bfo",
    "bi,foi->bfo",
    "fbiq,foi->fboq",  # the result's columns are not its last axis
    "bfi,fio->obf",
    "ab,bc,cd->ad",  # pairs
    "abx,bcy->ac",  # letters of one factor alone
    "abc,bcd,dae->ce",
    "aab,bcc->ac",  # diagonals
    "abcd,dcef->bfae",
    "k,ik,kj->ij",
)


def equations(rng: np.random.Generator, count: int) -> Iterator[str]:
    """Equations of two to four factors, most of which share letters."""
    for _ in range(count):
        letters = "abcdefg"[: rng.integers(3, 8)]
        terms = ["".join(rng.choice(list(letters), rng.integers(1, 5))) for _ in range(rng.integers(2, 5))]
        known = sorted(set("".join(terms)))
        yield f"{','.join(terms)}->{''.join(rng.permutation(known)[: rng.integers(1, 4)])}"


def _make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small sums be products too, and copies of few rows at a time."""
    monkeypatch.setattr(linalg, "PRODUCT_FROM", 30)
    monkeypatch.setattr(batches, "_ENTRIES", 40)
    monkeypatch.setattr(batches, "_ROWS", 2)


def _check(equation: str, dtype: str, rng: np.random.Generator, library: bool) -> None:
    left, _, _ = equation.partition("->")
    terms = left.split(",")
    program = plica.trace(
        lambda *arrays: pnp.einsum(equation, *arrays), *(plica.spec(tuple(term), dtype) for term in terms)
    )
    run = (compile_library if library else compile_jit)(program)
    letters = sorted(set(left) - {","})
    for most in (1, 7, 12):
        sizes = {letter: int(rng.integers(1, most + 1)) for letter in letters}
        sizes |= {str(rng.choice(letters)): 0} if most == 7 and rng.random() < 0.3 else {}
        arrays = [rng.normal(size=[sizes[letter] for letter in term]).astype(dtype) for term in terms]
        wide = [array.astype(np.float64) for array in arrays]
        expected = np.einsum(equation, *wide, optimize=True)
        size = np.einsum(equation, *map(np.abs, wide), optimize=True)
        count = np.prod([float(sizes[letter]) for letter in letters])
        error = np.abs(run(*arrays)[0] - expected)
        bound = np.finfo(dtype).eps * (count + 8) * size
        assert (error <= bound + np.finfo(dtype).tiny).all(), f"{equation} at {sizes}: {error.max()}"


@pytest.mark.parametrize(
    ("library", "part"),
    [
        pytest.param(library, part, marks=[] if part == library else pytest.mark.full)
        for library in (False, True)
        for part in range(3)
    ],
)
def test_equations_of_circuits_and_others(library: bool, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_small(monkeypatch)
    rng = np.random.default_rng(0)
    for number, equation in enumerate(_SOME[part::3]):
        _check(equation, ("float32", "float64")[number % 2], rng, library)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 12))])
def test_random_equations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_small(monkeypatch)
    rng = np.random.default_rng(seed)
    for number, equation in enumerate(equations(rng, 6 if seed else 2)):
        _check(equation, ("float32", "float64")[number % 2], rng, seed % 4 == 3)


def _products(equation: str, *shapes: tuple[Any, ...]) -> int:
    call = compile_jit(
        plica.trace(lambda *arrays: pnp.einsum(equation, *arrays), *(plica.spec(shape, "float32") for shape in shapes))
    )
    return sum(isinstance(statement, Product) for statement in all_of(call.nest.body))


def test_large_sums_are_products_and_small_ones_are_not() -> None:
    assert _products("fbi,fbj,foij->fbo", (2, "b", 16), (2, "b", 16), (2, 16, 16, 16)) == 1
    assert _products("ab,bc,cd->ad", (50, 50), (50, 50), (50, 50)) == 2
    assert _products("fbi,foi->fbo", (9, 3, 4), (9, 5, 4)) == 0
    assert _products("bij,bjk->bik", (5000, 3, 3), (5000, 3, 3)) == 0
