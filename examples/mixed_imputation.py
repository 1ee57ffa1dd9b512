"""A table with holes beside scikit-learn's imputers
=================================================

Filling in a table of mixed columns: a circuit beside scikit-learn's imputers, with 10 to 90 % of the cells missing.

::

    python examples/mixed_imputation.py [picture.png] [trials]

The table is scikit-learn's wine data: what a laboratory measured of 178 wines, which is real, and which of three
cultivars they are of, a category. A circuit learns the table that lacks cells as it is: what is missing is summed out.
Then each missing cell gets its conditional mean, or its most probable category, all in one pass for each row.
"""

import sys
import warnings

import numpy as np
import torch
from sklearn.datasets import load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - scikit-learn wants it
from sklearn.impute import IterativeImputer, KNNImputer

import plica
from plica.learn import Adam, fit
from plica.queries import posterior
from plica.templates.data_modalities import tabular_data

KIND = 13  # the column that is a category
CULTIVARS = 3


def table():
    """The table: reals with mean 0 and spread 1, and the cultivar as 0, 1 or 2."""
    wines = load_wine()
    return np.concatenate([(wines.data - wines.data.mean(0)) / wines.data.std(0), wines.target[:, None]], axis=1)


def hide(values, share, seed):
    """The table with NaN in place of a share of its cells."""
    hidden = np.random.default_rng(seed).random(values.shape) < share
    return np.where(hidden, np.nan, values)


def circuit_imputer(lacking, units=16, epochs=60):
    """What a circuit fills in, trained on the cells that are there."""
    inputs = [{"name": "gaussian"} for _ in range(lacking.shape[1])]
    inputs[KIND] = {"name": "categorical", "args": {"num_categories": CULTIVARS}}
    torch.manual_seed(0)
    circuit = plica.compile(
        tabular_data(
            "chow-liu-tree",
            data=lacking,
            input_layers=inputs,
            num_input_units=units,
            sum_product_layer="cp",
            num_sum_units=units,
        )
    )
    held_out = np.random.default_rng(0).random(len(lacking)) < 0.1
    fit(circuit, lacking[~held_out], lacking[held_out], learner=Adam(0.03), epochs=epochs, batch=50)
    found = posterior(circuit.eval(), torch.as_tensor(lacking))
    filled = found.mean.numpy().copy()
    filled[:, KIND] = found.probabilities[:, KIND].argmax(-1).numpy()
    return np.where(np.isnan(lacking), filled, lacking)


def scikit_imputer(imputer):
    """What an imputer of scikit-learn fills in; the category is the nearest."""

    def impute(lacking):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            filled = imputer.fit_transform(lacking)
        filled[:, KIND] = np.clip(np.round(filled[:, KIND]), 0, CULTIVARS - 1)
        return filled

    return impute


IMPUTERS = {
    "circuit": circuit_imputer,
    "IterativeImputer": scikit_imputer(IterativeImputer(max_iter=20, random_state=0)),
    "KNNImputer": scikit_imputer(KNNImputer(n_neighbors=10)),
}


def errors(values, lacking, filled):
    """The root of the mean squared error of missing reals, in spreads, and the share of wrong categories."""
    missing, real = np.isnan(lacking), np.arange(values.shape[1]) != KIND
    squares = (filled - values)[:, real][missing[:, real]] ** 2
    wrong = filled[missing[:, KIND], KIND] != values[missing[:, KIND], KIND]
    return float(np.sqrt(squares.mean())), float(wrong.mean())


def draw(results, path):
    """Both errors by the share that is missing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6))
    for axes, place, title in zip(
        figure.subplots(1, 2), range(2), ("error of reals, in spreads", "wrong categories"), strict=True
    ):
        for name, by_share in results.items():
            axes.plot([100 * share for share in by_share], [one[place] for one in by_share.values()], "o-", label=name)
        axes.set_xlabel("% missing")
        axes.set_title(title)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main(path=None, trials=1):
    """Hide cells, fill them in, and tell how wrong that is."""
    values, results = table(), {name: {} for name in IMPUTERS}
    print("missing   " + "   ".join(f"{name:>18}" for name in IMPUTERS) + "   (error of reals, wrong categories)")
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        for name, impute in IMPUTERS.items():
            tried = [hide(values, share, seed) for seed in range(int(trials))]
            results[name][share] = np.mean([errors(values, one, impute(one)) for one in tried], axis=0)
        shown = (f"{results[name][share][0]:10.3f} {results[name][share][1]:7.3f}" for name in IMPUTERS)
        print(f"{share:6.0%}    " + "   ".join(shown))
    if path is not None:
        draw(results, path)
    print("cells: {} x {}".format(*values.shape))


if __name__ == "__main__":
    main(*sys.argv[1:])
