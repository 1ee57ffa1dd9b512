"""The benchmarks of traced functions: contenders agree before they are timed, and all promised figures come out."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import call_overhead, libraries, loops, run, tracing, updates
from benchmarks.harness import Settings
from benchmarks.libraries import LIBRARIES, Library
from tests.harness.pairwise import first_usual

ONCE = Settings(rounds=1, warmup=0, seconds=0)
BOTH = ["torch", "plica"]
SIZES = (11, 13, 17)


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for study in (loops, updates):
        monkeypatch.setattr(study, "STEPS", 10)


def test_libraries_that_are_not_there_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Library("no_such_module", "no-such-package", list, lambda result: result)
    monkeypatch.setitem(LIBRARIES, "missing", missing)
    assert libraries.installed(["torch", "missing", "plica"]) == BOTH
    assert set(libraries.versions(BOTH)) == set(BOTH)


def test_arrays_of_libraries_share_no_memory_with_numpys() -> None:
    array = np.zeros(3, dtype="float32")
    (tensor,) = LIBRARIES["plica"].arrays([array])
    tensor += 1
    assert not array.any()


@pytest.mark.parametrize("name", first_usual(loops.TASKS))
@pytest.mark.full
def test_loops_have_all_figures(name: str) -> None:
    report = json.loads(json.dumps(dict(loops.run(name, BOTH, ONCE, SIZES))))
    steps = [f"{name}, size {size}, {what}" for size in (11, 17) for what in ("forward", "forward and backward")]
    nothing = [f"{name}, 3 sizes from nothing, {what}" for what in ("forward", "forward and backward")]
    assert list(report) == steps + nothing
    for title in nothing:
        assert report[title]["compilations"] == {"torch": 0, "plica": 1}
        assert "compilations: torch 0, plica 1" in loops.text(title, report[title])
    assert set(report[steps[0]]["ratios"]) == {"torch", "plica", "torch (again)"}


@pytest.mark.parametrize("name", loops.TASKS)
@pytest.mark.parametrize("library", BOTH)
def test_loops_are_checked_against_numpy(name: str, library: str) -> None:
    task = loops.TASKS[name]
    wrong = replace(task, reference=lambda *arguments: task.reference(*arguments) + 1)
    loops.check(task, library, 11)
    with pytest.raises(AssertionError, match=library):
        loops.check(wrong, library, 11)


def test_gradients_that_differ_are_refused() -> None:
    task = loops.TASKS["scaling"]

    def doubled(traces: loops.Traces) -> Any:
        gradients = task.gradients["plica"](traces)
        return lambda *arguments: [2 * one for one in gradients(*arguments)]

    wrong = replace(task, gradients={**task.gradients, "plica": doubled})
    loops.check_gradients(task, BOTH, 11)
    with pytest.raises(AssertionError, match="plica"):
        loops.check_gradients(wrong, BOTH, 11)


@pytest.mark.parametrize("name", first_usual(call_overhead.CASES, 2))
def test_overhead_is_what_is_above_the_baseline(name: str) -> None:
    report = call_overhead.run(name, BOTH, ONCE)
    times = {library: one["median"] for library, one in report["milliseconds"].items()}
    above = {library: one["median"] for library, one in report["microseconds above the baseline"].items()}
    assert set(above) == {"torch", "plica", "torch (again)"}
    assert above["torch"] == 0
    assert above["plica"] == pytest.approx(1e3 * (times["plica"] - times["torch"]), rel=1e-3, abs=0.01)
    assert ("numpy (again)" in call_overhead.text(name, report)) == call_overhead.CASES[name].plain


@pytest.mark.parametrize("name", first_usual(updates.CASES, 3))
def test_loops_of_updates_agree_with_torch_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = updates.run(name, 11, ONCE)
    assert set(report["ratios"]) == {"torch", "plica", "torch (again)"}
    case = updates.CASES[name]
    monkeypatch.setitem(updates.CASES, name, replace(case, update=lambda i, x, u: case.update(i, x, u) + 1))
    with pytest.raises(AssertionError, match="not close"):
        updates.run(name, 11, ONCE)


@pytest.mark.parametrize("name", tracing.TASKS)
def test_functions_that_are_traced_have_ten_equations_for_each_repeat(name: str) -> None:
    function = tracing.TASKS[name].functions["plica"](3)
    assert tracing.count_equations(function) == 30
    assert 10 * tracing.REPEATS == 1000


@pytest.mark.parametrize("name", first_usual(tracing.TASKS))
def test_tracing_has_all_figures(name: str) -> None:
    report = json.loads(json.dumps(dict(tracing.run(name, ["plica", "torch"], ONCE, repeats=1))))
    titles = [f"{name}: 10 equations, Plica's steps", f"{name}: recording", f"{name}: until the first result"]
    assert list(report) == titles
    steps = {"trace", "clean", "write the code", "load the code", "jit and first call", "trace (again)"}
    assert set(report[titles[0]]["milliseconds"]) == steps
    assert ("torch" in report[titles[1]]["milliseconds"]) == (name == "elementwise")


def test_functions_that_are_traced_are_checked() -> None:
    functions = {one: make(2) for one, make in tracing.TASKS["elementwise"].functions.items() if one != "jax"}
    tracing.check(functions)
    with pytest.raises(AssertionError, match="torch"):
        tracing.check({**functions, "torch": lambda x, y: (x, y)})


@pytest.mark.full
def test_studies_save_figures_without_names_of_the_machine(tmp_path: Path) -> None:
    run.main(["loops", "--rounds", "1", "--out", str(tmp_path / "figures")])
    text = (tmp_path / "figures" / "loops.json").read_text()
    result = json.loads(text)
    assert {"plica", "torch"} <= set(result["machine"]["libraries"])
    assert len(result["comparisons"]) == 12
    assert str(tmp_path) not in text


def test_an_unknown_study_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["trading"])
    assert "invalid study: 'trading'" in capsys.readouterr().err


def test_overheads_are_taken_within_a_round() -> None:
    samples = {"torch": [1e-6, 1e-5, 1e-4], "plica": [3e-6, 1.2e-5, 1.02e-4]}
    found = call_overhead.overheads(samples)
    assert found["plica"] == {"median": 2.0, "q1": 2.0, "q3": 2.0}
