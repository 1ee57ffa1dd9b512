"""The benchmark of native loops measures functions that compute the same."""

from dataclasses import replace

import pytest

from benchmarks.harness import Settings
from benchmarks.native_loops import TASKS, check, run, text
from tests.harness.pairwise import first_usual


@pytest.mark.parametrize("name", first_usual(TASKS, 4))
def test_all_ways_compute_the_same(name):
    check(TASKS[name], ["native", "plica", "torch"], 5)


@pytest.mark.full
@pytest.mark.parametrize("name", list(TASKS))
def test_files_compute_the_same(name):
    check(TASKS[name], ["native", "file"], 5)


@pytest.mark.full
def test_a_report_says_how_long_compilation_takes(monkeypatch):
    monkeypatch.setitem(TASKS, "growing", replace(TASKS["growing"], sizes=(3,)))
    ((title, report),) = run("growing", ["native", "plica", "torch"], Settings(rounds=2, warmup=0, seconds=0.0))
    assert title == "growing, size 3"
    assert set(report["compilation"]) == {"native", "plica"}
    assert "native (again)" in text(title, report)
