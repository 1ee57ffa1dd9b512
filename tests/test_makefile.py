"""The Makefile: which Python makes the environment, and what it says where there is none."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FITS, FAILS = "#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 1\n"


@pytest.fixture
def make(tmp_path: Path):
    """Runs the Makefile in an empty folder, where these commands alone are on the path."""
    tool = shutil.which("make")
    assert tool, "the tests are run by make"

    def run(*arguments: str, **commands: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in commands.items():
            script = folder / name.replace("_", ".")
            script.write_text(text)
            script.chmod(0o755)
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        for name in ("pyproject.toml", "constraints.txt"):
            (project / name).touch()
        command = [tool, "--no-print-directory", "--file", str(ROOT / "Makefile"), *arguments]
        return subprocess.run(
            command, cwd=project, env={"PATH": str(folder)}, capture_output=True, text=True, check=False
        )

    return run


def test_the_first_python_that_fits_makes_the_environment(make) -> None:
    done = make("-n", "setup", python3_11=FAILS, python3_12=FITS, python3=FITS)
    assert "\npython3.12 -m venv .venv\n" in done.stdout


def test_a_python_without_a_version_in_its_name_will_do(make) -> None:
    assert "\npython3 -m venv .venv\n" in make("-n", "setup", python3=FITS).stdout


def test_a_given_python_is_taken(make) -> None:
    done = make("-n", "setup", "PYTHON=my-python", python3_11=FITS)
    assert "\nmy-python -m venv .venv\n" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("PYTHON=python2",)])
def test_one_line_where_there_is_none(make, arguments: tuple[str, ...]) -> None:
    done = make("setup", *arguments, python2=FAILS, python3=FAILS)
    assert done.returncode
    line, *rest = done.stderr.splitlines()
    assert line.startswith("Plica needs Python 3.11 to 3.14 with venv and pip, but found none in: python")
    assert line.endswith("Install one, or name it: make PYTHON=/path/to/python ...")
    assert ["Error" in one for one in rest] == [True]
    assert not done.stdout


@pytest.mark.parametrize(
    ("goals", "installed"),
    [(["demo"], "'.[torch,draw,digits]'"), (["demo", "test"], "'.[dev]'"), (["test"], "'.[dev]'")],
)
def test_the_demo_alone_installs_what_it_needs(make, goals: list[str], installed: str) -> None:
    lines = make("-n", *goals, python3=FITS).stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in lines if " pip install " in line] == [installed]


def test_the_demo_runs_where_everything_is_installed(make, tmp_path: Path) -> None:
    stamp = tmp_path / "project" / ".venv" / ".installed"
    stamp.parent.mkdir(parents=True)
    stamp.touch()
    os.utime(stamp, (2**32, 2**32))  # newer than pyproject.toml
    assert "pip install" not in make("-n", "demo", python3=FITS).stdout


def test_gpu_takes_python3_as_it_is(make) -> None:
    assert make("-n", "gpu", python3_11=FITS).stdout == "python3 -m benchmarks.gpu --out gpu.json\n"


def test_gpu_takes_a_given_python_and_file(make) -> None:
    assert make("-n", "gpu", "PYTHON=mine", "OUT=a.json").stdout == "mine -m benchmarks.gpu --out a.json\n"
