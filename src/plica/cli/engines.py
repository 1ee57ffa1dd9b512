"""`--engine`: the commands that ask a model about rows, by several processes, with answers in a folder of parts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plica.batch.engines import ENGINES, engine_of
from plica.cli.signals import say_left
from plica.errors import InputError

if TYPE_CHECKING:
    from plica.tables.files import Location
    from plica.tables.questions import Question

ENGINE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(tuple(ENGINES)),
        help="Compute in several processes, on an engine; OUT is then a folder, which gets a .parquet for each part of "
        "the rows. Run the same command again to go on after it was stopped.",
    ),
    click.option(
        "--workers", type=click.IntRange(1), help="Processes of --engine. Default: as many as there are processors."
    ),
)


def run_on_engine(
    question: "Question",
    model: Path,
    data: "Location",
    out: Path,
    *,
    engine: str,
    workers: int | None,
    batch: int,
    unknown: str,
    device: str,
    delimiter: str | None,
    key: str | None,
    bar: Any,
) -> None:
    """Ask a model about each row of a file or a folder, on an engine.

    Args:
        question: What is asked.
        model: The file of the model.
        data: The rows.
        out: The folder of the answers.
        engine: The name of the engine.
        workers: How many processes.
        batch: Rows computed at once.
        unknown: How categories that the model has never seen are read.
        device: The device of torch.
        delimiter: Of a text.
        key: Of an array, of which engines read none.
        bar: Makes a bar of a number of rows.
    """
    if key is not None or str(data).lower().endswith(".npz"):
        raise InputError(f"{data}: --engine reads no .npz; write the array as .npy or .parquet")
    if out.suffix and not out.is_dir():
        raise InputError(f"{out}: --engine writes a folder of .parquet files; give the name of a folder, as in scores/")
    from plica.batch.run import Summary, run

    def begin(summary: Summary, busy: int) -> None:
        say_left(f"the parts that are done stay in {out}; the same command goes on")
        if summary.done:
            click.echo(f"plica: {summary.done} of {summary.parts} parts were done before", err=True)
        if workers is not None and 0 < busy < workers:
            click.echo(
                f"plica: warning: {workers} workers for {busy} parts, so that {workers - busy} have none", err=True
            )
        progress.total = summary.rows
        progress.refresh()

    with bar(None) as progress:
        summary = run(
            question,
            model,
            data,
            out,
            engine=engine_of(engine),
            workers=workers,
            batch=batch,
            unknown=unknown == "missing",
            device=device,
            delimiter=delimiter,
            on_begin=begin,
            on_part=progress.update,
        )
    warning = summary.unknown.message("--unknown error")
    if warning is not None:
        click.echo(f"plica: warning: {warning}", err=True)
