"""Plica's own models as a method, classifiers, and runs of binary sets."""

from pathlib import Path

import numpy as np
import pytest
import torch

from plica.bench.classify import CLASSIFIERS, PlicaClassifier, classified
from plica.bench.debd import PUBLISHED, runs, sets_of
from plica.bench.plica_method import PlicaTables, TableCompletion, frame_of
from plica.bench.sets import Column, MixedTable
from plica.errors import InputError
from plica.files.datasets import from_path
from plica.queries import posterior
from plica.tables.rules import candidates

QUICK = PlicaTables({"units": 2, "epochs": 1})
METHOD = PlicaTables({"units": 4, "epochs": 8, "batch": 10})


def mixed() -> MixedTable:
    """Reals, whole numbers and a category that says which of two clusters a row is of."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=120).astype(float)
    values = np.stack([kind * 6 + rng.normal(size=120), rng.poisson(2 + 5 * kind).astype(float), kind], axis=1)
    return MixedTable((Column("x"), Column("n"), Column("k", ("no", "so"))), values)


@pytest.mark.full
def test_answers_are_those_of_the_posterior() -> None:
    table = mixed()
    hidden = np.random.default_rng(1).random(table.values.shape) < 0.3
    holed = table.replaced(np.where(hidden, np.nan, table.values))
    model = QUICK.fit(holed, 0)
    completion = TableCompletion(model, holed)
    found = posterior(model.circuit, torch.as_tensor(holed.values, dtype=torch.float32))
    filled = completion.filled()
    np.testing.assert_allclose(filled[hidden[:, 0], 0], found.mean.numpy()[hidden[:, 0], 0], rtol=1e-4, atol=1e-4)
    best = found.probabilities[:, 2].numpy()[:, :2].argmax(axis=1)
    np.testing.assert_array_equal(filled[hidden[:, 2], 2], best[hidden[:, 2]])
    rows = np.flatnonzero(hidden[:, 2])
    both = [np.exp(completion.log_probability(2, rows, np.full(len(rows), value))) for value in (0.0, 1.0)]
    np.testing.assert_allclose(sum(both), 1.0, atol=1e-4)
    np.testing.assert_allclose(both[1], found.probabilities[rows, 2, 1].numpy(), atol=1e-4)
    low_high = completion.interval(0, np.flatnonzero(hidden[:, 0]), 0.05, 0.95)
    assert low_high is not None
    assert (low_high[0] < low_high[1]).all()


def test_frames_have_texts_whole_numbers_and_none() -> None:
    table = MixedTable(
        (Column("x"), Column("n"), Column("k", ("a", "b"))), np.array([[0.5, 2, 1], [1, np.nan, np.nan]])
    )
    frame = frame_of(table)
    assert frame == {"x": [0.5, 1.0], "n": [2, None], "k": ["b", None]}
    assert [type(cell) for cell in frame["n"]] == [int, type(None)]


@pytest.mark.parametrize("share", [0.0, pytest.param(0.5, marks=pytest.mark.full)])
def test_classifiers_find_the_cluster(share: float) -> None:
    classifiers = {**CLASSIFIERS, "plica": PlicaClassifier(METHOD)}
    results = list(classified({"t": (mixed(), "k")}, classifiers, (share,), (0,)))
    assert [result.method for result in results] == ["plica", "boosting"]
    for result in results:
        assert result.right > (0.95 if share == 0 else 0.7)
        assert 0 < result.log_loss < 0.7


def write_set(folder: Path, name: str) -> None:
    bits = np.random.default_rng(0).integers(2, size=(60, 9))
    train, valid, test = (np.packbits(rows, axis=1) for rows in np.split(bits, [40, 50]))
    np.savez(folder / f"debd_{name}.npz", train=train, valid=valid, test=test, num_variables=np.array(9))


def test_binary_sets_are_learned_as_the_command_does(tmp_path: Path) -> None:
    write_set(tmp_path, "nltcs")
    write_set(tmp_path, "own")
    assert list(sets_of(tmp_path)) == ["nltcs", "own"]
    (result,) = runs(sets_of(tmp_path, ("nltcs",)), (1,))
    assert result.as_json()["published"]["nats"] == PUBLISHED["nltcs"].nats == -5.99
    data = from_path(tmp_path / "debd_nltcs.npz")
    alone = np.log(np.where(data.test == 1, data.train.mean(axis=0), 1 - data.train.mean(axis=0))).sum(axis=1).mean()
    assert abs(result.test - alone) < 1.5  # bits are independent
    assert result.seed == 1
    assert result.recipe in candidates(data)
    assert result.best_epoch <= result.epochs


def test_folders_without_such_sets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected files debd_NAME\.npz"):
        sets_of(tmp_path)
    write_set(tmp_path, "own")
    with pytest.raises(InputError, match=r"no debd_dna\.npz; there are own"):
        sets_of(tmp_path, ("dna",))
