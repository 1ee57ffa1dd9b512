"""How a command ends when it is stopped from outside: one line, the status that shells expect, and nothing left."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from plica.cli.signals import Terminated, ending_tidily, leaving_at_once
from plica.files.model import save_model
from tests.harness.circuits import chain, coin

Plica = Callable[..., Result]

# Runs the command, and has it interrupted when it begins to import a module.
INTERRUPT_AT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
chosen = sys.argv.pop(1)
class Stop:
    def find_spec(self, name, *rest):
        if name == chosen:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
sys.meta_path.insert(0, Stop())
from plica.cli.entry import main
main()
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "module",
    [
        "numpy",
        "torch",
        "matplotlib.font_manager",
        *(pytest.param(module, marks=pytest.mark.full) for module in ("tempfile", "torch._dynamo")),
    ],
)
def test_ctrl_c_while_importing(tmp_path: Path, module: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros((9, 2), int))
    words = ("train", "a.npy", "--out", "runs/out", "--epochs", "1", "--units", "2", "--quiet")
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPT_AT, module, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert (found.returncode, found.stderr) == (130, "plica: interrupted; nothing was written\n")
    # torch imports some modules as Adam is made
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6))
def test_ctrl_c_at_any_time(tmp_path: Path, seed: int) -> None:
    np.save(tmp_path / "a.npy", np.zeros((200, 4), int))
    words = ("train", "a.npy", "--out", "runs/out", "--epochs", "5", "--units", "2", "--quiet")
    command = [sys.executable, "-m", "plica", *words]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        process.wait(timeout=float(np.random.default_rng(seed).uniform(0.5, 12.0)))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    if process.returncode == 130 and said:
        kept = sorted(path.name for path in tmp_path.rglob("*"))
        left = "go on with: plica train --resume runs/out" if "checkpoint" in kept else "nothing was written"
        assert said == f"plica: interrupted; {left}\n"
        assert kept in (["a.npy"], ["a.npy", "checkpoint", "out", "runs"])
    else:  # training was over, or ended early and was written
        assert (process.returncode in (0, 130), said) == (True, "")
        assert (tmp_path / "runs/out/model.plica").exists()


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_while_writing_leaves_the_checkpoint(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert threading.current_thread() is threading.main_thread(), "the signal would end the test run"
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # `nohup` starts processes that ignore SIGHUP

    def stop(*args: object, **settings: object) -> None:  # noqa: ARG001
        assert any(path.name.startswith(".plica-") for path in Path("runs/out").iterdir())
        os.kill(os.getpid(), number)

    monkeypatch.setattr("plica.cli.outputs.draw_circuit", stop)
    try:
        result = plica("train", toy, "--out", "runs/out", "--quiet", "--epochs", 1, "--units", 2)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert result.exit_code == 128 + number
    assert result.stderr == "plica: terminated; go on with: plica train --resume runs/out\n"
    assert list(Path("runs/out").iterdir()) == [Path("runs/out/checkpoint")]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under `nohup`: the command goes on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_tidily():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back_and_those_of_others_kept() -> None:
    def other(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGTERM, other)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with ending_tidily(), leaving_at_once():
            assert signal.getsignal(signal.SIGTERM) is other
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with pytest.raises(Terminated) as caught, ending_tidily():
            os.kill(os.getpid(), signal.SIGTERM)
        assert caught.value.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)


INTERRUPT_WHILE_WRITING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
from pathlib import Path
from plica.paths import filling, replacing
from plica.cli.signals import leaving_at_once
number = getattr(signal, sys.argv[1])
with leaving_at_once(), filling(Path("runs/out")) as folder, replacing("a.csv") as file:
    (folder / "b.txt").write_text("half")
    file.write_text("half")
    try:
        os.kill(os.getpid(), number)
        for _ in range(1000): pass
    except BaseException: pass
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_code_would_swallow_leaves_nothing(tmp_path: Path, name: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPT_WHILE_WRITING, name], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 128 + getattr(signal, name)
    assert found.stderr.endswith("; nothing was written\n")
    assert found.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", [("show", "m.plica"), ("--help",)])
def test_output_that_cannot_be_written(tmp_path: Path, words: tuple[str, ...]) -> None:
    save_model(tmp_path / "m.plica", chain(coin([0], 2)), {"0.logits": np.zeros((2, 2))}, {})
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "plica", *words], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (found.returncode, found.stderr) == (2, "plica: error: cannot write the output: no space left on device\n")
