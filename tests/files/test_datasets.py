import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.errors import FileFormatError, InputError, UnsupportedError
from plica.files.datasets import digits, from_path
from plica.symbolic.domains import COUNTS, REALS, UNIT_INTERVAL


def save(path: Path, values: object) -> Path:
    np.save(path, np.asarray(values))
    return path


def test_digits_are_split_as_documented() -> None:
    from sklearn.datasets import load_digits

    data = digits()
    assert (len(data.train), len(data.valid), len(data.test)) == (1297, 250, 250)
    assert data.shape == (1, 8, 8)
    assert data.num_values == 17
    order = np.random.default_rng(0).permutation(1797)
    rows = load_digits().data.astype(np.int64)[order]
    np.testing.assert_array_equal(np.concatenate([data.train, data.valid, data.test]), rows)
    assert data.train.dtype == np.int64
    assert digits(REALS).train.dtype == np.float64
    assert digits(REALS).num_values is None


def test_digits_name_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[digits\]'"):
        digits()


@pytest.mark.parametrize(
    ("shape", "wanted", "found"),
    [
        ((50, 12), None, None),
        ((50, 12), (1, 3, 4), (1, 3, 4)),
        ((50, 12), (3, 2, 2), (3, 2, 2)),
        ((50, 3, 4), None, (1, 3, 4)),
        ((50, 3, 4), (1, 3, 4), (1, 3, 4)),
        ((50, 3, 2, 2), None, (3, 2, 2)),
    ],
)
def test_images_are_flattened_and_their_shape_kept(
    tmp_path: Path, shape: tuple[int, ...], wanted: tuple[int, int, int] | None, found: tuple[int, int, int] | None
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape) % 5
    data = from_path(save(tmp_path / "a.npy", values), image_shape=wanted)
    assert data.shape == found
    assert data.num_variables == 12
    assert data.num_values == 5
    assert data.name == "a"
    together = np.concatenate([data.train, data.valid, data.test])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(values.reshape(50, 12), axis=0))


def test_the_split_depends_on_the_seed_alone(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.arange(100)[:, None])
    first, again, other = from_path(path, seed=1), from_path(path, seed=1), from_path(path, seed=2)
    assert (len(first.train), len(first.valid), len(first.test)) == (72, 14, 14)
    np.testing.assert_array_equal(first.train, again.train)
    assert (first.train != other.train).any()


def test_the_smallest_file_has_a_row_for_each_part(tmp_path: Path) -> None:
    data = from_path(save(tmp_path / "a.npy", [[0], [1], [1]]))
    assert (len(data.train), len(data.valid), len(data.test)) == (1, 1, 1)
    with pytest.raises(InputError, match=r"a\.npy: 2 row\(s\), expected at least 3"):
        from_path(save(tmp_path / "a.npy", [[0], [1]]))


def test_values_become_categories_or_stay_real(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,0\n2,1\n0,1\n1,1\n")
    assert from_path(path).train.dtype == np.int64
    assert from_path(path).num_values == 3
    assert from_path(path, num_values=7).num_values == 7
    real = from_path(path, domain=REALS)
    assert real.train.dtype == np.float64
    assert real.num_values is None
    bits = from_path(save(tmp_path / "b.npy", np.zeros((9, 2), bool)))
    assert bits.num_values == 2


def test_splits_of_an_archive_are_kept(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"train": np.zeros((4, 3), int), "valid": np.ones((2, 3), int), "test": np.full((1, 3), 2)}
    np.savez(tmp_path / "a.npz", **parts)
    data = from_path(tmp_path / "a.npz")
    for name, values in parts.items():
        np.testing.assert_array_equal(getattr(data, name), values)
    assert data.num_values == 3
    assert len(from_path(tmp_path / "a.npz", key="train").train) == 2


def test_packed_bits_are_unpacked(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (6, 11), dtype=np.uint8)
    packed = np.packbits(rows, axis=1)
    np.savez(tmp_path / "a.npz", train=packed, valid=packed, test=packed, num_variables=11)
    np.testing.assert_array_equal(from_path(tmp_path / "a.npz").test, rows)
    np.savez(tmp_path / "b.npz", train=packed, valid=packed, test=packed, num_variables=17)
    with pytest.raises(FileFormatError, match=r"num_variables = 17, expected \(N, 3\) bytes .* found uint8 .*\(6, 2\)"):
        from_path(tmp_path / "b.npz")


BAD: dict[str, Any] = {
    "negative": ([[0, 1], [0, -3], [0, 0]], {}, r"a\.npy, row 1, column 1 \(counted from 0\): -3 is negative"),
    "out of range": (
        [[0, 1], [5, 3], [0, 0]],
        {"num_values": 5},
        r"a\.npy, row 1, column 0 \(counted from 0\): 5 is out of range 0 \.\. 5 - 1; .*--num-values",
    ),
    "a fraction": ([[0, 1], [0.5, 3], [0, 0]], {}, r"row 1, column 0 .*: 0\.5 is not an integer.*--input gaussian"),
    "likely a count": ([[0, 1], [0, 123456], [0, 0]], {}, r"row 1, column 1 .*: 123456 would make 123457 categories"),
    "too large": ([[0.0, 1e300], [0, 0], [0, 0]], {}, r"row 0, column 1 .*: 1e\+300 is too large for a category"),
    "another width": (
        [[0, 1, 1]] * 5,
        {"image_shape": (1, 2, 2)},
        r"a\.npy: rows have 3 values, but images of shape \(1, 2, 2\) \(C, H, W\) have 4; .*--image-shape",
    ),
    "another image": (
        np.zeros((5, 2, 2)),
        {"image_shape": (1, 1, 4)},
        r"a\.npy: holds images of shape \(1, 2, 2\) \(C, H, W\), not the image shape \(1, 1, 4\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_values_that_do_not_fit_are_named(tmp_path: Path, case: str) -> None:
    values, settings, message = BAD[case]
    path = save(tmp_path / "a.npy", values)
    with pytest.raises(InputError, match=message):
        from_path(path, **settings)


def test_places_in_text_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,2\n3,9\n1,1\n")
    with pytest.raises(InputError, match=r"a\.csv, line 3, column 2: 9 is out of range 0 \.\. 4 - 1"):
        from_path(path, num_values=4)


def test_parts_of_different_width(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", train=np.zeros((4, 3)), valid=np.zeros((4, 2)), test=np.zeros((4, 3)))
    with pytest.raises(InputError, match=r"a\.npz\[valid\]: rows of shape \(2,\), expected \(3,\) as in .*\[train\]"):
        from_path(tmp_path / "a.npz")


def test_values_of_a_domain(tmp_path: Path) -> None:
    """Counts of any size, without a number of values; what is outside is named with its place."""
    counts = np.array([[0.0, 5000.0], [2.0**40, 1.0], [3.0, 0.0]])
    data = from_path(save(tmp_path / "a.npy", counts), domain=COUNTS)
    assert data.num_values is None
    assert data.train.dtype == np.int64
    assert sorted(np.concatenate([data.train, data.valid, data.test])[:, 0]) == [0, 3, 2**40]
    for value, refusal in ((0.5, "no count; give integers of at least 0"), (-1.0, "no count"), (1e19, "no count")):
        counts[1, 1] = value
        with pytest.raises(InputError, match=rf"row 1, column 1 \(counted from 0\): .* is {refusal}"):
            from_path(save(tmp_path / "a.npy", counts), domain=COUNTS)
    unit = from_path(save(tmp_path / "b.npy", np.array([[0, 1], [1, 1], [1, 0]])), domain=UNIT_INTERVAL)
    assert unit.train.dtype == np.float64
    with pytest.raises(InputError, match="is not between 0 and 1; rescale"):
        from_path(save(tmp_path / "b.npy", np.array([[0, 1], [1, 2], [1, 0]], np.uint8)), domain=UNIT_INTERVAL)
    assert digits(COUNTS).train.dtype == np.int64
    assert digits(COUNTS).num_values is None
