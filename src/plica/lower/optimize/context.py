"""`RuleContext`: the semiring, dtype and device that a rule is applied for, read as `match.context`.

>>> RuleContext().algebra.name, RuleContext().device
('real', 'cpu')
"""

from dataclasses import dataclass

from plica.ir.dtypes import DType
from plica.symbolic.semirings import LSE_SUM, Algebra, Semiring


@dataclass(frozen=True, slots=True)
class RuleContext:
    """The target that a circuit is compiled for.

    Args:
        semiring: Its semiring in a number format.
        dtype: The dtype of its real parameters.
        device: Where its tensors lie when it is compiled: `cpu`, `cuda:0`.
    """

    semiring: Semiring = LSE_SUM
    dtype: DType = DType.FLOAT32
    device: str = "cpu"

    @property
    def algebra(self) -> Algebra:
        """The algebra, which gives + and x their meaning."""
        return self.semiring.algebra
