"""Fits the circuit of a recipe to a data set: the one place that trains models of tables.

Importing this module loads torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from plica.files.datasets import Dataset
from plica.learn.fit import FitResult, copy_state, fit
from plica.learn.learners import parse_learner
from plica.learn.learners.base import Learner
from plica.learn.predicting import Predicting
from plica.learn.widening import widen_covariances
from plica.symbolic.circuit import Circuit
from plica.tables.build import build_circuit, compile_circuit, find_device, rows_of
from plica.tables.recipe import NORMAL_MIXTURES, Recipe

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit


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
