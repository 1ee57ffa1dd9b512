"""A disk without space: the path is said and what to do, and a finished training is not lost."""

import errno
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import plica
from plica.backend.native.loops import link
from plica.cli import outputs
from plica.cli.errors import one_line_errors
from plica.draw.circuit import draw_circuit
from plica.errors import WriteError
from plica.files.model import load_model
from plica.paths import filling, replacing

Plica = Callable[..., Result]
MODEL = "out/model.plica"


@contextmanager
def no_file_longer_than(count: int) -> Iterator[None]:
    """Writing more bytes to any file fails within the block."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def full(*_words: object, **_settings: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "x"), OSError(errno.EDQUOT, "x"), ValueError("I/O error: No space left on device")]
)
def test_a_lack_of_space_names_the_file(tmp_path: Path, error: Exception) -> None:
    def fill(path: Path, writing: Any) -> None:
        with writing(path) as temporary:
            assert temporary.exists()
            raise error

    for path, writing in ((tmp_path / "a.csv", replacing), (tmp_path / "runs" / "out", filling)):
        with pytest.raises(WriteError, match=r"(a\.csv|out): cannot be written: .*; free some space there, or choose"):
            fill(path, writing)
    assert not list(tmp_path.iterdir())


def test_other_errors_stay() -> None:
    with pytest.raises(PermissionError), replacing("a.csv"):
        raise PermissionError(errno.EACCES, "no")
    assert not Path("a.csv").exists()


def test_a_finished_training_is_written_elsewhere(plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []

    def draws(circuit: Any, path: Path, **settings: Any) -> None:
        written.append(path)
        if len(written) == 1:
            full()
        draw_circuit(circuit, path, **settings)

    monkeypatch.setattr(outputs, "draw_circuit", draws)
    result = plica("train", toy, "--out", "out", "--quiet", "--epochs", 1, "--units", 2)
    assert result.exit_code == 2
    assert (
        "out: cannot be written: no space left on device; free some space there, or choose another path"
        in result.stderr
    )
    assert len(result.stderr.splitlines()) == 1
    (folder,) = Path().glob("plica-results-*")
    assert f"the finished training was written to {folder.resolve()} instead" in result.stderr
    assert load_model(folder / "model.plica").tensors
    assert not Path("out").exists()


def test_nowhere_to_write(plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "draw_circuit", full)
    before = sorted(Path().iterdir())
    result = plica("train", toy, "--out", "out", "--quiet", "--epochs", 1, "--units", 2)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "out: cannot be written" in result.stderr
    assert sorted(Path().iterdir()) == [Path("out"), *before]
    assert list(Path("out").iterdir()) == [Path("out/checkpoint")]  # so that the training is not lost


def test_a_terminal_is_asked_for_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: str(tmp_path / "other"))

    def write(folder: Path) -> None:
        if folder.name != "other":
            raise WriteError("full")

    assert outputs.written_elsewhere(write, WriteError("full")) == tmp_path / "other"


ENDINGS = ["csv", *(pytest.param(ending, marks=pytest.mark.full) for ending in ("npy", "npz", "parquet"))]


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_that_do_not_fit(plica: Plica, toy: str, ending: str) -> None:
    pytest.importorskip("pyarrow")
    assert plica("train", toy, "--out", "out", "--quiet", "--epochs", 1, "--units", 2).exit_code == 0
    words = ("sample", MODEL, "-n", "3000", "-o", f"drawn.{ending}", "--quiet")
    with no_file_longer_than(4096):
        found = plica(*words)
    assert found.exit_code == 2, found.output
    assert (
        f"drawn.{ending}: cannot be written: file too large; free some space there, or choose another path"
        in found.stderr
    )
    assert found.stderr.count("\n") == 1
    assert not Path(f"drawn.{ending}").exists()


def test_a_full_folder_for_temporary_files_is_not_blamed_on_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "ld.lld: error: failed to write: No space left on device")

    monkeypatch.setattr("plica.backend.native.loops.link.subprocess.run", fails)
    with pytest.raises(WriteError, match=r"needs a folder for temporary files \(no space left on device\); set TMPDIR"):
        link.shared_library(b"")


@pytest.mark.usefixtures("without_pictures")
def test_one_extreme_cell_is_named(plica: Plica) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2)).round(3)
    Path("rows.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert plica("train", "rows.csv", "--columns", "auto", "--out", "out", "--epochs", 1, "--units", 2).exit_code == 0
    Path("holes.csv").write_text("a,b\n1,\n,2\n,1e30\n3,\n")
    for words in (("complete", MODEL, "holes.csv"), ("sample", MODEL, "--given", "holes.csv")):
        result = plica(*words, "-o", "full.csv", "--batch", 2)
        assert result.exit_code == 2
        assert "holes.csv, line 4: the model gives the row a probability of 0" in result.stderr
        assert "column 'b': 1e+30 is least likely there; correct the cell, or leave it empty" in result.stderr
        assert not Path("full.csv").exists()


def test_warnings_of_a_command_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @one_line_errors
    def command() -> None:
        for place in (plica.__file__, __file__):
            print(warnings.formatwarning("a checkpoint\n was not written", UserWarning, place, 1), end="")

    former = warnings.formatwarning
    command()
    own, other, *_ = capsys.readouterr().out.splitlines()
    assert own == "plica: warning: a checkpoint was not written"
    assert __file__ in other
    assert warnings.formatwarning is former
