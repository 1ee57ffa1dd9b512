"""Commands on rows from anywhere: folders and addresses, columns that are copied, batch by batch, and bad input."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from plica.cli import native_arrays
from plica.tables.streams import ColumnBatch
from tests.harness.native_files import WEIGHT, native_file
from tests.harness.tables_of_users import untrained

Plica = Callable[..., Result]
ROWS, PART = 60, 6
COMMANDS = {
    "score": ("score",),
    "marginal": ("marginal", "--of", "weight"),
    "complete": ("complete",),
    "predict": ("predict", "--column", "pet"),
}


def rows_of_pets(seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    pets = random.integers(0, 3, ROWS)
    return pa.table(
        {
            "key": [{"id": row, "tags": ["a"] * (row % 3)} for row in range(ROWS)],
            "pet": pa.array([("cat", "dog", None)[pet] for pet in pets]),
            "legs": pa.array(random.poisson(4, ROWS), mask=random.random(ROWS) < 0.3),
            "weight": pa.array(random.normal(size=ROWS).round(2), mask=random.random(ROWS) < 0.3),
            "seen": pa.array(random.integers(0, 10**6, ROWS) * 60, mask=pets == 2).cast(pa.timestamp("s")),
            "note": [f'{row}, "x"\n' if row % 7 else None for row in range(ROWS)],
        }
    )


@pytest.fixture
def pets(plica: Plica) -> Plica:
    """The command, in a folder with a model, a table of Parquet, and the same rows in ten files of a folder."""
    table = rows_of_pets()
    pq.write_table(table, "pets.parquet")
    pq.write_table(table.drop_columns(["key", "note"]), "seen.parquet")
    untrained(Path("m.plica"), Path("seen.parquet"))
    Path("pets").mkdir()
    for part in range(ROWS // PART):
        pq.write_table(table.slice(PART * part, PART), f"pets/{part}.parquet", row_group_size=4)
    return plica


def done(result: Result) -> None:
    assert result.exit_code == 0, result.output


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("plica: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def asked(plica: Plica, command: str, data: str, out: str, *words: object) -> Result:
    name, *options = COMMANDS[command]
    return plica(name, "m.plica", data, "-o", out, *options, *words)


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_come_from_folders_and_addresses(pets: Plica, command: str) -> None:
    done(asked(pets, command, "pets.parquet", "whole.parquet"))
    expected = pq.read_table("whole.parquet")
    assert expected.num_rows == ROWS
    memory = fsspec.filesystem("memory")
    memory.pipe("/pets/a.parquet", Path("pets.parquet").read_bytes())
    try:
        for data in ("pets", Path("pets.parquet").absolute().as_uri(), "memory://pets/a.parquet", "memory://pets"):
            done(asked(pets, command, data, "out.parquet"))
            assert pq.read_table("out.parquet").equals(expected), data
    finally:
        memory.rm("/pets", recursive=True)


def test_an_address_of_the_output_is_not_written_over(pets: Plica) -> None:
    before = Path("pets.parquet").read_bytes()
    address = Path("pets.parquet").absolute().as_uri()
    assert "would overwrite this input" in refused(pets("complete", "m.plica", address, "-o", "pets.parquet"))
    assert Path("pets.parquet").read_bytes() == before
    assert "memory://none.parquet: no such file" in refused(
        pets("score", "m.plica", "memory://none.parquet", "-o", "a.csv")
    )


@pytest.mark.parametrize("out", ["pets/0.parquet", "pets/all.parquet", "pets/out", "link/0.parquet"])
def test_outputs_do_not_lie_among_the_rows(pets: Plica, out: str) -> None:
    """A second run would read the answers of the first one as rows, and an engine would remove them."""
    Path("link").symlink_to("pets")
    before = {path.name: path.read_bytes() for path in Path("pets").iterdir()}
    words = ("--engine", "processes") if out == "pets/out" else ()
    for data in ("pets", Path("pets").absolute().as_uri()):
        assert "would lie among the input" in refused(pets("complete", "m.plica", data, "-o", out, *words))
    assert "would lie among the input" in refused(
        pets("train", "pets", "--columns", "auto", "--out", out.removesuffix(".parquet"))
    )
    assert {path.name: path.read_bytes() for path in Path("pets").iterdir()} == before


def test_draws_are_of_rows_from_anywhere(pets: Plica) -> None:
    for data, out in (("pets.parquet", "a.parquet"), ("pets", "b.parquet")):
        done(pets("sample", "m.plica", "-n", 2, "--given", data, "-o", out, "--seed", 3, "--batch", 16))
    drawn, given = pq.read_table("a.parquet"), pq.read_table("pets.parquet")
    assert drawn.equals(pq.read_table("b.parquet"))
    assert drawn.schema.equals(given.schema)
    for name in given.column_names:
        known = [cell for cell in given[name].to_pylist() for _ in range(2)]
        found = drawn[name].to_pylist()
        assert all(cell is None or cell == new for cell, new in zip(known, found, strict=True))
        assert name == "note" or None not in found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_no_cell_of_a_table_becomes_an_object_for_each_row(
    pets: Plica, command: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ending == ".csv":
        pyarrow.csv.write_csv(rows_of_pets().drop_columns(["key"]), "pets.csv")

    def fails(_: object) -> None:
        raise AssertionError("cells were asked for")

    monkeypatch.setattr(ColumnBatch, "cells", property(fails))
    done(asked(pets, command, f"pets{ending}", f"out{ending}"))


@pytest.mark.parametrize("command", COMMANDS)
def test_columns_are_kept_as_they_are(pets: Plica, command: str) -> None:
    given = rows_of_pets()
    done(asked(pets, command, "pets.parquet", "plain.parquet"))
    done(asked(pets, command, "pets.parquet", "kept.parquet", "--keep", "legs", "--keep", "key", "--batch", 7))
    plain, kept = pq.read_table("plain.parquet"), pq.read_table("kept.parquet")
    for name in ("legs", "key"):
        assert kept[name].equals(given[name])
        assert kept.schema.field(name).type == given.schema.field(name).type
    assert "note" not in kept.column_names
    if command == "complete":
        assert kept.column_names == ["key", "pet", "legs", "weight", "seen"]
    else:
        assert kept.column_names[:2] == ["legs", "key"]
    for name in set(kept.column_names) - {"legs", "key"}:
        assert kept[name].equals(plain[name])
    done(asked(pets, command, "pets.parquet", "kept.csv", "--keep", "note"))
    texts = pyarrow.csv.read_csv(
        "kept.csv",
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=[""]),
    )
    assert texts["note"].to_pylist() == given["note"].to_pylist()


@pytest.mark.parametrize(
    ("words", "out", "message"),
    [
        (
            ("--keep", "nothing"),
            "a.csv",
            "pets.parquet: --keep nothing: there is no such column; it has key, pet, legs",
        ),
        (("--keep", "key", "--keep", "key"), "a.csv", "--keep key: is given twice"),
        (("--keep", "key"), "a.npy", "a.npy: arrays have no names and no text, so --keep needs .csv or .parquet"),
    ],
)
@pytest.mark.parametrize("command", ["score", "complete"])
def test_columns_that_cannot_be_kept(pets: Plica, command: str, words: Sequence[str], out: str, message: str) -> None:
    assert message in refused(asked(pets, command, "pets.parquet", out, *words))
    assert not Path(out).exists()


def test_a_kept_column_with_the_name_of_a_result(pets: Plica) -> None:
    table = rows_of_pets()
    pq.write_table(table.append_column("log_likelihood", table["weight"]), "pets.parquet")
    message = refused(asked(pets, "score", "pets.parquet", "a.csv", "--keep", "log_likelihood"))
    assert "--keep log_likelihood: the result has a column of that name; rename the one of the table" in message


# Bad input


def _lacks_a_column(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["weight"]), path)


def _has_other_cells(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(3, "weight", pa.array(["heavy"] * len(table))), path)


def _is_cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _is_empty(path: Path) -> None:
    path.write_bytes(b"")


def _has_a_damaged_group(path: Path) -> None:
    content = bytearray(path.read_bytes())
    at = pq.ParquetFile(path).metadata.row_group(1).column(3).data_page_offset
    content[at : at + 40] = b"\xff" * 40
    path.write_bytes(bytes(content))


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a lacking column": (_lacks_a_column, "pets/9.parquet: there is no column 'weight', which pets/0.parquet has"),
    "other cells": (_has_other_cells, "pets/9.parquet: column 'weight' holds string, expected double as in pets/0"),
    "cut short": (_is_cut_short, "pets/9.parquet: not a readable .parquet file"),
    "empty": (_is_empty, "pets/9.parquet: not a readable .parquet file"),
    "a damaged row group": (_has_a_damaged_group, "pets/9.parquet: cannot be read from row group 1, row 4 on"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", ["score", "complete"])
def test_a_faulty_tenth_file_is_one_line_and_an_older_result_stays(pets: Plica, command: str, fault: str) -> None:
    damage, message = FAULTS[fault]
    done(asked(pets, command, "pets", "out.parquet"))
    before = Path("out.parquet").read_bytes()
    damage(Path("pets/9.parquet"))
    assert message in refused(asked(pets, command, "pets", "out.parquet", "--batch", 4))
    assert Path("out.parquet").read_bytes() == before
    names = {path.name for path in Path().iterdir()}
    assert names == {"m.plica", "out.parquet", "pets", "pets.parquet", "seen.parquet"}


def test_files_of_a_folder_without_rows_are_passed_over(pets: Plica) -> None:
    pq.write_table(pq.read_table("pets/4.parquet").slice(0, 0), "pets/4.parquet")
    done(asked(pets, "score", "pets", "out.npy"))
    assert len(np.load("out.npy")) == ROWS - PART
    for part in Path("pets").iterdir():
        pq.write_table(pq.read_table(part).slice(0, 0), part)
    done(asked(pets, "complete", "pets", "none.csv"))
    assert Path("none.csv").read_text() == "key,pet,legs,weight,seen,note\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.csv: the file is empty"),
        (b"pet,legs,weight,seen\ncat,1,2,2000-01-01 00:00:00\ncat,1\n", "a.csv, line 3: found 2 columns, expected 4"),
        (b'pet,legs,weight,seen\ncat,1,2,\n"cat"x,1,2,\n', "a.csv, line 3: cannot be read as cells"),
        (b"pet,legs,weight,seen\ncat,1,2,\n\ncat,1,2,\n", "a.csv, line 3: the line is empty; remove it"),
        (b"pet,legs,weight,seen\ncat,one,2,\n", "a.csv, line 2, column 'legs': 'one' is no count"),
    ],
)
def test_a_faulty_text_is_one_line(pets: Plica, content: bytes, message: str) -> None:
    Path("a.csv").write_bytes(content)
    Path("out.csv").write_text("old")
    assert message in refused(asked(pets, "complete", "a.csv", "out.csv"))
    assert Path("out.csv").read_text() == "old"


def test_a_fault_far_behind_in_a_text_is_found(pets: Plica) -> None:
    """It lies in another block than the beginning."""
    line = b'"cat",1,2.5,\n'
    lines = 2**20 // len(line) + 10
    for end, message in ((b'"cat,1,2,\n', "cannot be read as cells"), (b"\ncat,1,2,\n", "the line is empty")):
        Path("a.csv").write_bytes(b"pet,legs,weight,seen\n" + lines * line + end)
        found = refused(asked(pets, "score", "a.csv", "out.npy", "--batch", 4096))
        assert message in found
        assert "a.csv, line " in found
    Path("a.csv").write_bytes(b"pet,legs,weight,seen\n" + lines * line + b"\n\n")
    done(asked(pets, "score", "a.csv", "out.npy", "--batch", 4096))
    assert len(np.load("out.npy")) == lines


def test_compressed_texts_are_read_and_quotes_within_cells_are_cells(pets: Plica) -> None:
    Path("a.tsv.gz").write_bytes(gzip.compress(b'pet\tlegs\tweight\tseen\tsize\n"cat"\t\t1.5\t\t6" wide\n'))
    done(asked(pets, "complete", "a.tsv.gz", "out.parquet"))
    (row,) = pq.read_table("out.parquet").to_pylist()
    assert (row["pet"], row["weight"], row["size"]) == ("cat", 1.5, '6" wide')
    assert row["legs"] is not None


# `plica run`


@pytest.fixture
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_arrays, "_ROWS", 3)


@pytest.mark.usefixtures("few_rows_at_once")
@pytest.mark.parametrize("out", ["y.npy", "y.npz", "y.csv", "y.parquet"])
def test_a_native_entry_runs_batch_by_batch(plica: Plica, out: str) -> None:
    native_file(Path("m.plicab"))
    x = np.arange(40, dtype=np.float32).reshape(10, 4)
    table = pa.table([*x.T], names=list("abcd"))
    np.save("x.npy", x.reshape(10, 2, 2))
    np.savez("x.npz", x=x, other=x[:2])
    np.savez_compressed("only.npz", only=x)
    pyarrow.csv.write_csv(table, "x.csv")
    pq.write_table(table, "x.parquet", row_group_size=4)
    Path("x").mkdir()
    for part in range(2):
        pq.write_table(table.slice(5 * part, 5), f"x/{part}.parquet")
    address = Path("x.parquet").absolute().as_uri()
    for word in ("x.npy", "x.npz", "only.npz", "x.csv", "x.parquet", "x", address, f"x={address}"):
        done(plica("run", "m.plicab", "-i", word, "-o", out))
        if out == "y.npy":
            found = np.load(out)
        elif out == "y.npz":
            found = np.load(out)["y"]
        else:
            columns = pq.read_table(out) if out == "y.parquet" else pyarrow.csv.read_csv(out)
            found = np.stack([column.to_numpy() for column in columns.columns], axis=1)
        np.testing.assert_array_equal(found, x @ WEIGHT)


@pytest.mark.usefixtures("few_rows_at_once")
def test_draws_do_not_depend_on_batches(plica: Plica) -> None:
    native_file(Path("m.plicab"))
    x = np.zeros((10, 3), np.float32)
    np.save("x.npy", x)
    done(plica("run", "m.plicab", "--entry", "noisy", "--seed", 5, "-i", "x.npy", "-o", "y.npy"))
    np.testing.assert_array_equal(np.load("y.npy"), np.random.default_rng(5).random((10, 3), np.float32))


@pytest.mark.usefixtures("few_rows_at_once")
def test_a_fault_in_a_later_batch_leaves_the_older_result(plica: Plica) -> None:
    native_file(Path("m.plicab"))
    rows = [["1", "2", "3", "4"] for _ in range(9)]
    rows[7][2] = "three"
    Path("x.csv").write_text("a,b,c,d\n" + "".join(",".join(row) + "\n" for row in rows))
    Path("y.npy").write_bytes(b"old")
    message = refused(plica("run", "m.plicab", "-i", "x.csv", "-o", "y.npy"))
    assert "x.csv, line 9, column 3: 'three' is not a finite number" in message
    assert Path("y.npy").read_bytes() == b"old"


@pytest.mark.full
@pytest.mark.usefixtures("without_pictures")
def test_training_reads_folders_and_addresses(plica: Plica) -> None:
    Path("rows").mkdir()
    table = rows_of_pets().drop_columns(["key"])
    for part in range(2):
        pq.write_table(table.slice(30 * part, 30), f"rows/{part}.parquet")
    pyarrow.csv.write_csv(table, "rows.csv")
    address = Path("rows.csv").absolute().as_uri()
    words = ("--columns", "auto", "--epochs", 1, "--units", 2, "--quiet")
    for data in ("rows", address):
        done(plica("train", data, "--out", f"out-{len(data)}", *words))
