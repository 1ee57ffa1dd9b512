"""The four files of a training run, written all or none."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from plica.draw.circuit import draw_circuit
from plica.draw.images import sample_grid
from plica.files.datasets import Dataset
from plica.files.model import save_model
from plica.files.paths import filling
from plica.symbolic.circuit import Circuit

Array = np.ndarray[Any, np.dtype[Any]]

MODEL, SAMPLES, CIRCUIT, REPORT = NAMES = ("model.plica", "samples.png", "circuit.svg", "report.json")


def write_outputs(
    out: Path,
    data: Dataset,
    circuit: Circuit,
    tensors: dict[str, Array],
    options: dict[str, Any],
    samples: Array,
    report: dict[str, Any],
) -> None:
    """Write model, samples, drawing and report to a temporary folder and move them to `out` together."""
    with filling(out) as folder:
        save_model(folder / MODEL, circuit, tensors, options)
        sample_grid(samples, data.test, folder / SAMPLES, image_shape=data.shape)
        title = f"{data.name}: {report['model']['region_graph']}"
        draw_circuit(circuit, folder / CIRCUIT, image_shape=data.shape, title=title)
        text = json.dumps(report, indent=2, allow_nan=False)
        (folder / REPORT).write_text(text + "\n", encoding="utf-8")
