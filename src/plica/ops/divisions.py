"""Division of integers, which has no result where the divisor is 0; numpy warns and gives 0."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plica.errors import ZeroDivisorError
from plica.ir.op import Array

BY_ZERO = "an integer is divided by 0; divide floats, or choose another divisor with plica.numpy.where."


def dividing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A division of numpy that refuses integers divided by zero.

    Raises:
        ZeroDivisorError: An integer is divided by zero.
    """

    def divided(x: Array, y: Array) -> Any:
        if y.dtype.kind in "iu" and np.broadcast(x, y).size and not y.all():
            raise ZeroDivisorError(BY_ZERO)
        return function(x, y)

    return divided
