"""Several processes learn what one learns, whatever their number; they end together, and checkpoints have no number."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load

from plica.distributed.ranks import ALONE, Agreement
from tests.distributed.cases import CASES, learn, learn_until, tree
from tests.distributed.processes import finish, start


def run(folder: Path, words: Iterable[object], size: int) -> None:
    results = finish(start("tests.distributed.cases", [folder, *words], size, folder))
    assert [status for status, _, _ in results] == [0] * size, results


def assert_close(found: Any, expected: Any) -> None:
    """Equal parameters and histories, up to rounding; equal ends."""
    assert found["state"].keys() == expected["state"].keys()
    for key, value in expected["state"].items():
        torch.testing.assert_close(found["state"][key], value, rtol=0.0, atol=1e-10)
    assert len(found["history"]) == len(expected["history"])
    for mine, theirs in zip(found["history"], expected["history"], strict=True):
        assert mine == pytest.approx(theirs, abs=1e-10)
    assert found["end"] == expected["end"]


@pytest.mark.parametrize(
    ("size", "cases"),
    [
        (2, ("adam-small-batches", "adam-partly", "full-em-rest", "full-em-apart", "stepwise-em-rest", "anemone")),
        pytest.param(2, tuple(CASES), marks=pytest.mark.full),
        pytest.param(3, tuple(CASES), marks=pytest.mark.full),
    ],
)
def test_results_are_those_of_one_process(tmp_path: Path, size: int, cases: Sequence[str]) -> None:
    run(tmp_path, [*cases, "others", "checkpoint"], size)
    for case in cases:
        assert_close(torch.load(tmp_path / case, weights_only=False), learn(case))
    other = tree()
    other.reset_parameters(seed=5)
    state = get_model_state_dict(other)
    load(state, checkpoint_id=tmp_path / "checkpoint")
    set_model_state_dict(other, state)
    for key, value in tree().state_dict().items():
        assert torch.equal(other.state_dict()[key], value)


@pytest.mark.full
@pytest.mark.parametrize("sizes", [(2, 3), (3, 1), (1, 2)])
def test_another_number_of_processes_goes_on(tmp_path: Path, sizes: tuple[int, int]) -> None:
    cases = ("adam", "full-em-rest", "stepwise-em", "anemone")
    for size, begin in zip(sizes, ("", "resume"), strict=True):
        end = "go" if begin else "stop:8"  # in the second epoch
        words = [f"{case}:{end}:0:{begin}" if begin else f"{case}:{end}" for case in cases]
        if size > 1:
            run(tmp_path, words, size)
        else:
            for case, word in zip(cases, words, strict=True):
                torch.save(learn_until(case, tmp_path, *word.split(":")[1:]), tmp_path / case)
        interrupted = [torch.load(tmp_path / case, weights_only=False)["end"][2] for case in cases]
        assert interrupted == [not begin] * len(cases)
    for case in cases:
        assert_close(torch.load(tmp_path / case, weights_only=False), learn(case))


def test_alone_a_wish_holds_at_once() -> None:
    agreement = Agreement(ALONE)
    assert [agreement.on(wish) for wish in (0, 3, 1)] == [0, 3, 1]
    assert agreement.last() == 0
