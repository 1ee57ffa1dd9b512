"""A training run from settings and data to the written results; importing this module loads torch."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from plica.cli.columns import show_kinds
from plica.cli.inpainting import inpaint
from plica.cli.memory import check_fits
from plica.cli.outputs import TENSORBOARD, names_of, write_outputs, written_elsewhere
from plica.cli.page import describe_compiled
from plica.cli.report import Figures, count_parameters, make_report
from plica.cli.resume import keeping_checkpoint, recipe_after_restart, remove_checkpoint
from plica.cli.settings import Settings
from plica.cli.signals import interruptible
from plica.distributed.ranks import current_ranks, launches
from plica.errors import WriteError
from plica.extras import require
from plica.files.datasets import Dataset
from plica.files.tables import Array
from plica.learn import Epoch, FitResult, Progress, TensorBoard, mean_log_likelihood
from plica.learn.learners import learner_settings, parse_learner
from plica.learn.metrics import bits_per_dimension
from plica.learn.progress import TrialProgress
from plica.queries import sample
from plica.symbolic.circuit import Circuit
from plica.tables.build import build_circuit, compile_circuit, find_device, rows_of
from plica.tables.fitting import file_options, learner_of, train
from plica.tables.held_out import held_out
from plica.tables.model import Model
from plica.tables.recipe import Recipe
from plica.tables.trials import decide

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit

_NUM_SAMPLES = 64
_EVALUATION_BATCH = 512


def run(settings: Settings, data: Dataset, *, quiet: bool, tensorboard: bool, resumed: Recipe | None) -> bool:
    """Train, evaluate and write the results; returns whether Ctrl-C ended the training.

    Args:
        settings: The settings.
        data: The data set.
        quiet: Whether to show no progress.
        tensorboard: Whether to write figures for TensorBoard.
        resumed: The recipe of the interrupted run to go on with; None for a new run, which chooses one.
    """
    import torch

    require("matplotlib.figure")
    if tensorboard:
        require("tensorboard")
    device = find_device(settings.device)
    if settings.learner is not None:  # a wrong one is refused before anything is made
        parse_learner(settings.learner, rate=settings.lr, pseudocount=settings.pseudocount)

    def check(circuit: Circuit) -> None:
        check_fits(count_parameters(circuit), settings.dtype)

    resumed = resumed or recipe_after_restart(settings)
    recipe = resumed or _decide(settings, data, check, quiet=quiet)
    learner = learner_of(recipe)
    circuit = build_circuit(recipe, data, seed=settings.seed, dtype=settings.dtype)
    check(circuit)
    _say(
        f"{data.name}: {len(rows_of(recipe, data))} rows to train, "
        f"{len(data.valid) if recipe.holds_out else 'none'} to validate, {len(data.test)} to test; "
        f"{recipe.structure}, {len(circuit.layers)} layers, {count_parameters(circuit):,} parameters; {recipe}"
    )
    if data.encoding is not None:
        _say(show_kinds(data.encoding))
    torch.manual_seed(settings.seed)
    saved = file_options(data, settings.dtype, recipe)
    model = compile_circuit(circuit, saved).to(device)
    result = _train(model, settings, data, recipe, quiet=quiet, tensorboard=tensorboard, resume=resumed is not None)
    launched_as = launches(current_ranks())
    if not current_ranks().is_first:
        return result.interrupted
    figures = _evaluate(model, data, recipe, result.seconds)
    report = make_report(settings, data, circuit, recipe, result, figures) | {
        **_held_out(model, data, settings.seed),
        "learner": learner_settings(learner),
        **({"launches": launched_as} if launched_as else {}),
    }
    tensors = {name: value.cpu().numpy() for name, value in result.best_state.items()}
    outputs = (
        data,
        circuit,
        tensors,
        saved,
        _sample(model, data, settings.seed),
        report,
        inpaint(model, data, settings.seed),
        describe_compiled(model, data),
    )
    click.echo(_summary(result, figures, recipe.epochs, data.num_variables))
    try:
        write_outputs(settings.out, *outputs)
    except WriteError as error:
        folder = written_elsewhere(lambda folder: write_outputs(folder, *outputs), error)
        remove_checkpoint(settings)
        raise WriteError(f"{error}; the finished training was written to {folder} instead") from error
    click.echo(f"wrote {', '.join(names_of(data))} to {settings.out}")
    if result.interrupted:
        click.echo(f"go on with: plica train --resume {settings.out}")
    else:
        remove_checkpoint(settings)
    return result.interrupted


def _decide(settings: Settings, data: Dataset, check: Callable[[Circuit], None], *, quiet: bool) -> Recipe:
    """The recipe of a new run: what the settings leave open is chosen by trials."""
    with TrialProgress(quiet=quiet or not current_ranks().is_first) as progress:
        return decide(
            data,
            seed=settings.seed,
            dtype=settings.dtype,
            device=settings.device,
            check=check,
            on_trial=progress.on_trial,
            structure=settings.region_graph,
            layer=settings.layer,
            units=settings.units,
            trees=settings.trees,
            start=settings.start,
            input=settings.input,
            epochs=settings.epochs,
            batch=settings.batch,
            learner=settings.learner,
            learning_rate=settings.lr,
            pseudocount=settings.pseudocount,
            softening=settings.soften,
            patience=settings.patience,
            min_delta=settings.min_delta,
        )


def _say(line: str) -> None:
    """Print a line, once of all processes."""
    if current_ranks().is_first:
        click.echo(line)


def _train(
    model: "TorchCircuit",
    settings: Settings,
    data: Dataset,
    recipe: Recipe,
    *,
    quiet: bool,
    tensorboard: bool,
    resume: bool,
) -> FitResult:
    unit = "row" if data.shape is None else "img"
    scored = "valid" if recipe.holds_out else "score"
    is_first = current_ranks().is_first
    quiet, tensorboard = quiet or not is_first, tensorboard and is_first
    shown = Progress(len(rows_of(recipe, data)), recipe.epochs, data.num_variables, unit, scored, quiet=quiet)
    with (
        interruptible(),
        shown as progress,
        TensorBoard(settings.out / TENSORBOARD) if tensorboard else nullcontext() as board,
        keeping_checkpoint(settings, recipe, resume=resume) as checkpoint,
    ):

        def on_epoch(epoch: Epoch) -> None:
            if board is not None:
                board.on_epoch(epoch)
            progress.on_epoch(epoch)

        return train(
            model,
            data,
            recipe,
            seed=settings.seed,
            checkpoint=checkpoint,
            resume=resume,
            on_batch=progress.on_batch,
            on_epoch=on_epoch,
        )


def _evaluate(model: "TorchCircuit", data: Dataset, recipe: Recipe, seconds: float) -> Figures:
    def mean(rows: Array) -> float:
        return mean_log_likelihood(model, rows, _EVALUATION_BATCH)

    valid = mean(data.valid) if recipe.holds_out else None
    return Figures(mean(rows_of(recipe, data)), valid, mean(data.test), seconds)


def _held_out(model: "TorchCircuit", data: Dataset, seed: int) -> dict[str, Any]:
    """The entry of the report on hidden cells of test rows; none for rows of one kind."""
    if data.encoding is None:
        return {}
    columns = held_out(Model(model.eval(), data.encoding, None), data.train, data.test, seed)
    return {"held_out": [asdict(column) for column in columns]}


def _sample(model: "TorchCircuit", data: Dataset, seed: int) -> Array:
    """Rows of the model, with as many decimals as their columns have."""
    return Model(model, data.encoding, None).rounded(np.asarray(sample(model, _NUM_SAMPLES, seed=seed).cpu()))


def _summary(result: FitResult, figures: Figures, epochs: int, num_variables: int) -> str:
    name, beside = ("train", figures.train) if figures.valid is None else ("valid", figures.valid)
    test, other = (bits_per_dimension(value, num_variables) for value in (figures.test, beside))
    ends = {"interrupted": result.interrupted, "stopped early": result.stopped_early}
    stopped = " ".join([*(name for name, is_so in ends.items() if is_so), "after"])
    return (
        f"test {test:.4f} bits/dim ({name} {other:.4f}, best of epoch {result.best_epoch}) "
        f"{stopped} {result.epochs_run} of {epochs} epochs in {figures.seconds:.1f} s"
    )
