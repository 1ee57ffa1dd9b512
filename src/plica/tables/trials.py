"""Chooses the recipe for a data set: each candidate learns for a few epochs, and what was held out scores it.

Importing this module loads torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.distributed.ranks import current_ranks
from plica.files.datasets import Dataset
from plica.files.tables import Array
from plica.learn.fit import mean_log_likelihood
from plica.learn.widening import widen_covariances
from plica.logger import LOGGER
from plica.symbolic.circuit import Circuit
from plica.tables.build import rows_of
from plica.tables.fitting import train, untrained
from plica.tables.recipe import Recipe
from plica.tables.rules import candidates

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit


_TRIAL_EPOCHS = 2
_TRIAL_EPOCHS_OF_CELLS = 10
_HIDDEN_IN_TRIAL = 0.15  # of the known cells
_MOST_ROWS_OF_CELLS = 2000
_BATCH = 1024
_LEAST_CELLS = 20  # of a column some of which are hidden
_WIDENINGS = (0.9, 1.0, 1.1, 1.2)


def decide(
    data: Dataset,
    *,
    seed: int,
    dtype: str,
    device: str = "cpu",
    target: int | None = None,
    check: Callable[[Circuit], None] | None = None,
    on_trial: Callable[[int, int], None] | None = None,
    **chosen: Any,
) -> Recipe:
    """The recipe for a data set: of the candidates the one that is best in a short trial.

    In a trial a recipe that holds out rows learns for two epochs, of an average its first model alone, and its score is
    that of the validation rows. One that learns all rows does so for ten epochs without a part of their known cells,
    and is scored by these; of more than 2,000 rows it takes as many, drawn at random. Of rows that are not held, trials
    learn from the sample.

    Args:
        data: The data set.
        seed: The seed of the trials, and of the cells that they hide.
        dtype: The dtype of weights.
        device: Where to train.
        target: As of `plica.tables.fitting.train`.
        check: Called with each circuit before it is compiled, to refuse it.
        on_trial: Called before each trial, with the trials that have ended and with all.
        chosen: As of `plica.tables.rules.candidates`.

    Raises:
        KeyboardInterrupt: A trial was interrupted.
    """
    recipes = candidates(data, target=target, **chosen)
    data = replace(data, streamed=None)
    best, best_score, best_widening = recipes[0], -math.inf, recipes[0].widening
    trials = recipes if len(recipes) > 1 else ()
    for number, recipe in enumerate(trials):
        if on_trial is not None:
            on_trial(number, len(trials))
        most = _TRIAL_EPOCHS if recipe.holds_out else _TRIAL_EPOCHS_OF_CELLS
        members = recipe.members[:1] if recipe.holds_out else recipe.members
        trial = replace(recipe, members=members, epochs=min(recipe.epochs, most), patience=None, widening=1.0)
        shown = data if recipe.holds_out else _drawn(data, seed)
        seen = data if recipe.holds_out else _with_hidden_cells(shown, seed)
        model = untrained(trial, seen, seed=seed, dtype=dtype, device=device, target=target, check=check)
        result = train(model, seen, trial, seed=seed, target=target)
        if result.interrupted:
            raise KeyboardInterrupt
        widening = recipe.widening
        if recipe.holds_out:
            score = result.history[result.best_epoch].valid
        else:
            factors = _WIDENINGS if recipe.widening is None else (recipe.widening,)
            widening, score = _best_widening(model, rows_of(trial, shown), rows_of(trial, seen), factors)
        LOGGER.info("tried %s: %.3f nats for each row that is held out", recipe, score)
        if score > best_score:
            best, best_score, best_widening = recipe, score, widening
    return current_ranks().of_first(lambda: replace(best, widening=best_widening))


def _best_widening(model: TorchCircuit, rows: Array, holed: Array, factors: Sequence[float]) -> tuple[float, float]:
    """The factor of covariances under which hidden cells are most probable, and their log-likelihood for a mean row.

    Args:
        model: A compiled circuit, whose covariances change.
        rows: `(N, D)` the rows; NaN is missing.
        holed: `(N, D)` the rows that the model has learned, which lack the hidden cells as well.
        factors: At least one.
    """
    scores, last = [], 1.0
    for factor in factors:
        widen_covariances(model, holed, factor / last)
        last = factor
        scores.append(mean_log_likelihood(model, rows, _BATCH) - mean_log_likelihood(model, holed, _BATCH))
    best = scores.index(max(scores))
    return factors[best], scores[best]


def _drawn(data: Dataset, seed: int) -> Dataset:
    """The data set with 2,000 of its training and validation rows, drawn without replacement; with all if fewer."""
    rows = np.concatenate([data.train, data.valid])
    if len(rows) <= _MOST_ROWS_OF_CELLS:
        return data
    drawn = np.random.default_rng(seed).choice(len(rows), _MOST_ROWS_OF_CELLS, replace=False)
    return replace(data, train=rows[drawn], valid=rows[:0])


def _with_hidden_cells(data: Dataset, seed: int) -> Dataset:
    """The data set without a part of the known cells, each alike, but those of columns that say little of a recipe.

    Such columns have fewer than 20 known cells, or cells that are all equal.
    """
    rows = np.concatenate([data.train, data.valid]).astype(np.float64)
    known = np.isfinite(rows)
    lowest, highest = np.where(known, rows, np.inf).min(axis=0), np.where(known, rows, -np.inf).max(axis=0)
    speaks = (known.sum(axis=0) >= _LEAST_CELLS) & (lowest < highest)
    hidden = (np.random.default_rng(seed).random(rows.shape) < _HIDDEN_IN_TRIAL) & speaks
    train, valid = np.split(np.where(hidden, np.nan, rows), [len(data.train)])
    return replace(data, train=train, valid=valid)
