"""Eval mode beside the roofline and a peer: what is counted, what is refused, and the means."""

import importlib.util
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from torch import Tensor, nn

from benchmarks import folding, inference, roofline
from benchmarks.agreement import DisagreementError
from benchmarks.circuits import CircuitSpec
from benchmarks.contenders import CONTENDERS
from benchmarks.harness import AGAIN, Settings
from benchmarks.roofline import Work, work_of
from plica import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.parameters import mixing_weight_factory, softmax_normal

ONCE = Settings(rounds=1, warmup=0, seconds=0)
TINY = CircuitSpec("quad-tree-2", "cp", side=2, num_values=3, num_units=2)


@pytest.fixture(autouse=True)
def small_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "measure_rates", lambda *_: {"operations": 1e9, "bytes": 2e9})


def test_work_is_that_of_sums_and_of_what_they_read() -> None:
    # 4 inputs; a sum over each, 2 products, a sum over each, a product, the last sum
    assert work_of(TINY.build()) == Work(weights=6 * 4 + 2, activations=(4 + 6) * 2 + 1)
    tucker = work_of(replace(TINY, sum_product="tucker").build())
    assert tucker == Work(weights=2 * 2 * 4 + 4, activations=(4 + 2) * 2 + 1)


def test_weights_of_mixing_layers_are_those_that_are_multiplied() -> None:
    leaves = [CategoricalLayer([0], 5, num_categories=2) for _ in range(3)]
    mixing = SumLayer(5, 5, 3, weight_factory=partial(mixing_weight_factory, param_factory=softmax_normal))
    circuit = Circuit([*leaves, mixing], {mixing: leaves}, [mixing])
    assert work_of(circuit) == Work(weights=5 * 3, activations=4 * 5)


def test_the_roofline_is_the_slower_of_arithmetic_and_traffic() -> None:
    work = Work(weights=100, activations=10)
    assert work.operations(4) == 800
    assert work.bytes(4) == 4 * (100 + 3 * 10 * 4)
    assert work.milliseconds(4, {"operations": 8e5, "bytes": 1e12}) == pytest.approx(1.0)
    assert work.milliseconds(4, {"operations": 1e12, "bytes": 8.8e5}) == pytest.approx(1.0)


def test_rates_are_units_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(roofline, "measure", lambda *_: {"operations": [0.5, 0.5, 9.0], "bytes": [0.25] * 3})
    assert roofline.measure_rates(ONCE, side=10, copied=100) == {"operations": 4000.0, "bytes": 3200.0}


def test_a_circuit_has_all_figures() -> None:
    names = ["plica", "plica fold=False"]
    report = json.loads(json.dumps(inference.measure_circuit(TINY, names, ONCE, [2, 3])))
    titles = ["eval forward 2", "eval forward 3", "forward and backward 128", "training step 128"]
    assert list(report) == ["agreement", "work", *titles]
    found = report["eval forward 3"]
    bound = Work(**report["work"]).milliseconds(3, found["roofline"]["rates"])
    assert found["roofline"]["milliseconds"] == pytest.approx(bound, rel=1e-3)
    assert found["roofline"]["ratio"] == pytest.approx(found["milliseconds"]["plica"]["median"] / bound, rel=1e-3)
    text = inference.text_of_circuit("tiny", report)
    assert "at 1.0 billion operations and 2.0 billion bytes a second" in text


class InEvalMode(nn.Module):
    """A module with other values in eval mode."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.module(x)
        return values if self.training else values + 1


def test_other_values_in_eval_mode_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    plica = CONTENDERS["plica"]
    other = replace(plica, compile=lambda description: InEvalMode(plica.compile(description)))
    monkeypatch.setitem(CONTENDERS, "other", other)
    with pytest.raises(DisagreementError, match="other: found"):
        inference.measure_circuit(TINY, ["plica", "other"], ONCE, [2])
    with pytest.raises(AssertionError, match="not close"):
        inference.measure_circuit(TINY, ["other"], ONCE, [2])


def test_means_are_geometric_and_stand_beside_what_is_aimed_for() -> None:
    def circuit(speedup: float, rooflines: float) -> dict[str, object]:
        ratios = {"plica": {"median": 1.0}, "cirkit": {"median": speedup}}
        return {"work": {}, "eval forward 128": {"ratios": ratios, "roofline": {"ratio": rooflines}}}

    means = inference.geometric_means({"a": circuit(2.0, 9.0), "b": circuit(8.0, 1.0)})
    assert means == {"eval forward 128": {"cirkit": 4.0, "rooflines": 3.0}}
    text = inference.text_of_means(means)
    assert "cirkit / plica   4.00 (at least 4)" in text
    assert "plica / roofline   3.00 (at most 2)" in text


@pytest.mark.full
def test_a_peer_that_is_not_there_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    def in_a_process(name: str, names: list[str], _: object) -> object:
        asked.append([name, *names])
        return inference.measure_circuit(TINY, names, ONCE, [1])

    monkeypatch.setattr(inference, "_in_a_process", in_a_process)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    out = tmp_path / "figures.json"
    inference.main(["--circuit", "quad-tree-2-cp-8x8-16", "--rounds", "1", "--out", str(out)])
    assert asked == [["quad-tree-2-cp-8x8-16", "plica"]]
    printed = capsys.readouterr().out
    assert "libcirkit is not installed" in printed
    assert "plica / roofline" in printed
    assert set(json.loads(out.read_text())["comparisons"]) == {"circuits", "geometric means"}


def test_folding_is_compared_with_not_folding() -> None:
    report = folding.run(TINY, ONCE, 3)
    assert set(report["ratios"]) == {"plica", "plica fold=False", "plica (again)"}


@pytest.mark.parametrize(
    ("unfolded", "control", "is_slower"),
    [((0.5, 0.7), (0.9, 1.1), True), ((0.5, 0.95), (0.9, 1.1), False), ((1.1, 1.2), (1.3, 1.5), False)],
)
def test_folding_is_slower_only_beyond_the_control(
    unfolded: tuple[float, float], control: tuple[float, float], is_slower: bool
) -> None:
    def quartiles(low: float, high: float) -> dict[str, float]:
        return {"q1": low, "q3": high, "median": math.nan}

    ratios = {folding.UNFOLDED: quartiles(*unfolded), folding.FOLDED + AGAIN: quartiles(*control)}
    assert folding.slower({"tree": {"ratios": ratios}}) == (["tree"] if is_slower else [])
