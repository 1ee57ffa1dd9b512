"""Sums in log space as loop nests: against float64 or mpmath, where sums underflow, overflow, and are of zeros."""

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.rows import linalg
from tests.harness.libraries import compile_library

Array = Any
_EQUATIONS = (
    "fbi,foi->fbo",
    "fbi,fbi,foi->fbo",
    "fbi,fbj,foij->fbo",
    "fbiq,foi->fboq",
    "bi,oi->bo",
    "fbi,foi->bof",
    "fbi,fj,foij->fbo",
    "fbij,fbj,foij->fbo",
    "fbi,fii->fb",
)
_KINDS = ("mild", "far", "zeros", "infinite")


def _draw(rng: np.random.Generator, shape: Sequence[int], kind: str) -> Array:
    """Logarithms: of about one size, far apart, of zeros, infinite and NaN."""
    x = rng.normal(size=shape)
    if kind == "far":
        x = x * 400 - 2000
    if kind in ("zeros", "infinite"):
        x[rng.random(shape) < 0.5] = -np.inf
        x[:, :1] = -np.inf
    if kind == "infinite":
        x[rng.random(shape) < 0.05] = np.inf
        x[rng.random(shape) < 0.05] = np.nan
    return x


def _oracle(equation: str, arrays: Sequence[Array], log_weight: Array) -> Array:
    """Every term of each sum, with mpmath where the sum is finite."""
    left, _, result = equation.partition("->")
    terms = left.split(",")
    letters = result + "".join(sorted(set(left) - {*result, ","}))
    spread: Array = np.float64(0)
    for x, term in zip([*arrays, log_weight], terms, strict=True):
        order = [letter for letter in letters if letter in term]
        x = np.einsum(f"{term}->{''.join(order)}", x.astype(np.float64))
        spread = spread + np.expand_dims(x, [axis for axis, letter in enumerate(letters) if letter not in term])
    count = int(np.prod(spread.shape[len(result) :]))
    rows = spread.reshape(-1, count)
    found = [
        float(mpmath.log(mpmath.fsum(map(mpmath.exp, map(float, row))))) if _is_plain(row) else _ieee(row)
        for row in rows
    ]
    return np.asarray(found).reshape(spread.shape[: len(result)])


def _is_plain(row: Array) -> bool:
    return bool(np.isfinite(row).any() and not np.isnan(row).any() and not (row == np.inf).any())


def _ieee(row: Array) -> float:
    return np.nan if np.isnan(row).any() else np.max(row, initial=-np.inf)


def _logits(rng: np.random.Generator, shape: Sequence[int], kind: str) -> Array:
    x = np.minimum(rng.normal(size=shape) * (60 if kind == "far" else 1), 60.0)
    if kind in ("zeros", "infinite"):
        x[rng.random(shape) < 0.3] = -np.inf
        x[..., :1] = 0.0
    return x


def _check(
    equation: str, kind: str, dtype: str, form: str | None, rng: np.random.Generator, library: bool = False
) -> None:
    left, _, _ = equation.partition("->")
    terms, logs = left.split(","), [] if form is None else [(*left.split(",")[-1][:2], "k")]

    def function(*arrays):
        count = len(terms)
        return pnp.log_einsum_exp(
            equation, list(arrays[: count - 1]), arrays[count - 1], *arrays[count:], *([form] if form else [])
        )

    sizes = {letter: int(rng.integers(1, 6)) for letter in set(left) - {","}}
    own = [[sizes[letter] for letter in term] for term in terms]
    known = [
        tuple(letter if letter == "b" else size for letter, size in zip(term, shape, strict=True))
        for term, shape in zip(terms, own, strict=True)
    ]
    units = int(np.prod(own[-1][2:]))
    specs = [plica.spec(shape, dtype) for shape in known]
    if logs:
        specs.append(plica.spec((*own[-1][:2], units), dtype))
    run = (compile_library if library else compile_jit)(plica.trace(function, *specs))
    for rows in (sizes.get("b", 1), 9) if "b" in sizes else (1,):
        shapes = [
            [rows if letter == "b" else size for letter, size in zip(term, shape, strict=True)]
            for term, shape in zip(terms, own, strict=True)
        ]
        xs = [_draw(rng, shape, kind).astype(dtype) for shape in shapes[:-1]]
        logits = _logits(rng, (*shapes[-1][:2], units), kind).astype(dtype)
        wide = logits.astype(np.float64)
        if form == "log_softmax":
            most = wide.max(axis=-1, keepdims=True)
            wide = wide - most - np.log(np.exp(wide - most).sum(axis=-1, keepdims=True))
        wide = wide.reshape(shapes[-1])
        weight = np.exp(wide).astype(dtype)
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight.astype(np.float64)) if form is None else wide
        found = run(*xs, weight, *([logits] if logs else []))[0]
        expected = _oracle(equation, xs, log_weight)
        eps = float(np.finfo(dtype).eps)
        size = max([1.0, *(np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (*xs, log_weight))])
        np.testing.assert_allclose(
            found, expected, rtol=8 * eps, atol=32 * eps * size, err_msg=f"{equation}, {kind}, {form}"
        )


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of infinities, in the oracle
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 6))])
def test_sums_in_log_space(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of numbers by ways of giving weights, in turns in the usual suite; equations take turns."""
    monkeypatch.setattr(linalg, "PRODUCT_FROM", 8)
    rng = np.random.default_rng(seed)
    for number, kind in enumerate(_KINDS):
        for way, form in enumerate((None, "log", "log_softmax")):
            if seed == 0 and (number + way) % 3:
                continue
            place = seed + 3 * number + way
            equation = _EQUATIONS[place % len(_EQUATIONS)]
            if form is not None and equation == "bi,oi->bo":
                equation = "fbi,foi->fbo"
            _check(equation, kind, ("float32", "float64")[(place + number) % 2], form, rng, library=place % 5 == 4)


@pytest.mark.parametrize("library", [False, pytest.param(True, marks=pytest.mark.full)])
def test_inputs_of_a_sum_layer_are_joined(library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several inputs, a weight for all folds or for each, and as many rows as there are."""
    monkeypatch.setattr(linalg, "PRODUCT_FROM", 8)
    rng = np.random.default_rng(0)

    def function(x, y, weight, shared):
        return pnp.log_matmul_exp([x, y], weight), pnp.log_matmul_exp([x, y], shared)

    specs = [plica.spec(shape, "float32") for shape in ((3, "b", 4), (3, "b", 4), (3, 5, 8), (5, 8))]
    run = (compile_library if library else compile_jit)(plica.trace(function, *specs))
    for rows in (0, 1, 10):
        x, y = (_draw(rng, (3, rows, 4), kind).astype("float32") for kind in ("far", "mild"))
        weight, shared = rng.random((3, 5, 8)).astype("float32"), rng.random((5, 8)).astype("float32")
        both = np.concatenate([x, y], axis=-1)
        with np.errstate(divide="ignore"):
            expected = [
                _oracle(equation, [both], np.log(own.astype(np.float64)))
                for equation, own in (("fbi,foi->fbo", weight), ("fbi,oi->fbo", shared))
            ]
        for found, wanted in zip(run(x, y, weight, shared), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_a_result_without_axes() -> None:
    def function(x, weight):
        return pnp.log_einsum_exp("i,oi->", [x], weight)

    run = compile_jit(plica.trace(function, plica.spec(("n",), "float64"), plica.spec((2, "n"), "float64")))
    x, weight = np.asarray([-1.0, 2.0, -np.inf]), np.asarray([[0.5, 0.25, 1.0], [1.0, 2.0, 0.0]])
    np.testing.assert_allclose(run(x, weight)[0], np.log((np.exp(x) * weight).sum()), rtol=1e-14)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of infinities, in the oracle
@pytest.mark.parametrize("library", [False, pytest.param(True, marks=pytest.mark.full)])
def test_infinity_times_a_number_that_underflows_is_infinite(library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight exp(-800) is 0 as a linear number, and so is an input that is smaller than another by 800."""
    monkeypatch.setattr(linalg, "PRODUCT_FROM", 1)

    def function(x, y, weight, logits):
        return (
            pnp.log_einsum_exp("fbi,foi->fbo", [x], weight, logits, "log_softmax"),
            pnp.log_einsum_exp("fbi,fbj,foij->fbo", [x, y], pnp.reshape(weight, (1, 2, 2, 1))),
        )

    specs = [plica.spec(shape, "float64") for shape in ((1, "b", 2), (1, "b", 1), (1, 2, 2), (1, 2, 2))]
    run = (compile_library if library else compile_jit)(plica.trace(function, *specs))
    x, logits = np.asarray([[[1.0, np.inf], [2.0, 3.0], [np.nan, 0.0]]]), np.asarray([[[0.0, -800.0], [0.0, -1.0]]])
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    found, _ = run(x, np.zeros((1, 3, 1)), np.exp(logs), logits)
    np.testing.assert_allclose(found, np.logaddexp.reduce(x[:, :, None] + logs[:, None], axis=-1), rtol=1e-14)
    _, found = run(np.asarray([[[0.0, -800.0]]]), np.asarray([[[np.inf]]]), np.ones((1, 2, 2)), logits)
    assert (found == np.inf).all()
