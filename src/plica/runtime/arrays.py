"""Arrays of callers as code takes them: of the right dtype and shape, in memory aligned as code expects it."""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.runtime.manifest import ALIGNMENT, ArrayType
from plica.runtime.sizes import evaluate, is_symbol

Array = np.ndarray[Any, np.dtype[Any]]

_ON_CPU = (1, 3)  # kinds of devices in the DLPack protocol: the CPU, and its memory that a GPU reads too


class Sizes:
    """The symbols of one call, each with the argument that bound it.

    Args:
        where: The entry, for messages.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.known: dict[str, int] = {}
        self._from: dict[str, str] = {}

    def bind(self, symbol: str, size: int, source: str) -> None:
        """Give a symbol its value, or compare it with the one that it has.

        Raises:
            ShapeError: It has another one.
        """
        if self.known.setdefault(symbol, size) != size:
            raise ShapeError(
                f"{self.where}: {source} has size {size}, but {symbol} = {self.known[symbol]} by {self._from[symbol]}; "
                f"sizes of the same symbol are equal"
            )
        self._from.setdefault(symbol, source)

    def arrays(self, values: list[Any], types: tuple[ArrayType, ...]) -> list[Array]:
        """What a caller passes as arrays of the right dtypes and shapes; they may share its memory.

        Raises:
            InputError: Something is no array.
            DTypeError: An array has a dtype that does not become the right one without loss.
            ShapeError: The shapes are not those of the types, or sizes disagree.
        """
        found = [_array(value, one, self.where) for value, one in zip(values, types, strict=True)]
        for array, one in zip(found, types, strict=True):
            if array.ndim != len(one.shape):
                raise ShapeError(
                    f"{self.where}: expected {one}, found an array of {array.ndim} axes and shape {array.shape}"
                    + ("; a single row is x[None]" if array.ndim == len(one.shape) - 1 else "")
                )
            for axis, symbol in _axes(one, is_symbol):
                self.bind(str(symbol), array.shape[axis], f"axis {axis} of {one.name}")
        for array, one in zip(found, types, strict=True):
            for axis, size in _axes(one, lambda size: not is_symbol(size)):
                expected = evaluate(size, self.known)
                if array.shape[axis] != expected:
                    formula = f" = {size}" if isinstance(size, str) else ""
                    raise ShapeError(
                        f"{self.where}: expected {one}, found shape {array.shape}: axis {axis} of {one.name} has size "
                        f"{array.shape[axis]}, expected {expected}{formula}"
                    )
        return found

    def shape(self, one: ArrayType) -> tuple[int, ...]:
        """The shape of a type, its symbols being known."""
        return tuple(evaluate(size, self.known) for size in one.shape)


def _axes(one: ArrayType, wanted: Callable[[int | str], bool]) -> Iterator[tuple[int, int | str]]:
    return ((axis, size) for axis, size in enumerate(one.shape) if wanted(size))


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
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _array(value: Any, one: ArrayType, where: str) -> Array:
    dtype = numpy_dtype(one.dtype)
    if isinstance(value, np.ndarray):
        array, casting = value, "safe"
    elif hasattr(value, "__dlpack__"):
        array, casting = _exchanged(value, one, where), "safe"
    else:  # numbers and lists, which have no dtype of their own
        array, casting = _listed(value, one, where), "same_kind"
    if array.dtype == dtype:
        return array
    if not np.can_cast(array.dtype, dtype, casting):  # type: ignore[arg-type]
        raise DTypeError(
            f"{where}: expected {one}, found an array of dtype {array.dtype}, which does not become {dtype} without "
            f"loss; convert it yourself if that is meant: {one.name}.astype({str(dtype)!r})"
        )
    return array.astype(dtype)


def _exchanged(value: Any, one: ArrayType, where: str) -> Array:
    """An object of another library as an array that shares its memory."""
    kind = type(value).__name__
    device = int(value.__dlpack_device__()[0]) if hasattr(value, "__dlpack_device__") else _ON_CPU[0]
    if device not in _ON_CPU:
        raise InputError(f"{where}: {one.name}: this {kind} lies on another device; move it to the CPU first")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{where}: {one.name}: this {kind} gives no array ({reason}); detach or copy it first"
        ) from error


def _listed(value: Any, one: ArrayType, where: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biufc":
        raise InputError(f"{where}: expected {one}, found {type(value).__name__} {value!r:.60}, which is no array")
    return array
