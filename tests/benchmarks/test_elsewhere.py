"""Contenders in processes of their own: what they answer, how long it takes there, and what fails there."""

import math
import os
from functools import partial

import pytest

from benchmarks.elsewhere import Elsewhere
from benchmarks.harness import Settings, compare


@pytest.mark.full
def test_calls_happen_in_another_process_and_are_timed_there() -> None:
    with Elsewhere(partial, math.pow, 2.0) as process:
        call = process.asked(3.0)
        assert call() == 8.0
        assert process.asked(4.0)() == 16.0
        report = compare({"here": lambda: math.pow(2.0, 3.0), "there": call}, Settings(rounds=2, warmup=0, seconds=0))
        assert report["milliseconds"]["there"]["median"] > 0


def test_what_fails_there_is_told() -> None:
    with pytest.raises(RuntimeError, match="TypeError: "):
        Elsewhere(partial)
    with Elsewhere(partial, math.sqrt) as process, pytest.raises(RuntimeError, match="ValueError: "):
        process.asked(-1.0)()
    with Elsewhere(partial, os._exit) as process, pytest.raises(RuntimeError, match="its process ended"):
        process.asked(1)()
