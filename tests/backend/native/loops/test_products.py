"""Products of arrays in loops, at sizes around the terms that are added to a row at a time, are those of numpy."""

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.rows.contraction import _TERMS

EQUATIONS = ("ik,kj->ij", "ki,kj->ij", "ki,jk->ij", "bik,bkj->bij", "ikl,klj->ij", "ik,kj,k->ij", "ik,j->ij", "k,kj->j")
SIZES = (0, 1, _TERMS - 1, _TERMS, _TERMS + 1, 2 * _TERMS + 3)


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128"])
def test_products_of_all_sizes(dtype: str) -> None:
    terms = [equation.split("->")[0].split(",") for equation in EQUATIONS]
    letters = sorted({letter for equation in EQUATIONS for letter in equation if letter.isalpha()})

    def function(*arrays):
        given = iter(arrays)
        return tuple(
            pnp.einsum(equation, *(next(given) for _ in own)) for equation, own in zip(EQUATIONS, terms, strict=True)
        )

    run = compile_jit(plica.trace(function, *(plica.spec(tuple(term), dtype) for own in terms for term in own)))
    generator = np.random.default_rng(0)
    for step in SIZES:
        sizes = {letter: int(generator.integers(1, 20)) for letter in letters} | {"k": step}
        shapes = [[[sizes[letter] for letter in term] for term in own] for own in terms]
        arrays = [[generator.normal(size=shape) * 4 for shape in own] for own in shapes]
        arrays = [
            [(one + 1j * one[::-1] if dtype == "complex128" else one).astype(dtype) for one in own] for own in arrays
        ]
        found = run(*(one for own in arrays for one in own))
        for equation, own, result in zip(EQUATIONS, arrays, found, strict=True):
            wanted = np.einsum(equation, *own)
            np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-11, err_msg=f"{equation} at {sizes}")
