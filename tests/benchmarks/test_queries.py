"""Every query of the benchmark runs, beside the forward pass and its control."""

from benchmarks.circuits import CircuitSpec
from benchmarks.harness import Settings
from benchmarks.queries import run


def test_report() -> None:
    spec = CircuitSpec("quad-tree-2", "cp", side=2, num_values=3, num_units=2)
    report = run(spec, 3, Settings(rounds=1, warmup=1, seconds=0))
    assert list(report) == ["eval", "train"]
    for part in report.values():
        assert part["baseline"] == "forward"
        assert {"forward (again)", "posterior of all", "posterior of half", "sample"} < set(part["ratios"])
