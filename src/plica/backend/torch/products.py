"""Products of stacks of matrices with what is done to their factors or to them; see `plica.ops.products`.

>>> a, b = torch.arange(4.0).reshape(2, 2, 1), torch.ones(2, 1, 3)
>>> matmul_taken(a, b, torch.tensor([1, 0]))[:, :, 0]
tensor([[2., 3.],
        [0., 1.]])
"""

import torch
from torch import Tensor

from plica.backend.torch.huge_pages import empty, is_worth_it, matmul
from plica.backend.torch.indexing import is_traced, may_write

_AT_ONCE = 2**21  # bytes for each thread of matrices that are brought into order, then multiplied: what its cache holds


def matmul_taken(a: Tensor, b: Tensor, index: Tensor) -> Tensor:
    """`torch.matmul` of the matrices of both factors that stand at an index, a few of them at a time.

    Shapes: a (F, M, K), b (G, K, N), index (H,), result (H, M, N).
    """
    shape = (len(index), a.shape[1], b.shape[2])
    size = (a[0].numel() + b[0].numel()) * a.element_size() if len(a) and len(b) else 0
    count = torch.get_num_threads() * _AT_ONCE // max(1, size) + 1
    if count >= len(index) or not is_worth_it(shape, a, b):
        return matmul(a.index_select(0, index), b.index_select(0, index))
    result = empty(shape, a)
    is_turned = [one.mT.is_contiguous() for one in (a, b)]  # and taken as it lies
    sources = [one.mT if turned else one for one, turned in zip((a, b), is_turned, strict=True)]
    room = [one.new_empty((count, *one.shape[1:])) for one in sources]
    for start in range(0, len(index), count):
        places = index[start : start + count]
        factors = [
            torch.index_select(one, 0, places, out=space[: len(places)])
            for one, space in zip(sources, room, strict=True)
        ]
        torch.bmm(
            *(one.mT if turned else one for one, turned in zip(factors, is_turned, strict=True)),
            out=result[start : start + count],
        )
    return result


def multiply_matmul(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`x * torch.matmul(a, b)`, computed as `x` lies in memory, rows first or columns first.

    Shapes: x (F, M, N), a (F, M, K), b (F, K, N), result (F, M, N).
    """
    if is_traced(x, a, b) or not may_write(x, a, b):
        return x * torch.matmul(a, b)
    is_turned = x.mT.is_contiguous() and not x.is_contiguous()
    product = matmul(b.mT, a.mT).mT if is_turned else matmul(a, b)
    return product.mul_(x)
