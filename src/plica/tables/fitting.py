"""Fits the circuit of a recipe to a data set: the one place that trains models of tables.

Importing this module loads torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from plica.files.datasets import Dataset
from plica.files.tables import Array
from plica.learn.fit import FitResult, copy_state, fit
from plica.learn.graphs import Graphs, Tensors
from plica.learn.learners import parse_learner
from plica.learn.predicting import Predicting
from plica.symbolic.layers import MultivariateGaussianLayer
from plica.tables.build import rows_of
from plica.tables.recipe import NORMAL_MIXTURES, Recipe

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit


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
            learner=parse_learner(recipe.learner, rate=recipe.learning_rate),
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
        _widen(model, rows_of(recipe, data))
    if predicting is not None and recipe.predicting_epochs and not result.interrupted:
        result = learned(predicting, recipe.predicting_epochs, None)
    return replace(result, best_state=copy_state(model))


@torch.no_grad()
def _widen(model: TorchCircuit, rows: Array) -> None:
    """Widen covariances that were estimated from few rows, as dividing by n - 1 in place of n does for one variable.

    A normal vector of V variables, learned from n rows, predicts new rows with covariances larger by the factor
    1 + V / (n - V); by 1 + V / n where n is at most 2 V. Here n is the mean number of known cells of a column.
    """
    tensors = Tensors(model)
    for layer in model.symbolic.input_layers:
        if isinstance(layer, MultivariateGaussianLayer):
            size = layer.num_variables
            number = float((~np.isnan(rows[:, list(layer.scope)])).sum(axis=0).mean())
            factor = 1.0 + size / max(number - size if number > 2 * size else number, 1.0)
            graph = Graphs([layer.scale_tril], tensors)
            graph.invert(graph.value() * factor**0.5)


def file_options(data: Dataset, dtype: str) -> dict[str, Any]:
    """The entries of a model file beside structure and weights."""
    options: dict[str, Any] = {
        "semiring": "lse-sum",
        "dtype": dtype,
        "image_shape": data.shape,
        "num_values": data.num_values,
        "data": data.name,
    }
    if data.encoding is not None:
        options["encoding"] = data.encoding.as_json()
    return options
