"""Random rows in each format: commands answer as the Python API row by row, or say in one line which file is faulty."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from plica import tables
from plica.data import Rows

Plica = Callable[..., Result]
_PETS = ("cat", 'say "a, b"', "two\nlines", "\u2603", " dog")
_COLUMNS = ("pet", "legs", "weight", "seen", "tame")


def random_rows(rng: np.random.Generator, count: int, *, known: bool = False) -> Any:
    """Rows of the columns of the model; unless `known`, at times of unknown categories or without any cell."""
    pets = _PETS if known or rng.random() < 0.5 else (*_PETS, "new, pet", "", "nan")
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 900, count)]
    columns = {
        "pet": pa.array([pets[place] for place in rng.integers(len(pets), size=count)], pa.string()),
        "legs": pa.array(rng.poisson(4, count), pa.int64()),
        "weight": pa.array(rng.normal(size=count).round(2), pa.float64()),
        "seen": pa.array(days, pa.date32()),
        "tame": pa.array(rng.random(count) < 0.5, pa.bool_()),
    }
    for name, column in columns.items():
        share = 0.1 if known else rng.choice([0.0, 0.3, 1.0], p=[0.5, 0.4, 0.1])
        columns[name] = pa.array([None if rng.random() < share else cell for cell in column.to_pylist()], column.type)
    return pa.table(columns)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("model") / "m.plica"
    rows = random_rows(np.random.default_rng(0), 200, known=True)
    tables.fit(rows, units=2, epochs=1, seed=0).save(path)
    return path


def is_text(path: Path) -> bool:
    return not {".csv", ".tsv"}.isdisjoint(path.suffixes)


def write_part(table: Any, path: Path, rng: np.random.Generator) -> None:
    if is_text(path):
        kinds = {pa.bool_(), pa.date32()}
        table = pa.table(
            {
                name: column.cast(pa.string()) if column.type in kinds else column
                for name, column in zip(table.schema.names, table.columns, strict=True)
            }
        )
        with pa.output_stream(path, compression="detect") as file:
            pyarrow.csv.write_csv(
                table, file, pyarrow.csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
            )
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=int(rng.integers(1, 9)))
    else:
        pq.write_table(table, path, row_group_size=int(rng.integers(1, 9)), use_dictionary=bool(rng.integers(2)))


def random_folder(rng: np.random.Generator, folder: Path) -> tuple[Any, list[Path]]:
    """Rows with a key in one to four files, some without rows, of which the columns may be in another order."""
    ending = rng.choice([".parquet", ".arrow", ".csv", ".csv.gz", ".tsv"])
    count = int(rng.choice([1, 5, 30]))
    table = random_rows(rng, count).append_column("key", pa.array([f'k{row}, "x"' for row in range(count)]))
    table = table.select([table.schema.names[place] for place in rng.permutation(6)])
    cuts = sorted(int(cut) for cut in rng.integers(0, count + 1, size=int(rng.integers(0, 4))))
    folder.mkdir()
    files = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, count], strict=True)):
        part = table.slice(start, stop - start)
        if number and rng.random() < 0.5:
            part = part.select([part.schema.names[place] for place in rng.permutation(6)])
        files.append(folder / f"{number}{ending}")
        write_part(part, files[-1], rng)
    return table, files


def column(path: Path, name: str) -> list[Any]:
    rows = Rows(path, named=True if is_text(path) else None)
    return [cell for batch in rows.batches([name]) for cell in batch.data.column(0).to_pylist()]


@pytest.mark.one_in(87)
@pytest.mark.parametrize("seed", range(174))
def test_answers_are_those_of_python(plica: Plica, model: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, files = random_folder(rng, Path("rows"))
    loaded, batch = tables.load(model), int(rng.choice([1, 3, 1000]))
    out = f"out{rng.choice(['.parquet', '.csv'])}"
    words = ("--batch", batch, "--keep", "key")
    keys = table["key"].to_pylist()

    def run(*command: object) -> None:
        result = plica(*command, *words)
        assert result.exit_code == 0, (result.output, result.exception)
        assert column(Path(out), "key") == keys

    run("score", model, "rows", "-o", out)
    scores = np.asarray(column(Path(out), "log_likelihood"), float)
    np.testing.assert_allclose(scores, np.asarray(loaded.score(table)), rtol=1e-5)
    run("predict", model, "rows", "--column", "pet", "-o", out)
    answer = loaded.predict("pet", table)
    for pet in ("cat", "\u2603"):
        np.testing.assert_allclose(np.asarray(column(Path(out), pet), float), np.asarray(answer[pet]), rtol=1e-5)
    run("complete", model, "rows", "-o", out)
    full = loaded.complete(table)
    is_same = is_text(Path(out)) == is_text(files[0])
    for name in _COLUMNS:
        cells = (column(Path(out), name), full[name].to_pylist(), table[name].to_pylist())
        for got, cell, before in zip(*cells, strict=True):
            wanted = before or cell if name == "pet" else cell
            if name == "weight":
                assert float(got) == pytest.approx(float(cell), rel=1e-5)
            elif is_same:  # to the letter
                assert str(got).lower() == str(wanted).lower()
            else:
                assert str(got).strip().lower() == str(wanted).strip().lower()


_WHOLES = tuple(pa.from_numpy_dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
_NUMBERS = ((*_WHOLES, pa.float64()), (*_WHOLES, pa.decimal128(20, 0)), (pa.float16(),), (pa.float32(),))
_STORED: dict[str, tuple[tuple[Any, ...], ...]] = {
    "pet": (_TEXTS,),
    "legs": (*_NUMBERS, _TEXTS),
    "weight": ((pa.float64(),), (pa.decimal128(9, 2), pa.decimal256(60, 2)), _TEXTS),
    "seen": ((pa.date32(), pa.date64()), tuple(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), _TEXTS),
    "tame": ((pa.bool_(),), *_NUMBERS, _TEXTS),
}
"""By column: families of types that hold its cells; a type of a family stands for another one in the next file."""


def stored_as(column: Any, kind: Any) -> Any:
    """A column in another type that holds its cells."""
    if pa.types.is_dictionary(kind):
        return stored_as(column, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_boolean(column.type) and kind != column.type:
        column = column.cast(pa.string() if kind in _TEXTS else pa.int8())
    if pa.types.is_decimal(kind):
        return pa.array([None if cell is None else decimal.Decimal(str(cell)) for cell in column.to_pylist()], kind)
    return column.cast(kind)


def canonical(name: str, cell: Any) -> Any:
    """A cell of a column, whatever type it is stored in."""
    if name == "pet":  # tables of another kind get categories without spaces around them
        return cell and cell.strip()
    text = str(cell).strip().lower()
    if name == "seen":
        return text[:10]
    return text in ("true", "1", "1.0") if name == "tame" else float(text)


def in_other_types(rng: np.random.Generator, folder: Path, table: Any) -> None:
    """Write rows to files that store each column in types of one family."""
    families = {name: kinds[int(rng.integers(len(kinds)))] for name, kinds in _STORED.items()}
    cuts = sorted(int(cut) for cut in rng.integers(0, len(table) + 1, size=int(rng.integers(0, 4))))
    folder.mkdir()
    ending = rng.choice([".parquet", ".arrow"])
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
        part = table.slice(start, stop - start)
        for name, family in families.items():
            kinds = [kind for kind in family if ending == ".arrow" or kind != pa.string_view()]
            column = stored_as(part[name], kinds[int(rng.integers(len(kinds)))])
            part = part.set_column(part.schema.get_field_index(name), name, column)
        write_part(part, folder / f"{number}{ending}", rng)


@pytest.mark.one_in(60)
@pytest.mark.parametrize("seed", range(120))
def test_answers_do_not_depend_on_the_types_of_columns(plica: Plica, model: Path, seed: int) -> None:
    """Files store whole numbers as decimals, truth values as numbers, text as codes, and so on."""
    rng = np.random.default_rng(seed)
    table = random_rows(rng, int(rng.choice([1, 5, 30])), known=bool(rng.integers(2)))
    in_other_types(rng, Path("rows"), table)
    loaded, out = tables.load(model), f"out{rng.choice(['.parquet', '.csv'])}"

    def run(*command: object) -> None:
        result = plica(*command, "-o", out)
        assert result.exit_code == 0, (result.output, result.exception)

    run("score", model, "rows")
    np.testing.assert_allclose(np.asarray(column(Path(out), "log_likelihood"), float), loaded.score(table), rtol=1e-5)
    run("predict", model, "rows", "--column", "weight", "--quantiles", "0.1,0.9")
    answer = loaded.predict("weight", table, quantiles=[0.1, 0.9])
    for name in ("mean", "0.1", "0.9"):
        np.testing.assert_allclose(np.asarray(column(Path(out), name), float), answer[name], rtol=1e-4, atol=1e-5)
    run("complete", model, "rows")
    full = loaded.complete(table)
    for name in _COLUMNS:
        cells = [canonical(name, cell) for cell in column(Path(out), name)]
        wanted = [canonical(name, cell) for cell in full[name].to_pylist()]
        assert cells == (pytest.approx(wanted, rel=1e-5) if name in ("legs", "weight") else wanted), name


def damage(path: Path, rng: np.random.Generator) -> str:
    """What is wrong with a file of rows afterwards; nothing if it has no rows to be wrong."""
    fault = str(rng.choice(["empty", "cut", "lacks", "word", "inf", "other"]))
    content = path.read_bytes()
    if fault == "empty":
        path.write_bytes(b"")
    elif fault == "cut":
        if path.suffix in (".csv", ".tsv"):  # a text that is cut may be one
            return ""
        path.write_bytes(content[: int(rng.integers(1, len(content) - 8))])
    else:
        source = Rows(path)
        batches = [batch.data for batch in source.converted(lambda batch: batch, range(6), may_be_empty=True)]
        rows = pa.Table.from_batches(batches, None if batches else source.schema)
        at = rows.schema.get_field_index("weight")
        if fault == "lacks":
            rows = rows.remove_column(at)
        elif not rows.num_rows:
            return ""
        elif fault == "word" and is_text(path):
            rows = rows.set_column(at, "weight", pa.array(["1"] * (len(rows) - 1) + ["heavy"]))
        elif fault == "inf":
            cells: Any = pa.array([1.0] * (len(rows) - 1) + [np.inf])
            rows = rows.set_column(at, "weight", cells.cast(rows.schema.field(at).type))
        elif not is_text(path):
            rows = rows.set_column(at, "weight", pa.array([b"x"] * len(rows)))
        else:
            return ""
        write_part(rows, path, rng)
    return fault


@pytest.mark.one_in(112)
@pytest.mark.parametrize("seed", range(224))
def test_a_fault_is_one_line_and_an_older_result_stays(plica: Plica, model: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, files = random_folder(rng, Path("rows"))
    out = Path(f"out{rng.choice(['.parquet', '.csv', '.npy', '.npz'])}")
    out.write_bytes(b"old")
    faulty = files[int(rng.integers(len(files)))]
    if not damage(faulty, rng):
        return
    command = str(rng.choice(["score", "complete", "predict", "sample"]))
    words = {"predict": ["rows", "--column", "pet"], "sample": ["--given", "rows"]}.get(command, ["rows"])
    if command in ("complete", "sample"):
        out = out.with_suffix(".parquet")
        out.write_bytes(b"old")
    before = {item.name for item in Path().iterdir()}
    result = plica(command, model, *words, "-o", out, "--batch", int(rng.choice([1, 4, 100])))
    assert result.exit_code == 2, (result.output, result.exception)
    assert re.fullmatch(r"plica: error: [^\n]*\n", result.stderr), result.stderr
    assert faulty.name in result.stderr or (faulty == files[0] and "column 'weight'" in result.stderr)
    assert out.read_bytes() == b"old"
    assert {item.name for item in Path().iterdir()} == before
