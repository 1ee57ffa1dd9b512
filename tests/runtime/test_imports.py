import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import plica

ROOT = Path(plica.__file__).parents[2]
ALONE = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "optree", "scipy", "click", "tqdm", "ml_dtypes", "safetensors",
                                      "array_api_compat", "cryptography", "llvmlite", "matplotlib", "sklearn",
                                      "ziglang"}:
            raise AssertionError(f"{name} is imported")

sys.meta_path.insert(0, Forbidden())
import numpy as np
before = set(sys.modules)
import plica.native

module = plica.native.load(sys.argv[1])
assert (module(np.ones((5, 4), np.float32)) == [18, 22, 26]).all()
module.update(shift=[1, 2, 3])
assert module.drawn(n=3, seed=0).shape == (3, 3)
print(*sorted(name for name in set(sys.modules) - before if name.startswith("plica")))
"""


def test_a_loaded_file_needs_numpy_alone(path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    others = [
        name
        for name in found.stdout.split()
        if name
        not in ("plica", "plica.errors", "plica.extras", "plica.forks", "plica.native", "plica.public", "plica.runtime")
        and not name.startswith("plica.runtime.")
    ]
    assert others == []


@pytest.mark.full
def test_a_file_runs_in_an_environment_without_torch(path: Path, tmp_path: Path) -> None:
    """A new environment with numpy and this package, none of whose other dependencies are there."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*words: object) -> str:
        done = subprocess.run(
            [python, *map(str, words)], capture_output=True, text=True, check=False, env=bare, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-m", "pip", "install", "--quiet", "numpy")
    run("-m", "pip", "install", "--quiet", "--no-deps", ROOT)
    installed = run("-m", "pip", "list", "--format=freeze").lower()
    assert "plica" in installed
    assert "torch" not in installed
    assert "click" not in installed
    assert "plica.runtime.module" in run("-c", ALONE, path)
