"""The benchmark of rows in files compares what computes the same."""

import pytest

from benchmarks.harness import Settings
from benchmarks.native_rows import TASKS, faster_on_tensors, run
from tests.harness.pairwise import first_usual

_ONCE = Settings(rounds=2, warmup=0, seconds=0.0)


@pytest.mark.parametrize("name", first_usual(TASKS, 1))
def test_tensors_and_nests_compute_the_same(name: str) -> None:
    assert list(run(name, _ONCE)["milliseconds"]) == ["tensors", "nests", "process", "tensors (again)"]


def test_what_is_a_fifth_faster_on_tensors() -> None:
    def report(tensors: float, nests: float) -> dict[str, dict[str, dict[str, float]]]:
        return {"milliseconds": {"tensors": {"q1": tensors}, "nests": {"q1": nests}}}

    assert faster_on_tensors({"a": report(1.0, 1.1), "b": report(1.0, 1.3), "c": report(1.0, 0.3)}) == ["b"]
