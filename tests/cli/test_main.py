import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

Plica = Callable[..., Result]


def test_version(plica: Plica) -> None:
    assert plica("--version").stdout == f"plica, version {version('plica')}\n"


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("train", "--help"), ("train", "-h"), ("show", "--help")])
def test_help(plica: Plica, words: tuple[str, ...]) -> None:
    result = plica(*words)
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: plica")


def test_every_option_is_explained(plica: Plica) -> None:
    from plica.cli.main import main

    for name, command in main.commands.items():
        for option in command.params:
            if option.param_type_name == "option":
                assert getattr(option, "help", None), f"{name} {option.name} has no help"
    assert "best on the validation rows is kept" in plica("train", "--help").stdout


def test_importing_the_command_is_light() -> None:
    code = (
        "import sys, plica.cli.main; print([m for m in ('torch', 'matplotlib', 'sklearn', 'tqdm') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.full
def test_a_real_ctrl_c(tmp_path: Path) -> None:
    """Interrupts the process once the bar shows a finished epoch."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import plica.__main__"
    np.save(tmp_path / "a.npy", np.zeros((9, 2), int))
    words = ("train", "a.npy", "--out", "out", "--epochs", "9999", "--units", "2")
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stderr is not None
    seen = b""
    while b"epoch 2/9999" not in seen:
        chunk = os.read(process.stderr.fileno(), 4096)
        assert chunk, seen.decode()
        seen += chunk
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert b"interrupted after" in out
    assert (tmp_path / "out" / "report.json").read_text().startswith('{\n  "interrupted": true')
