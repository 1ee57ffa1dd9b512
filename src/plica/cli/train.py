"""`plica train`: fits a circuit to data by maximum likelihood and writes the model, pictures and a report."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from plica.cli.asking import DELIMITER, location
from plica.cli.errors import one_line_errors
from plica.cli.outputs import CHECKPOINT, INPAINTING, NAMES, REPORT
from plica.cli.processes import as_one_run, prepare_torch
from plica.cli.settings import DTYPES, INPUTS, Settings, finite, parse_image_shape, parse_out
from plica.cli.signals import INTERRUPTED, leaving_at_once
from plica.errors import InputError
from plica.files.datasets import Dataset, digits
from plica.files.infer import read_columns
from plica.files.kinds import KINDS
from plica.paths import check_can_create, check_is_other
from plica.symbolic.layers import DISTRIBUTIONS
from plica.tables.build import REGION_GRAPHS
from plica.tables.data_sets import from_numbers, from_typed
from plica.tables.files import local_path
from plica.tables.recipe import STARTS, Recipe
from plica.templates.region_graph.build import FAMILIES


@click.command(short_help="Train a circuit on a data set.")
@click.argument("data", required=False, metavar="DATA")
@click.option("--out", type=click.Path(), callback=parse_out, help="Folder for the results; made if missing.")
@click.option(
    "--resume",
    type=click.Path(),
    metavar="OUT",
    callback=parse_out,
    help="Go on with a run that was interrupted, from its folder and with its settings; nothing else is given.",
)
@click.option(
    "--region-graph",
    type=click.Choice(REGION_GRAPHS),
    help="How variables are split; hidden-tree: by a tree of what they say of each other.",
)
@click.option("--layer", type=click.Choice(tuple(FAMILIES)), help="Kind of sum-product layer; not of hidden trees.")
@click.option("--units", type=click.IntRange(1), help="Units of each layer.")
@click.option("--trees", type=click.IntRange(1), help="How many hidden trees are mixed.")
@click.option(
    "--start",
    type=click.Choice(STARTS),
    help="How hidden trees start: data: states are clusters of rows; clusters: each tree is made of one.",
)
@click.option(
    "--input", type=click.Choice(INPUTS), help="Input distribution; of rows whose columns are all of one kind."
)
@click.option("--epochs", type=click.IntRange(1), help="Passes over the training rows.")
@click.option("--batch", type=click.IntRange(1), help="Rows in one step.")
@click.option(
    "--learner",
    metavar="NAME[:SETTING=VALUE,...]",
    help="How the circuit learns, as in adam:rate=0.05,schedule=one-cycle; a wrong name lists the learners.",
)
@click.option(
    "--lr",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    help="The learner's rate, in short for --learner NAME:rate=....",
)
@click.option(
    "--pseudocount",
    type=click.FloatRange(0),
    callback=finite,
    help="Imaginary rows for each distribution, so that nothing has a probability of 0.",
)
@click.option(
    "--soften",
    type=click.FloatRange(0, 1, max_open=True),
    callback=finite,
    metavar="SHARE",
    help="Share of their probability that inputs of states take evenly from all states.",
)
@click.option("--patience", type=click.IntRange(1), help="End after so many epochs in a row without a gain.")
@click.option(
    "--min-delta",
    type=click.FloatRange(0),
    callback=finite,
    help="The gain in nats per row that counts for --patience. Default: 0 for trees.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of all random numbers."
)
@click.option("--device", default="cpu", show_default=True, help="Device of torch, such as cpu or cuda.")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True, help="Type of the weights.")
@click.option("--key", help="Array of a .npz file to read. Default: the only one, else images, else train.")
@click.option(
    "--image-shape",
    metavar="[CxHxW]",
    callback=parse_image_shape,
    help="Shape of images stored as flat rows, as 8x8 or 3x32x32.",
)
@click.option(
    "--num-values", type=click.IntRange(2), help="Values of each variable. Default: one more than the largest."
)
@click.option(
    "--columns",
    metavar="auto|FILE",
    help="Kinds of the columns of a table: auto takes them from its cells, a JSON file gives them by name, as in "
    f'{{"age": "real", "visits": {{"kind": "count", "input": "poisson"}}}}; kinds: auto, {", ".join(KINDS)}, ignored.',
)
@click.option("--missing", multiple=True, metavar="WORD", help="Text of a missing cell; empty cells are missing too.")
@DELIMITER
@click.option("--tensorboard", is_flag=True, help="Write figures of each epoch to OUT/tensorboard.")
@click.option("--quiet", is_flag=True, help="Show no progress bar.")
@one_line_errors
def train(quiet: bool, tensorboard: bool, resume: Path | None, **options: Any) -> None:
    """Train a circuit on DATA: the word digits, or the path of a .npy, .npz, .csv or .parquet file.

    A file holds rows (N, D) or images (N, H, W) or (N, C, H, W). A random 72 / 14 / 14 percent of the rows are for
    training, validation and test, unless a .npz has arrays named train, valid and test. A model that needs no
    validation rows is trained on those too, and the first line says so.

    With --columns, DATA may also be a folder of tables, or an address such as s3://bucket/rows.

    With --columns, a table may hold text and empty cells: its first line has the names of the columns, the model keeps
    what they mean, and trains on the cells that are there.

    What is not given is chosen by the kinds of the columns and the number of rows, and said in the first line.

    The model that is best on the validation rows is kept. OUT gets model.plica (structure and weights), samples.png,
    circuit.svg, report.json, for images inpainting.png, and report.html, which shows all of them. Ctrl-C ends training
    early and still writes them.

    Each epoch writes OUT/checkpoint, which is removed when the results are there. After Ctrl-C, or when the process was
    killed, `plica train --resume OUT` goes on from it, and ends as if there had been no break.

    `torchrun --nproc-per-node 2 -m plica train ...` trains with two processes, each from half of every batch.
    """
    with as_one_run():
        given = _given(options) if resume is None else None
        out = options["out"] if resume is None else resume
        if _ended_before_restart(out, given):
            return
        settings, recipe = _of_checkpoint(out) if given is None else (given, None)
        check_can_create(settings.out, (*NAMES, INPAINTING, CHECKPOINT))
        if settings.columns is not None:
            check_is_other(settings.out, local_path(location(settings.data)))
        data = load_data(settings)
        prepare_torch()
        with leaving_at_once():
            from plica.cli.run import run  # loads torch, which --help and wrong arguments need not wait for

        if run(settings, data, quiet=quiet, tensorboard=tensorboard, resumed=recipe):
            raise SystemExit(INTERRUPTED)


def _ended_before_restart(out: Path, settings: Settings | None) -> bool:
    """Whether `torchrun` restarts a run whose results are there."""
    if "TORCHELASTIC_RESTART_COUNT" not in os.environ:
        return False
    prepare_torch()
    with leaving_at_once():
        from plica.cli.resume import ended_before_restart  # loads torch
    return ended_before_restart(out, settings)


def _given(options: Mapping[str, Any]) -> Settings:
    """The settings of a new run.

    Raises:
        click.MissingParameter: There is no data set or no folder.
        InputError: Options exclude each other.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in ("data", "out") and options[parameter.name] is None:
            raise click.MissingParameter(ctx=context, param=parameter)
    settings = Settings(**options)
    if settings.columns is not None and settings.input is not None:
        named = settings.input if settings.input in DISTRIBUTIONS else "gaussian"
        raise InputError(
            "--input applies to rows of one kind, not to --columns; name the distribution in the file of --columns: "
            f'{{"age": {{"kind": "real", "input": "{named}"}}}}'
        )
    return settings


def _of_checkpoint(out: Path) -> tuple[Settings, Recipe]:
    """The settings with which the run of a folder was started, and the recipe that it chose.

    Raises:
        InputError: Other settings are given too.
        FileFormatError: The folder has no checkpoint, or a damaged one.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in _OF_A_RESUMED_RUN and source is not click.core.ParameterSource.DEFAULT:
            raise InputError(
                f"--resume goes on with the settings of {out}; leave {parameter.get_error_hint(context)} out, or start "
                "a new run without --resume"
            )
    if not (out / CHECKPOINT).exists() and (out / REPORT).exists():
        raise InputError(f"--resume {out}: the run is finished, since {out / REPORT} is there and no checkpoint")
    prepare_torch()
    with leaving_at_once():
        from plica.cli.resume import stored_run  # loads torch
    return stored_run(out)


_OF_A_RESUMED_RUN = ("resume", "quiet", "tensorboard")


def load_data(settings: Settings) -> Dataset:
    """The data set that the settings name."""
    distribution = DISTRIBUTIONS.get(settings.input or "")
    counts = distribution is None or distribution.settings is not None  # values, whose number the data has
    domain = None if distribution is None or counts else distribution.domain()
    if settings.columns is not None:
        return _typed_data(settings)
    if settings.missing:
        raise InputError("--missing is for tables of typed columns; add --columns auto")
    if settings.data != "digits":
        return from_numbers(
            settings.data,
            seed=settings.seed,
            key=settings.key,
            image_shape=settings.image_shape,
            num_values=settings.num_values,
            domain=domain,
            delimiter=settings.delimiter,
        )
    for name in ("key", "image_shape", "num_values", "delimiter"):
        if getattr(settings, name) is not None:
            raise InputError(f"digits: --{name.replace('_', '-')} is known for this data set; leave it out")
    return digits(domain)


def _typed_data(settings: Settings) -> Dataset:
    """A table of typed columns."""
    assert settings.columns is not None, "asked for where columns are typed"
    for name in ("image_shape", "num_values"):
        if getattr(settings, name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')} applies to rows of one kind, not to --columns; leave one of both out"
            )
    records = {} if settings.columns == "auto" else read_columns(Path(settings.columns))
    if settings.data == "digits":
        raise InputError("digits: expected no --columns, since all its columns are of one kind; leave --columns out")
    return from_typed(
        location(settings.data),
        records=records,
        words=settings.missing,
        seed=settings.seed,
        key=settings.key,
        delimiter=settings.delimiter,
    )
