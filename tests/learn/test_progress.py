"""The progress bar on a terminal."""

import io
import re
import sys

import pytest

from plica.learn.history import Epoch
from plica.learn.progress import Progress, TrialProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(quiet: bool) -> None:
    with Progress(44, 2, 16, "img", quiet=quiet) as progress:
        for number in (1, 2):
            progress.on_batch(44)
            progress.on_epoch(Epoch(number, -20.0, -22.0, best=True, seconds=1.0))


def run_trials(quiet: bool) -> None:
    with TrialProgress(quiet=quiet) as progress:
        for ended in range(3):
            progress.on_trial(ended, 3)


def test_the_progress_bar_tells_epoch_bits_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(quiet=False)
    bar = sys.stderr.getvalue()
    assert re.search(r"epoch 2/2: 100%.* 88/88 .*img/s, train 1\.803, valid 1\.984, best 1\.984 bits/dim", bar)
    assert bar.count("\n") == 1


def test_trials_have_a_bar_on_a_terminal_and_one_line_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    run_trials(quiet=False)
    assert re.search(r"trying settings:  67%.* 2/3 ", sys.stderr.getvalue())
    assert not sys.stderr.getvalue().endswith("\n")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    run_trials(quiet=False)
    assert sys.stderr.getvalue() == "trying 3 settings\n"


def test_a_quiet_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        run(quiet=True)
        run_trials(quiet=True)
        assert stream.getvalue() == ""
