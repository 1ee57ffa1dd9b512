"""Random arrays, whole and damaged: `plica run` computes what numpy does, or says in one line which file is faulty."""

import re
import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from plica.cli import native_arrays
from plica.data import Rows
from plica.errors import PlicaError
from tests.harness.native_files import WEIGHT, native_file

Plica = Callable[..., Result]
_NUMBERS = ("f4", ">f4", "f8", ">f8", "f2", ">f2", "i1", "u1", ">i4", "i8", ">u8", "?", "g")
_OTHERS = ("c8", "S3", "U3", "O", "M8[s]", "m8[D]", "V5", [("a", "f4"), ("b", "i4")])
_SHAPES = ((4,), (2, 2), (1, 2, 2), (4, 1), (3,), (), (0,), (4, 0))


def random_array(rng: np.random.Generator) -> np.ndarray:
    """An array of small whole numbers, of any dtype, shape and order."""
    dtype = np.dtype(rng.choice(_NUMBERS) if rng.random() < 0.8 else _OTHERS[rng.integers(len(_OTHERS))])
    count = int(rng.choice([0, 1, 2, 7, 50]))
    shape = (count, *_SHAPES[rng.choice(8, p=[0.5, 0.15, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05])])
    values = rng.integers(0, 2 if dtype.kind == "b" else 9, shape if rng.random() < 0.97 else ())
    array = np.zeros(values.shape, dtype)
    if dtype.kind not in "V":
        array[...] = values.astype("i8").astype(dtype)
    if dtype.kind == "f" and array.size and rng.random() < 0.4:
        array.reshape(-1)[rng.integers(array.size)] = rng.choice([np.nan, np.inf])
    return np.asfortranarray(array) if rng.random() < 0.3 else array


def _with_header(text: str, version: bytes = b"\x01\x00", content: bytes = bytes(64)) -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text.encode() + content


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """A file of an array that is none, though numpy may read some of these."""
    size = rng.choice([-1, -3, 0, 10**10, 2**40, 2**61, 2**62])
    columns = rng.choice([-4, 2**33, 2**62])
    order = bool(rng.integers(2))
    header = f"{{'descr': '<f8', 'fortran_order': {order}, 'shape': ({size}, {columns}), }}\n"
    flipped = bytearray(content)
    flipped[int(rng.integers(min(len(flipped), 128)))] ^= int(rng.integers(1, 256))
    cases = (
        content[: int(rng.integers(len(content)))],
        content[: int(rng.integers(128))],
        bytes(flipped),
        bytes(len(content)),
        *[_with_header(header)] * 4,
        _with_header(header.replace(str(size), "(" * int(rng.choice([3, 90, 5000])))),
        _with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }\n", b"\x03\x00"),
    )
    return cases[rng.integers(len(cases))]


def write(path: Path, content: bytes, rng: np.random.Generator) -> None:
    if path.suffix == ".npy":
        path.write_bytes(content)
        return
    with zipfile.ZipFile(path, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        archive.writestr("x.npy", content)
        if rng.random() < 0.2:
            archive.writestr("y.npy", content)


def results_of(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".npz":
        return np.load(path)["y"]
    table = pq.read_table(path)
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("start", range(0, 900, 100))
def test_random_arrays(plica: Plica, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = native_file(Path("m.plicab"))
    done = 0
    for seed in range(start, start + 100):
        rng = np.random.default_rng(seed)
        array, buffer = random_array(rng), BytesIO()
        np.save(buffer, array, allow_pickle=True)
        is_damaged = bool(rng.random() < 0.4)
        path, out = Path(f"x{rng.choice(['.npy', '.npz'])}"), Path(f"y{rng.choice(['.npy', '.npz', '.parquet'])}")
        write(path, damaged(buffer.getvalue(), rng) if is_damaged else buffer.getvalue(), rng)
        out.write_bytes(b"old")
        before = sorted(Path().iterdir())
        monkeypatch.setattr(native_arrays, "_ROWS", int(rng.choice([1, 3, 8192])))
        result = plica("run", file, "--input", path, "--output", out)
        assert sorted(Path().iterdir()) == before, seed
        is_fitting = array.ndim > 1 and np.prod(array.shape[1:]) == 4 and array.dtype.kind in "biuf"
        if result.exit_code:
            assert result.exit_code == 2, (seed, result.exception)
            assert re.fullmatch("plica: error: [^\n]*\n", result.stderr), (seed, result.stderr)
            assert out.read_bytes() == b"old", seed
            assert is_damaged or not is_fitting, (seed, result.stderr)
        elif not is_damaged:
            done += 1
            with np.errstate(invalid="ignore"):
                expected = array.astype(np.float32).reshape(len(array), 4) @ WEIGHT
            np.testing.assert_array_equal(results_of(out), expected, err_msg=str(seed))
        for item in (path, out):
            item.unlink()
    assert done > 20


@pytest.mark.one_in(3)
@pytest.mark.parametrize("start", range(0, 900, 100))
def test_random_arrays_are_rows(start: int, tmp_path: Path) -> None:
    done = 0
    for seed in range(start, start + 100):
        rng = np.random.default_rng(seed)
        array, buffer = random_array(rng), BytesIO()
        np.save(buffer, array, allow_pickle=True)
        is_damaged = bool(rng.random() < 0.4)
        path = tmp_path / f"x{rng.choice(['.npy', '.npz'])}"
        write(path, damaged(buffer.getvalue(), rng) if is_damaged else buffer.getvalue(), rng)
        refused = None
        try:
            source = Rows(path, key="x" if path.suffix == ".npz" else None)
            batches = [batch.data for batch in source.batches(size=int(rng.choice([1, 3, 100])))]
            read = np.concatenate([np.stack([c.to_numpy(zero_copy_only=False) for c in b.columns], 1) for b in batches])
        except PlicaError as error:
            refused = str(error)
        if refused is not None:
            assert refused.startswith(str(path)), (seed, refused)
            assert "\n" not in refused, (seed, refused)
            assert is_damaged or array.dtype.kind not in "biuf" or array.ndim < 2 or not array.size, (seed, refused)
        elif not is_damaged:
            done += 1
            np.testing.assert_array_equal(read, array.reshape(len(array), -1), err_msg=str(seed))
    assert done > 20
