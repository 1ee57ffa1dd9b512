"""Files of rows in batches: what is read is what was written, and what is wrong is said with its place."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.data.write import check_can_write, writing_rows
from plica.errors import FileFormatError, InputError, PlicaError
from plica.files.tables import guess_delimiter
from plica.tables.files import open_table

ENDINGS = (".csv", ".parquet", ".npy", ".npz")


def read(path: Path, size: int = 2, **settings: Any) -> tuple[Any, list[list[Any]]]:
    with open_table(path, **settings) as rows:
        parts = [batch.cells.tolist() for batch in rows.batches(size)]
        assert all(len(part) <= size for part in parts)
        return rows.names, [row for part in parts for row in part]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_numbers_come_back(tmp_path: Path, ending: str, count: int) -> None:
    path, values = tmp_path / f"rows{ending}", np.random.default_rng(0).normal(size=(count, 3))
    with writing_rows(path, ("a", "b", "c")) as write:
        for start in range(0, count, 2):
            write(values[start : start + 2])
    names, found = read(path, named=True)
    assert names == (("a", "b", "c") if ending in ENDINGS[:2] else None)
    assert [[float(cell) for cell in row] for row in found] == values.tolist()


@pytest.mark.parametrize("ending", ENDINGS[:2])
def test_cells_of_all_types_come_back(tmp_path: Path, ending: str) -> None:
    path, rows = tmp_path / f"rows{ending}", [["a, b", 1, 0.1, True], ['"', None, None, None], [None, -7, 1e300, False]]
    with writing_rows(path, ("s", "i", "f", "b"), types=(str, int, float, bool)) as write:
        write(rows[:2])
        write(rows[2:])
    expected = rows if ending == ".parquet" else [["a, b", "1", "0.1", "true"], ['"', None, None, None]]
    assert read(path, named=True)[1][: len(expected)] == expected


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "bool"])
def test_arrays_keep_their_dtype_and_shape(tmp_path: Path, dtype: str) -> None:
    path, values = tmp_path / "images.npy", np.random.default_rng(0).integers(0, 2, (5, 4, 3)).astype(dtype)
    with writing_rows(path, tuple("abcdefghijkl"), (4, 3)) as write:
        write(values[:2].reshape(2, -1))
        write(values[2:].reshape(3, -1))
    found = np.load(path)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, values)
    with open_table(path) as rows:
        assert (rows.row_shape, rows.width, rows.num_rows) == ((4, 3), 12, 5)
        np.testing.assert_array_equal(np.concatenate([one.cells for one in rows.batches(2)]), values.reshape(5, 12))


@pytest.mark.parametrize("mark", [";", "\t", "|", ","])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("first", ["pet,legs", "1,2"])
def test_the_delimiter_is_told_by_the_first_lines(tmp_path: Path, mark: str, named: bool, first: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{first}\n3,4\n".replace(",", mark))
    for given in (None, mark):
        with open_table(path, named=named, delimiter=given) as rows:
            cells = [cell for batch in rows.batches(9) for row in batch.cells.tolist() for cell in row]
            assert (rows.width, rows.delimiter, cells[-2:]) == (2, mark, ["3", "4"])


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("note\na; b\nc\n", ","),  # one column of text with a semicolon in it
        ("a;b\n1,5;2,5\n", ";"),  # decimal commas
        ('a,b\n"x;y",1\n', ","),
        ('a;b\n"x,y";1\n', ";"),
        ('a;b\n"two\nlines";1\n', ";"),
        ("a\n1\n", ","),
    ],
)
def test_a_delimiter_is_not_taken_from_within_cells(tmp_path: Path, text: str, mark: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert guess_delimiter(path) == mark


@pytest.mark.parametrize("mark", ["", ";;", '"', "\n"])
def test_delimiters_that_are_none(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n1;2\n")
    with pytest.raises(FileFormatError, match="expected one letter"):
        open_table(path, delimiter=mark)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    def fails_on_the_way(path: Path) -> None:
        with writing_rows(path, ("a",)) as write:
            write(np.ones((1, 1)))
            raise RuntimeError

    for ending in ENDINGS:
        with pytest.raises(RuntimeError):
            fails_on_the_way(tmp_path / f"rows{ending}")
    assert not list(tmp_path.iterdir())


def test_text_is_refused_by_arrays(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"arrays hold numbers alone, .*text; write them as \.csv"),
        writing_rows(tmp_path / "rows.npy", ("a",)) as write,
    ):
        write([["cat"]])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "0 bytes"),
        ("a.csv", b"a,b\n1,2\n3\n", "line 3: found 1 columns, expected 2 as in line 1"),
        ("a.csv", b"a,b\n1,2\n\n3,4\n", "line 3: the line is empty"),
        ("a.csv", b"a,a\n1,2\n", "two columns are called 'a'; rename one"),
        ("a.csv", b"a,\n1,2\n", "a column has no name; give it one"),
        (
            "a.csv",
            b"a,b\n\xe9,2\n",
            "line 2: not UTF-8: found the byte 0xe9, which is '\xe9' in Latin-1; save it as UTF-8",
        ),
        ("a.csv", b"a,b\n" + 5000 * b"1,2\n" + b"\xe9,2\n", "line 5002: not UTF-8"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), "the text is UTF-16; save it as UTF-8"),
        ("a.csv", b"a,b\n1," + 131_073 * b"x" + b"\n", "line 2: a cell has more than 131,072 letters"),
        ("a.npy", b"\x93NUMPY", "not a readable .npy"),
        ("a.npz", b"PK", "not a readable .npz"),
        ("a.parquet", b"PAR1PAR1", "not a readable .parquet"),
        ("a.txt", b"1", "cannot tell what kind"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message) as caught:
        read(path, named=True)
    assert str(path) in str(caught.value)


def test_lines_are_counted_where_cells_hold_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\r\n"one\ntwo",2\r\n3,4\r\n\r\n')
    with open_table(path, named=True) as rows:
        (batch,) = rows.batches(10)
    assert batch.cells.tolist() == [["one\ntwo", "2"], ["3", "4"]]
    assert batch.labels[:] == [f"{path}, line 3", f"{path}, line 4"]


def test_mutated_files_raise_errors_of_plica_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for ending in ENDINGS:
        path = tmp_path / f"rows{ending}"
        with writing_rows(path, ("a", "b"), types=(int, float)) as write:
            write(rng.integers(0, 9, (4, 2)))
        whole = path.read_bytes()
        for _ in range(60):
            damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)])
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            try:
                read(path, named=True)
            except PlicaError:
                continue


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"cannot tell how to write .*'\.txt'"):
        check_can_write(tmp_path / "a.txt")


def test_spaces_in_cells_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n  , x \n,\n")
    assert read(path, named=True)[1] == [["  ", " x "], [None, None]]


@pytest.mark.parametrize("content", ['a,b\n1,"x\n2,y\n3,z\n', 'a,b\n1,"x"y\n'])
def test_quotes_that_do_not_end_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=r"a.csv, line \d: cannot be read as cells"):
        read(path, named=True)
