"""`FoldPolicy`: how much memory constants may take.

>>> FoldPolicy().max_growth == SMALL
True
"""

from dataclasses import dataclass
from numbers import Real

from plica.errors import InputError

SMALL = 2**20
"""By default the values kept between calls take at most one MiB more than the sources that they replace."""


def check_limit(name: str, limit: object) -> None:
    """Refuse a limit that is neither a number of bytes nor None.

    Raises:
        InputError: The limit is negative, or no number.
    """
    if limit is not None and not (isinstance(limit, Real) and not isinstance(limit, bool) and float(limit) >= 0):
        raise InputError(f"{name} is {limit!r} bytes; give 0 or more, or None for no limit.")


@dataclass(frozen=True, slots=True)
class FoldPolicy:
    """How much memory constants may take.

    Args:
        max_growth: By how many bytes the values kept between calls may exceed all sources; None for no limit.
        max_peak: How many bytes may be alive at once while folding, besides the sources and what a single operation
            needs while it runs; None for no limit.
        widen: Whether values may be kept in a wider dtype than the source that holds the same numbers. For example,
            float32 for weights of int8.
        check: How a change of a constant is noticed. "version" compares the library's count of writes, and the entries
            of small arrays; "checksum" reads the entries of all arrays at each call.

    Raises:
        InputError: A limit is negative or no number, `widen` is neither true nor false, or there is no such check.
    """

    max_growth: int | None = SMALL
    max_peak: int | None = None
    widen: bool = False
    check: str = "version"

    def __post_init__(self) -> None:
        check_limit("FoldPolicy: max_growth", self.max_growth)
        check_limit("FoldPolicy: max_peak", self.max_peak)
        if not isinstance(self.widen, bool):
            raise InputError(f"FoldPolicy: widen is {self.widen!r}; give True or False.")
        if self.check not in ("version", "checksum"):
            raise InputError(f"FoldPolicy: check is {self.check!r}; give 'version' or 'checksum'.")
