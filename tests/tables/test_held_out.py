"""Figures of hidden cells, against predictions of the same cells."""

import numpy as np
import pytest

from plica.tables import fit
from plica.tables.held_out import HIDDEN, held_out


@pytest.fixture(scope="module")
def pets() -> tuple[np.ndarray, dict[str, list[object]]]:
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=240)
    weights = np.where(kinds == 0, 4.0, 20.0) + rng.normal(size=240)
    weights[::7] = np.nan
    return np.column_stack([kinds, weights]), {
        "kind": [("cat", "dog")[kind] for kind in kinds],
        "weight": [None if np.isnan(weight) else float(weight) for weight in weights],
    }


def test_figures_are_those_of_predictions(pets) -> None:
    rows, table = pets
    model = fit(table, columns={"kind": "categorical", "weight": "real"}, epochs=5)
    train, test = rows[:120], rows[120:]
    kind, weight = held_out(model._model, train, test, seed=3)
    hidden = (np.random.default_rng(3).random(test.shape) < HIDDEN) & ~np.isnan(test)
    assert [column.cells for column in (kind, weight)] == hidden.sum(axis=0).tolist()
    cells = np.where(hidden, np.nan, test)
    frame = {
        "kind": [None if np.isnan(cell) else ("cat", "dog")[int(cell)] for cell in cells[:, 0]],
        "weight": [None if np.isnan(cell) else float(cell) for cell in cells[:, 1]],
    }
    of_kind, of_weight = hidden.T
    probabilities = np.array(list(model.predict("kind", frame).values()), dtype=float).T[of_kind]
    assert kind.right == pytest.approx((probabilities.argmax(axis=1) == test[of_kind, 0]).mean())
    assert kind.expected == pytest.approx(probabilities.max(axis=1).mean())
    assert (kind.error, kind.covered, weight.right, weight.expected) == (None, None, None, None)
    answer = model.predict("weight", frame, (0.05, 0.95))
    mean, low, high = (np.array(column, dtype=float)[of_weight] for column in answer.values())
    values = test[of_weight, 1]
    scale = np.sqrt(((values - np.nanmean(train[:, 1])) ** 2).mean())
    assert weight.error == pytest.approx(np.sqrt(((mean - values) ** 2).mean()) / scale, rel=1e-5)
    assert weight.covered == pytest.approx(((low <= values) & (values <= high)).mean())
    assert not held_out(model._model, train, np.full((3, 2), np.nan), seed=0)
