import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from plica.cli.main import main
from plica.extras import require


@pytest.fixture
def plica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command in an empty folder; arguments are words."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words], prog_name="plica")

    return run


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are only numbered, which saves the time to draw them: for tests that do not look at them."""
    require("matplotlib.figure")
    numbers = itertools.count()
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda _, path, **__: Path(path).write_text(f"<svg id='{next(numbers)}'/>")
    )


@pytest.fixture
def toy(tmp_path: Path) -> str:
    """A file of 60 images of 4x4 pixels with three values, each image of two grey halves."""
    halves = np.random.default_rng(0).integers(0, 3, (60, 1, 2))
    np.save(tmp_path / "toy.npy", np.repeat(np.repeat(halves, 4, axis=1), 2, axis=2).astype(np.uint8))
    return "toy.npy"
