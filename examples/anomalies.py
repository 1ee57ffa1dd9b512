"""Wrong cells of a table, found by a model of it
==============================================

A table of wines has some wrong cells. Which rows are unusual, and which of their cells is to blame?

::

    python examples/anomalies.py [picture.png]

The table is scikit-learn's wine data. In 12 of its rows a digit slipped: one cell is ten times as large, or a tenth.
A model learns the table with these errors in it. `score(..., comparable=True)` says how unusual a row is, in standard
deviations; `explain_row` says how improbable each cell is, given the other cells of its row.
"""

import sys

import numpy as np
from sklearn.datasets import load_wine

import plica.tables

WRONG = 12


def table():
    """The table `(178, 13)` with wrong cells, the names of its columns, and the rows and columns of these cells."""
    wines = load_wine()
    rng = np.random.default_rng(0)
    values = wines.data.copy()
    rows = rng.choice(len(values), WRONG, replace=False)
    columns = rng.integers(values.shape[1], size=WRONG)
    values[rows, columns] *= rng.choice([0.1, 10.0], WRONG)
    return values, wines.feature_names, rows, columns


def find(values, names):
    """The score of each row, and the surprise of each cell over what is usual of its column."""
    cells = dict(zip(names, values.T, strict=True))
    model = plica.tables.fit(cells, seed=0)
    surprises = model.explain_row(cells)
    surprise = np.stack([np.asarray(surprises[name], dtype=float) for name in names], axis=1)
    return model.score(cells, comparable=True), surprise - np.median(surprise, axis=0)


def draw(scores, surprise, names, rows, columns, path):
    """The scores of all rows, and the surprise of the cells of the most unusual ones."""
    from matplotlib.figure import Figure

    worst = np.argsort(scores)[: 2 * WRONG]
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    bins = np.linspace(scores.min(), scores.max(), 40)
    wrong = np.isin(np.arange(len(scores)), rows)
    left.hist([scores[~wrong], scores[wrong]], bins, stacked=True, color=["#1f5673", "#c4572e"])
    left.legend(["rows as they were", "rows with a wrong cell"])
    left.set_xlabel("score of a row")
    right.imshow(surprise[worst], cmap="Blues", aspect="auto", vmin=0, vmax=20)
    places = {row: place for place, row in enumerate(worst)}
    shown = [(places[row], column) for row, column in zip(rows, columns, strict=True) if row in places]
    right.plot([column for _, column in shown], [place for place, _ in shown], "x", color="#c4572e")
    right.set_xticks(range(len(names)), [name.replace("_", " ")[:14] for name in names], rotation=60, ha="right")
    right.set_ylabel("rows, the most unusual first")
    right.set_title("surprise of each cell in nats; crosses are the wrong ones", fontsize=10)
    figure.savefig(path)


def main(path=None):
    """Fit, score, and count how many of the wrong cells are found."""
    values, names, rows, columns = table()
    scores, surprise = find(values, names)
    worst = np.argsort(scores)[:WRONG]
    print(f"rows with a wrong cell among the {WRONG} most unusual: {len(set(worst) & set(rows))}")
    blamed = surprise[rows].argmax(axis=1)
    print(f"wrong cells that are the most surprising of their row: {(blamed == columns).sum()} of {WRONG}")
    for row in worst[:3]:
        column = surprise[row].argmax()
        print(
            f"row {row}: {names[column]} {values[row, column]:.2f}, column's median {np.median(values[:, column]):.2f}"
        )
    if path is not None:
        draw(scores, surprise, names, rows, columns, path)
    print("cells: {} x {}".format(*values.shape))


if __name__ == "__main__":
    main(*sys.argv[1:])
