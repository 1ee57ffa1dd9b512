"""Functions that generated code calls beside torch's: operations with a gradient or a memory cost of their own.

Every function works on any device and dtype, under autograd and `torch.compile`, and never waits for a device.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from plica.backend.torch import linalg as linalg
from plica.backend.torch import random as random
from plica.backend.torch.choices import where_ as where_
from plica.backend.torch.contract import aligned, einsum
from plica.backend.torch.contract import integer_matmul as integer_matmul
from plica.backend.torch.contract import tucker as tucker
from plica.backend.torch.densities import log_normal as log_normal
from plica.backend.torch.directed import directed_matmul as directed_matmul
from plica.backend.torch.exact import bounded_exp, log_of_sum, may_branch
from plica.backend.torch.host import assert_shape as assert_shape
from plica.backend.torch.host import axis_size as axis_size
from plica.backend.torch.host import refuse_size as refuse_size
from plica.backend.torch.host import steps as steps
from plica.backend.torch.host import with_entries as with_entries
from plica.backend.torch.host import wrap as wrap
from plica.backend.torch.huge_pages import matmul as matmul
from plica.backend.torch.huge_pages import softmax as softmax
from plica.backend.torch.indexing import gather as gather
from plica.backend.torch.indexing import index as index
from plica.backend.torch.indexing import located
from plica.backend.torch.indexing import lookup as lookup
from plica.backend.torch.indexing import may_write as may_write
from plica.backend.torch.indexing import nonzero as nonzero
from plica.backend.torch.indexing import refuse_slice as refuse_slice
from plica.backend.torch.indexing import take_along as take_along
from plica.backend.torch.indexing import unique as unique
from plica.backend.torch.indexing import update as update
from plica.backend.torch.indexing import user_error as user_error
from plica.backend.torch.logs import hypot as hypot
from plica.backend.torch.logs import logaddexp as logaddexp
from plica.backend.torch.logs import logsumexp as logsumexp
from plica.backend.torch.logs import power as power
from plica.backend.torch.logs import safe_log as safe_log
from plica.backend.torch.logs import shift_of
from plica.backend.torch.logs import softplus as softplus
from plica.backend.torch.multivariate import conditional_factor as conditional_factor
from plica.backend.torch.multivariate import conditional_moments as conditional_moments
from plica.backend.torch.multivariate import log_multivariate_normal as log_multivariate_normal
from plica.backend.torch.multivariate import regression_matrix as regression_matrix
from plica.backend.torch.runs import multiply_runs as multiply_runs
from plica.backend.torch.special import betainc as betainc
from plica.backend.torch.special import betaincc as betaincc
from plica.backend.torch.special import betaincinv as betaincinv
from plica.backend.torch.special import gammainc as gammainc
from plica.backend.torch.special import gammaincc as gammaincc
from plica.backend.torch.special import gammaincinv as gammaincinv
from plica.backend.torch.special import log_ndtr as log_ndtr
from plica.backend.torch.special import stirling_error as stirling_error
from plica.eager.packed import PackedArray
from plica.eager.packed import packed as packed_array
from plica.errors import DTypeError, InputError, ShapeError
from plica.ir.dtypes import DType
from plica.ops.fourier import NO_POINTS
from plica.ops.packing import pack as pack
from plica.ops.packing import unpack as unpack
from plica.ops.rules import normal_axes


def log_matmul_exp(*arrays: Tensor, logs: str | None = None, lost: float = 1.0) -> Tensor:
    """log(sum over h of exp(x_h) @ W_h.T) with one shift for all inputs.

    Args:
        arrays: The inputs, the weight and, where `logs` is given, what the weight's logarithms are computed from.
        logs: How they are: `"log"` or `"log_softmax"`.
        lost: The error that underflow may have made in an entry of the weight, in smallest normal numbers.

    Shapes: x_h (..., B, I), weight (..., O, H*I), result (..., B, O).
    """
    (*inputs, weight), given = _with_logs(arrays, logs)
    shift = reduce(torch.maximum, [shift_of(x, (-1,)) for x in inputs])
    units = inputs[0].shape[-1]
    total = None
    for number, x in enumerate(inputs):
        columns = weight if len(inputs) == 1 else weight.narrow(-1, number * units, units)
        product = torch.matmul((x - shift).exp_(), columns.mT)
        total = product if total is None else total + product
    assert total is not None, "there is at least one input"
    return log_of_sum(total, shift, lambda: [torch.cat(inputs, -1)], weight, given, logs, lost)


def log_einsum_exp(equation: str, *arrays: Tensor, logs: str | None = None, lost: float = 1.0) -> Tensor:
    """log(einsum(exp(values)..., weight)), each value shifted by its largest entry along the axes summed out.

    Values that share a summed axis are added in log space first: their largest entries may lie in different places.
    """
    terms, _, result = equation.partition("->")
    *names, weighted = terms.split(",")
    (*arrays_, weight), given = _with_logs(arrays, logs)
    factors = _separated(list(zip(names, arrays_, strict=True)), result)
    if len(factors) == 1 and len(weighted) == 3 and _is_sum_of_units(factors[0][0], weighted, result):
        return _of_one_value(*factors[0], weighted, [weight] if given is None else [weight, given], logs, lost, result)
    shifts = [
        shift_of(x, tuple(axis for axis, letter in enumerate(term) if letter not in result)) for term, x in factors
    ]
    exps = [(x - shift).exp_() for (_, x), shift in zip(factors, shifts, strict=True)]
    total = _contract([term for term, _ in factors], exps, weighted, weight, result)
    shift = reduce(torch.add, [aligned(x, term, result) for (term, _), x in zip(factors, shifts, strict=True)])
    units = "".join(term[-1] for term, _ in factors)
    if any(term[:-1] != result[:-1] for term, _ in factors) or weighted != result[0] + result[-1] + units:
        return safe_log(total).add_(shift)
    return log_of_sum(total, shift, lambda: [x for _, x in factors], weight.flatten(2), given, logs, lost)


def _is_sum_of_units(term: str, weighted: str, result: str) -> bool:
    """Whether nothing but the last axis of a weight is summed out, and its axes are folds, sums and that one."""
    fold, sums, summed = tuple(weighted)
    gone = [letter for letter in term if letter not in result]
    return fold in term and fold in result and sums not in term and gone == [summed]


def total(*arrays: Tensor) -> Tensor:
    """The sum of arrays of one shape, added from the left."""
    return reduce(torch.add, arrays)


def log_tucker(*arrays: Tensor, logs: str | None = None, lost: float = 1.0) -> Tensor:
    """Log of a core summed against the exponentials of a vector for each of its axes but the first two.

    Shapes: vectors (F, B, K) each of its K, the core (F, O, K, ...), what its logarithms are computed from (F, O, N),
        result (F, B, O).
    """
    (*vectors, core), given = _with_logs(arrays, logs)
    shifts = [shift_of(x, (-1,)) for x in vectors]
    total = tucker([(x - shift).exp_() for x, shift in zip(vectors, shifts, strict=True)], core)
    return log_of_sum(total, reduce(torch.add, shifts), lambda: vectors, core.flatten(2), given, logs, lost)


def _with_logs(arrays: tuple[Tensor, ...], logs: str | None) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """The values and the weight, and the source of the weight's logarithms if there is one."""
    if logs is None:
        return arrays, None
    *values, weight, given = arrays
    if logs == "log" and not may_branch(given):  # a weight that has overflowed would send NaN to all gradients
        weight = bounded_exp(given).reshape(weight.shape)
    return (*values, weight), given


def _of_one_value(
    term: str, x: Tensor, weighted: str, weights: list[Tensor], logs: str | None, lost: float, result: str
) -> Tensor:
    """The sum over one axis of one value: that axis last, the others as rows of a matrix product."""
    fold, sums, summed = tuple(weighted)
    rows = [letter for letter in term if letter not in (fold, summed)]
    moved = x.permute([term.index(letter) for letter in (fold, *rows, summed)])
    values = log_matmul_exp(moved.flatten(1, -2), *weights, logs=logs, lost=lost)
    values = values.reshape(*moved.shape[:-1], weights[0].shape[1])
    return values.permute([[fold, *rows, sums].index(letter) for letter in result])


def _separated(factors: list[tuple[str, Tensor]], result: str) -> list[tuple[str, Tensor]]:
    """Log-space factors no two of which share an axis that is summed out: those that do are added."""
    done: list[tuple[str, Tensor]] = []
    for term, x in factors:
        for number, (earlier, y) in enumerate(done):
            if any(letter in earlier and letter not in result for letter in term):
                letters = earlier + "".join(letter for letter in term if letter not in earlier)
                x = aligned(y, earlier, letters) + aligned(x, term, letters)
                term = letters
                done.pop(number)
                break
        done.append((term, x))
    return done


def _contract(terms: list[str], values: list[Tensor], weighted: str, weight: Tensor, result: str) -> Tensor:
    """The linear Einstein sum, the weight second, so that no product of two values is built."""
    equation = ",".join([terms[0], weighted, *terms[1:]])
    return einsum(f"{equation}->{result}", values[0], weight, *values[1:])


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1, or a complex number's direction; NaN where `x` is (torch's own gives 0 there)."""
    if x.is_complex():
        return torch.sgn(x)
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)


def remainder(x: Tensor, y: Tensor | float) -> Tensor:
    """The remainder of a division that rounds down; a zero has the sign of the divisor, as numpy's has."""
    result = torch.remainder(x, y)
    if not result.is_floating_point():
        return result
    # sums of zeros are positive; a choice of zeros would have no derivative
    turn = torch.where(y < 0, -1.0, 1.0).to(result.dtype) if isinstance(y, Tensor) else (-1.0 if y < 0 else 1.0)
    return (result * turn + 0.0) * turn


def round(x: Tensor) -> Tensor:  # noqa: A001 - the name of the operation
    """The parts of a complex number to the nearest integers, the even one of two."""
    return torch.complex(x.real.round(), x.imag.round())


def rescale(x: Tensor) -> tuple[Tensor, Tensor]:
    """`x` divided by the power of two above the largest element of its last axis, and that power, without gradient.

    Rows without an element of normal size have scale 1. Dividing by a power of two rounds nothing.

    Shapes: x (..., K), results (..., K) and (..., 1).
    """
    factor, divisor = _power_above(x.detach())
    return x * factor, divisor


def rescale_(x: Tensor) -> tuple[Tensor, Tensor]:
    """`rescale`, whose first result is written over `x`, which has no gradient."""
    factor, divisor = _power_above(x)
    return x.mul_(factor), divisor


def _power_above(x: Tensor) -> tuple[Tensor, Tensor]:
    """The factor of `rescale`, and its inverse."""
    limits = torch.finfo(x.dtype)
    # the largest subnormal number and all below it become 0.5, above which 1 is
    largest = x.amax(-1, keepdim=True) if x.shape[-1] else x.new_zeros((*x.shape[:-1], 1))
    largest = torch.threshold_(largest, limits.tiny * (1.0 - limits.eps), 0.5)
    fraction = torch.frexp(largest)[0]
    return fraction / largest, largest / fraction  # powers of two, and exact


def search_cumulative(table: Tensor, rows: Tensor, uniforms: Tensor) -> Tensor:
    """Binary search of uniform numbers in rows of cumulative weights, without gathering the rows.

    Each of the log2(C) steps reads one number for each (fold, row): the memory is O(F B), not O(F B C).

    Shapes: table (F, K, C), rows (F, B), uniforms (F, B), result (F, B).
    """
    folds, units, categories = table.shape
    flat = table.reshape(folds, units * categories)
    start = rows * categories
    total = flat.gather(1, start + (categories - 1))
    # the product of subnormals may round up to the total, which lies beyond every place
    target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    low, high = torch.zeros_like(rows), torch.full_like(rows, categories - 1)
    for _ in range((categories - 1).bit_length()):
        middle = (low + high) >> 1
        beyond = flat.gather(1, start + middle) <= target
        low, high = torch.where(beyond, middle + 1, low), torch.where(beyond, high, middle)
        low = torch.minimum(low, high)
    return low


def searchsorted(ordered: Tensor, values: Tensor, side: str) -> Tensor:
    """Where `values` belong in `ordered`; NaN belongs behind every number (torch itself has no place for it)."""
    if not values.is_floating_point():
        return torch.searchsorted(ordered.contiguous(), values.contiguous(), side=side)
    absent = torch.isnan(ordered)
    numbers = ordered.shape[0] - absent.sum()
    positions = torch.searchsorted(ordered.masked_fill(absent, torch.inf).contiguous(), values.contiguous(), side=side)
    behind = numbers if side == "left" else ordered.shape[0]
    return torch.where(torch.isnan(values), behind, torch.minimum(positions, numbers))


# Fourier transforms


def transform(name: str, x: Tensor, sizes: Sequence[int], axes: Sequence[int], norm: str) -> Tensor:
    """A transform of `torch.fft`, which refuses an array that is empty along an axis which it does not transform.

    Such an array is transformed with one row of zeros more, which is then left out.

    Raises:
        InputError: There are no points along an axis.
    """
    if min(sizes) < 1:
        raise InputError(located(NO_POINTS.format(name)))
    function: Callable[..., Tensor] = getattr(torch.fft, f"{name}n")
    if x.numel():
        return function(x, sizes, axes, norm)
    transformed = normal_axes(axes, x.ndim)
    empty = [axis for axis, size in enumerate(x.shape) if not size and axis not in transformed]
    padding = [int(side and axis in empty) for axis in reversed(range(x.ndim)) for side in (0, 1)]
    result = function(torch.nn.functional.pad(x, padding), sizes, axes, norm)
    for axis in empty:
        result = result.narrow(axis, 0, 0)
    return result


# Integers of four bits: packed outside of generated code, in bytes of their own while they are moved


def unpacked(array: PackedArray | Tensor) -> Tensor:
    """The integers in a byte each, in which arrays of numpy have them already."""
    return array if isinstance(array, Tensor) else array.unpacked()


def packed(x: Tensor, dtype: str) -> PackedArray:
    """Integers that are in a byte each, two to a byte."""
    return packed_array(x, DType(dtype))


def int4(x: Tensor) -> Tensor:
    """Numbers as signed integers of four bits, modulo 16, in a byte each."""
    return uint4(x).bitwise_xor_(8).to(torch.int8).sub_(8)


def uint4(x: Tensor) -> Tensor:
    """Numbers as unsigned integers of four bits, modulo 16, in a byte each."""
    integers = x.to(torch.int64) if x.is_floating_point() or x.is_complex() else x
    return integers.to(torch.uint8).bitwise_and(15)


# Modules that circuits hold


def opaque(module: nn.Module, method: str, shape: tuple[int, ...], dtype: torch.dtype, *arrays: Tensor) -> Tensor:
    """The result of a method of a module, in memory of its own.

    Args:
        module: The module.
        method: The name of the method; `forward` is called as modules are, with their hooks.
        shape: The shape that the circuit expects.
        dtype: The dtype of the result.
        arrays: The arguments; floats are converted to the dtype of the module's parameters.

    Raises:
        DTypeError: It returns no tensor.
        ShapeError: It returns a tensor of another shape.
    """
    own = next((parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()), None)
    converted = [array.to(own) if own is not None and array.is_floating_point() else array for array in arrays]
    result = module(*converted) if method == "forward" else getattr(module, method)(*converted)
    name = f"{type(module).__name__}.{method}"
    if not isinstance(result, Tensor):
        raise DTypeError(f"{name}, of a ModuleLayer, returned {type(result).__name__}; expected a tensor.")
    if result.shape != shape:
        shapes = ", ".join(str(tuple(array.shape)) for array in converted)
        raise ShapeError(
            f"{name}, of a ModuleLayer, returned shape {tuple(result.shape)} for arguments of shape ({shapes}); "
            f"expected {tuple(shape)}: rows and units of the layer."
        )
    return result.to(dtype) if result.dtype != dtype else result.clone()
