"""The number formats in which a result is computed, one after another: a fast one first, whose bound may not hold.

>>> from plica.symbolic.semirings import LSE_SUM
>>> [(stage.semiring.name, stage.bound.name) for stage in cascade(LSE_SUM)]
[('bounded', 'OF_WEIGHTS'), ('scaled', 'OF_ROWS'), ('lse-sum', 'NONE')]
"""

from functools import lru_cache

from plica.symbolic.semirings import Bound, Semiring, Stage

FROM = {Bound.OF_WEIGHTS: 2**14, Bound.OF_ROWS: 2**14, Bound.NONE: 0}
"""The least number of activations of all rows for which a stage is faster than the next one."""


@lru_cache(maxsize=64)
def cascade(semiring: Semiring) -> tuple[Stage, ...]:
    """All stages, the first one first; the results of the last one are right."""
    return (*semiring.faster, Stage(semiring, Bound.NONE))
