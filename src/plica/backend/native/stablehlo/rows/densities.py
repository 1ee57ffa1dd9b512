"""Log densities of univariate distributions."""

import math

import numpy as np

from plica.backend.native.stablehlo.call import Row, of
from plica.backend.native.stablehlo.values import Value


def _log_normal(x: Value, mean: Value, log_stddev: Value) -> Value:
    # log N(x | m, s) = -((x - m) / s)^2 / 2 - log s - log(2 pi) / 2
    largest = float(np.finfo(x.dtype.numpy).max)
    bound = math.log(largest) - 0.5
    scale = (-log_stddev).maximum(-bound).minimum(bound).exp()
    standard = (x.maximum(-largest).minimum(largest) - mean) * scale
    return standard * standard * -0.5 - log_stddev - 0.5 * math.log(2.0 * math.pi)


DENSITIES: dict[str, Row] = {"log_normal": of(_log_normal)}
