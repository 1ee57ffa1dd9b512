"""The checks and measurements of a GPU, rehearsed on the CPU: what they cover, what they find, how a run ends."""

import contextlib
import gc
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.agreement import DisagreementError
from benchmarks.gpu import checks, command, events, models, peers, rates, speed, stages
from benchmarks.gpu.checks import Check, all_checks, circuits, comparison, functions, queries
from benchmarks.gpu.devices import DEVICES, Device
from benchmarks.gpu.events import Begin, Checked, Measured, Planned, Skipped
from benchmarks.gpu.report import Report
from plica.backend.torch.compiler import TorchCompiler
from plica.ir.op import Unsupported
from plica.learn.learners import LEARNERS
from plica.lower.optimize import optimize_circuit
from plica.lower.queries import table
from plica.ops import OPS
from plica.symbolic.layers import LAYER_ROWS
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.samples import CASES

CPU = DEVICES["cpu"]
ALL = tuple(all_checks())


@contextlib.contextmanager
def _waiting() -> Iterator[None]:
    yield
    raise RuntimeError("called a synchronizing CUDA operation")


WAITS = replace(CPU, watched=_waiting)
"""A device for which the host always waits."""


# What is covered


def test_checks_are_made_from_the_tables() -> None:
    names = [check.name for check in ALL]
    assert len(set(names)) == len(names)
    assert {f"operation {op}" for op in OPS} <= set(names)
    assert {f"circuit {one}, {semiring}" for one in circuits.circuit_cases() for semiring in SEMIRINGS} <= set(names)
    assert {f"function {one}" for one in functions.FUNCTIONS} <= set(names)
    assert [check.name for check in all_checks()] == names, "a process that goes on counts them"


def test_every_layer_row_is_checked() -> None:
    described = [build() for build in circuits.circuit_cases().values()]
    optimized = [optimize_circuit(one).circuit for one in described]
    assert {type(layer) for circuit in (*described, *optimized) for layer in circuit.layers} >= set(LAYER_ROWS)


def test_every_query_is_checked() -> None:
    assert set(queries.QUERIES) == set(table.QUERIES)


def test_every_learner_is_checked() -> None:
    names = {check.name for check in ALL}
    assert {f"learning by {learner}, {one}" for learner in LEARNERS for one in circuits.circuit_cases()} <= names


def test_every_operation_has_samples_that_are_checked() -> None:
    assert {case.op for case in CASES} == {
        name for name, op in OPS.items() if not isinstance(op.reference, Unsupported)
    }


# Checks find what they are for


@pytest.mark.parametrize("check", ALL[:: len(ALL) // 4], ids=lambda check: check.name)
def test_some_checks(check: Check) -> None:
    check.run(CPU)


@pytest.mark.full
@pytest.mark.parametrize("check", ALL[::8], ids=lambda check: check.name)
def test_all_checks(check: Check) -> None:
    check.run(CPU)


@pytest.mark.parametrize("name", functions.FUNCTIONS)
def test_functions_wait_only_where_they_say_so(name: str) -> None:
    check = next(one for one in ALL if one.name == f"function {name}")
    if functions.FUNCTIONS[name].waits:
        check.run(WAITS)
    else:
        with pytest.raises(AssertionError, match="the host waits for the device"):
            check.run(WAITS)


def test_operations_that_wait_are_noted() -> None:
    check = next(one for one in ALL if one.name == "operation exp")
    assert "the host waits: exp-0" in (check.run(WAITS) or "")
    assert check.run(CPU) is None


def test_circuits_never_wait() -> None:
    check = next(one for one in ALL if one.name == "circuit hadamard, lse-sum")
    with pytest.raises(AssertionError, match="forward and backward: the host waits"):
        check.run(WAITS)


def _change(one: torch.Tensor) -> torch.Tensor:
    return one + 1e-3


DIFFERENT: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "value": (_change, "not close"),
    "dtype": (torch.Tensor.double, "dtype"),
    "shape": (lambda one: one.reshape(1, -1), "shape"),
    "device": (lambda one: one.to("meta"), "found a result on meta, expected one on cpu"),
    "missing": (lambda one: one * float("nan"), "not close"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_results_that_differ_are_found(name: str) -> None:
    change, message = DIFFERENT[name]
    expected = torch.tensor([1.0, float("nan"), float("-inf")])
    comparison.require_same(expected.clone(), expected, CPU, "here")
    with pytest.raises(AssertionError, match=f"(?s)^here: .*{message}"):
        comparison.require_same(change(expected), expected, CPU, "here")


def test_other_errors_than_waiting_are_errors() -> None:
    def fails() -> None:
        raise RuntimeError("out of paper")

    for check in (comparison.waits, lambda device, call: comparison.require_no_waiting(device, call, "here")):
        with pytest.raises(RuntimeError, match="out of paper"):
            check(CPU, fails)


# Models and rates


def test_models_of_a_rehearsal_are_of_the_kinds_of_the_full_run() -> None:
    assert {type(one) for one in models.TINY} == {type(one) for one in models.FULL}
    names = list(models.models(is_rehearsal=False))
    assert "quad-graph-cp-28x28-256" in names
    assert "hmm-32x256-4096" in names
    assert set(models.batches(is_rehearsal=False)) == {128, 1024, 4096}


def test_the_hidden_markov_model_is_the_forward_algorithm() -> None:
    model = models.HiddenMarkov(4, 5, 3)
    compiled = TorchCompiler(dtype="float64").compile(model.describe("plica"))
    x = model.data(6)
    moves, shown = torch.from_numpy(model.transitions()), torch.from_numpy(model.emissions())
    state = torch.from_numpy(model.initial()) * shown[:, x[:, 0]].mT
    for step in range(1, 4):
        state = (state @ moves) * shown[:, x[:, step]].mT
    torch.testing.assert_close(compiled(x).flatten(), state.sum(1).log())
    torch.testing.assert_close(moves, moves.mT)
    assert speed.multiplications(compiled) == 3 * 5 * 5 + 5
    assert sum(one.numel() for one in compiled.parameters()) == 5 * 5 + 5 * 3 + 5


@pytest.mark.parametrize("name", rates.RATES)
def test_rates_are_counted(name: str) -> None:
    found = rates.measure_rate(name, replace(CPU, memory=lambda: 2**18))
    assert set(found) == {f"{rates.RATES[name].unit} in a second", "milliseconds"}
    call, units = rates.RATES[name].make("cpu", 2**14)
    assert units > 0
    call()


def test_tf32_is_left_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    rates.measure_rate("matrix product, float32 as tf32", replace(CPU, memory=lambda: 2**14))
    assert torch.get_float32_matmul_precision() == before


# A run


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages run in this process, without what takes seconds: torch's start and compiler, and collecting garbage."""

    def process(
        run: command.Run, stage: str, _seconds: float, note: Callable[[events.Event], None], *arguments: str
    ) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = command.main(["--stage", stage, "--device", run.device, *arguments])
        for line in output.getvalue().splitlines():
            event = events.read(line)
            assert event is not None, line
            note(event)
        return f"died with exit status {status}" if status else ""

    monkeypatch.setattr(command.Run, "_process", process)
    monkeypatch.setattr(checks, "all_checks", lambda: iter(ALL[:2]))
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.mark.usefixtures("in_process")
def test_a_rehearsal_has_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures" / "gpu.json"
    assert command.main(["--device", "cpu", "--out", str(out)]) == 0
    text = out.read_text()
    found = json.loads(text)
    assert found["checks"] == {"passed": 2, "failed": {}, "notes": {}}
    assert set(found["rates"]) == set(rates.RATES)
    assert set(found["circuits"]) == set(models.models(is_rehearsal=True))
    for name, report in found["circuits"].items():
        timed = {title: one for title, one in report.items() if "milliseconds" in one}
        assert len(timed) == 8, name
        for title, one in timed.items():
            other = speed.COMPILED if title.startswith(speed.COMPILED) else speed.GRAPH
            assert {speed.EAGER, other, f"{speed.EAGER} (again)"} <= set(one["milliseconds"])
        assert report["making"]["multiply-adds for each row"] > 0
    missing = [f"{name}, {peer}" for name in found["circuits"] for peer in peers.PEERS]
    assert set(found["skipped"]) <= set(missing)
    assert set(found["seconds"]) == {"checks", "rates", *found["circuits"], "all"}
    assert str(tmp_path) not in text
    assert str(Path.cwd()) not in text
    assert "2 checks passed, 0 failed" in capsys.readouterr().out


@pytest.mark.full
def test_a_rehearsal_in_processes_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    arguments = ["--device", "cpu", "--only", "rates", models.TINY[1].name, "--out", str(out)]
    assert command.main(arguments) == 0
    found = json.loads(out.read_text())
    assert set(found["rates"]) == set(rates.RATES)
    assert len([title for title in found["circuits"][models.TINY[1].name] if title.startswith(speed.COMPILED)]) == 4


def _failing(_: Device) -> None:
    raise AssertionError(f"wrong in {Path(__file__).resolve().parents[2]}/here.py")


@pytest.mark.usefixtures("in_process")
def test_a_check_that_fails_is_reported_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "all_checks", lambda: iter([ALL[0], Check("a wrong one", _failing), ALL[1]]))
    out = tmp_path / "gpu.json"
    assert command.main(["--device", "cpu", "--only", "checks", "--out", str(out)]) == command.FAILED
    found = json.loads(out.read_text())["checks"]
    assert found["passed"] == 2
    assert list(found["failed"]) == ["a wrong one"]
    assert "AssertionError: wrong in here.py" in found["failed"]["a wrong one"], "folders of the machine are left out"


@pytest.mark.usefixtures("in_process")
def test_a_circuit_whose_values_are_wrong_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise DisagreementError("the values differ")

    monkeypatch.setattr(speed, "_require_equal", wrong)
    name, out = models.TINY[0].name, tmp_path / "gpu.json"
    command.main(["--device", "cpu", "--only", name, "--out", str(out)])
    found = json.loads(out.read_text())
    for title, one in found["circuits"][name].items():
        if "forward" in title:
            assert list(one["milliseconds"]) == [speed.EAGER, f"{speed.EAGER} (again)"]
    assert f"{name}, forward, batch 4, {speed.GRAPH}" in found["skipped"]


class Script:
    """Processes that tell of given events, one list after the other, and end in a given way."""

    def __init__(self, *runs: tuple[list[events.Event], str]) -> None:
        self.runs = list(runs)
        self.arguments: list[tuple[str, ...]] = []

    def __call__(self, stage: str, _seconds: float, note: Callable[[events.Event], None], *arguments: str) -> str:
        self.arguments.append((stage, *arguments[:2]))
        told, end = self.runs.pop(0)
        for event in told:
            note(event)
        return end


def scripted(monkeypatch: pytest.MonkeyPatch, *runs: tuple[list[events.Event], str]) -> tuple[command.Run, Script]:
    run, script = command.Run("cpu", time.monotonic() + 100, Report(None)), Script(*runs)
    monkeypatch.setattr(command.Run, "_process", lambda _, *arguments: script(*arguments))
    monkeypatch.setattr(command, "_SHARES", {"checks": 1.0, "rates": 1.0})
    return run, script


def test_a_process_that_dies_costs_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[events.Event] = [Begin("a"), Checked("a", "", "")]
    run, script = scripted(
        monkeypatch,
        ([*passed, Begin("b")], "died with exit status -6"),
        ([Begin("c"), Checked("c", "wrong", "")], f"died with exit status {stages.LOST}"),
        ([Begin("d"), Checked("d", "", "a note")], ""),
    )
    run.stages(["checks"])
    assert script.arguments == [("checks", "--first", one) for one in "023"]
    assert run.report.passed == ["a", "d"]
    assert run.report.failed == {"b": "the process died with exit status -6", "c": "wrong"}
    assert run.report.notes == {"d": "a note"}


def test_a_process_that_cannot_start_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = scripted(monkeypatch, ([], "died with exit status 1"))
    run.stages(["checks"])
    assert run.report.failed == {"checks": "the process died with exit status 1 between two checks"}


def test_checks_are_dealt_out_to_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [check.name for check in ALL[:6]]
    run, places = command.Run("cpu", time.monotonic() + 100, Report(None), 3), []

    def process(_: command.Run, __: str, ___: float, note: Callable[[events.Event], None], *arguments: str) -> str:
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        first, every = int(given["--first"]), int(given["--every"])
        places.append(first)
        for name in names[first::every]:
            note(Begin(name))
            if name == names[1] and first == 1:
                return "died with exit status -6"
            note(Checked(name, "", ""))
        return ""

    monkeypatch.setattr(command.Run, "_process", process)
    run.stages(["checks"])
    assert sorted(places) == [0, 1, 2, 4]
    assert sorted(run.report.passed) == sorted(name for name in names if name != names[1])
    assert run.report.failed == {names[1]: "the process died with exit status -6"}


def test_what_was_not_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[events.Event] = [Planned(("copy", "product", "more")), Measured("copy", 1), Skipped("product", "why")]
    run, _ = scripted(monkeypatch, (told, "was ended after 3 seconds"))
    run.stages(["rates"])
    assert run.report.rates == {"copy": 1}
    assert run.report.skipped == {
        "rates, product": "why",
        "rates, more": "the process was ended after 3 seconds",
    }
    assert not run.report.failed, "time that is up is no failure"


def test_time_that_is_left_goes_to_later_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}
    run, _ = scripted(monkeypatch)

    def process(_: command.Run, stage: str, seconds: float, *__: object) -> str:
        given[stage] = seconds
        return ""

    monkeypatch.setattr(command.Run, "_process", process)
    run.stages()
    assert given["checks"] == pytest.approx(50 + 5, abs=2)
    assert given["rates"] == pytest.approx(100, abs=2)


@pytest.mark.parametrize(
    "event",
    [Planned(("a", "b")), Begin("a"), Checked("a", "line\nline", ""), Measured("a", {"b": [1.5]}), Skipped("a", "b")],
)
def test_events_are_read_as_they_were_told(event: events.Event) -> None:
    assert events.read(events.line(event)) == event
    assert "\n" not in events.line(event)


def test_the_file_is_whole_at_any_time(tmp_path: Path) -> None:
    report = Report(tmp_path / "gpu.json")
    report.write()
    report.rates["copy"] = {"set"}  # not JSON
    with pytest.raises(TypeError):
        report.write()
    assert json.loads(report.path.read_text())["rates"] == {}
    assert [one.name for one in tmp_path.iterdir()] == ["gpu.json"]


@pytest.mark.full
def test_without_cuda_it_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    out = tmp_path / "gpu.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--out", str(out)],
        cwd=command.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == command.NO_DEVICE
    (line,) = done.stderr.splitlines()
    assert line == (
        f"benchmarks.gpu: torch {torch.__version__} finds no CUDA device; nothing was run (--device cpu rehearses)."
    )
    assert not done.stdout
    assert not out.exists()
