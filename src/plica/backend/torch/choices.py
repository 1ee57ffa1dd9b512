"""Choices between numbers, written over one of the two.

>>> where_(torch.tensor([True, False]), 1.0, torch.tensor([5.0, 7.0]))
tensor([1., 7.])
"""

import torch
from torch import Tensor

_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
_FEW = 4  # conditions for each of so many numbers at most: more of them take longer to spread than to look at
_LARGE = 2**16  # numbers, from which on two passes in vectors are faster than torch's one


def where_(condition: Tensor, x: Tensor | float, y: Tensor) -> Tensor:
    """`torch.where`, written over y. Large arrays on the CPU are chosen from bit by bit: torch looks at each number.

    Shapes: y has that of the result.
    """
    if not y.is_cpu or y.dtype not in _BITS or y.numel() < max(_LARGE, _FEW * condition.numel()):
        return torch.where(condition, x, y)
    dtype = _BITS[y.dtype]
    chosen = torch.as_tensor(x, dtype=y.dtype).view(dtype)
    unchanged = condition.to(dtype).sub_(1)  # all bits where y stays
    y.view(dtype).bitwise_and_(unchanged).bitwise_or_(chosen.bitwise_and(unchanged.bitwise_not()))
    return y
