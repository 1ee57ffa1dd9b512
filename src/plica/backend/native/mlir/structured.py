"""Loop nests over entries: `linalg.generic`, and entrywise operations and reductions that are written with it.

A body is a function that writes lines about one entry; whatever `emitter.code.op` writes there stands within the nest.
Axes of size 1 that are broadcast are collapsed first: a nest that reads them at a constant index would not vectorize.
"""

from collections.abc import Callable, Sequence

from plica.backend.native.mlir.types import HOST, Value, tensor_type
from plica.backend.native.mlir.value_writer import ValueWriter
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim

Body = Callable[[Sequence[str]], "str | Sequence[str]"]


def generic(
    emitter: ValueWriter,
    operands: Sequence[tuple[Value, Sequence[int]]],
    starts: Sequence[tuple[Value, Sequence[int]]],
    loops: Sequence[bool],
    body: Body,
) -> list[Value]:
    """One nest of loops over entries.

    Args:
        emitter: Where its lines go.
        operands: The tensors that are read, each with the loop of each of its axes. Scalars of the host are read by
            name.
        starts: The arrays that results start from, in the same way; `empty` where no entry is read before it is
            written.
        loops: For each loop, whether it is a reduction.
        body: From one entry of each operand and of each start to one entry of each result. `linalg.index` gives the
            index.
    """
    if any(0 in value.shape for value, _ in (*operands, *starts)):  # the compiler ends in a signal at some such nests
        return [start for start, _ in starts]
    code = emitter.code
    tensors = [(value, axes) for value, axes in operands if not value.is_scalar]
    names = [value.text if value.is_scalar else code.name() for value, _ in operands]
    before = [code.name() for _ in starts]
    dims = ", ".join(f"d{index}" for index in range(len(loops)))
    maps = ", ".join(
        f"affine_map<({dims}) -> ({', '.join(f'd{axis}' for axis in axes)})>" for _, axes in (*tensors, *starts)
    )
    kinds = ", ".join('"reduction"' if is_reduced else '"parallel"' for is_reduced in loops)
    into = f"outs({', '.join(start.text for start, _ in starts)} : {', '.join(start.type for start, _ in starts)})"
    if tensors:
        read = f"{', '.join(tensor.text for tensor, _ in tensors)} : {', '.join(tensor.type for tensor, _ in tensors)}"
        into = f"ins({read}) {into}"
    results = [code.name() for _ in starts]
    types = ", ".join(start.type for start, _ in starts)
    assigned = results[0] if len(results) == 1 else f"{results[0]}:{len(results)}"
    code.put(f"{assigned} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {into} {{")
    own = [(name, array) for name, (array, _) in zip(names, operands, strict=True) if not array.is_scalar]
    own += [(name, array) for name, (array, _) in zip(before, starts, strict=True)]
    with code.block():
        code.put(f"^bb0({', '.join(f'{name}: {value.element}' for name, value in own)}):")
        entries = body([*names, *before])
        texts = [entries] if isinstance(entries, str) else list(entries)
        code.put(f"linalg.yield {', '.join(texts)} : {', '.join(start.element for start, _ in starts)}")
    code.put(f"}} -> {types}" if len(results) == 1 else f"}} -> ({types})")
    several = len(results) > 1
    return [
        Value(f"{results[0]}#{index}" if several else results[0], array.shape, array.dtype)
        for index, (array, _) in enumerate(starts)
    ]


def entrywise(emitter: ValueWriter, operands: Sequence[Value], shape: Sequence[Dim], dtype: DType, body: Body) -> Value:
    """An array of `shape`, whose entries `body` computes from one entry of each operand; operands are broadcast."""
    if not shape and dtype in HOST and all(value.is_scalar and value.dtype in HOST for value in operands):
        entry = body([value.text for value in operands])
        assert isinstance(entry, str), "one result"
        return Value(entry, (), dtype, is_scalar=True)
    read = [collapsed(emitter, value, shape) for value in operands]
    start = emitter.empty(shape, dtype)
    rank = len(shape)
    (result,) = generic(
        emitter, read, [(start, range(rank))], [False] * rank, lambda names: body(names[: len(operands)])
    )
    return result


def collapsed(emitter: ValueWriter, value: Value, shape: Sequence[Dim]) -> tuple[Value, list[int]]:
    """An operand without the axes of size 1 that are broadcast to `shape`, and the axes of `shape` that it has."""
    missing = len(shape) - len(value.shape)
    kept_axes = [axis for axis, dim in enumerate(value.shape) if not (dim == 1 and shape[axis + missing] != 1)]
    axes = [axis + missing for axis in kept_axes]
    if value.is_scalar or len(kept_axes) == len(value.shape):
        return value, axes
    return collapse(emitter, value, kept_axes), axes


def collapse(emitter: ValueWriter, value: Value, kept_axes: Sequence[int]) -> Value:
    """A tensor without the axes that are not in `kept_axes`, which have size 1."""
    shape = tuple(value.shape[axis] for axis in kept_axes)
    text = emitter.code.op(
        f"tensor.collapse_shape {value.text} {groups(len(value.shape), kept_axes)} : "
        f"{value.type} into {tensor_type(shape, value.dtype)}"
    )
    return Value(text, shape, value.dtype)


def expand(emitter: ValueWriter, value: Value, shape: Sequence[Dim], kept_axes: Sequence[int]) -> Value:
    """A tensor with further axes of size 1: `shape`, in which `kept_axes` are its own axes."""
    sizes = ", ".join(emitter.size_text(dim) for dim in shape)
    text = emitter.code.op(
        f"tensor.expand_shape {value.text} {groups(len(shape), kept_axes)} output_shape [{sizes}] : "
        f"{value.type} into {tensor_type(shape, value.dtype)}"
    )
    return Value(text, tuple(shape), value.dtype)


def groups(rank: int, kept_axes: Sequence[int]) -> list[list[int]]:
    """All axes, in one group for each of `kept_axes`."""
    if not kept_axes:
        return []
    ends = [*kept_axes[1:], rank]
    starts = [0, *kept_axes[1:]]
    return [list(range(start, end)) for start, end in zip(starts, ends, strict=True)]


def reduction(
    emitter: ValueWriter,
    value: Value,
    axes: Sequence[int],
    starts: Sequence[Value],
    body: Body,
    further: Sequence[tuple[Value, Sequence[int]]] = (),
) -> list[Value]:
    """Reductions of one array along `axes`, without them in the results.

    Args:
        emitter: Where its lines go.
        value: The array.
        axes: The axes, counted from the front.
        starts: The arrays of the other axes that the results start from.
        body: From an entry of the array, an entry of each of `further` and the results so far to the results.
        further: Other operands, with the axes of the array that they have.
    """
    rank = len(value.shape)
    kept_axes = [axis for axis in range(rank) if axis not in axes]
    loops = [axis in axes for axis in range(rank)]
    return generic(emitter, [(value, range(rank)), *further], [(start, kept_axes) for start in starts], loops, body)


def indexed(emitter: ValueWriter, shape: Sequence[Dim], dtype: DType, body: Body) -> Value:
    """An array of `shape`, each entry of which `body` computes from its index along each axis."""
    start, rank = emitter.empty(shape, dtype), len(shape)

    def at(_: Sequence[str]) -> str | Sequence[str]:
        return body([emitter.code.op(f"linalg.index {axis} : index") for axis in range(rank)])

    return generic(emitter, [], [(start, range(rank))], [False] * rank, at)[0]


def entry_at(emitter: ValueWriter, value: Value, indices: Sequence[str]) -> str:
    """One entry of a tensor, within a nest."""
    return emitter.code.op(f"tensor.extract {value.text}[{', '.join(indices)}] : {value.type}")


def copied(emitter: ValueWriter, value: Value) -> Value:
    """A copy of an array, which the compiler does not know to be equal to it."""
    if not value.shape:
        return value
    code, other = emitter.code, emitter.constant(0, value.dtype)
    holds = code.op(f"util.optimization_barrier {code.op('arith.constant true')} : i1")

    def body(names: Sequence[str]) -> str:
        return code.op(f"arith.select {holds}, {names[0]}, {other.text} : {value.element}")

    return entrywise(emitter, [emitter.tensor(value)], value.shape, value.dtype, body)


def apart(emitter: ValueWriter, value: Value, *, hidden: bool = False) -> Value:
    """A tensor that is written to memory before it is read: IREE does not fuse its readers with its definition.

    Nests that compute the indices of the entries they read need it. The compiler cannot read such entries of a slice
    with gaps between its rows, nor of an array that it computes again within the nest.

    Args:
        emitter: The function.
        value: The tensor.
        hidden: Whether it must differ from other tensors that this function returns for the same value.
    """
    code, sizes = emitter.code, [emitter.size(dim) for dim in value.shape if not isinstance(dim, int)]
    text, type_ = value.text, value.type
    if hidden and not sizes:
        sizes = [emitter.size(value.shape[0])]
        type_ = type_.replace(f"<{value.shape[0]}x", "<?x", 1)
    if hidden:
        sizes = [code.op(f"util.optimization_barrier {size} : index") for size in sizes]
    suffix = f"{{{', '.join(sizes)}}}" if sizes else ""
    if type_ != value.type:
        text = code.op(f"flow.tensor.reshape {text} : {value.type} -> {type_}{suffix}")
    copy = code.op(f"flow.tensor.clone {text} : {type_}{suffix}")  # no copy where none is needed
    if type_ != value.type:
        copy = code.op(f"flow.tensor.reshape {copy} : {type_}{suffix} -> {value.type}")
    return Value(copy, *value.array)
