"""Arrays of callers as code takes them: of the right dtype and shape, in memory aligned as code expects it."""

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
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3, "V": 2}  # numbers become those of the same rank or a higher one


class Sizes:
    """The symbols of one call, each with the argument that bound it.

    Args:
        where: The entry, for messages.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.known: dict[str, int] = {}
        self._from: dict[str, tuple[int, ArrayType | None]] = {}

    def bind(self, symbol: str, size: int, axis: int = 0, one: ArrayType | None = None) -> None:
        """Give a symbol its value, or compare it with the one that it has.

        Args:
            symbol: The symbol.
            size: Its value.
            axis: Of the argument that has it.
            one: That argument; None: the caller says it.

        Raises:
            ShapeError: It has another one.
        """
        known = self.known.setdefault(symbol, size)
        source = self._from.setdefault(symbol, (axis, one))
        if known != size:
            raise ShapeError(
                f"{self.where}: {_source((axis, one))} has size {size}, but {symbol} = {known} by {_source(source)}; "
                f"sizes of the same symbol are equal"
            )

    def arrays(self, values: list[Any], types: tuple[ArrayType, ...]) -> list[Array]:
        """What a caller passes as arrays of the right dtypes and shapes; they may share its memory.

        Raises:
            InputError: Something is no array.
            DTypeError: An array has a dtype that does not become the right one without loss.
            ShapeError: The shapes are not those of the types, or sizes disagree.
        """
        read = [_reading(one) for one in types]
        found = [_array(value, one, self.where) for value, one in zip(values, read, strict=True)]
        for array, one in zip(found, read, strict=True):
            if array.ndim != one.rank:
                raise ShapeError(
                    f"{self.where}: expected {one.type}, found an array of {array.ndim} axes and shape {array.shape}"
                    + ("; a single row is x[None]" if array.ndim == one.rank - 1 else "")
                )
            for axis, symbol in one.symbols:
                self.bind(symbol, array.shape[axis], axis, one.type)
        for array, one in zip(found, read, strict=True):
            for axis, size in one.sizes:
                expected = evaluate(size, self.known)
                if array.shape[axis] != expected:
                    formula = f" = {size}" if isinstance(size, str) else ""
                    raise ShapeError(
                        f"{self.where}: expected {one.type}, found shape {array.shape}: axis {axis} of {one.type.name} "
                        f"has size {array.shape[axis]}, expected {expected}{formula}"
                    )
        return found

    def shape(self, one: ArrayType) -> tuple[int, ...]:
        """The shape of a type, its symbols being known."""
        return tuple(evaluate(size, self.known) for size in one.shape)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What an argument is compared with.

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
def _reading(one: ArrayType) -> _Reading:
    axes = tuple(enumerate(one.shape))
    bound = tuple((axis, str(size)) for axis, size in axes if is_symbol(size))
    rest = tuple((axis, size) for axis, size in axes if not is_symbol(size))
    return _Reading(one, numpy_dtype(one.dtype), len(axes), bound, rest)


def _source(source: tuple[int, ArrayType | None]) -> str:
    axis, one = source
    return "the call" if one is None else f"axis {axis} of {one.name}"


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a name; that of `bfloat16` is of `ml_dtypes`, which the IREE runtime brings."""
    if name == "bfloat16":
        import ml_dtypes  # noqa: F401 - with it numpy knows the name

    found: np.dtype[Any] = np.dtype(name)
    return found


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A new array of any contents whose memory begins where code expects it to."""
    return placed(np.empty(prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8), shape, dtype)


def placed(memory: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array in bytes that are at hand, `ALIGNMENT` more of them than it has."""
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _array(value: Any, wanted: _Reading, where: str) -> Array:
    one, dtype = wanted.type, wanted.dtype
    if isinstance(value, np.ndarray):
        array = value if type(value) is np.ndarray else _unmasked(value, one, where)
    elif hasattr(value, "__dlpack__"):
        array = _exchanged(value, one, where)
    else:
        array = _listed(value, wanted, where)
    if array.dtype == dtype:
        return array
    if not np.can_cast(array.dtype, dtype, "safe"):
        raise DTypeError(
            f"{where}: expected {one}, found an array of dtype {array.dtype}, which does not become {dtype} without "
            f"loss; convert it yourself if that is meant: {one.name}.astype({str(dtype)!r})"
        )
    return array.astype(dtype)


def _unmasked(array: Array, one: ArrayType, where: str) -> Array:
    """An array of a class of its own, whose entries are all there; those under a mask are not."""
    if np.any(getattr(array, "mask", False)):
        raise InputError(f"{where}: {one.name}: some entries are masked; fill them in, with NaN where they are missing")
    return array


def _exchanged(value: Any, one: ArrayType, where: str) -> Array:
    """An object of another library as an array that shares its memory."""
    kind = type(value).__name__
    try:
        device = int(value.__dlpack_device__()[0]) if hasattr(value, "__dlpack_device__") else _ON_CPU[0]
        array = np.from_dlpack(value) if device in _ON_CPU else None
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{where}: {one.name}: this {kind} gives no array ({reason}); detach, copy or convert it first"
        ) from error
    if array is None:
        raise InputError(f"{where}: {one.name}: this {kind} lies on another device; move it to the CPU first")
    return array


def _listed(value: Any, wanted: _Reading, where: str) -> Array:
    """Numbers and lists, which have no dtype of their own: in the right one, if they are numbers of its kind."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biufc":
        raise InputError(
            f"{where}: expected {wanted.type}, found {type(value).__name__} {value!r:.60}, which is no array"
        )
    if not array.size:
        return array.astype(wanted.dtype)
    return as_numbers(array, wanted.type, where)


def as_numbers(array: Array, one: ArrayType, where: str) -> Array:
    """Numbers whose dtype says nothing, in the one that is wanted; real numbers are rounded to it.

    An array of numbers of a wider kind (real numbers where whole ones are wanted) comes back as it is.

    Args:
        array: Numbers of text or of a file, whose dtype is that of whoever read or wrote it.
        one: The argument.
        where: The entry, for messages.

    Raises:
        InputError: A number is too large for the dtype.
    """
    dtype = numpy_dtype(one.dtype)
    if array.dtype == dtype or _RANKS.get(array.dtype.kind, 9) > _RANKS[dtype.kind]:
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        fits = converted == array if dtype.kind in "iu" else np.isfinite(converted) | ~np.isfinite(array)
    if not fits.all():
        raise InputError(
            f"{where}: expected {one}, found the number {array[~fits].flat[0]!s:.60}, which {dtype} does not hold; "
            f"give numbers that it holds"
        )
    return converted
