"""Covariances of a trained circuit, made wider for rows that it has not seen."""

from typing import Any

import numpy as np
import torch

from plica.learn.graphs import Graphs, Tensors
from plica.learn.scores import Rows
from plica.learn.sources import Stream, is_stream
from plica.symbolic.layers import MultivariateGaussianLayer


@torch.no_grad()
def widen_covariances(model: Any, rows: Rows | Stream, factor: float | None = None) -> None:
    """Widen covariances that were estimated from few rows, as dividing by n - 1 in place of n does for one variable.

    A normal vector of V variables, learned from n rows, predicts new rows with covariances larger by the factor
    1 + V / (n - V). Where n is at most 2 V, the factor here is 1 + V / n. n is the mean number of known cells of a
    column.

    Args:
        model: A compiled circuit, which changes.
        rows: `(N, D)` the rows that it has learned, or a stream of them; NaN is missing.
        factor: By what to multiply covariances, more than 0; by default as above.
    """
    known = rows.known_cells() if is_stream(rows) else (~np.isnan(np.asarray(rows, dtype=np.float64))).sum(axis=0)
    tensors = Tensors(model)
    for layer in model.symbolic.input_layers:
        if isinstance(layer, MultivariateGaussianLayer):
            size = layer.num_variables
            number = float(known[list(layer.scope)].mean())
            usual = 1.0 + size / max(number - size if number > 2 * size else number, 1.0)
            graph = Graphs([layer.scale_tril], tensors)
            graph.invert(graph.value() * (usual if factor is None else factor) ** 0.5)
