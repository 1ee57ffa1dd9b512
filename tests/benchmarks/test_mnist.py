"""The benchmark of MNIST trains and reports bits per dimension."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mnist import main


@pytest.mark.full
def test_report(tmp_path: Path) -> None:
    images = np.zeros((20, 28, 28), np.uint8)
    np.savez(tmp_path / "mnist_t10k.npz", images=images)
    out = tmp_path / "figures.json"
    given = [
        "--data",
        str(tmp_path),
        "--contenders",
        "plica",
        "--units",
        "2",
        "--epochs",
        "3",
        "--lr",
        "0.5",
        "--out",
        str(out),
    ]
    main([*given, "--threads", "1"])
    figures = json.loads(out.read_text())["comparisons"]
    assert figures["recipe"]["units"] == 2
    assert 0 < figures["plica"]["test bits per dimension"] < 8, "less than of 256 values that are all alike"
