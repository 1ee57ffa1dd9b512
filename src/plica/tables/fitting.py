"""Fits the circuit of a recipe to a data set: the one place that trains models of tables.

Importing this module loads torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.files.datasets import Dataset
from plica.files.tables import Array
from plica.learn.fit import FitResult, copy_state, fit, mean_log_likelihood
from plica.learn.learners import parse_learner
from plica.learn.learners.base import Learner
from plica.learn.predicting import Predicting
from plica.learn.widening import widen_covariances
from plica.symbolic.circuit import Circuit
from plica.tables.build import build_circuit, compile_circuit, find_device, rows_of
from plica.tables.recipe import NORMAL_MIXTURES, Recipe
from plica.tables.rules import candidates

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit


_TRIAL_EPOCHS = 2
_TRIAL_EPOCHS_OF_CELLS = 10
_HIDDEN_IN_TRIAL = 0.15  # of the known cells
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
    on_trial: Callable[[Recipe, float], None] | None = None,
    check: Callable[[Circuit], None] | None = None,
    **chosen: Any,
) -> Recipe:
    """The recipe for a data set: of the candidates the one that is best in a short trial.

    In a trial a recipe that holds out rows learns for two epochs, of an average its first model alone, and its score is
    that of the validation rows. One that learns all rows does so for ten epochs without a part of their known cells,
    and is scored by these.

    Args:
        data: The data set.
        seed: The seed of the trials, and of the cells that they hide.
        dtype: The dtype of weights.
        device: Where to train.
        target: As of `train`.
        on_trial: Called for each trial with its recipe and its mean log-likelihood of the validation rows, or of the
            hidden cells of a row given the others.
        check: Called with each circuit before it is compiled, to refuse it.
        chosen: As of `plica.tables.rules.candidates`.

    Raises:
        KeyboardInterrupt: A trial was interrupted.
    """
    recipes = candidates(data, target=target, **chosen)
    best, best_score, best_widening = recipes[0], -math.inf, recipes[0].widening
    for recipe in recipes if len(recipes) > 1 else ():
        most = _TRIAL_EPOCHS if recipe.holds_out else _TRIAL_EPOCHS_OF_CELLS
        members = recipe.members[:1] if recipe.holds_out else recipe.members
        trial = replace(recipe, members=members, epochs=min(recipe.epochs, most), patience=None, widening=1.0)
        seen = data if recipe.holds_out else _with_hidden_cells(data, seed)
        model = untrained(trial, seen, seed=seed, dtype=dtype, device=device, target=target, check=check)
        result = train(model, seen, trial, seed=seed, target=target)
        if result.interrupted:
            raise KeyboardInterrupt
        widening = recipe.widening
        if recipe.holds_out:
            score = result.history[result.best_epoch].valid
        else:
            factors = _WIDENINGS if recipe.widening is None else (recipe.widening,)
            widening, score = _best_widening(model, rows_of(trial, data), rows_of(trial, seen), factors)
        if on_trial is not None:
            on_trial(recipe, score)
        if score > best_score:
            best, best_score, best_widening = recipe, score, widening
    return replace(best, widening=best_widening)


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


def untrained(
    recipe: Recipe,
    data: Dataset,
    *,
    seed: int,
    dtype: str,
    device: str = "cpu",
    target: int | None = None,
    check: Callable[[Circuit], None] | None = None,
) -> TorchCircuit:
    """The compiled circuit of a recipe with its first weights; torch's own generator stays as it is.

    Args:
        recipe: What to build.
        data: The data set.
        seed: The seed of structure and weights.
        dtype: The dtype of weights.
        device: Where they are.
        target: As of `train`.
        check: Called with the circuit before it is compiled, to refuse it.
    """
    circuit = build_circuit(recipe, data, seed=seed, dtype=dtype, target=target)
    if check is not None:
        check(circuit)
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return compile_circuit(circuit, file_options(data, dtype, recipe, target)).to(find_device(device))


def train(
    model: TorchCircuit,
    data: Dataset,
    recipe: Recipe,
    *,
    seed: int,
    target: int | None = None,
    **running: Any,
) -> FitResult:
    """Fit a model to the training rows; the best state by the validation rows stays in it.

    Args:
        model: The compiled circuit of the recipe.
        data: The data set.
        recipe: How to fit.
        seed: The seed of the shuffling.
        target: A variable that the model is to predict; None to fit all alike. With a target the objective is the
            log-likelihood of the target given the others, and a share of that of the others.
        running: `checkpoint`, `resume`, `on_batch`, `on_epoch` of `plica.learn.fit`.
    """
    predicting = None if target is None else Predicting(model, target)

    def learned(module: Any, epochs: int, patience: int | None) -> FitResult:
        return fit(
            module,
            rows_of(recipe, data),
            data.valid if recipe.holds_out else None,
            learner=learner_of(recipe),
            epochs=epochs,
            batch=recipe.batch,
            patience=patience,
            min_delta=recipe.min_delta,
            seed=seed,
            **running,
        )

    is_first = predicting is None or recipe.predicting_epochs > 0
    result = learned(model if is_first else predicting, recipe.epochs, recipe.patience)
    if recipe.structure == NORMAL_MIXTURES and result.best_epoch:
        widen_covariances(model, rows_of(recipe, data), recipe.widening)
    if predicting is not None and recipe.predicting_epochs and not result.interrupted:
        result = learned(predicting, recipe.predicting_epochs, None)
    return replace(result, best_state=copy_state(model))


def learner_of(recipe: Recipe) -> Learner:
    """The learner of a recipe.

    Raises:
        InputError: There is no such learner or setting.
    """
    return parse_learner(recipe.learner, rate=recipe.learning_rate, pseudocount=recipe.pseudocount)


def file_options(data: Dataset, dtype: str, recipe: Recipe, target: int | None = None) -> dict[str, Any]:
    """The entries of a model file beside structure and weights."""
    options: dict[str, Any] = {
        "semiring": "lse-sum",
        "dtype": dtype,
        "image_shape": data.shape,
        "num_values": data.num_values,
        "data": data.name,
        "recipe": asdict(recipe),
        "target": target,
    }
    if data.encoding is not None:
        options["encoding"] = data.encoding.as_json()
    return options
