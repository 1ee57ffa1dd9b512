"""Every row of the table: the reference's numbers lie in the range that the row states, -0.0 apart where it says so."""

from dataclasses import replace

import numpy as np
import pytest

from plica.ir.op import Op
from plica.ir.ranges import ANYTHING, Range, excludes_negative_zero, range_of_values
from plica.ops import OPS
from tests.harness.programs import Array, reference
from tests.harness.samples import CASES, Case, over

pytestmark = pytest.mark.filterwarnings("ignore:Mean of empty slice")


def own_range(array: Array) -> Range | None:
    """The range of an operand as a Program knows it at best; integers have none."""
    numbers = array[~np.isnan(array)]
    return ANYTHING if array.dtype.kind in "biu" or not numbers.size else range_of_values(numbers)


def outside(op: Op, case: Case) -> list[float]:
    """The numbers of the results that lie outside the range that a row states, whatever is known of the operands."""
    found = []
    for known in (
        [None if array.dtype.kind == "c" else ANYTHING for array in case.inputs],
        map(own_range, case.inputs),
    ):
        low, high = stated = op.range_of(known, case.params)
        for result in map(np.asarray, reference(case.op, case.inputs, case.params)):
            if result.dtype.kind == "f":
                numbers = result[~np.isnan(result)]
                least, most = np.asarray([low, high]).astype(result.dtype)
                # a rounding more than the bound, which is exact at zero
                least, most = least - abs(np.spacing(least)) if low else 0, most + abs(np.spacing(most)) if high else 0
                wrong = (numbers < least) | (numbers > most)
                if excludes_negative_zero(stated):
                    wrong |= (numbers == 0) & np.signbit(numbers)
                found += numbers[wrong].tolist()
    return found


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
