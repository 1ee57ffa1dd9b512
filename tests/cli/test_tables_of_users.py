"""Tables as users have them: without names, with columns of every kind and distribution, in files of every ending."""

import csv
import datetime
import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from plica.cli.columns import show_kinds
from plica.draw.images import sample_grid
from plica.errors import InputError
from plica.files.datasets import Dataset
from plica.files.encoding import Encoding
from plica.files.infer import infer_columns
from plica.files.kinds import KINDS, TableColumn
from plica.symbolic.layers import DISTRIBUTIONS
from plica.tables.build import build_circuit
from plica.tables.data_sets import from_typed
from plica.tables.rules import choose
from tests.harness.tables_of_users import run, untrained
from tests.harness.together import grouped

Plica = Callable[..., Result]
MODEL = "out/model.plica"


pytestmark = pytest.mark.usefixtures("without_pictures")


def train(plica: Plica, data: str, *words: Any) -> None:
    result = plica("train", data, "--out", "out", "--units", 2, "--epochs", 1, "--quiet", *words)
    assert result.exit_code == 0, result.output


def done(result: Result) -> None:
    assert result.exit_code == 0, (result.output, result.exception)
    assert not result.output


def refused(result: Result, message: str) -> None:
    assert result.exit_code == 2, (result.output, result.exception)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_text_without_names_stays_without(plica: Plica) -> None:
    Path("rows.csv").write_text("".join(f"{row % 2},{row % 3},{row % 2}\n" for row in range(30)))
    train(plica, "rows.csv")
    Path("holes.csv").write_text("1,,0\n,,\n")
    done(plica("complete", MODEL, "holes.csv", "-o", "full.csv"))
    done(plica("sample", MODEL, "-n", 3, "-o", "drawn.csv"))
    for name, count in (("full.csv", 2), ("drawn.csv", 3)):
        assert len(Path(name).read_text().splitlines()) == count
        done(plica("score", MODEL, name, "-o", "scores.npy"))
        assert np.load("scores.npy").shape == (count,)
    assert Path("full.csv").read_text().startswith("1,")
    Path("holes.csv").write_text("a,b,c\n1,,0\n")
    done(plica("complete", MODEL, "holes.csv", "-o", "full.csv"))
    assert Path("full.csv").read_text().startswith("a,b,c\n1,")


@pytest.mark.full
def test_arrays_with_ignored_columns(plica: Plica) -> None:
    values = np.random.default_rng(0).integers(0, 3, (30, 3)).astype(np.float32)
    np.save("rows.npy", values)
    Path("columns.json").write_text('{"1": "ignored"}')
    train(plica, "rows.npy", "--columns", "columns.json")
    values[0, 0] = np.nan
    np.save("holes.npy", values)
    for ending in ("csv", "parquet", "npy", "npz"):
        done(plica("complete", MODEL, "holes.npy", "-o", f"full.{ending}"))
        done(plica("score", MODEL, f"full.{ending}", "-o", "scores.npy"))
        assert np.load("scores.npy").shape == (30,)
    assert Path("full.csv").read_text().splitlines()[0] == "0,1,2"
    full = np.load("full.npy")
    assert full.dtype == np.float32
    np.testing.assert_array_equal(full[1:], values[1:])
    np.testing.assert_array_equal(np.load("full.npz")["rows"], full)


def test_means_where_no_variable_has_states(plica: Plica) -> None:
    np.save("rows.npy", np.random.default_rng(0).normal(size=(30, 2)))
    train(plica, "rows.npy", "--input", "gaussian")
    np.save("holes.npy", np.array([[np.nan, 1.0], [0.5, np.nan]]))
    done(plica("complete", MODEL, "holes.npy", "-o", "full.npy", "--method", "mean"))
    assert np.isfinite(np.load("full.npy")).all()


@grouped("name", DISTRIBUTIONS)
@grouped("kind", tuple(KINDS))
def test_a_column_has_a_distribution_of_its_kind_or_is_refused(name: str, kind: Any) -> None:
    categories = ("x", "y") if KINDS[kind].closed else ()
    form = {"date": "%Y-%m-%d", "timestamp": "%Y-%m-%d %H:%M", "time": "%H:%M"}.get(kind, "")
    rows = np.array([[0.0, 0.5], [1.0, 0.2]])
    encoding = Encoding((TableColumn("a", kind, categories, name, form), TableColumn("b", "real")))
    data = Dataset("t", rows, rows, rows, None, None, encoding)
    recipe = choose(data, units=2)
    distribution = DISTRIBUTIONS[name]
    takes_states = distribution.settings is not None or distribution.domain().num_states == 2
    whole = takes_states or distribution.domain().whole
    negative = whole and not takes_states and distribution.domain().least < 0
    fits = {"count": whole and distribution.settings is None and not negative, "real": not whole}
    if fits.get(kind, takes_states if KINDS[kind].closed else negative):
        circuit = build_circuit(recipe, data, seed=0, dtype="float32")
        encoding.check_domains([circuit.domains[0], circuit.domains[1]])
    else:
        with pytest.raises(InputError, match=r"column 'a'.*(kind|categories)"):
            build_circuit(recipe, data, seed=0, dtype="float32")


def test_values_outside_the_domain_of_a_typed_column_are_named(plica: Plica) -> None:
    rng = np.random.default_rng(0)
    rows = "".join(f"{rng.uniform(0.1, 0.9):.3f},{rng.normal():.3f}\n" for _ in range(30))
    Path("rows.csv").write_text("share,x\n" + rows)
    Path("columns.json").write_text(json.dumps({"share": {"kind": "real", "input": "beta"}}))
    train(plica, "rows.csv", "--columns", "columns.json")
    Path("wrong.csv").write_text("note,x,share\n,1,0.5\n,1,1.5\n")
    result = plica("score", MODEL, "wrong.csv", "-o", "scores.csv")
    refused(result, "wrong.csv, line 3, column 'share': 1.5 is not between 0 and 1; rescale the data")
    assert not Path("scores.csv").exists()


def test_the_distribution_of_typed_columns_is_not_asked_for_with_one_of_all(plica: Plica) -> None:
    Path("rows.csv").write_text("a\n" + "1.5\n2.5\n" * 10)
    refused(
        plica("train", "rows.csv", "--columns", "auto", "--input", "laplace", "--out", "out"),
        "--input applies to rows of one kind",
    )
    assert not Path("out").exists()


def test_the_first_line_of_typed_columns_is_their_names(plica: Plica) -> None:
    Path("rows.csv").write_text("1990,1991\n" + "1.5,a\n2.5,b\n" * 10)
    data = from_typed(Path("rows.csv"), records={})
    assert data.encoding is not None
    assert [column.name for column in data.encoding.columns] == ["1990", "1991"]
    assert sum(len(part) for part in (data.train, data.valid, data.test)) == 20
    train(plica, "rows.csv", "--columns", "auto")
    done(plica("sample", MODEL, "-n", 3, "-o", "drawn.csv"))
    assert Path("drawn.csv").read_text().splitlines()[0] == "1990,1991"


def test_the_example_of_a_changed_kind_names_whole_numbers_which_may_be_codes() -> None:
    cells = np.array([[place, (10115, 20095, 80331)[place % 3]] for place in range(9)], object)
    assert '{"shop": "categorical"}' in show_kinds(Encoding(infer_columns(("day", "shop"), cells)))
    assert '{"day": "categorical"}' in show_kinds(Encoding(infer_columns(("day", "shop"), cells % 7)))


def test_an_archive_with_splits_keeps_them_with_typed_columns(plica: Plica) -> None:
    values = np.random.default_rng(0).integers(0, 3, (40, 2)).astype(float)
    np.savez("rows.npz", train=values[:25], valid=values[25:30], test=values[30:])
    data = from_typed(Path("rows.npz"), records={})
    assert [len(part) for part in (data.train, data.valid, data.test)] == [25, 5, 10]
    np.testing.assert_array_equal(data.test, values[30:])
    np.savez("rows.npz", train=values, valid=values[:, :1], test=values)
    refused(plica("train", "rows.npz", "--columns", "auto", "--out", "out"), "rows of 1 cells, expected 2")
    np.savez("rows.npz", train=values, valid=values, test=values, num_variables=16)
    refused(plica("train", "rows.npz", "--columns", "auto", "--out", "out"), "packed bits")


def test_columns_of_parquet_that_no_model_reads_are_passed_on(plica: Plica) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    when = [datetime.datetime(2026, 1, 1 + row % 28) for row in range(30)]
    columns = {
        "when": arrow.array(when, arrow.timestamp("ms")),
        "pet": arrow.array([None if row == 2 else "cd"[row % 2] for row in range(30)]).dictionary_encode(),
        "weight": arrow.array([None if row == 3 else row / 7 for row in range(30)], arrow.float32()),
        "id": arrow.array([2**63 + row for row in range(30)], arrow.uint64()),
        "price": arrow.array([decimal.Decimal("1.50")] * 30),
        "none": arrow.array([None] * 30),
        "lists": arrow.array([[row] for row in range(30)]),
    }
    parquet.write_table(arrow.table(columns), "rows.parquet")
    Path("columns.json").write_text('{"lists": "categorical"}')
    result = plica("train", "rows.parquet", "--columns", "columns.json", "--out", "out")
    refused(result, "column 'lists' holds list<")
    Path("columns.json").write_text(json.dumps(dict.fromkeys(("when", "id", "price", "none"), "ignored")))
    train(plica, "rows.parquet", "--columns", "columns.json")
    done(plica("complete", MODEL, "rows.parquet", "-o", "full.parquet", "--batch", 7))
    found = parquet.read_table("full.parquet")
    for name, column in columns.items():
        before, after = column.to_pylist(), found[name].to_pylist()
        assert all(new == old for old, new in zip(before, after, strict=True) if old is not None)
        assert name == "none" or None not in after
    assert [found.schema.field(name).type for name in ("when", "id")] == [arrow.timestamp("ms"), arrow.uint64()]
    done(plica("complete", MODEL, "rows.parquet", "-o", "full.csv"))
    assert Path("full.csv").read_text().splitlines()[1].endswith(",9223372036854775808,1.50,,[0]")


@pytest.mark.full
def test_arrays_of_every_dtype_are_read(plica: Plica) -> None:
    np.save("rows.npy", np.random.default_rng(0).integers(0, 2, (30, 2)))
    train(plica, "rows.npy")
    for dtype in (">f8", ">i4", "longdouble", "float16", "uint16", "bool"):
        values = np.array([[0, 1], [1, 1]]).astype(dtype)
        np.save(f"{dtype}.npy", values)
        for ending in ("npy", "csv", "parquet"):
            full = f"full {dtype}.{ending}"
            done(plica("complete", MODEL, f"{dtype}.npy", "-o", full))
            done(plica("score", MODEL, full, "-o", "scores.npy"))
        np.testing.assert_array_equal(np.load(f"full {dtype}.npy"), values, err_msg=dtype)


def test_names_of_every_kind(plica: Plica) -> None:
    """Marks of formulas, of templates of text, of HTML and of shells, in names of files and of columns."""
    stem = "$\\frac{ {} %s <script>alert(1)<'\"&\n\u2603"
    names = ["a\nb", "<script>alert(1)</script>", "$\\frac{", "{}"]
    with Path(f"{stem}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *[["x", 1.5, 2, "\u00e9"], ["y", 2.5, "", "$"]] * 15])
    train(plica, f"{stem}.csv", "--columns", "auto")
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    done(plica("complete", MODEL, f"{stem}.csv", "-o", "full.csv"))
    with Path("full.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == names
    Path("huge.csv").write_text('"{}",b\n' + "1e300,1\n2.5e300,2\n" * 10)
    message = "huge: the values of column '{}' reach 2.5e+300, too large for float32"
    Path("columns.json").write_text('{"{}": "real"}')
    refused(plica("train", "huge.csv", "--columns", "columns.json", "--out", "again"), message)


def test_a_parquet_file_is_trained_on_with_columns(plica: Plica) -> None:
    Path("rows.parquet").write_bytes(b"PAR1")
    refused(plica("train", "rows.parquet", "--out", "out"), "--columns auto")


def test_names_with_spaces_around_them_stay_and_are_found_without(plica: Plica) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    cells = ["a", "b", ""] * 10
    Path("rows.csv").write_text(" pet,age \n" + "".join(f"{cell},{row / 7}\n" for row, cell in enumerate(cells)))
    columns = {"pet ": [cell or None for cell in cells], " age": [row / 7 for row in range(30)]}
    parquet.write_table(arrow.table(columns), "rows.parquet")
    train(plica, "rows.csv", "--columns", "auto")
    done(plica("complete", MODEL, "rows.csv", "-o", "full.csv"))
    assert Path("full.csv").read_text().startswith(" pet,age \n")
    done(plica("complete", MODEL, "rows.parquet", "-o", "full.parquet"))
    assert parquet.read_table("full.parquet").column_names == list(columns)
    for data in ("rows.csv", "rows.parquet"):
        done(plica("marginal", MODEL, data, "--of", " pet", "-o", data + ".npy"))
    np.testing.assert_array_equal(np.load("rows.csv.npy"), np.load("rows.parquet.npy"))


def test_whole_numbers_beyond_64_bits_are_text_in_parquet(plica: Plica) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    numbers = [2**63, 2**64 - 1, None] * 10
    parquet.write_table(arrow.table({"id": arrow.array(numbers, arrow.uint64())}), "rows.parquet")
    train(plica, "rows.parquet", "--columns", "auto")
    done(plica("complete", MODEL, "rows.parquet", "-o", "full.parquet"))
    found = parquet.read_table("full.parquet")["id"].to_pylist()
    assert all(old is None or new == str(old) for old, new in zip(numbers, found, strict=True))
    assert all(number.isdecimal() for number in found)
    done(plica("sample", MODEL, "-n", 5, "-o", "drawn.parquet"))
    for data in ("full.parquet", "drawn.parquet"):
        done(plica("score", MODEL, data, "-o", "scores.npy"))
        assert np.isfinite(np.load("scores.npy")).all()


def test_the_end_of_a_line_within_a_cell_stays_there(plica: Plica) -> None:
    with Path("rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["note", "n"], *([cell, row] for row, cell in enumerate(["a\rb", "a\r\nb", "a"] * 9))]
        )
    train(plica, "rows.csv", "--columns", "auto")
    done(plica("complete", MODEL, "rows.csv", "-o", "full.csv"))
    tables = []
    for path in ("rows.csv", "full.csv"):
        with Path(path).open(newline="") as file:
            tables.append(list(csv.reader(file)))
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('{"pet": "real", "pet": "count"}', "'pet' is given twice"),
        ('{"pet": "real", " pet": "count"}', "'pet' is given twice"),
        ('{"pet": {"kind": "categorical", "categories": ["cat", " cat"]}}', "different categories, at least one"),
        ('{"pet": {"kind": "categorical", "categories": ["cat", " "]}}', "none empty"),
        ('{"pet": {"kind": "categorical", "categories": ["cat"]}}', "'dog' is none of the categories cat; correct"),
    ],
)
def test_what_is_said_of_columns_is_said_once(plica: Plica, said: str, message: str) -> None:
    Path("rows.csv").write_text("pet\n" + "cat\ndog\n" * 9)
    Path("columns.json").write_text(said)
    refused(plica("train", "rows.csv", "--columns", "columns.json", "--out", "out"), message)


def test_embeddings_are_trained_and_spaces_are_left_out_of_what_is_said(plica: Plica) -> None:
    Path("rows.csv").write_text("pet \n" + "cat\n dog\n" * 9)
    said = {"pet ": {"kind": "categorical", "categories": [" dog", "cat", "bird"], "input": "embedding"}}
    Path("columns.json").write_text(json.dumps(said))
    train(plica, "rows.csv", "--columns", "columns.json")
    done(plica("score", MODEL, "rows.csv", "-o", "scores.npy"))
    Path("one.csv").write_text("pet\ndog\ncat\nbird\n")
    done(plica("score", MODEL, "one.csv", "-o", "all.npy"))
    assert np.exp(np.load("all.npy")).sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_array_equal(np.load("scores.npy")[:2], np.load("all.npy")[[1, 0]])


def test_truth_values_beside_categories_of_text(plica: Plica) -> None:
    """A model of a text's "True" reads the truth values of another file, and gives them all in one form."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    Path("rows.csv").write_text("member,kids\n" + "".join(f"{row % 3 == 0},{row % 2}\n" for row in range(30)))
    train(plica, "rows.csv", "--columns", "auto")
    cells = {"member": [True, None, False] * 4, "kids": [1.0, 0.0, None] * 4}
    parquet.write_table(arrow.table(cells), "holes.parquet")
    for name in ("full.parquet", "full.csv"):
        done(plica("complete", MODEL, "holes.parquet", "-o", name))
        done(plica("score", MODEL, name, "-o", "scores.npy"))
    full, kids = parquet.read_table("full.parquet").to_pydict().values()
    assert full[::3] == ["True"] * 4
    assert full[2::3] == ["False"] * 4
    assert set(full[1::3]) <= {"True", "False"}
    assert Path("full.csv").read_text().splitlines()[1:] == [
        f"{one},{kids:.0f}" for one, kids in zip(full, kids, strict=True)
    ]


def test_decimals_of_parquet_are_completed(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    prices = [decimal.Decimal("1.50"), None, decimal.Decimal("200.25")] * 10
    incomes = [decimal.Decimal(1000), decimal.Decimal(90000), None] * 10
    columns = {"price": arrow.array(prices), "income": arrow.array(incomes, arrow.decimal128(12, 0))}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    encoding = untrained(tmp_path / "m.plica", tmp_path / "t.parquet")
    assert [column.kind for column in encoding.columns] == ["real", "whole"]
    result = run("complete", tmp_path / "m.plica", tmp_path / "t.parquet", "-o", tmp_path / "full.parquet")
    assert result.exit_code == 0, result.output
    full = parquet.read_table(tmp_path / "full.parquet").to_pydict()
    for name, before in (("price", prices), ("income", incomes)):
        assert all(
            after == old if old is not None else after is not None
            for old, after in zip(before, full[name], strict=True)
        )


def test_dates_that_parquet_has_as_numbers_are_read_by_their_digits(plica: Plica) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    Path("rows.csv").write_text("day,n\n" + "".join(f"202601{1 + row % 28:02},{row % 3}\n" for row in range(40)))
    train(plica, "rows.csv", "--columns", "auto")
    days = [20260131, None, 20251224]
    parquet.write_table(arrow.table({"day": arrow.array(days, arrow.int64()), "n": [1, 2, None]}), "holes.parquet")
    for ending in ("csv", "parquet"):
        done(plica("complete", MODEL, "holes.parquet", "-o", f"full.{ending}"))
    full = parquet.read_table("full.parquet")
    assert str(full.schema.field("day").type) == "int64"
    found = full["day"].to_pylist()
    assert (found[0], found[2], len(str(found[1]))) == (20260131, 20251224, 8)
    with Path("full.csv").open(newline="") as file:
        assert [row["day"] for row in csv.DictReader(file)] == list(map(str, found))


def test_arrays_hold_every_second_of_drawn_time_stamps(plica: Plica) -> None:
    cells = [f"2026-01-31 12:{row % 60:02}:{row * 7 % 60:02},{2**30 + row}" for row in range(60)]
    Path("rows.csv").write_text("\n".join(["at,n", *cells]) + "\n")
    train(plica, "rows.csv", "--columns", "auto")
    done(plica("sample", MODEL, "-n", 40, "-o", "drawn.npy"))
    done(plica("sample", MODEL, "-n", 40, "-o", "drawn.csv"))
    drawn = np.load("drawn.npy")
    assert drawn.dtype == np.float64
    with Path("drawn.csv").open(newline="") as file:
        texts = [
            (str(np.datetime64(row["at"]).astype("datetime64[s]").astype(int)), row["n"])
            for row in csv.DictReader(file)
        ]
    assert [(f"{at:.0f}", f"{n:.0f}") for at, n in drawn] == texts


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("part", [0, 789])
def test_time_stamps_of_nanoseconds_are_completed(tmp_path: Path, zone: str | None, part: int) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    stamps = [None if row == 3 else 1_769_860_800_000_000_000 + 10**9 * row + part for row in range(30)]
    column = arrow.array(stamps, arrow.timestamp("ns", zone))
    parquet.write_table(arrow.table({"at": column}), tmp_path / "t.parquet")
    (found,) = untrained(tmp_path / "m.plica", tmp_path / "t.parquet").columns
    assert found.format == f"%Y-%m-%d %H:%M:%S{'%6f' if part else ''}{'%z[+00:00]' if zone and not part else ''}"
    result = run("complete", tmp_path / "m.plica", tmp_path / "t.parquet", "-o", tmp_path / "full.parquet")
    assert result.exit_code == 0, result.output
    full = parquet.read_table(tmp_path / "full.parquet")["at"]
    assert full.type == column.type
    after = full.cast(arrow.int64()).to_pylist()
    assert all(new is not None if old is None else new == old for old, new in zip(stamps, after, strict=True))


def test_a_mixture_of_normals_is_reported_and_drawn_as_it_is(plica: Plica, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lines = ["legs,weight,pet", *(f"{2 + 2 * (n % 3 > 0)},{rng.normal():.3f},{'cd'[n % 2]}" for n in range(60))]
    Path("pets.csv").write_text("\n".join(lines))
    drawn: list[Any] = []

    def kept(rows: Any, *given: Any, **named: Any) -> None:
        drawn.append(rows)
        sample_grid(rows, *given, **named)

    monkeypatch.setattr("plica.cli.outputs.sample_grid", kept)
    told = plica("train", "pets.csv", "--columns", "auto", "--out", "out", "--epochs", 1, "--quiet")
    assert told.exit_code == 0, told.output
    columns = json.loads(Path("out/report.json").read_text())["data"]["columns"]
    assert [column["input"] for column in columns] == ["multivariate-gaussian"] * 2 + ["categorical"]
    (samples,) = drawn
    np.testing.assert_array_equal(samples[:, 0], np.round(samples[:, 0]))  # as `plica sample` draws them
    assert (samples[:, 1] != np.round(samples[:, 1])).any()
