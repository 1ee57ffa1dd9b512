"""Folded weights beside other libraries: what is told of each, and that wrong values are refused."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from benchmarks import frozen
from benchmarks.frozen import CONTENDERS, PANEL, Contender, Served
from benchmarks.harness import Settings
from tests.harness.pairwise import first_usual

ONCE = Settings(rounds=1, warmup=0, seconds=0)
CHANGES = ("written to by torch", "written to through .data", "given anew")
BOTH = {name: CONTENDERS[name] for name in ("plica", "torch")}


@pytest.mark.parametrize("name", first_usual(BOTH))
def test_a_weight_that_changes_is_noticed(name: str) -> None:
    units = 2 * PANEL  # weights of 16 KiB: Plica looks at their entries
    report = json.loads(json.dumps(frozen.serve(CONTENDERS[name], 3, units)))
    assert set(report) == {"making", "first call", "second call", "MiB held", *CHANGES}
    assert [report[change]["values"] for change in CHANGES] == ["new"] * 3
    assert "a weight given anew: new values" in frozen.text_of(name, report)


@pytest.mark.full
def test_values_of_the_weight_before_are_told_from_new_ones() -> None:
    def make(weights: Sequence[Tensor], x: Tensor) -> Served:
        return CONTENDERS["torch"].make([weight.clone() for weight in weights], x)

    report = frozen.serve(Contender(make), 3, PANEL)
    assert [report[change]["values"] for change in CHANGES[:2]] == ["old", "old"]


@pytest.mark.full
def test_a_library_that_refuses_a_change_is_told_of() -> None:
    def make(weights: Sequence[Tensor], x: Tensor) -> Served:
        def refuse(_: Tensor) -> None:
            raise RuntimeError("no other weights")

        return replace(CONTENDERS["torch"].make(weights, x), replace=refuse)

    report = frozen.serve(Contender(make), 3, PANEL)
    assert report["given anew"] == {"values": "no (RuntimeError)"}
    assert "a weight given anew: no (RuntimeError) values" in frozen.text_of("other", report)


@pytest.mark.full
def test_contenders_with_other_values_are_not_measured() -> None:
    def make(weights: Sequence[Tensor], x: Tensor) -> Served:
        served = CONTENDERS["torch"].make(weights, x)
        return replace(served, call=lambda: served.call() + 1)

    with pytest.raises(AssertionError, match="other values"):
        frozen.serve(Contender(make), 3, PANEL)
    with pytest.raises(AssertionError, match="other values"):
        frozen.together({**BOTH, "other": Contender(make)}, 3, PANEL, ONCE)


def test_contenders_are_timed_together() -> None:
    assert set(frozen.together(BOTH, 3, PANEL, ONCE)["ratios"]) == {*BOTH, "plica (again)"}


@pytest.mark.full
def test_libraries_that_are_not_there_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def in_a_process(name: str, _: object) -> object:
        contenders = BOTH if name == "together" else {}
        return frozen.together(contenders, 3, PANEL, ONCE) if contenders else frozen.serve(CONTENDERS[name], 3, PANEL)

    missing = {**BOTH, "missing": Contender(CONTENDERS["torch"].make, ("no_such_module",))}
    monkeypatch.setattr(frozen, "CONTENDERS", missing)
    monkeypatch.setattr(frozen, "_in_a_process", in_a_process)
    out = tmp_path / "figures.json"
    frozen.main(["--out", str(out)])
    assert "missing is left out: no_such_module is not installed." in capsys.readouterr().out
    assert set(json.loads(out.read_text())["comparisons"]) == {*BOTH, "together"}
