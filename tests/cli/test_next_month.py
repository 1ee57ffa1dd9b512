"""A model of one month's table reads that of the next: values that it has not seen are never refused.

Random tables of kinds, formats and missing cells: the kinds are those that the cells mean, what is filled in has the
format of its column, and what is there stays.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.files.columns import decode, encode
from plica.files.infer import infer_columns
from plica.files.kinds import KINDS
from tests.harness.tables_of_users import read, run, untrained, write

Rng = np.random.Generator
ROWS = 45


@dataclass(frozen=True)
class Made:
    """Cells of a column.

    Attributes:
        kind: What they are.
        cell: One of the first month, or of the next one.
        native: The same as a file with types has it; None where it is text.
        closed: Whether the next month has values that are taken for missing.
    """

    kind: str
    cell: Callable[[Rng, bool], str]
    native: Callable[[str], Any] | None = None
    closed: bool = False


def day(rng: Rng, later: bool) -> datetime.date:
    return datetime.date(2026, 8 if later else 3, 1) + datetime.timedelta(int(rng.integers(28)))


def moment(rng: Rng, later: bool) -> datetime.datetime:
    return datetime.datetime.combine(day(rng, later), datetime.time()) + datetime.timedelta(
        microseconds=int(rng.integers(24 * 3600 * 10**6))
    )


def dated(form: str) -> Callable[[Rng, bool], str]:
    return lambda rng, later: moment(rng, later).strftime(form)


def of_month(form: str) -> Made:
    return Made("date", dated(form))


def without_day(form: str) -> Made:
    """Months of this year, and of the next one."""
    return Made("date", lambda rng, later: datetime.date(2026 + later, int(rng.integers(1, 13)), 1).strftime(form))


def grouped(text: str, thousands: str, point: str) -> str:
    return text.replace(",", "\0").replace(".", point).replace("\0", thousands)


def money(value: float) -> str:
    return f"{'-' if value < 0 else ''}${abs(value):,.2f}"


MAKERS: dict[str, Made] = {
    "visits": Made("count", lambda rng, later: str(rng.negative_binomial(2, 0.4) + 40 * later), int),
    "visits as floats": Made("count", lambda rng, later: f"{rng.negative_binomial(2, 0.4) + 40 * later}.0", float),
    "income": Made("whole", lambda rng, later: str(int(rng.lognormal(10 + later, 0.5))), int),
    "balance": Made("whole", lambda rng, later: str(int(rng.normal(0, 900 * (1 + 9 * later)))), int),
    "long": Made("whole", lambda rng, later: str(2**60 + int(rng.integers(1000)) + later * 10**6), int),
    "thousands": Made("whole", lambda rng, later: f"{int(rng.lognormal(9 + later, 1)) + 1000:,}"),
    "first thousand": Made("whole", lambda rng, later: f"{int(rng.integers(300, 900) * (1 + 3 * later)):,}"),
    "apostrophes": Made("real", lambda rng, _: grouped(f"{rng.normal(5000, 900):,.2f}", "'", ".")),
    "decimal commas": Made("real", lambda rng, _: grouped(f"{rng.normal(5000, 900):,.2f}", ".", ",")),
    "percents": Made("whole", lambda rng, later: f"{rng.integers(20, 90) + 40 * later}%"),
    "parts of percents": Made("real", lambda rng, later: f"{rng.normal(50 * (1 + later), 9):.1f} %"),
    "prices": Made("real", lambda rng, later: f"{rng.lognormal(3 + later, 1):.2f}"),
    "dollars": Made("real", lambda rng, later: money(rng.normal(0, 900 * (1 + later)))),
    "yen": Made("whole", lambda rng, later: f"\u00a5{int(rng.lognormal(9 + later, 1)) + 1000:,}"),
    "euros": Made("real", lambda rng, later: grouped(f"{rng.lognormal(8 + later, 1) + 1000:,.2f} \u20ac", ".", ",")),
    "narrow spaces": Made(
        "whole", lambda rng, later: grouped(f"{int(rng.lognormal(9 + later, 1)) + 1000:,}", "\u202f", ".")
    ),
    "minus signs": Made("whole", lambda rng, later: f"{rng.integers(-900, 900 * (1 + later))}".replace("-", "\u2212")),
    "reals": Made("real", lambda rng, _: repr(float(rng.normal())), float),
    "ISO dates": Made("date", lambda rng, later: day(rng, later).isoformat(), datetime.date.fromisoformat),
    "German dates": of_month("%d.%m.%Y"),
    "British dates": of_month("%d/%m/%Y"),
    "American dates": of_month("%m/%d/%Y"),
    "short dates": Made("date", lambda rng, later: "{0.month}/{0.day}/{0.year}".format(day(rng, later))),
    "dates of few letters": of_month("%d-%b-%y"),
    "dates of many letters": of_month("%B %d, %Y"),
    "dates without marks": of_month("%Y%m%d"),
    "months": without_day("%Y-%m"),
    "months of forms": without_day("%m/%Y"),
    "months of few letters": without_day("%b-%y"),
    "quarters": Made("date", lambda rng, later: f"{2026 + later}-Q{rng.integers(1, 5)}"),
    "ISO stamps": Made(
        "timestamp",
        lambda rng, later: moment(rng, later).isoformat(sep=" ", timespec="seconds"),
        datetime.datetime.fromisoformat,
    ),
    "stamps in UTC": Made("timestamp", dated("%Y-%m-%dT%H:%M:%SZ")),
    "stamps of databases": Made("timestamp", dated("%Y-%m-%d %H:%M:%S+02")),
    "stamps that say UTC": Made("timestamp", dated("%Y-%m-%d %H:%M:%S UTC")),
    "stamps of microseconds": Made("timestamp", dated("%Y-%m-%dT%H:%M:%S.%f")),
    "stamps of minutes": Made("timestamp", dated("%d.%m.%Y %H:%M")),
    "times": Made("time", dated("%H:%M:%S"), datetime.time.fromisoformat),
    "times of day": Made("time", lambda rng, later: moment(rng, later).strftime("%I:%M %p").lstrip("0")),
    "truths": Made("boolean", lambda rng, later: rng.choice(["true", "FALSE", "True", *["yes"] * later])),
    "noes": Made("boolean", lambda rng, later: rng.choice(["Y", "N", *["y", "maybe"] * later]), closed=True),
    "flags": Made("boolean", lambda rng, later: rng.choice(["0", "1", *["2"] * later]), int, closed=True),
    "pets": Made("categorical", lambda rng, later: rng.choice(["cat", "dog", *["fish"] * later]), str, closed=True),
    "codes": Made("categorical", lambda rng, later: rng.choice(["007", "070", *["7"] * later]), closed=True),
    "names": Made("ignored", lambda rng, _: f"name {rng.integers(10**9)}", str),
    "customer_id": Made("ignored", lambda rng, _: str(rng.integers(10**9)), int),
}


def month(rng: Rng, names: list[str], later: bool) -> list[list[str]]:
    """A table, one cell in eight of which is missing."""
    rows = [[str(MAKERS[name].cell(rng, later)) for name in names] for _ in range(ROWS)]
    return [names, *([cell if rng.random() > 0.125 else "" for cell in row] for row in rows)]


def save_typed(path: Path, table: list[list[str]]) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {}
    for name, *cells in zip(*table, strict=True):
        native = MAKERS[name].native or str
        columns[name] = arrow.array([native(cell) if cell else None for cell in cells])
    parquet.write_table(arrow.table(columns), path)


TABLES = [(data, full) for data in ("later.csv", "later.parquet") for full in ("full.csv", "full.parquet")]


def check_months(folder: Path, seed: int, *, every: bool) -> None:
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.permutation(list(MAKERS))[: int(rng.integers(2, 9))]]
    if all(MAKERS[name].kind == "ignored" for name in names):
        names.append("pets")
    first, later = (month(rng, names, flag) for flag in (False, True))
    model, holes = folder / "model.plica", folder / "later.csv"
    write(folder / "first.csv", first)
    write(holes, later)
    save_typed(folder / "first.parquet", first)
    save_typed(folder / "later.parquet", later)
    for learned in ("first.csv", "first.parquet"):
        encoding = untrained(model, folder / learned)
        kinds = {column.name: column.kind for column in encoding.columns}
        assert kinds == {name: MAKERS[name].kind for name in names}, learned
        columns = {column.name: column for column in encoding.columns}
        alike = learned == "first.csv"  # whether both tables are of one kind of file, where not all pairs are tried
        for data, written in TABLES:
            if every or alike == (Path(data).suffix == Path(written).suffix):
                result = run("complete", model, folder / data, "-o", folder / written, "--batch", 1 + seed % 50)
                assert result.exit_code == 0, (learned, data, result.output, result.exception)
                assert not result.stdout
                unknown = any(MAKERS[name].closed for name in names)
                assert len(result.stderr.splitlines()) <= unknown
                scored = run("score", model, folder / written, "-o", folder / "scores.npy")
                assert scored.exit_code == 0, (learned, data, written, scored.output, scored.exception)
                assert np.isfinite(np.load(folder / "scores.npy")).all()
            if not written.endswith(".csv") or not (folder / written).exists():
                continue
            full = read(folder / "full.csv")
            (folder / "full.csv").unlink()
            assert full[0] == names
            for before, after in zip(later[1:], full[1:], strict=True):
                for name, old, new in zip(names, before, after, strict=True):
                    assert new == old or not old or data == "later.parquet"
                    check_format(columns[name], new, filled=not old)
    arguments = ("sample", model, "-n", 2, "--given", holes, "-o", folder / "drawn.csv")
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    drawn = read(folder / "drawn.csv")
    for place, before in enumerate(later[1:]):
        for after in drawn[1 + 2 * place : 3 + 2 * place]:
            for name, old, new in zip(names, before, after, strict=True):
                assert new == old or not old or MAKERS[name].closed
    assert run("sample", model, "-n", 5, "-o", folder / "drawn.parquet").exit_code == 0
    assert run("score", model, folder / "drawn.parquet", "-o", folder / "scores.csv").exit_code == 0


def check_format(column: Any, cell: str, *, filled: bool) -> None:
    """What is filled in has the column's format: it is written as it is read."""
    if column.kind == "ignored" or not filled:
        return
    kind = KINDS[column.kind]
    (number,) = encode(column, np.array([cell], dtype=object), ["row"])
    text = kind.text(column, float(number))
    assert str(text).lower() == cell.lower(), column


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MAKERS)
def test_each_column_reads_the_next_month(name: str) -> None:
    rng, made = np.random.default_rng(0), MAKERS[name]
    first, later = (np.array([str(made.cell(rng, flag)) for _ in range(150)], dtype=object) for flag in (False, True))
    (column,) = infer_columns((name,), first[:, None])
    assert column.kind == made.kind
    if column.kind == "ignored":
        return
    for cells in (first, later):
        read = encode(column, cells, [""] * len(cells), unknown=(lambda *_: None) if made.closed else None)
        known = ~np.isnan(read)
        assert known.all() or made.closed
        written = np.array(decode(column, read[known], "text"), dtype=object)
        np.testing.assert_array_equal(encode(column, written, [""] * len(written)), read[known])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
def test_the_next_month_is_never_refused(tmp_path: Path, seed: int) -> None:
    check_months(tmp_path, seed, every=False)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 115))
def test_many_next_months_are_never_refused(tmp_path: Path, seed: int) -> None:
    check_months(tmp_path, seed, every=True)
