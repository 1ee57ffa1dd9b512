"""Arrays of callers, converted to what native code takes: the right dtype and shape, in aligned memory."""

import functools
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.runtime.manifest import ALIGNMENT, ArrayType
from plica.runtime.sizes import evaluate, is_symbol

Array = np.ndarray[Any, np.dtype[Any]]

_ON_CPU = (1, 3)  # kinds of devices in the DLPack protocol: the CPU, and its memory that a GPU reads too
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3, "V": 2}  # kinds of dtypes convert to the same or a higher rank


class Sizes:
    """The symbols of one call, each with the argument that bound it.

    Args:
        where: The entry, for messages.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.known: dict[str, int] = {}
        self._from: dict[str, tuple[int, ArrayType | None]] = {}

    def bind(self, symbol: str, size: int, axis: int = 0, argument: ArrayType | None = None) -> None:
        """Give a symbol its value; if it has a value already, compare the two.

        Args:
            symbol: The symbol.
            size: Its value.
            axis: The axis of the argument that has this size.
            argument: The argument; None if the caller passes the size by name.

        Raises:
            ShapeError: The symbol has another value already.
        """
        known = self.known.setdefault(symbol, size)
        source = self._from.setdefault(symbol, (axis, argument))
        if known != size:
            raise ShapeError(
                f"{self.where}: {_source((axis, argument))} has size {size}, but {symbol} = {known} by "
                f"{_source(source)}; sizes of the same symbol are equal"
            )

    def arrays(self, values: list[Any], types: tuple[ArrayType, ...]) -> list[Array]:
        """The values of a caller as arrays of the right dtypes and shapes; they may share the caller's memory.

        Raises:
            InputError: A value is no array.
            DTypeError: An array has a dtype that does not become the right one without loss.
            ShapeError: The shapes are not those of the types, or sizes disagree.
        """
        requirements = [_requirement(argument) for argument in types]
        arrays = [_array(value, required, self.where) for value, required in zip(values, requirements, strict=True)]
        for array, required in zip(arrays, requirements, strict=True):
            if array.ndim != required.rank:
                raise ShapeError(
                    f"{self.where}: expected {required.type}, found an array of {array.ndim} axes and shape "
                    f"{array.shape}" + ("; a single row is x[None]" if array.ndim == required.rank - 1 else "")
                )
            for axis, symbol in required.symbols:
                self.bind(symbol, array.shape[axis], axis, required.type)
        for array, required in zip(arrays, requirements, strict=True):
            for axis, size in required.sizes:
                expected = evaluate(size, self.known)
                if array.shape[axis] != expected:
                    formula = f" = {size}" if isinstance(size, str) else ""
                    raise ShapeError(
                        f"{self.where}: expected {required.type}, found shape {array.shape}: axis {axis} of "
                        f"{required.type.name} has size {array.shape[axis]}, expected {expected}{formula}"
                    )
        return arrays

    def shape(self, argument: ArrayType) -> tuple[int, ...]:
        """The shape of a type as numbers; all its symbols must be bound."""
        return tuple(evaluate(size, self.known) for size in argument.shape)


@dataclass(frozen=True, slots=True)
class _Requirement:
    """The dtype and shape that an argument must have, prepared for comparison.

    Args:
        type: The argument.
        dtype: Its dtype.
        rank: How many axes it has.
        symbols: Its axes whose sizes are symbols.
        sizes: Its other axes.
    """

    type: ArrayType
    dtype: np.dtype[Any]
    rank: int
    symbols: tuple[tuple[int, str], ...]
    sizes: tuple[tuple[int, int | str], ...]


@functools.lru_cache(maxsize=1024)
def _requirement(argument: ArrayType) -> _Requirement:
    axes = tuple(enumerate(argument.shape))
    bound = tuple((axis, str(size)) for axis, size in axes if is_symbol(size))
    fixed = tuple((axis, size) for axis, size in axes if not is_symbol(size))
    return _Requirement(argument, numpy_dtype(argument.dtype), len(axes), bound, fixed)


def _source(source: tuple[int, ArrayType | None]) -> str:
    axis, argument = source
    return "the call" if argument is None else f"axis {axis} of {argument.name}"


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a name; for `bfloat16` it imports `ml_dtypes`, and only then."""
    if name == "bfloat16":
        import ml_dtypes  # noqa: F401 - with it numpy knows the name

    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A new array without initial values, whose memory begins at a multiple of `ALIGNMENT`."""
    return aligned_within(np.empty(prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8), shape, dtype)


def aligned_within(memory: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An aligned array within existing bytes; there must be `ALIGNMENT` bytes more than the array has."""
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _array(value: Any, required: _Requirement, where: str) -> Array:
    argument, dtype = required.type, required.dtype
    if isinstance(value, np.ndarray):
        array = value if type(value) is np.ndarray else _unmasked(value, argument, where)
    elif hasattr(value, "__dlpack__"):
        array = _exchanged(value, argument, where)
    else:
        array = _listed(value, required, where)
    if array.dtype == dtype:
        return array
    if not np.can_cast(array.dtype, dtype, "safe"):
        if dtype.kind in "iu" and array.dtype.kind == "f" and np.isnan(array).any():
            raise DTypeError(
                f"{where}: expected {argument}, found NaN; whole numbers have no missing values. Of a circuit, ask an "
                "entry that takes floats, such as marginal, which sums missing values out"
            )
        raise DTypeError(
            f"{where}: expected {argument}, found an array of dtype {array.dtype}, which does not become {dtype} "
            f"without loss; convert it yourself if that is meant: {argument.name}.astype({str(dtype)!r})"
        )
    return array.astype(dtype)


def _unmasked(array: Array, argument: ArrayType, where: str) -> Array:
    """An array of a subclass of `numpy.ndarray`; refuses masked arrays with masked entries."""
    if np.any(getattr(array, "mask", False)):
        raise InputError(
            f"{where}: {argument.name}: some entries are masked; fill them in, with NaN where they are missing"
        )
    return array


def _exchanged(value: Any, argument: ArrayType, where: str) -> Array:
    """An object of another library as an array that shares its memory."""
    kind = type(value).__name__
    try:
        device = int(value.__dlpack_device__()[0]) if hasattr(value, "__dlpack_device__") else _ON_CPU[0]
        array = np.from_dlpack(value) if device in _ON_CPU else None
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{where}: {argument.name}: this {kind} gives no array ({reason}); detach, copy or convert it first"
        ) from error
    if array is None:
        raise InputError(f"{where}: {argument.name}: this {kind} lies on another device; move it to the CPU first")
    return array


def _listed(value: Any, required: _Requirement, where: str) -> Array:
    """Numbers and lists as an array of the wanted dtype, if they are numbers of its kind."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biufc":
        raise InputError(
            f"{where}: expected {required.type}, found {type(value).__name__} {value!r:.60}, which is no array"
        )
    if not array.size:
        return array.astype(required.dtype)
    return as_numbers(array, required.type, where)


def as_numbers(array: Array, argument: ArrayType, where: str) -> Array:
    """Converts numbers to the dtype of an argument, whatever dtype their reader gave them; real numbers are rounded.

    An array of a wider kind comes back unchanged, for example real numbers where whole ones are wanted.

    Args:
        array: Numbers of text or of a file, in the dtype of their reader or writer.
        argument: The argument.
        where: The entry, for messages.

    Raises:
        InputError: A number is too large for the dtype.
    """
    dtype = numpy_dtype(argument.dtype)
    if array.dtype == dtype or _RANKS.get(array.dtype.kind, 9) > _RANKS[dtype.kind]:
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        fits = converted == array if dtype.kind in "iu" else np.isfinite(converted) | ~np.isfinite(array)
    if not fits.all():
        raise InputError(
            f"{where}: expected {argument}, found the number {array[~fits].flat[0]!s:.60}, which {dtype} does not "
            f"hold; give numbers that it holds"
        )
    return converted
