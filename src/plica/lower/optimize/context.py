"""`RuleContext`: what a rule may know of where it is applied, beside the graph: `match.context`.

>>> RuleContext().algebra.name, RuleContext().device
('real', 'cpu')
"""

from dataclasses import dataclass

from plica.ir.dtypes import DType
from plica.symbolic.semirings import LSE_SUM, Algebra, Semiring


@dataclass(frozen=True, slots=True)
class RuleContext:
    """What a circuit is compiled for.

    Args:
        semiring: How its numbers are carried.
        dtype: The dtype of its real parameters.
        device: Where its tensors lie when it is compiled: `cpu`, `cuda:0`.
    """

    semiring: Semiring = LSE_SUM
    dtype: DType = DType.FLOAT32
    device: str = "cpu"

    @property
    def algebra(self) -> Algebra:
        """What + and x mean."""
        return self.semiring.algebra
