"""The benchmark of strategies: all figures come out, and the two circuits agree; which matches they take is tested
with the strategy."""

import pytest

from benchmarks.harness import Settings
from benchmarks.strategies import run


@pytest.mark.full
def test_strategies_are_compared() -> None:
    report = run([(2, 3, 4, 3)], Settings(rounds=1, warmup=0, seconds=0))
    assert list(report) == ["(2, 3, 4, 3) forward", "(2, 3, 4, 3) forward and backward"]
    for one in report.values():
        assert set(one["ratios"]) == {"cost-guided", "largest match", "cost-guided (again)"}
