"""Figures for comparing models.

>>> import math
>>> round(bits_per_dimension(-64 * math.log(4), num_variables=64), 6)
2.0
"""

import math


def bits_per_dimension(mean_log_likelihood: float, num_variables: int) -> float:
    """Minus the base-2 logarithm of the likelihood of a row, per variable.

    Args:
        mean_log_likelihood: Natural logarithm, averaged over rows.
        num_variables: Variables in a row.
    """
    return -mean_log_likelihood / (num_variables * math.log(2.0))
