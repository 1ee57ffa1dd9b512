"""Lines of a random function about whole arrays: reductions, shapes, contractions, new arrays."""

from collections.abc import Mapping, Sequence
from math import e, log
from typing import Any

import hypothesis.strategies as st

from plica.ir.sizes import Dim, floor_divide, opaque, same
from tests.harness.function_steps import around, as_before, has_axes, is_bool, is_float, is_int, is_numeric
from tests.harness.function_values import Value, elements, least_elements, limits, most_elements, replaced, without
from tests.harness.function_writer import Writer

_LARGEST_DIM = 12


# Reductions


def reduction(write: Writer) -> None:
    if (x := write.pick()) is None:
        return
    keepdims = write.chance()
    axes, text = _axes(write, x)
    reduced = [x.dims[axis] for axis in axes]
    name = write.one_of(_reductions(x, least_elements(reduced)))
    if name in ("argmax", "argmin"):
        if len(axes) != 1 and axes != tuple(range(len(x.dims))):
            return
        text = str(axes[0]) if len(axes) == 1 else "None"
    dtype, facts = _reduced(name, x, reduced)
    write.let(
        f"pnp.{name}({x.text}, axis={text}, keepdims={keepdims})", dtype, without(x.dims, axes, keepdims), **facts
    )


def _axes(write: Writer, x: Value) -> tuple[tuple[int, ...], str]:
    rank = len(x.dims)
    match write.one_of(("all", "one", "some") if rank else ("all",)):
        case "one":
            axis = write.axis(x)
            return (axis,), str(axis if write.chance() else axis - rank)
        case "some":
            flags = write.draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
            axes = tuple(axis for axis, flag in enumerate(flags) if flag)
            return axes, str(axes)
    return tuple(range(rank)), "None"


def _reductions(x: Value, least: int) -> tuple[str, ...]:
    extremes = ("max", "min") if least else ()
    if is_bool(x):
        return "any", "all", "count_nonzero", "sum"
    if is_int(x):
        return "sum", "prod", "count_nonzero", "any", "mean", *extremes, *(("argmax", "argmin") if least else ())
    return "sum", "mean", "prod", *extremes, *(("logsumexp", "var", "std") if least else ())


def _reduced(name: str, x: Value, reduced: Sequence[Dim]) -> tuple[str, dict[str, Any]]:
    """The dtype and the facts of a reduction."""
    count = max(most_elements(reduced), 1)
    floating = x.dtype if is_float(x) else "float64"
    match name:
        case "any" | "all":
            return "bool", {"low": 0, "high": 1}
        case "count_nonzero":
            return "int64", {"low": 0, "high": count}
        case "argmax" | "argmin":
            return "int64", {"low": 0, "high": max(count - 1, 0)}
        case "sum":
            return ("int64" if not is_float(x) else x.dtype), {**around(count * x.size), "finite": x.finite}
        case "prod":
            return x.dtype, {**around(max(x.size, 1) ** min(count, 300)), "finite": x.finite}
        case "mean":
            return floating, {**around(x.size), "finite": x.finite and least_elements(reduced) > 0}
        case "var" | "std":
            return floating, {"low": 0, "high": 4 * x.size**2 + 1, "finite": x.finite}
        case "logsumexp":
            return floating, {"low": x.low, "high": x.high + log(count), "finite": x.finite}
    return x.dtype, as_before(x)


def along(write: Writer) -> None:
    """Functions along one axis that keep the shape."""
    if (x := write.pick(has_axes)) is None:
        return
    axis = write.axis(x)
    names = ["flip", "roll", *(["tril", "triu"] if len(x.dims) > 1 and is_numeric(x) else [])]
    if is_numeric(x):
        names += ["sort", "cumulative_sum"]
    if is_int(x):
        names += ["argsort"]
    if is_float(x):
        names += ["softmax", "log_softmax"]
    name, most = write.one_of(names), max(limits(x.dims[axis])[1], 1)
    dtype, facts, options = x.dtype, as_before(x), f"axis={axis}"
    match name:
        case "roll":
            write.let(f"pnp.roll({x.text}, {write.number(-2, 2)}, axis={axis})", dtype, x.dims, **facts)
            return
        case "tril" | "triu":
            facts = as_before(x, Value("0", x.dtype, (), 0, 0))
            write.let(f"pnp.{name}({x.text}, k={write.number(-1, 1)})", dtype, x.dims, **facts)
            return
        case "sort":
            options += f", descending={write.chance()}"
        case "argsort":
            facts = {"low": 0, "high": most - 1}
        case "cumulative_sum":
            facts = {**around(most * x.size), "finite": x.finite}
        case "softmax":
            facts = {"low": 0, "high": 1, "finite": x.finite}
        case "log_softmax":
            facts = {**around(2 * x.size + log(most * e)), "finite": x.finite}
    write.let(f"pnp.{name}({x.text}, {options})", dtype, x.dims, **facts)


def accumulate(write: Writer) -> None:
    """Functions along one axis that change its size by one."""
    if (x := write.pick(lambda value: has_axes(value) and is_numeric(value))) is None:
        return
    axis = write.axis(x)
    dim, most = x.dims[axis], max(limits(x.dims[axis])[1], 1)
    if write.chance():
        text, dim = f"pnp.cumulative_sum({x.text}, axis={axis}, include_initial=True)", dim + 1
        facts = {**around(most * x.size), "finite": x.finite}
    else:
        text, dim = f"pnp.diff({x.text}, axis={axis})", opaque("max", dim - 1, 0)
        facts = {**around(2 * x.size), "finite": x.finite}
    write.let(text, x.dtype, replaced(x.dims, axis, dim), **facts)


# Shapes


def rearrange(write: Writer) -> None:
    """The same elements in another shape or order."""
    if (x := write.pick()) is None:
        return
    rank, dims = len(x.dims), x.dims
    match write.one_of(("permute", "expand", "squeeze", "flat", "one", "reverse", "split")):
        case "permute":
            order = tuple(write.draw(st.permutations(range(rank))))
            text, dims = f"pnp.permute_dims({x.text}, {order})", tuple(dims[axis] for axis in order)
        case "expand":
            axis = write.number(0, rank)
            text, dims = f"pnp.expand_dims({x.text}, axis={axis})", (*dims[:axis], 1, *dims[axis:])
        case "squeeze":
            axes = tuple(axis for axis in range(rank) if dims[axis] == 1)
            text, dims = f"pnp.squeeze({x.text}, {axes})", without(dims, axes, keepdims=False)
        case "flat":
            text, dims = f"pnp.reshape({x.text}, (-1,))", (elements(dims),)
        case "one":
            text, dims = f"pnp.reshape({x.text}, {_said(write, (*dims, 1))})", (*dims, 1)
        case "reverse":
            text, dims = f"pnp.reshape({x.text}, {_said(write, dims[::-1])})", dims[::-1]
        case _:
            halves = [axis for axis in range(rank) if _half(dims[axis]) is not None]
            if not halves:
                return
            axis = write.one_of(halves)
            half: Any = _half(dims[axis])
            dims = (*dims[:axis], 2, half, *dims[axis + 1 :])
            text = f"pnp.reshape({x.text}, {_said(write, dims)})"
    if "None" not in text:
        write.let(text, x.dtype, dims, **as_before(x), noisy=x.noisy)


def _said(write: Writer, dims: Sequence[Dim]) -> str:
    return str(write.say_all(dims))


def _half(dim: Dim) -> Dim | None:
    half = floor_divide(dim, 2)
    return half if 2 * half == dim else None


def widen(write: Writer) -> None:
    """The same elements more often."""
    if (x := write.pick()) is None:
        return
    dims = x.dims
    match write.one_of(("broadcast", "stretch", "repeat", "tile")):
        case "broadcast":
            dims = (_new_size(write), *dims)
            text = f"pnp.broadcast_to({x.text}, {_said(write, dims)})"
        case "stretch":
            dims = tuple(_new_size(write) if dim == 1 else dim for dim in dims)
            text = f"pnp.broadcast_to({x.text}, {_said(write, dims)})"
        case "repeat":
            if not dims:
                return
            axis = write.axis(x)
            text, dims = f"pnp.repeat({x.text}, 2, axis={axis})", replaced(dims, axis, dims[axis] * 2)
        case _:
            if not dims:
                return
            text, dims = f"pnp.tile({x.text}, (2,))", (*dims[:-1], dims[-1] * 2)
    if "None" not in text:
        write.let(text, x.dtype, dims, **as_before(x), noisy=x.noisy)


def _new_size(write: Writer) -> Dim:
    """A size that is 0 or more for sure, and not large."""
    known = [number.dim for number in write.values if number.number and number.dim is not None]
    known += [dim for value in write.values for dim in value.dims]
    first, second = write.one_of([2, 3, *known]), write.one_of([1, 0, 2, *known])
    options = [first, first + second, first * 2, first * second, first + 1, floor_divide(first, 2)]
    fitting = [dim for dim in options if limits(dim)[0] >= 0 and limits(dim)[1] <= _LARGEST_DIM]
    return write.one_of(fitting or [2])


def join(write: Writer) -> None:
    if (x := write.pick(has_axes)) is None:
        return
    axis = write.axis(x)

    def fits(value: Value) -> bool:
        if value.dtype != x.dtype or len(value.dims) != len(x.dims):
            return False
        return all(place == axis or same(a, b) for place, (a, b) in enumerate(zip(value.dims, x.dims, strict=True)))

    y = write.pick(fits)
    assert y is not None, "x itself fits"
    noisy = x.noisy or y.noisy
    if y.dims == x.dims and write.chance():
        axis = write.number(0, len(x.dims))
        dims = (*x.dims[:axis], 2, *x.dims[axis:])
        write.let(f"pnp.stack([{x.text}, {y.text}], axis={axis})", x.dtype, dims, **as_before(x, y), noisy=noisy)
        return
    dims = replaced(x.dims, axis, x.dims[axis] + y.dims[axis])
    write.let(f"pnp.concat([{x.text}, {y.text}], axis={axis})", x.dtype, dims, **as_before(x, y), noisy=noisy)


# Contractions

_EINSUMS: Mapping[str, tuple[str, str, str]] = {
    "pnp.einsum('ab,cb->ac', {}, {})": ("ab", "cb", "ac"),
    "pnp.einsum('ab,ab->b', {}, {})": ("ab", "ab", "b"),
    "pnp.einsum('a,b->ab', {}, {})": ("a", "b", "ab"),
    "pnp.einsum('ab,b->a', {}, {})": ("ab", "b", "a"),
    "pnp.einsum('...a,a->...', {}, {})": ("ba", "a", "b"),
    "{} @ {}": ("ab", "bc", "ac"),
    "pnp.matmul({}, {})": ("ab", "b", "a"),
    "pnp.vecdot({}, {})": ("a", "a", ""),
    "pnp.tensordot({}, {}, axes=1)": ("ab", "bc", "ac"),
    "pnp.matmul(pnp.matrix_transpose({}), {})": ("ba", "bc", "ac"),
    "pnp.matmul({}, {}[:, :, 0])": ("ab", "bcd", "ac"),
}


def contract(write: Writer) -> None:
    if (x := write.pick(lambda value: is_float(value) and has_axes(value))) is None:
        return
    found = []
    for template, (first, second, kept) in _EINSUMS.items():
        for y in write.values[::-1] if len(first) == len(x.dims) else ():
            sizes = _contracted(x, first, y, second)
            if sizes is not None:
                found.append(
                    (template, y, [sizes[one] for one in first if one not in kept], [sizes[one] for one in kept])
                )
    if found:
        template, y, summed, dims = write.one_of(found)
        facts = {**around(max(most_elements(summed), 1) * x.size * y.size), "finite": x.finite and y.finite}
        write.let(template.format(x.text, y.text), x.dtype, dims, **facts)


def _contracted(x: Value, first: str, y: Value, second: str) -> dict[str, Dim] | None:
    """The sizes of letters; None if the two do not fit."""
    if y.number or y.dtype != x.dtype or len(y.dims) != len(second):
        return None
    sizes = dict(zip(first, x.dims, strict=True))
    if "d" in second and limits(y.dims[2])[0] < 1:
        return None
    if any(letter in sizes and not same(sizes[letter], dim) for letter, dim in zip(second, y.dims, strict=True)):
        return None
    return {**sizes, **dict(zip(second, y.dims, strict=True))}


# New arrays


def make(write: Writer) -> None:
    """An array of a new size."""
    dim = _new_size(write)
    size = write.say(dim)
    if size is None:
        return
    dtype = write.one_of((*write.shared.floats, "int64"))
    most = max(limits(dim)[1], 1)
    match write.one_of(("ones", "zeros", "arange", "full", "eye", "linspace", "like")):
        case "ones":
            write.let(f'pnp.ones([{size}], dtype="{dtype}")', dtype, (dim,), low=1, high=1)
        case "zeros":
            write.let(f'pnp.zeros(({size}, 2), dtype="{dtype}")', dtype, (dim, 2), low=0, high=0)
        case "arange":
            write.let(f'pnp.arange({size}, dtype="{dtype}")', dtype, (dim,), low=0, high=most - 1)
        case "full":
            _full(write, size, dim)
        case "eye":
            write.let(f'pnp.eye({size}, dtype="{dtype}")', dtype, (dim, dim), low=0, high=1)
        case "linspace":
            floating = write.one_of(write.shared.floats)
            text = f'pnp.linspace(0.0, 1.5, {size}, dtype="{floating}")'
            write.let(text, floating, (dim,), low=0, high=1.5)
        case _:
            if (x := write.pick()) is not None:
                write.let(f"pnp.ones_like({x.text})", x.dtype, x.dims, low=1, high=1)


def _full(write: Writer, size: str, dim: Dim) -> None:
    """An array of one value: a number, or a scalar."""
    x = write.pick(lambda value: not value.dims)
    if x is not None and write.chance():
        write.let(f"pnp.full(({size},), {x.text})", x.dtype, (dim,), **as_before(x))
        return
    number = write.pick_number(lambda value: not is_bool(value))
    if number is None:
        write.let(f"pnp.full(({size},), 0.25)", "float64", (dim,), low=0.25, high=0.25)
    else:
        write.let(f"pnp.full(({size},), {number.text})", number.dtype, (dim,), low=number.low, high=number.high)
