"""`Scorer`, `Completer`, `Sampler`, `Predictor`: any kind of batch, pickled, loaded once, equal to models of tables."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest
import torch

import plica
from plica import tables
from plica.batch import Completer, Predictor, Sampler, Scorer, opened
from plica.errors import FileFormatError, InputError
from plica.templates.pgms import fully_factorized

KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # from a table of pyarrow, and back
    "dict": (
        lambda table: {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names},
        lambda batch: pa.table({name: pa.array(column, from_pandas=True) for name, column in batch.items()}),
    ),
    "RecordBatch": (lambda table: table.combine_chunks().to_batches()[0], lambda batch: pa.Table.from_batches([batch])),
    "Table": (lambda table: table, lambda batch: batch),
    "pandas": (lambda table: table.to_pandas(), lambda batch: pa.Table.from_pandas(batch, preserve_index=False)),
    "polars": (pl.from_arrow, lambda batch: batch.to_arrow()),
}


@pytest.fixture
def rows(table: Any) -> Any:
    return table.slice(0, 100)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.full if kind == "Table" else ()) for kind in KINDS]
)
def test_answers_are_those_of_the_model_beside_the_key(kind: str, rows: Any, model: Path) -> None:
    there, back = KINDS[kind]
    batch, whole = there(rows), tables.load(model)
    expected = whole.score(rows)
    scores = Scorer(model)(batch)
    assert type(scores) is type(batch)
    scores = back(scores)
    assert scores.column_names == ["key", "log_likelihood"]
    assert scores["key"].to_pylist() == rows["key"].to_pylist()
    np.testing.assert_array_equal(scores["log_likelihood"].to_numpy(), expected)
    predicted = back(Predictor(model, "weight", (0.5,))(batch))
    assert predicted.column_names == ["key", "weight", "mean", "0.5"]
    np.testing.assert_array_equal(predicted["mean"].to_numpy(), whole.predict("weight", rows)["mean"].to_numpy())
    completed = Completer(model)(batch)
    assert type(completed) is type(batch)
    assert back(completed)["pet"].to_pylist() == whole.complete(rows)["pet"].to_pylist()


def test_rows_of_an_index_keep_it(rows: Any, model: Path) -> None:
    frame = rows.to_pandas().set_index(pd.Index(range(500, 600), name="number"))
    assert Scorer(model)(frame).index.equals(frame.index)
    assert Scorer(model)(frame.drop(columns="key")).index.equals(frame.index)
    assert Completer(model)(frame).index.equals(frame.index)


def test_an_empty_batch_has_the_columns_of_a_full_one(rows: Any, model: Path) -> None:
    for there, _ in (KINDS["RecordBatch"], KINDS["pandas"]):
        full, empty = Scorer(model)(there(rows)), Scorer(model)(there(rows)[:0])
        names = "column_names" if hasattr(full, "column_names") else "columns"
        if hasattr(full, "schema"):
            assert (empty.num_rows, empty.schema) == (0, full.schema)
        else:
            assert len(empty) == 0
            assert list(getattr(empty, names)) == list(getattr(full, names))
            assert empty["log_likelihood"].dtype == np.float64


def test_draws_differ_between_batches_and_not_between_calls(rows: Any, model: Path) -> None:
    sampler = pickle.loads(pickle.dumps(Sampler(model, 3, seed=1)))
    holes = rows.set_column(2, "weight", pa.nulls(100, pa.float64()))
    first, again = sampler(holes), sampler(holes)
    assert first.num_rows == 300
    assert first.equals(again)
    assert first["key"].to_pylist()[:4] == ["row 0"] * 3 + ["row 1"]
    other = sampler(holes.set_column(0, "key", pa.array([f"other {row}" for row in range(100)])))
    assert other["weight"].to_pylist() != first["weight"].to_pylist()
    assert Sampler(model, 3, seed=2)(holes)["weight"].to_pylist() != first["weight"].to_pylist()
    anew = Completer(model, "sample", seed=None)
    assert anew(holes)["weight"].to_pylist() != anew(holes)["weight"].to_pylist()


def test_a_process_loads_a_model_once_and_gives_threads_back(
    rows: Any, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, threads = [], []
    monkeypatch.setattr(opened, "_CACHE", opened._Cache())
    from plica.tables.model import open_model as before

    def load(path: Path, device: str) -> Any:
        loaded.append(path)
        threads.append(torch.get_num_threads())
        return before(path, device)

    monkeypatch.setattr(opened, "open_model", load)
    torch.set_num_threads(2)
    try:
        for _ in range(2):
            pickle.loads(pickle.dumps(Scorer(model)))(rows)
        Predictor(model, "pet")(rows)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert (loaded, threads) == ([model], [1])


def test_rows_of_numbers(tmp_path: Path) -> None:
    circuit = plica.compile(fully_factorized(3, input_layer_kwargs={"num_categories": 4}))
    path = tmp_path / "numbers.plica"
    plica.save(circuit, path)
    x = np.random.default_rng(0).integers(0, 4, (50, 3))
    with torch.no_grad():
        expected = circuit.eval()(torch.from_numpy(x))[:, 0, 0].numpy()
    np.testing.assert_array_equal(Scorer(path)({"data": x})["log_likelihood"], expected)
    np.testing.assert_array_equal(Scorer(path)(x)[:, 0], expected)


def test_bad_rows_are_named_by_number(rows: Any, model: Path) -> None:
    weights = rows.set_column(2, "weight", pa.array(["2.5"] * 70 + ["heavy"] + ["2.5"] * 29))
    with pytest.raises(InputError, match=r"row 70 \(counted from 0\), column 'weight'.*heavy"):
        Scorer(model)(weights)
    with pytest.raises(InputError, match="expects a column 'pet'"):
        Scorer(model)(rows.drop_columns(["pet"]))
    fish = rows.set_column(1, "pet", pa.array(["fish"] * 100))
    with pytest.warns(UserWarning, match="100 cells have a category"):
        Scorer(model)(fish)
    with pytest.raises(InputError, match="row 0"):
        Scorer(model, unknown="error")(fish)


def test_wrong_arguments_are_refused_at_once(model: Path, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="no such file"):
        Scorer(tmp_path / "none.plica")
    with pytest.raises(InputError, match="method='median'"):
        Completer(model, "median")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown='drop'"):
        Scorer(model, unknown="drop")  # type: ignore[arg-type]


def test_a_model_that_was_replaced_is_refused(rows: Any, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.plica"
    path.write_bytes(model.read_bytes())
    scorer = Scorer(path)
    path.write_bytes(model.read_bytes() + b"x")
    with pytest.raises(InputError, match="is another file than when the run began"):
        scorer(rows)
