"""Clusters of rows with columns of any kind and missing values.

>>> import numpy as np
>>> rows = np.array([[0, 9.0], [0, 8.5], [1, 1.0], [1, np.nan]])
>>> labels = cluster_labels(rows, [2, None], 2, seed=0)
>>> bool(labels[0] == labels[1] != labels[2] == labels[3])
True
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

_ITERATIONS = 20
_MOST_INDICATORS = 64  # of a column of states in the distance between rows; with more, a column counts as a number


def cluster_labels(rows: Array, num_states: Sequence[int | None], num_clusters: int, seed: int) -> Array:
    """The cluster of each row by k-means, `(N,)` below `num_clusters`; some clusters may have no row.

    Each column has the same spread: a column of states is a vector of indicators, a number is measured in units of its
    standard deviation. A missing or infinite value lies at the mean.

    Args:
        rows: `(N, D)`; NaN is missing.
        num_states: The number of states of each column; None for numbers.
        num_clusters: The number of clusters.
        seed: The seed of the first centres.

    Source: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", 2007.
    """
    from scipy.cluster.vq import kmeans2  # here: loading it takes as long as small clusters do

    vectors = _vectors(rows, num_states)
    distinct, labels = np.unique(vectors, axis=0, return_inverse=True)
    if len(distinct) <= num_clusters:
        return labels.ravel()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty")
        _, labels = kmeans2(vectors, _first_centres(vectors, num_clusters, seed), iter=_ITERATIONS, minit="matrix")
    return np.asarray(labels, dtype=np.int64)


def _first_centres(vectors: Array, count: int, seed: int) -> Array:
    """Rows that are centres at first, at most `count`: each is drawn by the squares of distances to those before.

    scipy's own draw measures all distances anew for each centre: eight times the time for 64 clusters.
    """
    rng = np.random.default_rng(seed)
    squares = (vectors**2).sum(axis=1)
    distances = np.ones(len(vectors))
    chosen: list[int] = []
    for _ in range(count):
        total = distances.sum()
        if total == 0:  # what is left differs by roundings from the centres
            break
        position = int(rng.choice(len(vectors), p=distances / total))
        from_here = np.maximum(squares - 2.0 * (vectors @ vectors[position]) + squares[position], 0.0)
        from_here[(vectors == vectors[position]).all(axis=1)] = 0.0  # without rounding: it is not drawn again
        distances = np.minimum(distances, from_here) if chosen else from_here
        chosen.append(position)
    return vectors[chosen]


def _vectors(rows: Array, num_states: Sequence[int | None]) -> Array:
    """Rows as vectors `(N, V)`."""
    blocks = []
    for column, states in zip(rows.T, num_states, strict=True):
        known = np.isfinite(column)
        if states is not None and states <= _MOST_INDICATORS:
            block = (column[:, None] == np.arange(states)).astype(np.float64)
        else:
            scale = float(np.abs(column[known]).max(initial=0.0)) or 1.0  # so that squares do not overflow
            block = (np.where(known, column, 0.0) / scale)[:, None]
        block = np.where(known[:, None], block - block[known].mean(axis=0) if known.any() else 0.0, 0.0)
        spread = math.sqrt(float((block**2).sum()) / max(int(known.sum()), 1))
        blocks.append(block / spread if spread > 1e-12 else np.zeros_like(block))
    return np.concatenate(blocks, axis=1)
