"""Answers by an engine: equal to those of the command alone, kept where a run ends, and errors by row and file."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from plica.batch.engines import processes
from plica.batch.run import Summary, run
from plica.errors import FileFormatError, InputError, LostProcessError
from plica.tables.questions import Complete, Predict, Question, Sample, Score
from tests.batch.conftest import BATCH, ROWS, in_this_process, parts_in, written

QUESTIONS: dict[str, tuple[Question, tuple[str, ...]]] = {
    "score": (Score(), ("score",)),
    "comparable": (Score(comparable=True), ("score", "--comparable")),
    "marginal": (Score(of=("pet", "weight")), ("marginal", "--of", "pet", "--of", "weight")),
    "complete": (Complete("mean"), ("complete",)),
    "complete by draws": (Complete("sample", 3), ("complete", "--method", "sample", "--seed", "3")),
    "sample": (Sample(2, 5), ("sample", "-n", "2", "--seed", "5")),
    "predict": (Predict("pet"), ("predict", "--column", "pet")),
    "predict dates": (Predict("born", (0.25,)), ("predict", "--column", "born", "--quantiles", ".25")),
}


def answer(question: Question, model: Path, data: Path, out: Path, **options: Any) -> Summary:
    return run(question, model, data, out, **{"engine": in_this_process, "workers": 2, "batch": BATCH, **options})


def some(names: Iterable[str], *always: str) -> list[Any]:
    """Cases, of which the others are for `make test-all`."""
    return [pytest.param(name, marks=() if name in always else pytest.mark.full) for name in names]


@pytest.mark.parametrize("name", some(QUESTIONS, "score", "complete by draws"))
def test_answers_are_those_of_the_command_to_the_bit(
    name: str, plica: Callable[..., Result], model: Path, folder: Path, tmp_path: Path
) -> None:
    question, words = QUESTIONS[name]
    data = ("--given", folder) if words[0] == "sample" else (folder,)
    result = plica(*words[:1], model, *data, *words[1:], "--batch", BATCH, "-o", "alone.parquet")
    assert result.exit_code == 0, result.output
    summary = answer(question, model, folder, tmp_path / "out", part_rows=7 * BATCH)
    assert (summary.rows, summary.parts, summary.done) == (ROWS, 9, 0)
    alone = pq.read_table("alone.parquet")
    assert written(tmp_path / "out").equals(alone)
    assert alone.num_rows == ROWS * (2 if words[0] == "sample" else 1)
    assert alone["key"].to_pylist()[-1] == f"row {ROWS - 1}"


@pytest.mark.parametrize("form", some(["a file", "arrow", "texts", "partitions"], "texts"))
def test_rows_of_other_sources(
    form: str, plica: Callable[..., Result], model: Path, table: Any, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if form == "a file":
        data = data / "rows.parquet"
        pq.write_table(table, data, row_group_size=90)
    elif form == "arrow":
        with pa.OSFile(str(data / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=64)
    elif form == "texts":
        for start in (0, 400):
            table.slice(start, 600 if start else 400).to_pandas().to_csv(data / f"{start}.csv", index=False)
    else:
        for year in (2025, 2026):
            (data / f"year={year}").mkdir()
            pq.write_table(table.slice(500 * (year - 2025), 500), data / f"year={year}" / "rows.parquet")
    result = plica("score", model, data, "--batch", BATCH, "-o", "alone.parquet")
    assert result.exit_code == 0, result.output
    answer(Score(), model, data, tmp_path / "out", part_rows=3 * BATCH)
    assert written(tmp_path / "out").equals(pq.read_table("alone.parquet"))


def test_a_second_run_goes_on(model: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer(Score(), model, folder, out)
    first = {path.name: path.stat().st_mtime_ns for path in parts_in(out)}
    lost = list(first)[2]
    (out / lost).unlink()
    (out / f".{lost}.abcdefgh.parquet").write_bytes(b"what a killed worker left")
    summary = answer(Score(), model, folder, out, workers=5)  # other workers: the parts stay
    assert (summary.parts, summary.done) == (len(first), len(first) - 1)
    again = {path.name: path.stat().st_mtime_ns for path in parts_in(out)}
    assert list(again) == list(first)
    assert [name for name in again if again[name] != first[name]] == [lost]
    assert written(out).num_rows == ROWS
    assert answer(Score(), model, folder, out).done == len(first)


def test_parts_of_a_file_that_changed_are_done_again(model: Path, folder: Path, table: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer(Score(), model, folder, out, part_rows=5 * BATCH)
    before = {path.name for path in parts_in(out)}
    pq.write_table(table.slice(0, 100), folder / "9.parquet")
    assert answer(Score(), model, folder, out).done == 11  # of 13: the file has rows 900 to 999
    assert len(before - {path.name for path in parts_in(out)}) == 2
    rows = written(out)
    assert rows["key"].to_pylist()[900:] == [f"row {number}" for number in range(100)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"question": Score(comparable=True)}, "whose question was"),
        ({"batch": 2 * BATCH}, f"whose batch was {BATCH} and not {2 * BATCH}"),
        ({"unknown": False}, 'whose unknown was "missing" and not "error"'),
        ({"data": "other"}, "whose rows was"),
        ({"model": "other"}, "whose model was"),
    ],
)
def test_a_folder_of_another_run_is_refused(
    changed: dict[str, Any], message: str, model: Path, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    answer(Score(), model, folder, out)
    if "data" in changed:
        changed = {"data": shutil.copytree(folder, tmp_path / "other")}
    if "model" in changed:
        from plica import tables

        other = tables.load(model)
        other.circuit.reset_parameters()
        other.save(tmp_path / "other.plica")
        changed = {"model": tmp_path / "other.plica"}
    settings = {"question": Score(), "model": model, "data": folder, "out": out, **changed}
    with pytest.raises(InputError, match=message):
        answer(**settings)
    assert written(out).num_rows == ROWS


def test_a_folder_with_other_files_is_refused(model: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="other files"):
        answer(Score(), model, folder, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def _replace(folder: Path, number: int, **columns: Any) -> None:
    path = folder / f"{number}.parquet"
    table = pq.read_table(path)
    for name, column in columns.items():
        position = table.schema.get_field_index(name)
        table = table.remove_column(position) if column is None else table.set_column(position, name, column)
    pq.write_table(table, path, row_group_size=30)


def _cut(folder: Path, number: int, size: int = -200) -> None:
    path = folder / f"{number}.parquet"
    path.write_bytes(path.read_bytes()[:size])


def _damage(folder: Path, number: int) -> None:
    path = folder / f"{number}.parquet"
    place = pq.read_metadata(path).row_group(2).column(2)
    data = bytearray(path.read_bytes())
    data[place.data_page_offset : place.data_page_offset + 40] = b"\xff" * 40
    path.write_bytes(bytes(data))


BEFORE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a column is missing": (
        lambda folder: _replace(folder, 9, legs=None),
        r"rows/9\.parquet: there is no column 'legs'",
    ),
    "another schema": (
        lambda folder: _replace(folder, 4, weight=pa.array(["heavy"] * 100)),
        r"rows/4\.parquet: column 'weight' holds string, expected double",
    ),
    "cut short": (lambda folder: _cut(folder, 7), r"rows/7\.parquet: not a readable \.parquet file .* cut short\?"),
    "empty": (lambda folder: _cut(folder, 5, 0), r"rows/5\.parquet: not a readable \.parquet file"),
    "no rows": (
        lambda folder: [pq.write_table(pq.read_table(path)[:0], path) for path in folder.iterdir()],
        "no rows",
    ),
}


@pytest.mark.parametrize("name", some(BEFORE, "a column is missing"))
def test_a_bad_file_is_named_before_any_work_and_answers_stay(
    name: str, model: Path, folder: Path, tmp_path: Path
) -> None:
    harm, message = BEFORE[name]
    out = tmp_path / "out"
    answer(Score(), model, folder, out)
    before = written(out)
    harm(folder)
    with pytest.raises((InputError, FileFormatError), match=message) as caught:
        answer(Score(), model, folder, out)
    assert "\n" not in str(caught.value)
    assert written(out).equals(before)
    with pytest.raises((InputError, FileFormatError), match=message):
        answer(Score(), model, folder, tmp_path / "new")
    assert not (tmp_path / "new").exists()


IN_A_PART: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bad row": (
        lambda folder: _replace(folder, 6, pet=pa.array(["cat"] * 40 + ["fish"] + ["cat"] * 59)),
        r"rows/6\.parquet, row 40 \(row group 1\), column 'pet': .*fish",
    ),
    "a damaged row group": (
        lambda folder: _damage(folder, 6),
        r"rows/6\.parquet: cannot be read from row group 2, row 60 on",
    ),
}


@pytest.mark.parametrize("name", IN_A_PART)
def test_a_bad_part_is_named_by_row_and_all_others_are_done(
    name: str, model: Path, folder: Path, tmp_path: Path
) -> None:
    harm, message = IN_A_PART[name]
    good = (folder / "6.parquet").read_bytes()
    harm(folder)
    with pytest.raises(
        InputError, match=f"{message}.*12 of 13 parts are done, and the same command does the others"
    ) as caught:
        answer(Score(), model, folder, tmp_path / "out", part_rows=5 * BATCH, unknown=False)
    assert "\n" not in str(caught.value)
    assert len(parts_in(tmp_path / "out")) == 12
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    (folder / "6.parquet").write_bytes(good)  # mended; its other parts are done again, as the file is another one now
    assert answer(Score(), model, folder, tmp_path / "out", unknown=False).done == 11
    assert written(tmp_path / "out").num_rows == ROWS


def test_unknown_categories_are_counted_over_all_parts(
    plica: Callable[..., Result], model: Path, folder: Path, tmp_path: Path
) -> None:
    for number in (1, 8):
        _replace(folder, number, pet=pa.array(["fish"] * 100))
    alone = plica("score", model, folder, "-o", "alone.parquet")
    summary = answer(Score(), model, folder, tmp_path / "out")
    message = summary.unknown.message("--unknown error")
    assert message is not None
    assert message in alone.stderr
    assert message.startswith(f"{folder}: 200 cells have a category")
    with pytest.raises(InputError, match=r"1\.parquet, row 0.*fish"):
        answer(Score(), model, folder, tmp_path / "strict", unknown=False)


def test_a_part_that_no_worker_wrote_is_an_error(model: Path, folder: Path, tmp_path: Path) -> None:
    def lose(worker: Callable[[int], str], numbers: Any, workers: int) -> Any:
        for text in in_this_process(worker, numbers, workers):
            parts_in(tmp_path / "out")[0].unlink()
            yield text

    with pytest.raises(InputError, match="8 of 8 parts are not there; give a folder that all workers reach"):
        answer(Score(), model, folder, tmp_path / "out", engine=lose)


@pytest.mark.full
def test_processes_answer_and_say_little(plica: Callable[..., Result], model: Path, folder: Path) -> None:
    plica("score", model, folder, "--batch", BATCH, "-o", "alone.parquet")
    words = ("score", model, folder, "--batch", BATCH, "-o", "out", "--engine", "processes")
    result = plica(*words, "--workers", 2)
    assert (result.exit_code, result.output) == (0, "")
    assert written(Path("out")).equals(pq.read_table("alone.parquet"))


@pytest.mark.full
def test_more_workers_than_parts_are_said(plica: Callable[..., Result], model: Path, folder: Path) -> None:
    words = ("score", model, folder, "--batch", BATCH, "-o", "out", "--engine", "processes")
    result = plica(*words, "--workers", 2)
    before = written(Path("out"))
    parts_in(Path("out"))[0].unlink()
    result = plica(*words, "--workers", 9)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "plica: 7 of 8 parts were done before",
        "plica: warning: 9 workers for 1 parts, so that 8 have none",
    ]
    assert written(Path("out")).equals(before)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "out.parquet", "--engine", "processes"), "--engine writes a folder"),
        (("-o", "out.parquet", "--workers", "2"), "--workers 2 needs an engine"),
        (("-o", "out", "--engine", "processes", "--key", "x"), "reads no .npz"),
        (("-o", "out", "--engine", "mapreduce"), "processes"),
    ],
)
def test_wrong_options(
    words: tuple[str, ...], message: str, plica: Callable[..., Result], model: Path, folder: Path
) -> None:
    result = plica("score", model, folder, *words)
    assert result.exit_code == 2
    assert message in result.output
    assert not Path("out").exists()


class _Dies:
    """A worker whose process ends at each of some parts, the first `times` that it is asked for it."""

    def __init__(self, folder: Path, parts: tuple[int, ...], times: int) -> None:
        self.folder, self.parts, self.times = folder, parts, times

    def __call__(self, number: int) -> str:
        tries = self.folder / f"{number}"
        with tries.open("a") as file:
            file.write(".")
        if number in self.parts and len(tries.read_text()) <= self.times:
            import os

            os._exit(9)
        return str(number)


@pytest.mark.full
def test_processes_that_die_are_replaced(tmp_path: Path) -> None:
    assert sorted(map(int, processes.reports(_Dies(tmp_path, (2, 5), 1), range(8), 2))) == list(range(8))


@pytest.mark.full
def test_processes_that_die_again_and_again_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(LostProcessError, match="ended 4 times"):
        list(processes.reports(_Dies(tmp_path, (0,), 99), [0], 1))


def test_job_file_says_what_was_asked(model: Path, folder: Path, tmp_path: Path) -> None:
    answer(Score(), model, folder, tmp_path / "out", part_rows=5 * BATCH)
    settings = json.loads((tmp_path / "out" / "_job.json").read_text())
    assert settings["question"] == ["Score", {"comparable": False, "of": [], "keep": []}]
    assert (settings["batch"], settings["part_rows"]) == (BATCH, 5 * BATCH)
    assert np.isfinite(pq.read_table(parts_in(tmp_path / "out")[0])["log_likelihood"].to_numpy()).all()


@pytest.mark.parametrize("change", ["grows", "is removed"])
def test_a_file_that_changes_meanwhile_is_named(
    change: str, model: Path, folder: Path, table: Any, tmp_path: Path
) -> None:
    """Its parts have the old number of rows, so that the run is not whole, and the next one does them again."""
    file = folder / "4.parquet"

    def changing(worker: Callable[[int], str], numbers: Any, workers: int) -> Any:
        for text in in_this_process(worker, numbers, workers):
            if change == "grows":
                pq.write_table(table.slice(400, 150), file, row_group_size=30)
            yield text
        if change == "is removed":
            file.unlink()

    with pytest.raises(
        InputError, match=r"rows/4\.parquet: is another file than when the run began; run again"
    ) as error:
        answer(Score(), model, folder, tmp_path / "out", engine=changing)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    answer(Score(), model, folder, tmp_path / "out")
    keys = [key for path in sorted(folder.iterdir()) for key in pq.read_table(path)["key"].to_pylist()]
    assert written(tmp_path / "out")["key"].to_pylist() == keys
