"""The number formats in which a result is computed, one after another: a fast one first, whose bound may not hold.

>>> from plica.symbolic.semirings import LSE_SUM
>>> [(stage.semiring.name, stage.bound.name) for stage in cascade(LSE_SUM)]
[('bounded', 'OF_WEIGHTS'), ('scaled', 'OF_ROWS'), ('lse-sum', 'NONE')]
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import final

from plica.symbolic.semirings import Semiring


class Bound(Enum):
    """The bound that says whether the results of a number format are right."""

    OF_WEIGHTS = "the weights, for all rows: a last result of shape (1,)"
    OF_ROWS = "each row: a last result of shape (B,); rows for which no bound holds are computed by the next stage"
    NONE = "nothing, they are right"


FROM = {Bound.OF_WEIGHTS: 2**14, Bound.OF_ROWS: 2**14, Bound.NONE: 0}
"""The least number of activations of all rows for which a stage is faster than the next one."""


@final
@dataclass(frozen=True, slots=True)
class Stage:
    """One number format of a cascade.

    Args:
        semiring: The number format.
        bound: The bound that says whether its results are right.
    """

    semiring: Semiring
    bound: Bound

    def pays(self, work: int) -> bool:
        """Whether the stage is worth trying for this number of activations."""
        return work >= FROM[self.bound]


@lru_cache(maxsize=64)
def cascade(semiring: Semiring) -> tuple[Stage, ...]:
    """All stages, the first one first; the results of the last one are right."""
    attempt = semiring.attempt
    stages = [Stage(semiring, Bound.NONE)]
    if attempt is not None:
        stages.insert(0, Stage(attempt.carrier, Bound.OF_ROWS))
        if attempt.of_constants is not None:
            stages.insert(0, Stage(attempt.of_constants, Bound.OF_WEIGHTS))
    return tuple(stages)
