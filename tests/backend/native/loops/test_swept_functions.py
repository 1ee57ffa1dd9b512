"""Random functions of every dtype, at the ends of what it holds: machine code gives what the interpreter gives."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import plica
from plica.errors import PlicaError, UnsupportedError
from tests.harness.swept_functions import SweptFunction, sweeps

_SIZES = ({"n": 5, "m": 7}, {"n": 0, "m": 7}, {"n": 1, "m": 1}, {"n": 5, "m": 0}, {"n": 11, "m": 2})
_TOLERANCE = {"float16": 5e-3, "float32": 1e-4, "complex64": 1e-4}


def _assert_same(found: Any, expected: Any, made: SweptFunction) -> None:
    used = [one for one in _TOLERANCE if one in made.dtypes or one in made.source]
    tolerance = max([_TOLERANCE[one] for one in used], default=1e-9)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), made.source
    if found.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected, err_msg=made.source)
        return
    finite = np.isfinite(expected)
    largest = np.abs(expected[finite], dtype="float64" if found.dtype.kind == "f" else None).max(initial=0.0)
    # of a transform, whose numbers are below 1e4, a part may be left that is nothing but rounding
    rounding = 1e5 * np.finfo(found.dtype).eps if ".fft." in made.source else 0.0
    is_near = np.abs(found[finite] - expected[finite]) <= tolerance * largest + rounding
    assert np.all(is_near | (found[finite] == expected[finite])), made.source
    # what sums and products of infinite complex numbers are is another thing in each library
    kinds = {np.dtype(one).kind for one in made.dtypes} | ({"c"} if "complex" in made.source else set())
    others = found[~finite]
    assert not np.isfinite(others).any() if "c" in kinds else np.array_equal(others, expected[~finite], equal_nan=True)


def _check(made: SweptFunction) -> None:
    """The same results at all sizes, or an error of both; what is computed for nobody may fail unseen."""
    interpreter, native = (
        plica.jit(made.load(), abstracted_axes=made.axes, backend=backend) for backend in ("interpreter", "native")
    )
    for sizes in _SIZES:
        given = made.arguments(sizes)
        copies = [one.copy() for one in given]
        with np.errstate(all="ignore"):
            try:
                expected = interpreter(*given)
            except (PlicaError, ValueError):  # numpy's own, of arrays without entries
                with suppress(PlicaError, ValueError):
                    native(*copies)
                continue
            try:
                found = native(*copies)
            except UnsupportedError:
                return
        for one, before in zip(copies, given, strict=True):
            assert one.tobytes() == before.tobytes(), f"an argument changed\n{made.source}"
        for one, other in zip(found, expected, strict=True):
            _assert_same(np.asarray(one), np.asarray(other), made)


def test_some_functions() -> None:
    for _, made in sweeps(0, 2, 4):
        _check(made)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_many_functions(first: int) -> None:
    for _, made in sweeps(first, 100, 5):
        _check(made)
