"""Random circuits of all families of input layers: folded or not, optimized or not, any rows, missing entries."""

import pytest

from tests.harness.comparison import DIRECTED_WAYS, WAYS, compare
from tests.harness.mixed_circuits import draw_mixed

ALL_WAYS = (*WAYS, *DIRECTED_WAYS)


@pytest.mark.parametrize("seed", range(8))
def test_circuits_of_mixed_families(seed: int) -> None:
    """Each draw in one of the ways."""
    failures = compare(draw_mixed(seed), [ALL_WAYS[seed % len(ALL_WAYS)]], [])
    assert not failures, "\n".join(failures)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8, 42))
def test_circuits_of_mixed_families_in_full(seed: int) -> None:
    failures = compare(draw_mixed(seed), ALL_WAYS, [])
    assert not failures, "\n".join(failures)
