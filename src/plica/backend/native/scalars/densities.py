"""Log densities of univariate distributions."""

import math

import numpy as np

from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.exponentials import between, exp
from plica.backend.native.scalars.values import Value, entry


def log_normal(x: Value, mean: Value, log_stddev: Value) -> Value:
    """-((x - m) / s)^2 / 2 - log s - log(2 pi) / 2, finite even if 1 / s is infinite."""
    largest = float(np.finfo(x.dtype.numpy).max)
    bound = math.log(largest) - 0.5
    standard = (between(x, -largest, largest) - mean) * exp(between(-log_stddev, -bound, bound))
    return standard * standard * -0.5 - log_stddev - 0.5 * math.log(2.0 * math.pi)


DENSITIES: dict[str, ScalarRow] = {
    "log_normal": ScalarRow(entry(log_normal), (5.0, 5.0), relative_to="the sum of the sizes of its terms"),
}
