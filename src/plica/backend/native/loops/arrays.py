"""`Array`: an array while a nest is built, a function from indices to entries; some lie in memory, others are computed.

An array that lies in memory without gaps is *solid*. The entries of other arrays are computed where they are read: this
fuses an array with its only reader.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from plica.backend.native.loops.nest import Buffer, Copy, Index
from plica.backend.native.loops.writer import Writer
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType

Read = Callable[[Sequence[Index]], Scalar]
CHEAP = 2
"""The most instructions of an entry that is computed again for each reader instead of written to memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array.

    Args:
        dims: Its sizes.
        dtype: Its dtype.
        read: Writes the statements that compute the entry at an index.
        reads: The buffers that it reads; for each, whether entry i of the array reads only entry i of the buffer.
        work: About how many instructions an entry takes.
        flat: `read` for a row-major offset; None if offsets take more work than indices.
        buffer: Its memory, if it is solid.
        start: The entry of the buffer at which it begins.
    """

    dims: tuple[Index, ...]
    dtype: DType
    read: Read
    reads: Mapping[Buffer, bool]
    work: int = 0
    flat: Callable[[Index], Scalar] | None = None
    buffer: Buffer | None = None
    start: Index = 0

    @property
    def is_cheap(self) -> bool:
        """Whether computing an entry twice costs no more than memory."""
        return self.work <= CHEAP


Value = int | Scalar | Array
"""The value of a variable of a Program; an integer scalar of 64 bits may be a Python number."""


def solid(writer: Writer, buffer: Buffer, dims: Sequence[Index], start: Index = 0) -> Array:
    """The array that lies in a buffer."""
    sizes = tuple(dims)

    def flat(offset: Index) -> Scalar:
        return writer.load(buffer, writer.add(start, offset))

    def read(index: Sequence[Index]) -> Scalar:
        return flat(writer.flat(index, sizes))

    return Array(sizes, buffer.dtype, read, {buffer: start == 0}, flat=flat, buffer=buffer, start=start)


def moved(x: Array, dims: Sequence[Index], index: Callable[[Sequence[Index]], Sequence[Index]], work: int = 0) -> Array:
    """The array whose entry i is entry `index(i)` of `x`."""
    return Array(
        tuple(dims),
        x.dtype,
        lambda index_of_result: x.read(index(index_of_result)),
        dict.fromkeys(x.reads, False),
        x.work + work,
    )


def reshaped(writer: Writer, x: Array, dims: Sequence[Index]) -> Array:
    """The same entries in the same order; `x` has a flat form."""
    sizes, flat = tuple(dims), x.flat
    assert flat is not None, "callers pass arrays with a flat form"
    return replace(x, dims=sizes, read=lambda index: flat(writer.flat(index, sizes)))


def fill(writer: Writer, target: Array, x: Array) -> None:
    """Write the entries of `x` to the memory of `target`."""
    buffer = target.buffer
    assert buffer is not None, "a target lies in memory"
    if x.buffer is not None:
        writer.put(Copy(buffer, target.start, x.buffer, x.start, writer.product(x.dims)))
    elif x.flat is not None:
        with writer.loop(writer.product(x.dims)) as offset:
            writer.store(buffer, writer.add(target.start, offset), x.flat(offset))
    else:
        with writer.nest(x.dims) as index:
            value = x.read(index)
            writer.store(buffer, writer.add(target.start, writer.flat(index, target.dims)), value)
