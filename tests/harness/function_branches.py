"""Branches of a random function, whose results may have different sizes, and calls of other traced functions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from plica.ir.sizes import Dim, Size
from tests.harness.function_steps import is_bool, is_float, is_int
from tests.harness.function_values import Atom, Value, integer, is_within, limits
from tests.harness.function_writer import Writer

Body = Callable[[Writer], None]


def predicate(write: Writer) -> str:
    """Python for a truth that no rounding changes."""
    options = ["True", "False"]
    for number in write.values:
        if number.number and is_int(number):
            options += [f"{number.text} > 1", f"{number.text} % 2 == 0", f"{number.text} <= 0"]
        elif is_bool(number):
            options += [number.text] if not number.dims else [f"pnp.any({number.text})", f"pnp.all({number.text})"]
        elif is_int(number):
            options += [f"pnp.sum({number.text}) > 2"]
        elif is_float(number) and not number.noisy and not number.number:
            options += [f"pnp.sum({number.text}) > 0.7310585"]
    return write.one_of(options[::-1])


# cond


def cond(write: Writer, body: Body) -> None:
    """Two or three branches that return values of the same dtypes and ranks."""
    count, name = write.number(2, 3), write.name("branch")
    wanted = _some(write)
    if not wanted:
        return
    argument = write.name() if write.chance() else ""
    made = []
    is_functional = count == 2 and write.chance()
    shared = write.number(0, 2) < 2
    option = "" if shared else ", preserve_dimensions=False"
    names = [f"{name}_{number}" if is_functional else name for number in range(count)]
    asked = [predicate(write) for _ in range(count - 1)]
    for number in range(count):
        if not is_functional:
            heads = [f"@plica.cond({asked[0]}{option})", f"@{name}.else_if({asked[-1]})", f"@{name}.otherwise"]
            write.line(heads[0] if number == 0 else heads[2] if number == count - 1 else heads[1])
        write.line(f"def {names[number]}({argument}):")
        made.append(_branch(write, body, wanted, argument))
    given = f", {wanted[0].text}" if argument else ""
    call = f"{name}({given[2:]})"
    if is_functional:
        call = f"plica.cond({asked[0]}, {names[0]}, {names[1]}{given}{option})"
    after = [write.name() for _ in wanted]
    write.line(f"{', '.join(after)}{',' if len(after) == 1 else ''} = {call}")
    _bind(write, after, made, shared=shared)


def _some(write: Writer) -> list[Value]:
    """One or two variables, and sometimes a Python number."""
    found = [write.pick() for _ in range(write.number(1, 2))]
    number = write.pick_number(lambda value: not is_bool(value)) if write.number(0, 3) == 3 else None
    return [value for value in (*found, number) if value is not None]


def _branch(write: Writer, body: Body, wanted: Sequence[Value], argument: str) -> list[Value]:
    with write.nested() as inner:
        if argument:
            inner.values.append(replace(wanted[0], text=argument))
        body(inner)
        found = []
        for one in wanted:
            pick = inner.pick_number if one.number else inner.pick
            value = pick(lambda v, one=one: v.dtype == one.dtype and len(v.dims) == len(one.dims))  # type: ignore[misc]
            assert value is not None, "the variable outside is one"
            found.append(value)
        inner.line(f"return {', '.join(value.text for value in found)}{',' if len(found) == 1 else ''}")
    return found


def _bind(write: Writer, names: Sequence[str], made: Sequence[Sequence[Value]], *, shared: bool = True) -> None:
    """The results: of sizes on which all branches agree, else of new ones, which axes of the same choice may share."""
    new: dict[tuple[Dim, ...], Atom] = {}
    for name, alike in zip(names, zip(*made, strict=True), strict=True):
        if alike[0].number:
            write.values.append(_number(write, name, alike))
            continue
        dims: list[Dim] = []
        for axis, choice in enumerate(zip(*(value.dims for value in alike), strict=True)):
            if all(dim == choice[0] and is_within(dim, write.atoms) for dim in choice):
                dims.append(choice[0])
                continue
            if choice not in new or not shared:
                low, high = min(limits(dim)[0] for dim in choice), max(limits(dim)[1] for dim in choice)
                new[choice] = write.new_atom(f"{name}.shape[{axis}]", low, high)
            dims.append(Size.of(new[choice]))
        write.values.append(
            Value(
                name,
                alike[0].dtype,
                tuple(dims),
                min(value.low for value in alike),
                max(value.high for value in alike),
                finite=all(value.finite for value in alike),
                noisy=any(value.noisy for value in alike),
            )
        )


def _number(write: Writer, name: str, alike: Sequence[Value]) -> Value:
    low, high = min(value.low for value in alike), max(value.high for value in alike)
    if alike[0].dim is None:
        return Value(name, alike[0].dtype, (), low, high, number=True)
    return integer(name, Size.of(write.new_atom(name, int(low), int(high))))


# Calls


def call(write: Writer, body: Body) -> None:
    """Another traced function, which captures what is around it; called once or twice."""
    given = [value for value in (write.pick() for _ in range(write.number(1, 2))) if value is not None]
    if not given:
        return
    inside, name = [replace(value, text=write.name()) for value in given], write.name("f")
    count = write.pick_number(is_int) if write.chance() else None
    numbers = [] if count is None or count.dim is None else [integer(write.name(), count.dim)]
    write.line("@jit")
    write.line(f"def {name}({', '.join(value.text for value in (*inside, *numbers))}):")
    with write.nested() as inner:
        inner.values += [*inside, *numbers]
        body(inner)
        found = _some(inner)
        inner.line(f"return {', '.join(value.text for value in found)}{',' if len(found) == 1 else ''}")
    arguments = ", ".join([*(value.text for value in given), *([] if count is None else [count.text])])
    for _ in range(write.number(1, 2)):
        after = [write.name() for _ in found]
        write.line(f"{', '.join(after)}{',' if len(after) == 1 else ''} = {name}({arguments})")
        _bind(write, after, [found])
