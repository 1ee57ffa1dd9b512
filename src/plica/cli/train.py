"""`plica train`: fits a circuit to data by maximum likelihood and writes the model, pictures and a report."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from plica.cli.build import REGION_GRAPHS, build_circuit, compile_circuit, find_device
from plica.cli.errors import INTERRUPTED, one_line_errors
from plica.cli.settings import DTYPES, INPUTS, ImageShapeOption, Settings
from plica.errors import InputError
from plica.files.datasets import Dataset, digits, from_path
from plica.files.paths import check_can_create
from plica.templates.region_graph.build import FAMILIES

if TYPE_CHECKING:
    from plica.learn.fit import FitResult

_NUM_SAMPLES = 64


@click.command(short_help="Train a circuit on a data set.")
@click.argument("data")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the results; made if missing.")
@click.option(
    "--region-graph",
    type=click.Choice(REGION_GRAPHS),
    help="How variables are split. Default: quad-tree-2 for images, random-binary-tree for tables.",
)
@click.option(
    "--layer", type=click.Choice(tuple(FAMILIES)), default="cp", show_default=True, help="Kind of sum-product layer."
)
@click.option("--units", type=click.IntRange(1), default=32, show_default=True, help="Units of each layer.")
@click.option(
    "--input", type=click.Choice(INPUTS), default="categorical", show_default=True, help="Input distribution."
)
@click.option("--epochs", type=click.IntRange(1), default=40, show_default=True, help="Passes over the training rows.")
@click.option("--batch", type=click.IntRange(1), default=100, show_default=True, help="Rows in one step.")
@click.option(
    "--lr", type=click.FloatRange(0, min_open=True), default=0.1, show_default=True, help="Step size of Adam at first."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of all that is drawn."
)
@click.option("--device", default="cpu", show_default=True, help="Device of torch, such as cpu or cuda.")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True, help="Type of the weights.")
@click.option("--key", help="Array of a .npz file to read. Default: the only one, else images, else train.")
@click.option("--image-shape", type=ImageShapeOption(), help="Shape of images stored as flat rows, as 8x8 or 3x32x32.")
@click.option(
    "--num-values", type=click.IntRange(2), help="Values of each variable. Default: one more than the largest."
)
@click.option("--quiet", is_flag=True, help="Show no progress bar.")
@one_line_errors
def train(quiet: bool, **options: Any) -> None:
    """Train a circuit on DATA: the word digits, or the path of a .npy, .npz or .csv file.

    A file holds rows (N, D) or images (N, H, W) or (N, C, H, W). A random 72 / 14 / 14 percent of the rows are for
    training, validation and test, unless a .npz has arrays named train, valid and test.

    The model that is best on the validation rows is kept. OUT gets model.plica (structure and weights), samples.png,
    circuit.svg and report.json. Ctrl-C ends training early and still writes them.
    """
    settings = Settings(**options)
    check_can_create(settings.out)
    data = load_data(settings)
    if run(settings, data, quiet=quiet).interrupted:
        raise SystemExit(INTERRUPTED)


def load_data(settings: Settings) -> Dataset:
    """The data set that the settings name."""
    real = settings.input == "gaussian"
    if settings.data != "digits":
        return from_path(
            settings.data,
            seed=settings.seed,
            key=settings.key,
            image_shape=settings.image_shape,
            num_values=settings.num_values,
            real=real,
        )
    for name in ("key", "image_shape", "num_values"):
        if getattr(settings, name) is not None:
            raise InputError(f"digits: --{name.replace('_', '-')} is known for this data set; leave it out")
    return digits(real=real)


def run(settings: Settings, data: Dataset, *, quiet: bool) -> "FitResult":
    """Train, evaluate and write the results."""
    import torch

    from plica.backend.torch.queries import SamplingQuery
    from plica.cli.outputs import NAMES, write_outputs
    from plica.cli.progress import Progress
    from plica.cli.report import Figures, count_parameters, make_report
    from plica.draw.canvas import require_matplotlib
    from plica.learn.fit import fit, mean_log_likelihood
    from plica.learn.metrics import bits_per_dimension

    require_matplotlib()
    device = find_device(settings.device)
    circuit, graph = build_circuit(settings, data)
    options = {"semiring": "lse-sum", "dtype": settings.dtype}
    click.echo(
        f"{data.name}: {len(data.train)} rows to train, {len(data.valid)} to validate, {len(data.test)} to test; "
        f"{graph}, {len(circuit.layers)} layers, {count_parameters(circuit):,} parameters"
    )
    torch.manual_seed(settings.seed)
    model = compile_circuit(circuit, options).to(device)
    unit = "row" if data.shape is None else "img"
    start = time.perf_counter()
    with Progress(len(data.train), settings.epochs, data.num_variables, unit, quiet=quiet) as progress:
        result = fit(
            model,
            data.train,
            data.valid,
            epochs=settings.epochs,
            batch_size=settings.batch,
            learning_rate=settings.lr,
            seed=settings.seed,
            on_batch=progress.on_batch,
            on_epoch=progress.on_epoch,
        )
    seconds = time.perf_counter() - start
    figures = Figures(*(mean_log_likelihood(model, part, 512) for part in (data.train, data.valid, data.test)), seconds)
    generator = torch.Generator(device).manual_seed(settings.seed)
    samples = np.asarray(SamplingQuery(model)(_NUM_SAMPLES, generator=generator)[0].cpu())
    tensors = {name: value.cpu().numpy() for name, value in result.best_state.items()}
    report = make_report(settings, data, circuit, graph, result, figures)
    saved = options | {"image_shape": data.shape, "num_values": data.num_values, "data": data.name}
    write_outputs(settings.out, data, circuit, tensors, saved, samples, report)
    bits = [f"{bits_per_dimension(value, data.num_variables):.4f}" for value in (figures.test, figures.valid)]
    stopped = "interrupted after" if result.interrupted else "after"
    click.echo(
        f"test {bits[0]} bits/dim (valid {bits[1]}, best of epoch {result.best_epoch}) "
        f"{stopped} {result.epochs_run} of {settings.epochs} epochs in {seconds:.1f} s"
    )
    click.echo(f"wrote {', '.join(NAMES)} to {settings.out}")
    return result
