"""The files of a training run, written all or none."""

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from plica.cli.inpainting import Inpainted
from plica.cli.page import Compiled, make_page
from plica.draw.circuit import draw_circuit
from plica.draw.images import sample_grid
from plica.draw.inpainting import inpainting_grid
from plica.errors import FileFormatError, WriteError
from plica.files.datasets import Dataset
from plica.files.model import save_model
from plica.paths import filling
from plica.symbolic.circuit import Circuit

Array = np.ndarray[Any, np.dtype[Any]]

MODEL, SAMPLES, CIRCUIT, REPORT, PAGE = NAMES = (
    "model.plica",
    "samples.png",
    "circuit.svg",
    "report.json",
    "report.html",
)
INPAINTING = "inpainting.png"  # of images
CHECKPOINT = "checkpoint"  # until the results are there
TENSORBOARD = "tensorboard"  # a folder


def names_of(data: Dataset) -> tuple[str, ...]:
    """The files that a run on a data set writes."""
    return NAMES if data.shape is None else (*NAMES, INPAINTING)


def write_outputs(
    out: Path,
    data: Dataset,
    circuit: Circuit,
    tensors: dict[str, Array],
    options: dict[str, Any],
    samples: Array,
    report: dict[str, Any],
    inpainted: Inpainted | None,
    compiled: Compiled,
) -> None:
    """Write model, samples, drawing and report to a temporary folder and move them to `out` together."""
    with filling(out) as folder:
        save_model(folder / MODEL, circuit, tensors, options)
        columns = None if data.encoding is None else tuple(column.name for column in data.encoding.modelled)
        sample_grid(samples, data.test, folder / SAMPLES, image_shape=data.shape, columns=columns)
        title = f"{data.name}: {report['model']['region_graph']}"
        draw_circuit(circuit, folder / CIRCUIT, image_shape=data.shape, title=title)
        if inpainted is not None and data.shape is not None:
            inpainting_grid(
                inpainted.columns, inpainted.real, inpainted.hidden, folder / INPAINTING, image_shape=data.shape
            )
        (folder / PAGE).write_text(make_page(folder, report, data, compiled), "utf-8", "backslashreplace")
        text = json.dumps(report, indent=2, allow_nan=False)
        (folder / REPORT).write_text(text + "\n", encoding="utf-8")


def written_elsewhere(write: Callable[[Path], None], error: WriteError) -> Path:
    """Write results elsewhere after a disk was full: in the current folder, the home folder or `TMPDIR`.

    If none of them has room, the command asks for a folder on the terminal.

    Args:
        write: Writes the results to a folder.
        error: The error of the full disk.

    Returns:
        The folder with the results.

    Raises:
        WriteError: No other folder has room, and there is no terminal.
    """
    for parent in (Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        folder = None
        with contextlib.suppress(WriteError, FileFormatError, OSError):
            folder = Path(tempfile.mkdtemp(prefix="plica-results-", dir=parent))
            write(folder)
            return folder
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    while sys.stdin.isatty():
        click.echo(f"plica: {error}", err=True)
        folder = Path(click.prompt("the training is finished; write its results to another folder", err=True))
        with contextlib.suppress(WriteError, FileFormatError, OSError):
            write(folder)
            return folder
    raise error
