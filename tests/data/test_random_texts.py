"""Random texts of cells: read as the csv library of Python reads them, or refused in one line that names the file."""

import csv
import gzip
import io
import random
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from plica.data import Rows, text_table
from plica.errors import FileFormatError, PlicaError

_CELLS = (
    *("", "", " ", "1", "-0", "1.0", "+1", " 1", "1e400", "1_000", "0x10", "nan", "inf", "true", "No", "2026-01-31"),
    *(
        "cat",
        " dog ",
        "\u2603",
        "\U0001f408",
        "e\u0301",
        "\u00a0",
        "\u2028",
        "\x85",
        "\x0b",
        "\x1c",
        "\x00",
        "'",
        "\\",
        "#",
    ),
    *('say "a, b"', '"', '""', 'a"b', '" ', ' "x"', "two\nlines", "a\rb", "c\r\nd", "\n", "\r", ",", ";", "a;b", "\t|"),
)
_FAULTS = ('"', '""', '"x', 'x"', '"x"y', "\n", "\n\n", "\r", "\r\n\r\n", ",", "\xff", '\n"', '"\n', "  \n", "\ufeff")


def random_text(rng: random.Random) -> bytes:
    """Lines of cells in the manner of many programs, at times with a fault."""
    width, delimiter = rng.choice([1, 1, 2, 3, 5]), rng.choice(",,,;\t|")
    ending, quoting = rng.choice(["\n", "\n", "\r\n", "\r"]), rng.random() < 0.5
    names = [rng.choice(["c", " c", "c ", "c, ", 'c"', "c\n", "\u2603"]) + str(place) for place in range(width)]
    if rng.random() < 0.1:
        names[rng.randrange(width)] = rng.choice(["", " ", names[0], f" {names[0]}", "1", "nan"])
    rows = [names] if rng.random() < 0.9 else []
    cells = rng.sample(_CELLS, rng.randint(1, 12))
    for _ in range(rng.choice([0, 1, 2, 5, 40])):
        rows.append([rng.choice(cells) * rng.choice([1, 1, 1, 1, 1, 30]) for _ in range(width)])
    file = io.StringIO(newline="")
    csv.writer(
        file, delimiter=delimiter, lineterminator=ending, quoting=csv.QUOTE_ALL if quoting else csv.QUOTE_MINIMAL
    ).writerows(rows)
    text = file.getvalue()
    if rng.random() < 0.3:
        text = text[: -len(ending)]
    if rng.random() < 0.1:
        text += ending * rng.randint(1, 3)
    if rng.random() < 0.05:
        text = ending + text
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(_FAULTS) + text[at + rng.choice([0, 0, 1]) :]
    content = text.encode("utf-8").replace("\xff".encode(), b"\xff")
    return (b"\xef\xbb\xbf" if rng.random() < 0.1 else b"") + content


def expected(content: bytes, rows: Rows) -> list[list[str | None]]:
    """The cells by the csv library."""
    lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=rows.delimiter, strict=True)
    cells = [[cell or None for cell in row] or [None] for row in lines if row or rows.width == 1]
    while rows.names and cells[0] == [None]:
        del cells[0]
    return cells[1:] if rows.names else cells


def check_text_of_cells(path: Path, content: bytes, size: int) -> bool:
    """Whether the text is read; it is then read right, and else refused."""
    path.write_bytes(content)
    try:
        rows = Rows(path)
        batches = list(rows.batches(size=size))
    except PlicaError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert message.startswith(str(path))
        assert "\n" not in message
        assert "cut short" not in message
        return False
    wanted = expected(content, rows)
    read = [list(row.values()) for batch in batches for row in batch.data.to_pylist()]
    assert read == wanted
    return True


def check_texts(folder: Path, seeds: range) -> None:
    read = [
        check_text_of_cells(folder / "a.csv", random_text(rng), rng.choice([1, 3, 1000]))
        for rng in map(random.Random, seeds)
    ]
    assert 0.3 < sum(read) / len(read) < 0.8


@pytest.fixture(params=[4, 64, 300, 1 << 20])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    size: int = request.param
    monkeypatch.setattr(text_table, "_BLOCK", size)
    monkeypatch.setattr(text_table, "_LINES", 1)
    return size


def test_texts_are_read_as_by_the_csv_library_or_refused(block: int, tmp_path: Path) -> None:
    check_texts(tmp_path, range(block, block + 60))


@pytest.mark.full
@pytest.mark.usefixtures("block")
def test_many_texts(tmp_path: Path) -> None:
    check_texts(tmp_path, range(3000))


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"a,b", []),
        (b"\xef\xbb\xbfa", []),
        (b"\r\n\na\n1\n\n", [["1"], [None]]),
        (b'a\n"x\r\ny"\n', [["x\r\ny"]]),
        (b'a\nx"\n', [['x"']]),
        (b"a\nx\n\xef\xbb\xbfy\n", [["x"], ["\ufeffy"]]),
        (b"a;b\n\xc2\x85,1;\xe2\x80\xa8,2\n", [["\x85,1", "\u2028,2"]]),
        (b'"";1\na;2\n', [[None, "1"], ["a", "2"]]),
    ],
)
@pytest.mark.usefixtures("block")
def test_texts_at_the_edge(content: bytes, rows: list[list[str | None]], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    source = Rows(path)
    batches = source.converted(lambda batch: batch, range(source.width), may_be_empty=True)
    assert [list(row.values()) for batch in batches for row in batch.data.to_pylist()] == rows


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_rows_longer_than_a_block_are_read_up_to_a_limit(ending: str, tmp_path: Path) -> None:
    path, cell = tmp_path / f"a{ending}", b"x" * 100_000
    pack: Any = gzip.compress if ending.endswith(".gz") else bytes
    long = b",".join([cell] * 30) + b"\n"
    names = b",".join(b"c%d" % place for place in range(30)) + b"\n"
    path.write_bytes(pack(names + b"1" + b"," * 29 + b"\n" + 3 * long))
    (batch,) = Rows(path).batches()
    assert [len(text or "") for text in batch.data.column(29).to_pylist()] == [0, *[100_000] * 3]
    for content, line in ((b"a,b\n1,2\n" + b"x" * (1 << 25), 3), (b"x" * (1 << 25), 1)):
        path.write_bytes(pack(content))
        with pytest.raises(FileFormatError, match=rf"a{ending}, line {line}: a row has more than 16,777,216 bytes"):
            list(Rows(path).batches())


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst", ".lz4"])
def test_compressed_texts_that_are_cut_short_are_refused(ending: str, tmp_path: Path) -> None:
    rng, path = random.Random(1), tmp_path / f"a.csv{ending}"
    lines = "".join(f"{rng.random()},{rng.randrange(9)}\n" for _ in range(2000))
    with pyarrow.output_stream(path, compression="detect") as file:
        file.write(f"a,b\n{lines}".encode())
    whole = path.read_bytes()
    assert sum(map(len, Rows(path).batches())) == 2000
    for _ in range(20):
        path.write_bytes(whole[: rng.randrange(len(whole) - 1)])
        with pytest.raises(FileFormatError, match=r"cut short|holds no rows"):
            list(Rows(path).batches())
