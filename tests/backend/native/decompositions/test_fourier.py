"""Transforms of any length are as near to the exact ones as they state."""

import math
from typing import Any

import numpy as np
import pytest

from plica.backend.native.decompositions import DECOMPOSITIONS
from plica.frontend.programs import interpret, trace
from plica.ir.types import spec
from plica.tracing import namespace
from tests.harness.libraries import LibraryPrograms
from tests.harness.programs import Array

_PI = np.longdouble("3.14159265358979323846264338327950288")
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 60, 61, 67, 97, 100, 127, 128)
MORE = (360, 509, 1000, 1021, 1024)
NATIVE = (1, 6, 61, 67, 1000, 1024)


def _exact(x: Array) -> Array:
    """The transforms of rows, in numbers of 64 digits."""
    places = np.arange(x.shape[1])
    angles = -2 * _PI * (places[:, None] * places % len(places)) / len(places)
    return x.astype(np.clongdouble) @ (np.cos(angles) + 1j * np.sin(angles))


def _program(length: int | str, dtype: str = "complex128") -> Any:
    def transform(x: Any) -> Any:
        return DECOMPOSITIONS["fft"](namespace, x, axes=(1,), sizes=(x.shape[1],), norm="backward")

    return trace(transform, spec(("b", length), dtype))


def _rows(length: int) -> Array:
    rng = np.random.default_rng(length)
    return rng.normal(size=(2, length)) + 1j * rng.normal(size=(2, length))


def _assert_near(found: Array, expected: Array, rounding: float = 0.0) -> None:
    stated = 2.0**-53 * (4 + math.log2(expected.shape[1])) + rounding
    error = np.linalg.norm((found - expected).astype(complex)) / np.linalg.norm(expected.astype(complex))
    assert error <= stated, f"{expected.shape[1]} points: an error of {error:.2e}, stated {stated:.2e}"


@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_that_is_known(length: int) -> None:
    x = _rows(length)
    _assert_near(np.asarray(interpret(_program(length), x)), _exact(x))


def test_a_length_that_is_not_known() -> None:
    program, narrow = _program("n"), _program("n", "complex64")
    for length in LENGTHS:
        x = _rows(length)
        _assert_near(np.asarray(interpret(program, x)), _exact(x))
        x = x.astype("complex64")
        _assert_near(np.asarray(interpret(narrow, x)), _exact(x), 2.0**-24)


@pytest.mark.parametrize("size", [8, 9])
def test_numbers_that_are_their_own_conjugates_count_as_real(size: int) -> None:
    """However large what is imaginary of them is: numpy leaves it out."""

    def transform(x: Any, other: Any) -> Any:
        return DECOMPOSITIONS["irfft"](namespace, x, axes=(1,), sizes=(other.shape[0],), norm="backward")

    x = _rows(5)
    x[:, 0 :: 4 + size % 2] += 1e30j
    for length in (size, "n"):  # known, and not
        program = trace(transform, spec(("b", 5), "complex128"), spec((length,)))
        found = np.asarray(interpret(program, x, np.ones(size, "float32")))
        _assert_near(found, np.fft.irfft(x, size), 2.0**-53)


@pytest.mark.full
def test_native_code_is_as_near() -> None:
    programs = {f"known{length}": _program(length) for length in NATIVE}
    modules = LibraryPrograms({**programs, "unknown": _program("n")})
    for length in (*LENGTHS, *MORE):
        x = _rows(length)
        expected = _exact(x)
        names = ["unknown", *([f"known{length}"] if length in NATIVE else [])]
        for name in names:
            _assert_near(modules(name, x)[0], expected)
            assert modules(name, x[:0])[0].shape == (0, length)
