import contextlib
import io
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.errors import FileFormatError, InputError
from plica.files.tables import load_table


def save(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        np.save(path, content)
    return path


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 3, 4, 4)])
def test_npy_keeps_shape_and_dtype(tmp_path: Path, dtype: type, shape: tuple[int, ...]) -> None:
    values: Any = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    loaded = load_table(save(tmp_path, "a.npy", values))
    assert loaded.dtype == values.dtype
    np.testing.assert_array_equal(loaded, values)


def test_npz_finds_its_array(tmp_path: Path) -> None:
    one, other = np.ones((2, 2)), np.zeros((2, 3))
    np.testing.assert_array_equal(load_table(save(tmp_path, "a.npz", {"anything": one})), one)
    np.testing.assert_array_equal(load_table(save(tmp_path, "b.npz", {"labels": other, "images": one})), one)
    np.testing.assert_array_equal(load_table(save(tmp_path, "c.npz", {"labels": other, "train": one})), one)
    np.testing.assert_array_equal(load_table(tmp_path / "c.npz", key="labels"), other)


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\n3,4",
        "1,2\r\n3,4\r\n\r\n",
        "a,b\n1,2\n3,4\n",
        '"first, one","b"\n1,2\n3,4\n',
        "\ufeffa,b\n1,2\n3,4\n",
        "1, 2\n 3,4\n",
        '"1","2"\n3.0,4e0\n',
    ],
)
def test_csv_with_and_without_names(tmp_path: Path, text: str) -> None:
    assert load_table(save(tmp_path, "a.csv", text.encode())).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_csv_of_one_column_and_one_row(tmp_path: Path) -> None:
    assert load_table(save(tmp_path, "a.csv", "x\n1\n2\n")).shape == (2, 1)
    assert load_table(save(tmp_path, "a.csv", "1,2\n")).shape == (1, 2)


def truncated_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros((20, 20)))
    return buffer.getvalue()[:400]


def npy_bytes(values: object) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)  # type: ignore[arg-type]
    return buffer.getvalue()


def empty_zip() -> bytes:
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    return buffer.getvalue()


# (name, content, error, message): the message names the file and, for a value, its place
BAD = {
    "no values": ("a.csv", "", FileFormatError, r"a\.csv: the file is empty \(0 bytes\)"),
    "names only": ("a.csv", "x,y\n", FileFormatError, r"a\.csv: the file holds no rows of numbers"),
    "blank lines only": ("a.csv", "\n\n", FileFormatError, r"a\.csv: the file holds no rows of numbers"),
    "a word": (
        "a.csv",
        "x,y\n1,2\n3,red\n",
        FileFormatError,
        r"a\.csv, line 3, column 2: 'red' is not a number .* --columns auto$",
    ),
    "a long word": ("a.csv", "1,2\n3," + "x" * 99, FileFormatError, r"line 2, column 2: 'x{24}\.\.\.' is not a number"),
    "a word in the first line": ("a.csv", "1,red\n1,2\n", FileFormatError, r"line 1, column 2: 'red' is not a number"),
    "an empty cell": ("a.csv", "1,2\n3,\n", InputError, r"a\.csv, line 2, column 2: the cell is empty"),
    "a short row": ("a.csv", "1,2\n3\n", FileFormatError, r"a\.csv, line 2: found 1 columns, expected 2 as in line 1"),
    "a long row": ("a.csv", "x,y\n1,2\n3,4,5\n", FileFormatError, r"line 3: found 3 columns, expected 2 as in line 2"),
    "a blank line inside": ("a.csv", "1,2\n\n3,4\n", FileFormatError, r"a\.csv, line 2: the line is empty, expected 2"),
    "nan": ("a.csv", "x,y\n1,2\n3,nan\n", InputError, r"a\.csv, line 3, column 2: found nan, expected a finite number"),
    "infinity": ("a.csv", "1,2\n3,inf\n", InputError, r"a\.csv, line 2, column 2: found inf, expected a finite number"),
    "not text": ("a.csv", b"a\n1\n\xe9", FileFormatError, r"a\.csv, line 3: not UTF-8: found the byte 0xe9"),
    "nan in an array": (
        "a.npy",
        np.array([[0.0, 1.0], [np.nan, 1.0]]),
        InputError,
        r"a\.npy, row 1, column 0 \(counted from 0\): found nan",
    ),
    "nan in an image": (
        "a.npy",
        np.where(np.arange(12).reshape(3, 2, 2) == 9, np.nan, 0.0),
        InputError,
        r"a\.npy, image 2, row 0, column 1 \(counted from 0\): found nan",
    ),
    "nan in a channel": (
        "a.npz",
        {"images": np.where(np.arange(24).reshape(3, 2, 2, 2) == 13, np.inf, 0.0)},
        InputError,
        r"a\.npz\[images\], image 1, channel 1, row 0, column 1 \(counted from 0\): found inf",
    ),
    "no rows": ("a.npy", np.zeros((0, 3)), FileFormatError, r"a\.npy: the table is empty \(shape \(0, 3\)\)"),
    "one axis": ("a.npy", np.zeros(3), FileFormatError, r"a\.npy: expected shape \(N, D\).*found \(3,\)"),
    "five axes": ("a.npy", np.zeros((1, 1, 1, 1, 1)), FileFormatError, r"expected shape .*found \(1, 1, 1, 1, 1\)"),
    "text": ("a.npy", np.array([["a"]]), FileFormatError, r"a\.npy: expected booleans, integers or floats, found <U1"),
    "complex": ("a.npy", np.zeros((1, 1), complex), FileFormatError, r"found complex128"),
    "objects": (
        "a.npy",
        npy_bytes(np.array([[{}]])),
        FileFormatError,
        r"a\.npy: not a readable \.npy file .*[Oo]bject",
    ),
    "damaged npy": ("a.npy", npy_bytes(np.zeros((9, 9)))[:200], FileFormatError, r"a\.npy: not a readable \.npy file"),
    "not an npy": ("a.npy", b"plain text", FileFormatError, r"a\.npy: not a readable \.npy file"),
    "damaged npz": ("a.npz", truncated_npz(), FileFormatError, r"a\.npz: not a readable \.npz file"),
    "not an npz": ("a.npz", b"plain text", FileFormatError, r"a\.npz: not a readable \.npz file"),
    "an npy called npz": ("a.npz", npy_bytes(np.zeros((2, 2))), FileFormatError, r"holds a single \.npy array; rename"),
    "an empty archive": ("a.npz", empty_zip(), FileFormatError, r"a\.npz: "),
    "no clear array": (
        "a.npz",
        {"x": np.zeros((1, 1)), "y": np.zeros((1, 1))},
        FileFormatError,
        r"a\.npz: holds 2 arrays and none is called images or train; choose one by its key: x, y",
    ),
    "another ending": (
        "a.txt",
        "1,2",
        FileFormatError,
        r"a\.txt: cannot tell .* '\.txt'; expected one of \.npy, \.npz",
    ),
    "no ending": ("table", "1,2", FileFormatError, r"table: cannot tell .* '\(none\)'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, case: str) -> None:
    name, content, error, message = BAD[case]
    path = save(tmp_path, name, content)
    with pytest.raises(error, match=message) as caught:
        load_table(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"nope\.csv: no such file; check the path \(current folder: "):
        load_table(tmp_path / "nope.csv")
    with pytest.raises(FileFormatError, match=re.escape(f"{tmp_path}: is a folder, expected a file")):
        load_table(tmp_path)


def test_keys_belong_to_archives(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"a\.npz: no array 'z'; found x"):
        load_table(save(tmp_path, "a.npz", {"x": np.zeros((1, 1))}), key="z")
    with pytest.raises(FileFormatError, match=r"a\.csv: holds one table, so there is no array 'z' to choose"):
        load_table(save(tmp_path, "a.csv", "1,2\n"), key="z")


@pytest.mark.parametrize("name", ["plain.npy", "plain.npz", "small.npz"])
def test_damaged_arrays_are_refused_or_read(tmp_path: Path, name: str) -> None:
    """Bytes flipped and files cut short: numpy and zipfile raise errors of many kinds for them."""
    values = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "plain.npy", values)
    np.savez(tmp_path / "plain.npz", values)
    np.savez_compressed(tmp_path / "small.npz", values)
    content = (tmp_path / name).read_bytes()
    generator = random.Random(0)
    damaged = [content[:cut] for cut in range(1, len(content), 23)]
    for _ in range(80):
        place = generator.randrange(len(content))
        damaged.append(content[:place] + bytes([content[place] ^ 1 << generator.randrange(8)]) + content[place + 1 :])
    path = tmp_path / f"damaged{Path(name).suffix}"
    for content in damaged:
        path.write_bytes(content)
        with contextlib.suppress(FileFormatError, InputError):
            assert load_table(path).size


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.mkdir, (str(tmp_path / "trapped"),))

    for name in ("a.npy", "b.npz"):
        content = np.array([[Trap()]], dtype=object)
        with pytest.raises(FileFormatError):
            load_table(save(tmp_path, name, npy_bytes(content) if name == "a.npy" else {"x": content}))
    assert not (tmp_path / "trapped").exists()
