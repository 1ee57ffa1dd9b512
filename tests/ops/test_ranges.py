"""Every row of the table: the reference's numbers lie in the range that the row states, -0.0 apart where it says so."""

from dataclasses import replace

import numpy as np
import pytest

from plica.ir.ranges import ANYTHING, Range
from plica.ops import OPS
from tests.harness.operation_rows import outside
from tests.harness.samples import CASES, Case, over

pytestmark = pytest.mark.filterwarnings("ignore:Mean of empty slice")


@over(CASES)
def test_results_lie_in_the_range_of_their_row(case: Case) -> None:
    assert not outside(OPS[case.op], case)


@pytest.mark.parametrize(
    ("name", "range_"),
    [("exp", (0.5, np.inf)), ("sqrt", (0.0, np.inf)), ("sin", (0.0, 1.0)), ("add", lambda x, _: x)],
    ids=["exp", "sqrt", "sin", "add"],
)
def test_a_range_that_is_too_narrow_is_found(name: str, range_: Range) -> None:
    narrow = replace(OPS[name], range=range_)
    with np.errstate(all="ignore"):
        assert any(outside(narrow, case) for case in CASES if case.op == name)


def test_ranges_are_ordered_pairs_for_any_operands() -> None:
    for case in CASES:
        for known in (ANYTHING, (0.0, 1.0), (-0.0, -0.0), (2.0, 3.0)):
            low, high = OPS[case.op].range_of([known] * len(case.inputs), case.params)
            assert low <= high, case
