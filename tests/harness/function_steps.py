"""Elementwise lines of a random function: each step picks variables and adds a line, or none where no variable fits."""

from collections.abc import Callable, Mapping
from typing import Any

from plica.ir.sizes import floor_divide
from tests.harness.function_values import Value, limits, meeting, times
from tests.harness.function_writer import Writer

Interval = tuple[float, float]
CONSTANTS = ("0.7310585", "-0.2689414", "1.3132617", "0.1353353")  # nothing that is computed equals them


def is_float(value: Value) -> bool:
    return value.kind == "float"


def is_int(value: Value) -> bool:
    return value.kind == "int"


def is_bool(value: Value) -> bool:
    return value.kind == "bool"


def is_numeric(value: Value) -> bool:
    return value.kind != "bool"


def has_axes(value: Value) -> bool:
    return bool(value.dims)


def around(size: float) -> dict[str, float]:
    """A range around 0."""
    return {"low": -size, "high": size}


def as_before(*values: Value) -> dict[str, Any]:
    """The range and the finiteness of what has elements of all of these."""
    return {
        "low": min(value.low for value in values),
        "high": max(value.high for value in values),
        "finite": all(value.finite for value in values),
    }


# One variable

_OF_FLOAT: Mapping[str, Interval] = {  # for elements of magnitude 30 at most
    "pnp.tanh({})": (-1, 1),
    "pnp.sin({})": (-1, 1),
    "pnp.cos({})": (-1, 1),
    "pnp.atan({})": (-2, 2),
    "pnp.sigmoid({})": (0, 1),
    "pnp.erf({})": (-1, 1),
    "pnp.exp(pnp.sin({}))": (0, 3),
    "pnp.exp(-{0} * {0})": (0, 1),
    "pnp.expm1(pnp.cos({}))": (-1, 2),
    "pnp.sqrt({0} * {0} + 0.5)": (0.5, 31),
    "pnp.log({0} * {0} + 0.5)": (-1, 7),
    "pnp.log1p(pnp.abs({}))": (0, 4),
    "pnp.softplus({})": (0, 31),
    "1.0 / (2.0 + pnp.cos({}))": (0, 1),
    "{} * 0.5": (-15, 15),
    "pnp.clip({}, -0.5, 2.5)": (-0.5, 2.5),
    "pnp.where({0} > {0}, {0}, 0.25)": (0, 1),
    "pnp.reciprocal(pnp.square({}) + 1.5)": (0, 1),
    "pnp.where({0} == {0}, {0}, {0} + 1.0)": (-31, 31),
    "pnp.stop_gradient({})": (-30, 30),
    "pnp.abs({})": (0, 30),
    "-{}": (-30, 30),
    "{} ** 2": (0, 900),
    "pnp.pow({}, 3)": (-27000, 27000),
}
_OF_INT: Mapping[str, Callable[[Value], Interval]] = {
    "{} % 3": lambda _: (0, 2),
    "-{}": lambda x: (-x.high, -x.low),
    "{} // 2": lambda x: (x.low // 2, x.high // 2),
    "pnp.abs({})": lambda x: (0, x.size),
    "pnp.sign({})": lambda _: (-1, 1),
    "{} & 3": lambda _: (0, 3),
    "{} ^ 5": lambda x: (-2 * x.size - 8, 2 * x.size + 8),
    "pnp.bitwise_left_shift({}, 1)": lambda x: (-2 * x.size, 2 * x.size),
    "pnp.square({})": lambda x: (0, x.size**2),
    "{0} - {0}": lambda _: (0, 0),
}


def of_floats(write: Writer) -> None:
    if (x := write.pick(is_float)) is not None:
        template = write.one_of(list(_OF_FLOAT))
        low, high = _OF_FLOAT[template]
        facts = {"noisy": x.noisy} if template == "-{}" else {}
        write.let(template.format(x.text), x.dtype, x.dims, low=low, high=high, finite=x.finite, **facts)


def of_integers(write: Writer) -> None:
    x = write.pick(lambda value: not is_float(value))
    if x is None:
        return
    if is_bool(x):
        write.let(write.one_of(("~{}", "pnp.logical_not({})")).format(x.text), "bool", x.dims, low=0, high=1)
        return
    template = write.one_of(list(_OF_INT))
    low, high = _OF_INT[template](x)
    write.let(template.format(x.text), x.dtype, x.dims, low=low, high=high)


def convert(write: Writer) -> None:
    """Another dtype; floats stay floats, because an integer may hang on noise."""
    if (x := write.pick()) is None:
        return
    dtype = write.one_of(write.shared.floats if is_float(x) else (*write.shared.floats, "int64"))
    write.let(f'pnp.astype({x.text}, "{dtype}")', dtype, x.dims, **as_before(x))


# Two variables


def _plus(x: Value, y: Value) -> Interval:
    return x.low + y.low, x.high + y.high


def _minus(x: Value, y: Value) -> Interval:
    return x.low - y.high, x.high - y.low


def _times(x: Value, y: Value) -> Interval:
    return times((x.low, x.high), (y.low, y.high))


def _either(x: Value, y: Value) -> Interval:
    return min(x.low, y.low), max(x.high, y.high)


def _wide(x: Value, y: Value) -> Interval:
    size = 2 * (x.size + y.size) + 2
    return -size, size


def _truth(x: Value, y: Value) -> Interval:
    del x, y
    return 0, 1


_NUMERIC: Mapping[str, Callable[[Value, Value], Interval]] = {
    "{} + {}": _plus,
    "pnp.add({}, {})": _plus,
    "{} - {}": _minus,
    "{} * {}": _times,
    "pnp.maximum({}, {})": _either,
    "pnp.minimum({}, {})": _either,
}
_PAIRS: Mapping[str, Mapping[str, Callable[[Value, Value], Interval]]] = {
    "float": {
        **_NUMERIC,
        "{} / ({} ** 2 + 1.0)": _wide,
        "pnp.hypot({}, {})": _wide,
        "pnp.logaddexp({}, {})": _wide,
        "pnp.atan2({}, pnp.abs({}) + 0.5)": _wide,
    },
    "int": {**_NUMERIC, "{} ^ {}": _wide, "{} // (pnp.abs({}) + 1)": _wide, "{} % (pnp.abs({}) + 1)": _wide},
    "bool": dict.fromkeys(("{} & {}", "{} | {}", "{} ^ {}", "pnp.logical_and({}, {})", "{} == {}"), _truth),
}


def _beside(write: Writer, x: Value, wanted: Callable[[Value], bool]) -> Value | None:
    """A variable that broadcasts with `x`."""
    return write.pick(lambda value: wanted(value) and meeting(value.dims, x.dims) is not None)


def binary(write: Writer) -> None:
    """Two variables of one dtype."""
    x = write.pick()
    y = None if x is None else _beside(write, x, lambda value: value.dtype == x.dtype)
    if x is None or y is None:
        return
    template = write.one_of(list(_PAIRS[x.kind]))
    low, high = _PAIRS[x.kind][template](x, y)
    dims, finite = meeting(x.dims, y.dims), x.finite and y.finite
    assert dims is not None, "the second was picked so"
    write.let(template.format(x.text, y.text), x.dtype, dims, low=low, high=high, finite=finite)


def mixed(write: Writer) -> None:
    """Two variables of different dtypes, which are promoted."""
    x = write.pick(is_numeric)
    y = None if x is None else _beside(write, x, lambda value: is_numeric(value) and value.dtype != x.dtype)
    if x is None or y is None:
        return
    dtype = max(x.dtype, y.dtype, key=("int64", "float32", "float64").index)
    template = write.one_of(("pnp.add({}, {})", "pnp.subtract({}, {})", "pnp.multiply({}, {})", "pnp.maximum({}, {})"))
    size = x.size * y.size if "multiply" in template else x.size + y.size
    dims, finite = meeting(x.dims, y.dims), x.finite and y.finite
    assert dims is not None, "the second was picked so"
    write.let(template.format(x.text, y.text), dtype, dims, **around(size), finite=finite)


def with_number(write: Writer) -> None:
    """A variable and a Python number: a constant, a size, an index, an argument."""
    if (x := write.pick(is_numeric)) is None:
        return
    number = write.pick_number(lambda value: is_int(value) or (is_float(value) and is_float(x)))
    if number is None or write.chance():
        constants = [("2", 2.0), ("-1", -1.0), ("0", 0.0), ("1", 1.0), *[("0.5", 0.5)] * is_float(x)]
        text, constant = write.one_of(constants)
        number = Value(text, x.dtype, (), constant, constant)
    template, interval = write.one_of([("{} + {}", _plus), ("{} - {}", _minus), ("{} * {}", _times)])
    low, high = interval(x, number)
    operands = (x.text, number.text)
    if write.chance():
        operands, size = operands[::-1], max(abs(low), abs(high))
        low, high = -size, size
    write.let(template.format(*operands), x.dtype, x.dims, low=low, high=high, finite=x.finite)


# Truths


def compare(write: Writer) -> Value | None:
    """Truths that no rounding changes."""
    x = write.pick(lambda value: is_int(value) or (is_float(value) and not value.noisy))
    if x is None:
        return None
    sign = write.one_of(("<", "<=", ">", ">=", "==", "!=") if is_int(x) else ("<", ">"))
    others: list[tuple[str, tuple[Any, ...]]] = [(one, ()) for one in (CONSTANTS if is_float(x) else ("1", "0", "-2"))]
    if is_int(x):
        number, y = write.pick_number(is_int), _beside(write, x, is_int)
        others += [(one.text, one.dims) for one in (number, y) if one is not None]
    text, dims = write.one_of(others)
    shape = meeting(x.dims, dims)
    assert shape is not None, "the second was picked so"
    return write.let(f"{x.text} {sign} {text}", "bool", shape, low=0, high=1)


def choose(write: Writer) -> None:
    """`where`."""
    condition = write.pick(is_bool) or compare(write)
    x = None if condition is None else _beside(write, condition, lambda _: True)
    if condition is None or x is None:
        return
    y = write.pick(lambda v: v.dtype == x.dtype and meeting(v.dims, x.dims, condition.dims) is not None)
    if y is None or write.chance():
        y = Value("True" if is_bool(x) else "1", x.dtype, (), 1, 1)
    dims = meeting(condition.dims, x.dims, y.dims)
    assert dims is not None, "they were picked so"
    texts = [condition.text, *((x.text, y.text) if write.chance() else (y.text, x.text))]
    write.let(f"pnp.where({', '.join(texts)})", x.dtype, dims, **as_before(x, y))


# Python numbers


def count(write: Writer) -> None:
    """Arithmetic on integers that are known when the function runs."""
    first, second = write.pick_number(is_int), write.pick_number(is_int)
    if first is None or second is None:
        return
    assert first.dim is not None, "it is an integer"
    assert second.dim is not None, "it is an integer"
    sums = [
        (f"{first.text} + {second.text}", first.dim + second.dim),
        (f"{first.text} - {second.text}", first.dim - second.dim),
        (f"{first.text} * {second.text}", first.dim * second.dim),
        (f"{first.text} * 2 + 1", first.dim * 2 + 1),
        (f"{first.text} // 2", floor_divide(first.dim, 2)),
    ]
    write.let_number(*write.one_of(sums))


def fraction(write: Writer) -> None:
    """Arithmetic on Python floats."""
    if (x := write.pick_number(is_float)) is None:
        return
    number = write.pick_number(is_int)
    text, low, high = f"{x.text} * 0.5", x.low / 2, x.high / 2
    if number is not None and write.chance():
        text, low, high = f"{x.text} + {number.text}", x.low + number.low, x.high + number.high
    if max(abs(low), abs(high)) < 30:
        value = Value(write.name(), "float64", (), low, high, number=True)
        write.line(f"{value.text} = {text}")
        write.values.append(value)


def name_size(write: Writer) -> None:
    """A size as a Python number."""
    x = write.pick(has_axes)
    if x is not None:
        axis = write.axis(x)
        low, high = limits(x.dims[axis])
        assert low <= high, "sizes have limits"
        write.let_number(f"{x.text}.shape[{axis}]", x.dims[axis])
