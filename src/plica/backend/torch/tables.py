"""Lookups in tables, and in the softmax of tables.

>>> lookup(torch.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]), torch.tensor([[2, 0]]))
tensor([[[3., 6.],
         [1., 4.]]])
"""

from typing import Any

import torch
from torch import Tensor

from plica.backend.torch.indexing import is_traced

# Bytes of a table from which on one array less is worth a product more: memory of this size goes back to the system as
# soon as it is free (the largest M_MMAP_THRESHOLD of glibc on 64 bits, mallopt(3)), and every page of it is made again.
_LARGE = 2**25


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Column `index[f, b]` of each fold's table.

    Shapes: table (F, K, C), index (F, B), result (F, B, K).
    """
    return table.gather(2, _places(table, index)).mT


def lookup_softmax(logits: Tensor, index: Tensor) -> Tensor:
    """`lookup(softmax(logits, 2), index)`; the derivative makes one array of the size of a large table.

    Values: the derivative is y (G - sum(G y)) for the softmax y and the derivative G of its table. G is zero but for
    what is looked up, and G y is the derivative of the result times the result: it is added to -y sum(G y) there. Both
    ways round y sum(G y), and for each row that looks an entry up one product and one sum of the size of its terms.

    Shapes: logits (F, K, C), index (F, B), result (F, B, K).
    """
    is_small = logits.numel() * logits.element_size() < _LARGE
    if is_small or is_traced(logits, index) or not (torch.is_grad_enabled() and logits.requires_grad):
        return lookup(torch.softmax(logits, 2), index)
    found: Tensor = _LookupSoftmax.apply(logits, index)[0]  # type: ignore[no-untyped-call]
    return found.mT


def _places(table: Tensor, index: Tensor) -> Tensor:
    folds, units, _ = table.shape
    return index.unsqueeze(1).expand(folds, units, index.shape[1])


class _LookupSoftmax(torch.autograd.Function):
    """What is looked up, and the softmax: its own results are all that derivatives read, whatever becomes of logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        table = torch.softmax(logits, 2)
        found = table.gather(2, _places(table, index))  # (F, K, B)
        ctx.save_for_backward(index, table, found)
        ctx.set_materialize_grads(False)
        return found, table

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        index, table, found = ctx.saved_tensors
        to_found, to_table = gradients
        if to_found is None or to_table is not None or torch.is_grad_enabled():  # somebody differentiates this pass
            if to_found is not None:
                spread = torch.zeros_like(table).scatter_add(2, _places(table, index), to_found)
                to_table = spread if to_table is None else to_table + spread
            return None if to_table is None else table * (to_table - (to_table * table).sum(2, keepdim=True)), None
        products = torch.mul(to_found, found, out=torch.empty_like(found))
        change = table * products.sum(2, keepdim=True).neg_()
        return change.scatter_add_(2, _places(table, index), products), None
