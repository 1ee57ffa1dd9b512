"""What layers of counts without a bound share: whole ends of intervals, and counts as integers."""

from plica.ir.dtypes import DType
from plica.symbolic.parameters import Array, Namespace

_LARGEST = 2.0**62  # a count that float32, float64 and int64 all hold


def whole_ends(xp: Namespace, low: Array, high: Array, dtype: DType) -> tuple[Array, Array, Array]:
    """The least and the largest count in `low <= x <= high`, the latter infinite where there is none; where none lies.

    Where none lies, the ends are as they would be of another interval: finite, and not below 0.
    """
    first, last = xp.ceil(xp.maximum(xp.astype(low, dtype), 0.0)), xp.floor(xp.astype(high, dtype))
    empty = xp.logical_or(xp.less(last, first), xp.isinf(first))
    return xp.where(empty, 0.0, first), xp.where(empty, 0.0, last), empty


def as_count(xp: Namespace, x: Array) -> Array:
    """A number of whole value as an integer; counts beyond 2^62, which are drawn from extreme parameters, are that."""
    return xp.astype(xp.clip(x, 0.0, _LARGEST), xp.int64)
