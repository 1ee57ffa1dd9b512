"""Training on arrays of more numbers than are held: the parts, the values, messages, and the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.cli.main import main as command
from plica.errors import InputError
from plica.files.datasets import from_path
from plica.symbolic.domains import REALS
from plica.tables import large
from plica.tables.data_sets import from_numbers

ROWS = 10_001  # more than are always held


@pytest.fixture(autouse=True)
def _held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "_MOST_HELD_NUMBERS", 1000)


def images(dtype: Any = np.uint8) -> Any:
    """Images of which each is another: its pixels are the digits of its number."""
    return (np.arange(ROWS)[:, None] // 11 ** np.arange(4) % 11).reshape(ROWS, 2, 2).astype(dtype)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_parts_hold_each_row_once(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    (np.save if ending == ".npy" else np.savez)(path, images())
    data = from_numbers(path, seed=3)
    assert data.streamed is not None
    assert (data.num_values, data.shape, data.train.dtype) == (11, (1, 2, 2), np.int64)
    train = np.concatenate(list(data.streamed.train.batches(1000)))
    assert len(train) == len(data.streamed.train) == data.num_train
    both = np.concatenate([train, data.valid, data.test])
    np.testing.assert_array_equal(np.unique(both, axis=0), np.unique(images().reshape(ROWS, 4), axis=0))
    assert len(both) == ROWS
    assert set(map(tuple, data.train.tolist())) <= set(map(tuple, train.tolist()))
    again, other = from_numbers(path, seed=3), from_numbers(path, seed=4)
    np.testing.assert_array_equal(again.test, data.test)
    assert again.streamed.train.description() == data.streamed.train.description()
    assert not np.array_equal(other.test[:100], data.test[:100])


def test_reals_and_small_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "reals.npy", images(np.float32) / 4)
    data = from_numbers(tmp_path / "reals.npy", domain=REALS)
    assert data.num_values is None
    assert data.train.dtype == np.float64
    assert np.all(data.train % 0.25 == 0)
    np.save(tmp_path / "few.npy", images()[:10_000])
    few, held = from_numbers(tmp_path / "few.npy"), from_path(tmp_path / "few.npy")
    assert few.streamed is None
    np.testing.assert_array_equal(few.train, held.train)


@pytest.mark.parametrize(
    ("value", "settings", "message"),
    [
        (-1, {}, "image 9000, row 1, column 0 (counted from 0): -1 is negative"),
        (0.5, {}, "image 9000, row 1, column 0 (counted from 0): 0.5 is not an integer"),
        (np.nan, {}, "image 9000, row 1, column 0 (counted from 0): found nan"),
        (11, {"num_values": 11}, "image 9000, row 1, column 0 (counted from 0): 11 is out of range 0 .. 11 - 1"),
        (2.0, {"image_shape": (1, 1, 4)}, "not the image shape (1, 1, 4)"),
    ],
)
def test_messages_are_those_of_small_arrays(tmp_path: Path, value: float, settings: Any, message: str) -> None:
    values = images(np.float64)
    values[9000, 1, 0] = value
    np.save(tmp_path / "rows.npy", values)
    errors = set()
    for read in (from_numbers, from_path):
        with pytest.raises(InputError) as caught:
            read(tmp_path / "rows.npy", **settings)
        errors.add(str(caught.value))
    [said] = errors
    assert message in said


def test_the_command_learns_from_a_stream(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", images())
    words = "--region-graph quad-tree-2 --units 2 --epochs 1 --batch 500 --quiet"
    command(
        ["train", str(tmp_path / "rows.npy"), "--out", str(tmp_path / "run"), *words.split()], standalone_mode=False
    )
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["data"]["train"] == pytest.approx(0.72 * ROWS, rel=0.05)
