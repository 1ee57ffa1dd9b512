"""The benchmarks run on tiny circuits and give all the figures that they promise."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import categorical, generated_overhead, inf_safety, random_numbers, run
from benchmarks.by_hand import Folded, LayerByLayer
from benchmarks.circuits import CIRCUITS, IMAGES, QUICK, CircuitSpec
from benchmarks.contenders import CONTENDERS, FLAGS
from benchmarks.harness import Settings
from benchmarks.measures import measure_memory, measure_speed
from plica.backend.torch.compiler import TorchCompiler

ONCE = Settings(rounds=1, warmup=0, seconds=0)
STEPS = {"forward 2", "forward and backward 128", "training step 128"}


def tiny(sum_product: str) -> CircuitSpec:
    return CircuitSpec("quad-tree-2", sum_product, side=2, num_values=3, num_units=2)


def test_names_say_what_is_measured() -> None:
    assert all(name == spec.name for name, spec in CIRCUITS.items())
    assert {spec.side for spec in IMAGES.values()} == {8, 28}
    assert {spec.sum_product for spec in IMAGES.values()} == {"cp", "cp-t", "tucker"}
    assert set(QUICK) <= set(CIRCUITS)
    assert set(FLAGS) <= set(CONTENDERS)


@pytest.mark.full
def test_speed_of_a_tiny_circuit_has_all_figures() -> None:
    names = ["plica", "plica fold=False"]
    report = json.loads(json.dumps(measure_speed(tiny("cp"), names, ONCE, batches=(2,))))
    assert set(report) == {"agreement", "compile", "parameters", *STEPS}
    assert set(report["agreement"]["largest relative difference"]) == set(names)
    assert set(report["compile"]["plica"]) == {"describe", "compile", "first forward"}
    assert report["parameters"]["plica"] == report["parameters"]["plica fold=False"] > 0
    for step in STEPS:
        assert set(report[step]["milliseconds"]) == {*names, "plica (again)"}
        assert all(times["median"] > 0 for times in report[step]["milliseconds"].values())


def test_memory_grows_from_point_to_point() -> None:
    peaks = list(measure_memory(tiny("tucker"), "plica", "cpu").values())
    assert peaks == sorted(peaks)
    assert peaks[0] > 0


@pytest.mark.parametrize("sum_product", ["cp", "tucker"])
@pytest.mark.parametrize("by_hand", [LayerByLayer, Folded])
def test_torch_by_hand_gives_the_circuits_values(by_hand: type, sum_product: str) -> None:
    spec = tiny(sum_product)
    compiled = TorchCompiler().compile(spec.build())
    x = spec.data(8)
    torch.testing.assert_close(by_hand(compiled)(x), compiled(x))


@pytest.mark.full
def test_formulas_are_checked_and_compared() -> None:
    report = inf_safety.run([(2, 3, 4, 5)], ONCE)
    assert list(report) == ["(2, 3, 4, 5) forward", "(2, 3, 4, 5) forward and backward"]
    assert {*inf_safety.FORMULAS, "naive (again)"} == set(report["(2, 3, 4, 5) forward"]["ratios"])


def test_a_formula_that_is_wrong_at_zero_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(inf_safety.FORMULAS, "kernels", inf_safety.naive)
    with pytest.raises(AssertionError, match=r"kernels: a row of -inf must give -inf"):
        inf_safety.check(torch.zeros(1, 2, 3), torch.full((1, 2, 3), 1 / 3))


@pytest.mark.full
def test_lookups_agree() -> None:
    assert len(categorical.run([(2, 3, 4, 5)], ONCE)) == 2
    assert len(random_numbers.run([(2, 3)], ONCE)["(2, 3)"]["ratios"]) == 5


@pytest.mark.full
def test_generated_overhead_compares_like_with_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CIRCUITS, "tiny", tiny("cp"))
    report = generated_overhead.run([("tiny", False), ("tiny", True)], ONCE, batches=(16,))
    assert len(report) == 4
    assert set(report["tiny folded, forward 16"]["ratios"]) == {"by hand", "generated", "circuit", "by hand (again)"}


@pytest.mark.full
def test_the_command_saves_figures_without_names_of_the_machine(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    run.main(["--quick", "--rounds", "1", "--circuit", QUICK[0], "--out", str(out)])
    result = json.loads(out.read_text())
    assert set(result) == {"schema", "date", "settings", "machine", "circuits"}
    assert {"plica", "torch", "python", "cores", "threads", "device"} <= set(result["machine"])
    report = result["circuits"][QUICK[0]]
    assert {f"forward {batch}" for batch in (1, 16, 128, 512)} <= set(report)
    assert set(report["peak memory"]["plica"]) == {"imports", "compiled", "forward 128", "training step 128"}
    assert str(tmp_path) not in out.read_text()


def test_an_unknown_circuit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--circuit", "quad-tree-9"])
    assert "invalid choice: 'quad-tree-9'" in capsys.readouterr().err
