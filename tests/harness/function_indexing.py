"""Lines of a random function that read and write at indices, which always lie within their axes."""

from dataclasses import dataclass

from plica.ir.sizes import Dim, Size, floor_divide, opaque
from tests.harness.function_steps import as_before, has_axes, is_bool, is_float, is_int
from tests.harness.function_values import MOST_AXES, Atom, Value, limits, replaced
from tests.harness.function_writer import Writer


@dataclass(frozen=True, slots=True)
class Key:
    """What stands in brackets for one axis.

    Args:
        text: The Python.
        dim: The size that is left; None for one place, whose axis goes.
        named: Whether the size is known by the shape of the result alone.
    """

    text: str
    dim: Dim | None = None
    named: bool = False


def place(write: Writer, dim: Dim) -> str | None:
    """Python for an index within an axis of size `dim`; None if the axis may be empty and no index is known for it."""
    low, _ = limits(dim)
    options = [number.text for number in write.values if number.number and _is_below(number.dim, dim)]
    if low > 0:
        options += ["0", "-1", *[str(low - 1)] * (low > 1)]
        size = write.say(dim)
        if size is not None:
            options += [f"{number.text} % ({size})" for number in write.values if number.number and is_int(number)]
            options += [f"{x.text} % ({size})" for x in write.values if is_int(x) and not x.dims and not x.number]
    return write.one_of(options[::-1]) if options else None


def _is_below(number: Dim | None, dim: Dim) -> bool:
    """Whether a number is 0 or more and below a size for sure."""
    if number is None:
        return False
    low, high = limits(number)
    return low >= 0 and (high < limits(dim)[0] or _bound(number) == dim)


def _bound(number: Dim) -> Dim | None:
    if isinstance(number, Size):
        for monomial, factor in number.terms:
            if len(number.terms) == 1 and factor == 1 and len(monomial) == 1:
                ((atom, power),) = monomial
                return atom.below if isinstance(atom, Atom) and power == 1 else None
    return None


def part(write: Writer, dim: Dim) -> Key | None:
    """A slice of an axis."""
    low, _ = limits(dim)
    options = [
        Key(":", dim),
        Key("1:", opaque("max", dim - 1, 0)),
        Key(":-1", opaque("max", dim - 1, 0)),
        Key(":2", opaque("min", dim, 2)),
        Key("-2:", opaque("min", dim, 2)),
        Key("::2", floor_divide(dim + 1, 2)),
        Key("1::2", floor_divide(dim, 2)),
        Key("1:-1", opaque("max", dim - 2, 0)),
        Key("0:0", 0),
    ]
    if low >= 2:
        options += [Key("0:2", 2), Key("1:2", 1)]
    options += _dynamic(write, dim)
    return write.one_of(options)


def _dynamic(write: Writer, dim: Dim) -> list[Key]:
    """Slices whose bounds are known when the function runs."""
    found = []
    size = write.say(dim + 1)
    for number in write.values:
        if number.number and number.dim is not None and _is_below(number.dim, dim):
            i, at = number.text, number.dim
            found += [Key(f":{i}", at), Key(f"{i}:", dim - at), Key(f"{i}:{i} + 1", 1)]
        elif number.number and number.dim is not None and size is not None:
            found.append(Key(f":{number.text} % ({size})", opaque("mod", number.dim, dim + 1)))
        elif is_int(number) and not number.dims and size is not None:
            found += [
                Key(f":{number.text} % ({size})", dim, named=True),
                Key(f"{number.text} % ({size}):", dim, named=True),
            ]
    return found


def read(write: Writer) -> None:
    """`x[...]`: for each axis a slice or a place."""
    if (x := write.pick(has_axes)) is None:
        return
    keys: list[Key] = []
    for dim in x.dims[: write.number(1, len(x.dims))]:
        at = place(write, dim) if write.chance() else None
        found = part(write, dim) if at is None else Key(at)
        assert found is not None, "there is always a slice"
        keys.append(found)
    if write.number(0, 4) == 4:
        keys.append(Key("None", 1)) if write.chance() else keys.insert(0, Key("None", 1))
    _let_read(write, x, keys)


def _let_read(write: Writer, x: Value, keys: list[Key]) -> None:
    dims: list[Dim] = [key.dim for key in keys if key.dim is not None]
    taken = sum(key.text != "None" for key in keys)
    dims += x.dims[taken:]
    text = f"{write.indexed(x)}[{', '.join(key.text for key in keys)}]"
    named = [axis for axis, key in enumerate(one for one in keys if one.dim is not None) if key.named]
    if len(dims) > MOST_AXES:
        return
    name = write.name()
    for axis in named:
        dims[axis] = Size.of(write.new_atom(f"{name}.shape[{axis}]", 0, limits(dims[axis])[1]))
    value = Value(f"({text})", x.dtype, tuple(dims), **as_before(x), noisy=x.noisy)
    write.add(value, name, text)


def take(write: Writer) -> None:
    """Elements at an array of indices."""
    x = write.pick(lambda value: any(limits(dim)[0] > 0 for dim in value.dims))
    indices = write.pick(lambda value: is_int(value) and len(value.dims) == 1)
    if x is None:
        return
    if indices is None or write.chance():
        start = write.number(0, 2)
        indices = Value(f"pnp.arange({start}, {start + 3})", "int64", (3,), 0, 4)
    axis = write.one_of([axis for axis, dim in enumerate(x.dims) if limits(dim)[0] > 0])
    size = write.say(x.dims[axis])
    if size is None:
        return
    places = f"{indices.text} % ({size})"
    if write.chance():
        text, dims = f"pnp.take({x.text}, {places}, axis={axis})", replaced(x.dims, axis, indices.dims[0])
    else:
        before = ":, " * axis
        text, dims = f"{write.indexed(x)}[{before}{places}]", replaced(x.dims, axis, indices.dims[0])
    write.let(text, x.dtype, dims, **as_before(x), noisy=x.noisy)


def update(write: Writer) -> None:
    """`pnp.at(x)[...].set(...)` and the other updates, along the first axes."""
    if (x := write.pick(lambda value: has_axes(value) and not is_bool(value))) is None:
        return
    dim = x.dims[0]
    at = place(write, dim) if write.chance() else None
    key = part(write, dim) if at is None else Key(at)
    assert key is not None, "there is always a slice"
    wanted = (*([] if key.dim is None else [key.dim]), *x.dims[1:])
    fitting = [one for one in write.values if not one.number and one.dtype == x.dtype and one.dims in (wanted, ())]
    y = write.one_of([None, *fitting[::-1]]) if not key.named else None
    given = y or Value("0.25" if is_float(x) else "2", x.dtype, (), 0, 2)
    mode = write.one_of(("set", "add", "multiply", "max"))
    facts = as_before(x, given)
    if mode in ("add", "multiply"):
        size = x.size + given.size if mode == "add" else x.size * max(given.size, 1)
        facts |= {"low": -size, "high": size}
    write.let(f"pnp.at({x.text})[{key.text}].{mode}({given.text})", x.dtype, x.dims, **facts)


def update_masked(write: Writer) -> None:
    """`pnp.at(x)[truths].set(number)`."""
    x = write.pick(lambda value: is_float(value) and has_axes(value))
    truth = (
        None
        if x is None
        else write.pick(
            lambda one: is_bool(one) and 0 < len(one.dims) <= len(x.dims) and one.dims == x.dims[: len(one.dims)]
        )
    )
    if x is not None and truth is not None:
        facts = as_before(x, Value("0.25", x.dtype, (), 0, 1))
        size = max(abs(facts["low"]), abs(facts["high"])) + 1
        mode = write.one_of(("set", "add", "multiply"))
        write.let(
            f"pnp.at({x.text})[{truth.text}].{mode}(0.25)", x.dtype, x.dims, low=-size, high=size, finite=x.finite
        )


def mask(write: Writer) -> None:
    """Elements where a truth holds: their number is known when the function runs."""
    x = write.pick(
        lambda value: any(is_bool(one) and one.dims == value.dims[:1] for one in write.values) and has_axes(value)
    )
    if x is None:
        return
    truth = write.pick(lambda one: is_bool(one) and one.dims == x.dims[:1])
    assert truth is not None, "x was picked so"
    _let_read(write, x, [Key(truth.text, x.dims[0], named=True)])
