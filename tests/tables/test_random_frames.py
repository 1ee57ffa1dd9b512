"""Random frames: known cells stay, files and copies answer alike, and predictions are what scores say.

The oracle of a prediction is the model's own score: of each category or whole number the probability is the ratio of
the likelihoods with and without it.
"""

import datetime
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from plica.tables import TableModel, fit, load
from plica.tables.frame_of import as_frame

Rng = np.random.Generator
START = datetime.datetime(2024, 1, 1, 1)
# name of a column: its cells, its types in pandas (None for objects) and pyarrow
COLUMNS: dict[str, tuple[Callable[[Rng, int], list[Any]], str | None, Any]] = {
    "real": (lambda rng, n: rng.normal(rng.choice([0.0, 5.0, 1e6]), 10.0, n).tolist(), "float64", pa.float64()),
    "rounded": (lambda rng, n: np.round(rng.gamma(2, 10, n), 2).tolist(), "float32", pa.float32()),
    "count": (lambda rng, n: rng.poisson(3, n).tolist(), "Int16", pa.int16()),
    "whole": (lambda rng, n: rng.integers(-500, 900, n).tolist(), "float64", pa.int64()),
    "huge": (
        lambda rng, n: [2**53 + 1 + 2 * number for number in rng.integers(0, 500, n).tolist()],
        "Int64",
        pa.int64(),
    ),
    "flag": (lambda rng, n: (rng.random(n) < 0.4).tolist(), "boolean", pa.bool_()),
    "text": (lambda rng, n: rng.choice(["é", "b", "c d", "1a"], n).tolist(), "string", pa.large_string()),
    "code": (lambda rng, n: rng.choice(["01", "02"], n).tolist(), "category", pa.dictionary(pa.int16(), pa.string())),
    "day": (
        lambda rng, n: [START.date() + datetime.timedelta(d) for d in rng.integers(0, 90, n).tolist()],
        None,
        pa.date32(),
    ),
    "moment": (
        lambda rng, n: [START + datetime.timedelta(seconds=second) for second in rng.integers(0, 9999, n).tolist()],
        "datetime64[ms]",
        pa.timestamp("ms"),
    ),
    "price": (
        lambda rng, n: [Decimal(cents) / 100 for cents in rng.integers(100, 9000, n).tolist()],
        None,
        pa.decimal128(12, 2),
    ),
    "constant": (lambda _, n: [7] * n, "UInt8", pa.uint8()),
}


def in_pandas(cells: dict[str, list[Any]]) -> Any:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()})
    frame = frame.astype({name: COLUMNS[name][1] for name in cells if COLUMNS[name][1] not in (None, "category")})
    for name in set(cells) & {"code"}:
        frame[name] = pd.Categorical(cells[name])
    frame.index = pd.MultiIndex.from_arrays([["z"] * len(frame), range(len(frame))], names=["a", "b"])
    return frame


def in_polars(cells: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").from_arrow(in_pyarrow(cells))


def in_pyarrow(cells: dict[str, list[Any]]) -> Any:
    return pa.table({name: pa.array(column, COLUMNS[name][2]) for name, column in cells.items()})


KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "dict": lambda cells: {name: list(column) for name, column in cells.items()},
    "pandas": in_pandas,
    "polars": in_polars,
    "pyarrow": in_pyarrow,
}


def random_cells(rng: Rng) -> dict[str, list[Any]]:
    """Some columns, of whose cells none, a fifth or half are missing."""
    number, share = int(rng.integers(25, 50)), rng.choice([0.0, 0.2, 0.5])
    cells = {}
    for name in rng.choice(list(COLUMNS), int(rng.integers(2, 5)), replace=False).tolist():
        column = COLUMNS[name][0](rng, number)
        is_hidden = rng.random(number) < share
        is_hidden[0] = False
        cells[name] = [None if hidden else cell for cell, hidden in zip(column, is_hidden.tolist(), strict=True)]
    return cells


def cells_of(frame: Any) -> dict[str, list[Any]]:
    return dict(zip(as_frame(frame).names or (), as_frame(frame).cells().T.tolist(), strict=True))


def check_filled(known: dict[str, list[Any]], filled: dict[str, list[Any]], repeated: int = 1) -> None:
    """Known cells are there, of their types; the others are cells that the column can have."""
    assert list(filled) == list(known)
    for name, column in known.items():
        for row, cell in enumerate(filled[name]):
            before = column[row // repeated]
            assert cell is not None
            assert before is None or (type(cell) is type(before) and cell == before)
            assert name not in ("rounded", "count", "price", "constant") or cell >= 0
            assert name not in ("text", "code") or cell in column


def check_predictions(model: TableModel, cells: dict[str, list[Any]], name: str) -> None:
    """Probabilities sum to 1 and are ratios of likelihoods; quantiles of counts are where masses pass a level."""
    row = {other: column[:1] for other, column in cells.items()}
    without = model.score({**row, name: [None]})[0]

    def masses(values: list[Any]) -> np.ndarray:
        rows = {other: column * len(values) for other, column in row.items()}
        return np.exp(model.score({**rows, name: values}, batch=5000) - without)

    if model.columns[name] in ("categorical", "boolean"):
        predicted = model.predict(name, cells)
        np.testing.assert_allclose(np.sum(list(predicted.values()), axis=0), 1.0, atol=1e-9)
        for label, column in predicted.items():
            np.testing.assert_allclose(column[0], masses([label])[0], rtol=1e-8, atol=1e-12)
    elif model.columns[name] == "count":
        for level in (0.05, 0.5, 0.95):
            value = int(model.predict(name, row, [level])[str(level)][0])
            below = masses(list(range(value + 1))).cumsum()
            assert below[-1] >= level - 1e-9
            assert value == 0 or below[-2] < level + 1e-9
    if cells[name][0] is not None:
        surprise = model.explain_row(row)[name][0]
        np.testing.assert_allclose(surprise, without - model.score(row)[0], rtol=1e-9, atol=1e-9)


def check_frame(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    given, kind = random_cells(rng), str(rng.choice(list(KINDS)))
    frame, twin = KINDS[kind](given), KINDS[kind](given)
    model = fit(frame, units=2, epochs=1, dtype="float64", seed=seed)
    cells = cells_of(frame)
    scores = model.score(frame)
    assert np.isfinite(scores).all()
    for method in ("mean", "mpe", "sample"):
        full = model.complete(frame, method)
        assert type(full) is type(frame)
        check_filled(cells, cells_of(full))
        if kind == "pandas":
            assert full.index.equals(frame.index)
    check_filled(cells, cells_of(model.sample(2, frame)), repeated=2)
    assert cells_of(frame) == cells_of(twin)  # the frame itself has not changed
    model.save(folder / "model.plica")
    for other in (load(folder / "model.plica"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.score(frame), scores)
        assert cells_of(other.complete(frame, "sample", seed=9)) == cells_of(model.complete(frame, "sample", seed=9))
    turned = {name: cells[name] for name in reversed(cells)} | {"further": [object()] * len(scores)}
    np.testing.assert_allclose(model.score(turned), scores, rtol=1e-12, atol=1e-12)
    texts = {name: [None if cell is None else str(cell) for cell in column] for name, column in cells.items()}
    np.testing.assert_allclose(model.score(texts), scores, rtol=1e-9, atol=1e-9)
    for name in cells:
        check_predictions(model, cells, name)


@pytest.mark.parametrize("seed", range(1))
def test_a_random_frame(seed: int, tmp_path: Path) -> None:
    check_frame(seed, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 80))
def test_many_random_frames(seed: int, tmp_path: Path) -> None:
    check_frame(seed, tmp_path)
