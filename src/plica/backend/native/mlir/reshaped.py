"""The entries of an array in another shape: axes are joined to one, which is then split."""

from collections.abc import Sequence

from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.types import Value
from plica.ir.sizes import Dim, product

Groups = list[tuple[tuple[int, ...], tuple[int, ...]]]


def matched(before: Sequence[Dim], after: Sequence[Dim]) -> Groups:
    """Axes before and after that hold the same entries, in the smallest groups that sizes show, from the front.

    >>> matched((2, 3, 4), (6, 4))
    [((0, 1), (0,)), ((2,), (1,))]
    """
    groups: Groups = []
    end, finish, start, begin = 0, 0, 0, 0
    while end < len(before) and finish < len(after):
        end, finish = end + 1, finish + 1
        left, right = product(before[start:end]), product(after[begin:finish])
        while left != right and not (end == len(before) and finish == len(after)):
            grows = isinstance(left, int) and isinstance(right, int) and left < right
            if finish == len(after) or (end < len(before) and (grows or end - start < finish - begin)):
                left, end = left * before[end], end + 1
            else:
                right, finish = right * after[finish], finish + 1
        groups.append((tuple(range(start, end)), tuple(range(begin, finish))))
        start, begin = end, finish
    if groups and (start < len(before) or begin < len(after)):  # sizes of 1 are left over
        first, second = groups.pop()
        groups.append(((*first, *range(start, len(before))), (*second, *range(begin, len(after)))))
    return groups


def reshaped(emitter: Emitter, x: Value, shape: Sequence[Dim]) -> Value:
    """A tensor with the entries of `x` and as many as it has."""
    if tuple(shape) == x.shape:
        return x
    if 0 in shape:
        return emitter.empty(shape, x.dtype)
    groups = matched(x.shape, shape)
    if not groups:  # one of them has no dimension
        return regrouped(emitter, x, shape, "expand_shape" if shape else "collapse_shape", [])
    if len(groups) < len(x.shape):
        joined = [product(x.shape[axis] for axis in first) for first, _ in groups]
        x = regrouped(emitter, x, joined, "collapse_shape", [first for first, _ in groups])
    if len(groups) < len(shape):
        return regrouped(emitter, x, shape, "expand_shape", [second for _, second in groups])
    return x


def regrouped(emitter: Emitter, x: Value, shape: Sequence[Dim], kind: str, groups: Sequence[Sequence[int]]) -> Value:
    """A tensor of which groups of axes become one (`kind` is `collapse_shape`), or axes groups (`expand_shape`)."""
    out = Value("", tuple(shape), x.dtype)
    axes = [list(group) for group in groups]
    sizes = f" output_shape [{', '.join(map(emitter.size_text, shape))}]" if kind == "expand_shape" else ""
    return Value(emitter.code.op(f"tensor.{kind} {x.text} {axes}{sizes} : {x.type} into {out.type}"), *out.array)
