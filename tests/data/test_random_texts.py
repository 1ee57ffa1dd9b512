"""Random texts of cells: read as the csv library of Python reads them, or refused in one line that names the file."""

import csv
import io
import random
from pathlib import Path
from typing import Any

import pytest

from plica.data import Rows, text_table
from plica.errors import FileFormatError, PlicaError

_CELLS = (
    *("", "", " ", "1", "-0", "1.0", "+1", " 1", "1e400", "1_000", "0x10", "nan", "inf", "true", "No", "2026-01-31"),
    *("cat", " dog ", "\u2603", "\U0001f408", "e\u0301", "\u00a0", "\u2028", "\x85", "\x0b", "\x1c", "\x00", "'", "\\", "#"),
    *('say "a, b"', '"', '""', 'a"b', '" ', ' "x"', "two\nlines", "a\rb", "c\r\nd", "\n", "\r", ",", ";", "a;b", "\t|"),
)
_FAULTS = ('"', '""', '"x', 'x"', '"x"y', "\n", "\n\n", "\r", "\r\n\r\n", ",", "\xff", '\n"', '"\n', "  \n", "\ufeff")


def random_text(rng: random.Random) -> bytes:
    """Lines of cells in the manner of many programs, at times with a fault."""
    width, delimiter = rng.choice([1, 1, 2, 3, 5]), rng.choice(",,,;\t|")
    ending, quoting = rng.choice(["\n", "\n", "\r\n", "\r"]), rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    names = [rng.choice(["c", " c", "c ", "c, ", 'c"', "c\n", "\u2603"]) + str(place) for place in range(width)]
    if rng.random() < 0.1:
        names[rng.randrange(width)] = rng.choice(["", " ", names[0], f" {names[0]}", "1", "nan"])
    rows = [names] if rng.random() < 0.9 else []
    cells = rng.sample(_CELLS, rng.randint(1, 12))
    for _ in range(rng.choice([0, 1, 2, 5, 40])):
        rows.append([rng.choice(cells) * rng.choice([1, 1, 1, 1, 1, 30]) for _ in range(width)])
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=ending, quoting=quoting).writerows(rows)
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
        assert str(error).startswith(str(path)), error
        assert "\n" not in str(error), error
        assert "cut short" not in str(error), error
        return False
    wanted = expected(content, rows)
    read = [list(row.values()) for batch in batches for row in batch.data.to_pylist()]
    assert read == wanted
    return True


def main(n, block):
    import collections, tempfile, traceback, sys
    text_table._BLOCK = block
    text_table._LINES = 1 if block < 1000 else 16
    path = Path(tempfile.mkdtemp()) / "a.csv"
    c = collections.Counter()
    for seed in range(n):
        rng = random.Random(seed)
        content = random_text(rng)
        try:
            c[check_text_of_cells(path, content, rng.choice([1, 3, 1000]))] += 1
        except Exception as e:
            c["bad"] += 1
            if c["bad"] < 12:
                print(seed, repr(content[:150]), type(e).__name__, str(e)[:300])
    print(c)

if __name__ == "__main__":
    import sys
    main(int(sys.argv[1]), int(sys.argv[2]))
