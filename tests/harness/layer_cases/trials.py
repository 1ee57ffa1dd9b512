"""What the cases of layers of trials share: the probability of a success, from either parameter."""

from typing import Any

import numpy as np

from plica.symbolic.parameters import Parameter, ScaledSigmoidParameter, normal
from tests.harness.layer_cases.case import Params
from tests.harness.spaces import safe_log

Array = Any


def scaled_sigmoid(shape: tuple[int, ...]) -> Parameter:
    """Probabilities between 0.1 and 0.9; those that are a plain sigmoid are read as logits."""
    return Parameter.from_unary(ScaledSigmoidParameter(shape, 0.1, 0.9), normal(shape))


def log_shares(params: Params) -> tuple[Array, Array]:
    """The logarithms of the probabilities of a failure and of a success, `(K,)` each."""
    if "logits" in params:
        return -np.logaddexp(0, params["logits"]), -np.logaddexp(0, -params["logits"])
    with np.errstate(divide="ignore"):
        return np.log1p(-params["probs"]), safe_log(params["probs"])


def successes(params: Params) -> Array:
    """The probabilities of a success, `(K,)`."""
    return np.exp(log_shares(params)[1])


def times(count: Array, log: Array) -> Array:
    """`count * log`, where 0 times -inf is 0."""
    return np.where(count == 0, 0, count * np.where(count == 0, 0, log))
