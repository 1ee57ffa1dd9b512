"""Every row of a function keeps to the error that it states, for numbers of all sizes."""

import re

import numpy as np
import pytest

from plica.backend.native.scalars import SCALARS
from plica.ir.dtypes import DType
from tests.harness.exact_functions import CASES, points, worst
from tests.harness.scalar_functions import NativeScalars, Signature
from tests.harness.together import grouped

FLOATS = (DType.FLOAT32, DType.FLOAT64)
SIGNATURES = {
    (name, dtype): Signature(name, (dtype,) * len(case.draws), dtype)
    for name, case in CASES.items()
    for dtype in FLOATS
}
INVERSES = {"betaincinv": "betainc", "gammaincinv": "gammainc"}


@pytest.fixture(scope="module")
def native() -> NativeScalars:
    return NativeScalars([*SIGNATURES.values(), *(_inverse(name) for name in INVERSES)])


def _inverse(name: str) -> Signature:
    return Signature(name, (DType.FLOAT64,) * len(CASES[INVERSES[name]].draws), DType.FLOAT64)


def test_every_row_with_an_error_is_measured() -> None:
    stated = {name for name, row in SCALARS.items() if max(row.ulps) > 0}
    assert stated == {*CASES, *INVERSES}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("thin", [5, pytest.param(1, marks=pytest.mark.full)])
def test_errors_are_as_stated(name: str, dtype: DType, thin: int, native: NativeScalars) -> None:
    case = CASES[name]
    case = case._replace(tries=case.tries // thin)
    operands = points(case, dtype, np.random.default_rng(0), thin=thin * (7 if dtype == DType.FLOAT32 else 53))
    largest, place = worst(case, native(SIGNATURES[name, dtype], *operands), operands)
    stated = SCALARS[name].ulps[FLOATS.index(dtype)]
    assert largest <= stated, f"{name} of {dtype} is {largest:.2f} units in the last place off at {place}"


@grouped("dtype", FLOATS)
@grouped("name", CASES)
def test_results_do_not_depend_on_where_an_entry_stands(name: str, dtype: DType, native: NativeScalars) -> None:
    """In vectors and behind them products and sums are rounded together alike."""
    operands = points(CASES[name], dtype, np.random.default_rng(0), thin=400)
    together = native(SIGNATURES[name, dtype], *operands)
    for place in range(0, len(together), len(together) // 30 + 1):
        (alone,) = native(SIGNATURES[name, dtype], *(one[place : place + 1] for one in operands))
        assert alone == together[place] or (np.isnan(alone) and np.isnan(together[place]))


@pytest.mark.full
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.wide])
def test_errors_are_as_stated_for_every_exponent(name: str, dtype: DType, native: NativeScalars) -> None:
    case = CASES[name]._replace(tries=500)
    operands = points(case, dtype, np.random.default_rng(1))
    largest, place = worst(case, native(SIGNATURES[name, dtype], *operands), operands)
    assert largest <= SCALARS[name].ulps[FLOATS.index(dtype)], place


@pytest.mark.parametrize("name", INVERSES)
def test_inverses_are_inverse(name: str, native: NativeScalars) -> None:
    case = CASES[INVERSES[name]]
    *parameters, share = points(
        case._replace(draws=(*case.draws[:-1], (0.01, 0.99))), DType.FLOAT64, np.random.default_rng(2)
    )
    keep = (share > 0) & (share < 1)
    parameters, share = [one[keep] for one in parameters], share[keep]
    found = native(_inverse(name), *parameters, share)
    back = native(SIGNATURES[INVERSES[name], DType.FLOAT64], *parameters, found)
    inside = found < 1 - 1e-10 if name == "betaincinv" else found > 0  # next to 1 there are few floats
    assert inside.mean() > 0.8
    np.testing.assert_allclose(back[inside], share[inside], rtol=1e-8)


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "expm1", "sigmoid", "tanh", "softplus", "logaddexp"])
def test_loops_over_entries_are_vectorized(name: str) -> None:
    for dtype in FLOATS:
        written = NativeScalars([SIGNATURES[name, dtype]]).optimized
        assert re.search(rf"load <\d+ x (float|double|i{dtype.bits})>, ptr", written), f"{name} of {dtype}"
