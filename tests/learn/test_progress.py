"""The progress bar on a terminal."""

import io
import re
import sys

import pytest

from plica.learn.history import Epoch
from plica.learn.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(quiet: bool) -> None:
    with Progress(44, 2, 16, "img", quiet=quiet) as progress:
        for number in (1, 2):
            progress.on_batch(44)
            progress.on_epoch(Epoch(number, -20.0, -22.0, best=True, seconds=1.0))


def test_the_progress_bar_tells_epoch_bits_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(quiet=False)
    bar = sys.stderr.getvalue()
    assert re.search(r"epoch 2/2: 100%.* 88/88 .*img/s, train 1\.803, valid 1\.984, best 1\.984 bits/dim", bar)
    assert bar.count("\n") == 1


def test_a_quiet_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        run(quiet=True)
        assert stream.getvalue() == ""
