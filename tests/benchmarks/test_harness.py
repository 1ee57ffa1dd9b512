"""Timing side by side: every contender and the control in every round, ratios within a round."""

import json

import pytest

from benchmarks import harness
from benchmarks.harness import Settings, compare, measure, summary, table


@pytest.mark.full
def test_every_round_times_every_contender_and_the_control_once() -> None:
    calls: list[str] = []
    contenders = {name: lambda name=name: calls.append(name) for name in "ab"}
    samples = measure(contenders, Settings(rounds=4, warmup=0, seconds=0))
    assert {name: len(times) for name, times in samples.items()} == {"a": 4, "b": 4, "a (again)": 4}
    untimed, timed = calls[::2], calls[1::2]
    assert untimed == timed
    assert [sorted(timed[start : start + 3]) for start in range(0, 12, 3)] == [["a", "a", "b"]] * 4


def test_each_contender_is_at_each_place_equally_often() -> None:
    orders = harness._orders(["a", "b", "c"])
    drawn = [tuple(next(orders)) for _ in range(30)]
    for start in range(0, 30, 3):
        assert {tuple(sorted(names)) for names in zip(*drawn[start : start + 3], strict=True)} == {("a", "b", "c")}
    assert len(set(drawn)) > 3


def test_ratios_are_taken_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"a": [1.0, 10.0, 100.0], "b": [2.0, 20.0, 200.0], "a (again)": [1.0, 10.0, 100.0]}
    monkeypatch.setattr(harness, "measure", lambda *_: slow)
    report = compare({"a": int, "b": int}, Settings())
    assert report["baseline"] == "a"
    assert report["ratios"]["b"] == {"median": 2.0, "q1": 2.0, "q3": 2.0}
    assert report["milliseconds"]["b"]["median"] == 20_000.0
    assert "ratio 2.00" in table(json.loads(json.dumps(report)), "title")


def test_fast_calls_are_repeated_within_a_sample() -> None:
    calls: list[None] = []
    measure({"a": lambda: calls.append(None)}, Settings(rounds=1, warmup=0, seconds=1e-3))
    assert len(calls) > 10


def test_summary_of_one_and_of_many() -> None:
    assert summary([3.0]) == {"median": 3.0, "q1": 3.0, "q3": 3.0}
    assert summary([1.0, 2.0, 3.0, 4.0, 5.0]) == {"median": 3.0, "q1": 2.0, "q3": 4.0}
