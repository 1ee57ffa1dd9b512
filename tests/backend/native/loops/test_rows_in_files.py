"""Every row of loop nests in a file, at sizes that are not known before: what the interpreter gives."""

import pytest

from plica.backend.native.loops.rows import ROWS
from tests.backend.native.mlir.test_rows import BATCHES, FEW, NATIVE, Rows
from tests.harness.libraries import LibraryPrograms
from tests.harness.samples import Case, of_some_operations

_UNREAD = ("gather", "search_cumulative")
"""Where nothing is read, nests check no index, or another one first; the interpreter checks all."""


def _has_nest(case: Case) -> bool:
    """Whether an operation has a row, and no number of a case has four bits."""
    return case.op in ROWS and not any(word in str(case) for word in ("int4", "uint4"))


@pytest.mark.full
@pytest.mark.parametrize("cases", of_some_operations(filter(_has_nest, NATIVE)))
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Casting complex values")
def test_samples_of_every_row(cases: list[Case]) -> None:
    """Every third of them."""
    some = cases[(len(cases) - 1) % 3 :: 3]
    rows = Rows(some, LibraryPrograms)
    for case in some:
        rows.check(case, BATCHES[1:] if case.op in _UNREAD else BATCHES)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Casting complex values")
def test_samples_of_some_rows() -> None:
    some = [case for case in FEW if _has_nest(case)][::3]
    rows = Rows(some, LibraryPrograms)
    for case in some:
        rows.check(case)
