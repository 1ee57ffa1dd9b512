"""Densities: what a layer of a circuit reads off its data, as one operation with a derivative that stays finite."""

import math
from typing import Any

import numpy as np

from plica.ir.op import ALWAYS, Array, Op, Sample, sample
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import broadcast, require_kind, require_operands, require_same_dtype


def _log_normal_type(*types: ArrayType) -> ArrayType:
    require_operands(types, 3, 3)
    require_kind(types, ("float",))
    return array_type(broadcast(*[one.shape for one in types]), require_same_dtype(*types))


def _log_normal(x: Array, mean: Array, log_stddev: Array) -> Any:
    # log N(x | m, s) = -((x - m) / s)^2 / 2 - log s - log(2 pi) / 2
    largest = np.finfo(x.dtype).max
    bound = math.log(largest) - 0.5
    standard = (np.clip(x, -largest, largest) - mean) * np.exp(np.clip(-log_stddev, -bound, bound))
    return standard * standard * -0.5 - log_stddev - 0.5 * math.log(2.0 * math.pi)


def _log_normal_samples() -> list[Sample]:
    x, mean, log = np.asarray([[0.5], [-1.25], [3.0]]), np.asarray([0.25, 2.0]), np.asarray([-0.75, 1.5])
    narrow = np.asarray([-80.0, 0.0], "float32"), np.asarray([-100.0, -60.0], "float32")
    return [
        sample(x, mean, log),
        sample(x[:0], mean, log),
        sample(*(one.astype("float32") for one in (x, mean, log))),
        sample(np.asarray([[np.inf], [-80.0], [np.nan]], "float32"), *narrow),
    ]


DENSITIES = (Op("log_normal", _log_normal_type, _log_normal, _log_normal_samples, never_raises=ALWAYS),)
