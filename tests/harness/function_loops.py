"""Loops of a random function: `for_loop`, `while_loop` and `scan`, whose carries keep their sizes or change them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plica.ir.sizes import Dim, Size, same
from tests.harness.function_steps import has_axes, is_bool, is_float, is_int
from tests.harness.function_values import Atom, Value, fits, integer, is_argument, is_within, limits, replaced, say
from tests.harness.function_writer import Writer

Body = Callable[[Writer], None]
_MOST_TRIPS = 4
_FILL = {"float": "0.5", "int": "1", "bool": "True"}


@dataclass(frozen=True, slots=True)
class Change:
    """How the first axis of a carry changes in each step.

    Args:
        kind: "grow" by `by` rows, "double", "shrink" by one, or "become" `by`.
        by: A size.
    """

    kind: str
    by: Dim = 0


@dataclass(frozen=True, slots=True)
class Carry:
    """What a loop carries.

    Args:
        first: Python for its first value.
        before: The first value.
        value: What it is in the body.
        change: How its size changes, if it does.
        group: Carries of one group have one size.
        step: Python for the next value of a Python number.
    """

    first: str
    before: Value
    value: Value
    change: Change | None = None
    group: int = -1
    step: str = ""


# How carries are packed


@dataclass(frozen=True, slots=True)
class Packing:
    """Carries as arguments: flat, or in one tuple or dict called `name`."""

    kind: str
    name: str

    def parameters(self, names: Sequence[str]) -> str:
        return ", ".join(names) if self.kind == "flat" else self.name

    def packed(self, texts: Sequence[str]) -> str:
        """One argument, or several."""
        match self.kind:
            case "flat":
                return ", ".join(texts)
            case "tuple":
                return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
        return "{" + ", ".join(f'"{key}": {text}' for key, text in zip("abcdef", texts, strict=False)) + "}"

    def part(self, number: int, names: Sequence[str]) -> str:
        """One of what is packed."""
        if self.kind == "flat":
            return names[number]
        return f"{self.name}[{number}]" if self.kind == "tuple" else f'{self.name}["{"abcdef"[number]}"]'

    def unpack(self, write: Writer, names: Sequence[str]) -> None:
        if self.kind != "flat":
            write.line(f"{', '.join(names)} = {', '.join(self.part(i, names) for i in range(len(names)))}")


def packing(write: Writer, kinds: Sequence[str] = ("flat", "tuple", "dict")) -> Packing:
    return Packing(write.one_of(kinds), write.name("t"))


# Choosing carries


@dataclass(frozen=True, slots=True)
class Loop:
    """What the carries of a loop depend on.

    Args:
        trips: The largest number of steps.
        shared: Whether carries of one size share it (`preserve_dimensions`).
        pinned: Sizes that must stay.
        sizes: Sizes that are known in the body alone.
    """

    trips: int
    shared: bool
    pinned: Sequence[Dim] = ()
    sizes: Sequence[Dim] = ()

    @property
    def option(self) -> str:
        return "" if self.shared else ", preserve_dimensions=False"


def carries(write: Writer, loop: Loop) -> list[Carry]:
    """One to three carries."""
    first = [value for value in (write.pick() for _ in range(write.number(1, 3))) if value is not None]
    changes = _changes(write, first, loop)
    found: list[Carry] = []
    for value, (change, group) in zip(first, changes, strict=True):
        name = write.name()
        inside = widened(write, replace(value, text=name))
        if change is not None:
            others = [one for one in found if one.group == group]
            atom = others[0].value.dims[0] if others else Size.of(_size_inside(name, value.dims[0], change, loop.trips))
            inside = replace(inside, dims=replaced(inside.dims, 0, atom))
        found.append(Carry(value.text, value, inside, change, group))
    return found


def widened(write: Writer, value: Value) -> Value:
    """What is known of a value in every step."""
    low, high = {"float": (-2, 2), "int": (-4, 6), "bool": (0, 1)}[value.kind]
    noisy = is_float(value) and len(write.shared.floats) > 1
    return replace(value, low=min(value.low, low), high=max(value.high, high), noisy=noisy)


def _changes(write: Writer, values: Sequence[Value], loop: Loop) -> list[tuple[Change | None, int]]:
    """How each value changes, and the group that it belongs to."""
    found: list[tuple[Change | None, int]] = []
    for place_, value in enumerate(values):
        alike = [one for one in range(place_) if values[one].dims[:1] == value.dims[:1]]
        if loop.shared and alike:
            found.append(found[alike[0]])
            continue
        options: list[Change | None] = [None]
        if has_axes(value) and _may_change(values, value.dims[0], loop):
            ways = _ways(write, value.dims[0], loop)
            options += [change for change in ways if _stays_small(values, value.dims[0], change, loop.trips)]
        found.append((write.one_of(options), place_))
    return found


def _may_change(values: Sequence[Value], dim: Dim, loop: Loop) -> bool:
    if not loop.shared:
        return True
    others = [*loop.pinned, *(one for value in values for one in value.dims[1:])]
    others += [value.dims[0] for value in values if value.dims[:1] not in ((), (dim,))]
    return isinstance(dim, Size) and all(_are_apart(dim, one) for one in others)


def _are_apart(first: Size, second: Dim) -> bool:
    """Whether two sizes are not one for the tracer, which knows some to be equal that are not known to be here."""
    if first == second:
        return False
    return isinstance(second, int) or (is_argument(first) and is_argument(second))


def _ways(write: Writer, dim: Dim, loop: Loop) -> list[Change]:
    sizes = [number.dim for number in write.values if number.number and number.dim is not None]
    more = [size for size in (*sizes, *loop.sizes) if limits(size)[0] >= 0]
    wider = [dim + 1] if say(dim + 1, write.values) is not None else []
    return [
        *(Change("grow", by) for by in (1, 2, *more) if by != 0),
        *([Change("double"), Change("shrink")] if dim != 0 else []),
        *(Change("become", by) for by in (3, *wider, *more) if by != dim),
    ]


def _after(dim: Dim, change: Change, trips: int) -> tuple[int, int]:
    """The limits of a size that changes."""
    low, high = limits(dim)
    by_low, by_high = limits(change.by)
    match change.kind:
        case "grow":
            return low, high + trips * by_high
        case "double":
            return low, high * 2**trips
        case "shrink":
            return 0, high
    return min(low, by_low), max(high, by_high)


def _stays_small(values: Sequence[Value], dim: Dim, change: Change, trips: int) -> bool:
    _, high = _after(dim, change, trips)
    return all(fits(replaced(value.dims, 0, high)) for value in values if value.dims[:1] == (dim,))


def _size_inside(name: str, dim: Dim, change: Change, trips: int) -> Atom:
    return Atom(f"{name}.shape[0]", *_after(dim, change, trips))


# Bodies


def parameters(inner: Writer, found: Sequence[Carry]) -> None:
    """The carries become variables of the body."""
    inner.values += [one.value for one in found]
    for one in found:
        if one.change is not None:
            size: Any = one.value.dims[0]
            ((monomial, _),) = size.terms
            ((atom, _),) = monomial
            if atom not in inner.atoms:
                inner.atoms.append(atom)


def _next(inner: Writer, carry: Carry) -> str:
    if carry.value.number:
        return carry.step.format(carry.value.text)
    base = inner.one_of(inner.alike(carry.value))
    text = inner.conform(base, carry.value)
    if is_float(carry.value) and base.text != carry.value.text and carry.value.finite and inner.chance():
        text = f"{carry.value.text} * 0.5 + {text} * 0.5"
    return text if carry.change is None else _changed(inner, carry, carry.change, text)


def _changed(inner: Writer, carry: Carry, change: Change, text: str) -> str:
    rest = carry.value.dims[1:]
    if change.kind == "double":
        return f"pnp.concat([{text}, {carry.value.text}])"
    if change.kind == "shrink":
        return f"({text})[1:]"
    shape = inner.say_all((change.by, *rest))
    assert shape is not None, "sizes of variables and numbers can be said"
    rows = f'pnp.full({shape}, {_FILL[carry.value.kind]}, dtype="{carry.value.dtype}")'
    return rows if change.kind == "become" else f"pnp.concat([{text}, {rows}])"


def results(write: Writer, found: Sequence[Carry], names: Sequence[str], trips: int) -> None:
    """The results of a loop become variables."""
    atoms: dict[int, Atom] = {}
    for one, name in zip(found, names, strict=True):
        value = replace(one.value, text=name)
        if one.change is not None:
            if one.group not in atoms:
                atoms[one.group] = write.new_atom(f"{name}.shape[0]", *_after(one.before.dims[0], one.change, trips))
            value = replace(value, dims=replaced(value.dims, 0, Size.of(atoms[one.group])))
        write.values.append(value)


# for_loop


@dataclass(frozen=True, slots=True)
class Range:
    """The indices of a loop: the Python of its bounds, the largest number of steps, the limits of the index."""

    text: str
    trips: int
    low: int
    high: int
    below: Dim | None = None


def ranges(write: Writer) -> Range:
    """Bounds of a loop that makes few steps."""
    options = [
        Range("0, 2", 2, 0, 1),
        Range("0, 3, 1", 3, 0, 2),
        Range("3, 0, -1", 3, 1, 3),
        Range("1, -3, -2", 2, -1, 1),
        Range("2, 2", 0, 2, 2),
        Range("1, 0, 1", 0, 1, 1),
    ]
    for dim in dict.fromkeys(_small_sizes(write)):
        text, (low, high) = write.say(dim), limits(dim)
        if text is not None:
            options += [
                Range(f"0, {text}", high, 0, high - 1, dim),
                Range(f"{text}, 0, -1", high, 1, high),
                Range(f"{text} - 1, -1, -1", high, 0, high - 1, dim),
                Range(f"1, {text}, 2", high // 2, 1, max(high - 1, 1)),
                Range(f"-1, {text}", high + 1, -1, high - 1),
            ]
            step = write.pick_number(lambda value: is_int(value) and value.low >= 0)
            if step is not None:
                options.append(Range(f"0, {text}, {step.text} + 1", high, 0, high - 1, dim))
                options.append(Range(f"{text}, 0, -1 - {step.text}", high, 1, high))
        del low
    for value in write.values:
        if is_int(value) and not value.dims and not value.number:
            options.append(Range(f"0, {value.text} % 4", 3, 0, 2))
    return write.one_of(options)


def _small_sizes(write: Writer) -> list[Dim]:
    found = [dim for value in write.values for dim in (*value.dims, *([] if value.dim is None else [value.dim]))]
    return [dim for dim in found if isinstance(dim, Size) and limits(dim)[0] >= 0 and limits(dim)[1] <= _MOST_TRIPS]


def for_loop(write: Writer, body: Body) -> None:
    bounds, index = ranges(write), write.name("i")
    atom = Atom(index, bounds.low, max(bounds.low, bounds.high), bounds.below, is_argument=True)
    loop = Loop(bounds.trips, write.chance(), sizes=(Size.of(atom), Size.of(atom) + 1))
    found = [*carries(write, loop), *_numbers(write, bounds.trips)]
    if not found:
        return
    pack, name, names = packing(write), write.name("loop"), [one.value.text for one in found]
    first = pack.packed([one.first for one in found])
    call = f"{name}({first})"
    if write.chance():
        write.line(f"@plica.for_loop({bounds.text}{loop.option})")
    else:
        step = "" if bounds.text.count(",") == 2 else ", 1"
        call = f"plica.for_loop({bounds.text}{step}, {name}, {first}{loop.option})"
    write.line(f"def {name}({index}, {pack.parameters(names)}):")
    with write.nested() as inner:
        inner.atoms.append(atom)
        inner.values.append(integer(index, Size.of(atom)))
        run_body(inner, pack, found, body)
    bind(write, pack, found, call, bounds.trips)


def run_body(inner: Writer, pack: Packing, found: Sequence[Carry], body: Body) -> None:
    """The lines of a body that returns the next carries."""
    pack.unpack(inner, [one.value.text for one in found])
    parameters(inner, found)
    body(inner)
    inner.line(f"return {pack.packed([_next(inner, one) for one in found])}")


def _numbers(write: Writer, trips: int) -> list[Carry]:
    """A Python number that is carried, sometimes."""
    if write.number(0, 3) < 3:
        return []
    name, first = write.name(), write.pick_number()
    if first is None or write.chance():
        return [_counting(name, trips)]
    if first.dim is None:
        value = replace(first, text=name, low=min(first.low, 0), high=max(first.high, 0))
        return [Carry(first.text, first, value, step="{} * 0.5" if is_float(first) else "{}")]
    low, high = limits(first.dim)
    step = write.one_of(("{} + 1", "{} - 1", "{}"))
    atom = Atom(name, low - trips, high + trips)
    return [Carry(first.text, first, integer(name, Size.of(atom)), step=step)]


def _counting(name: str, trips: int) -> Carry:
    return Carry("0", integer("0", 0), integer(name, Size.of(Atom(name, 0, trips))), step="{} + 1")


def bind(write: Writer, pack: Packing, found: Sequence[Carry], call: str, trips: int) -> None:
    """The line that calls a loop and names its results."""
    names = [write.name() for _ in found]
    if pack.kind == "flat":
        write.line(f"{', '.join(names)} = {call}")
    else:
        write.line(f"{pack.name} = {call}")
        pack.unpack(write, names)
    results(write, _renamed(write, found, names), names, trips)


def _renamed(write: Writer, found: Sequence[Carry], names: Sequence[str]) -> list[Carry]:
    """Carries that count, as the numbers that they are after the loop."""
    after = []
    for one, name in zip(found, names, strict=True):
        if one.value.dim is not None:
            low, high = limits(one.value.dim)
            one = replace(one, value=integer(name, Size.of(write.new_atom(name, low, high))))
        after.append(one)
    return after


# while_loop


def while_loop(write: Writer, body: Body) -> None:
    limit = write.number(0, 3)
    bound = write.pick_number(lambda value: is_int(value) and value.low >= 0 and value.high <= _MOST_TRIPS)
    text, trips = (str(limit), limit) if bound is None or write.chance() else (bound.text, int(bound.high))
    loop = Loop(trips, write.chance())
    found = [_counting(write.name(), trips), *carries(write, loop), *_numbers(write, trips)]
    pack, name, names = packing(write), write.name("loop"), [one.value.text for one in found]
    condition = _condition(write, pack, found, f"{pack.part(0, names)} < {text}")
    given = f"lambda {pack.parameters(names)}: {condition}"
    first = pack.packed([one.first for one in found])
    call = f"{name}({first})"
    if write.chance():
        write.line(f"@plica.while_loop({given}{loop.option})")
    else:
        call = f"plica.while_loop({given}, {name}, {first}{loop.option})"
    write.line(f"def {name}({pack.parameters(names)}):")
    with write.nested() as inner:
        run_body(inner, pack, found, body)
    bind(write, pack, found, call, trips)


def _condition(write: Writer, pack: Packing, found: Sequence[Carry], counting: str) -> str:
    """The condition of the counter, and sometimes one on another carry."""
    number = write.number(0, len(found) - 1)
    carry, text = found[number], pack.part(number, [one.value.text for one in found])
    if number == 0:
        return counting
    if carry.value.number:
        return f"({counting}) & ({text} < 3)"
    if carry.value.dims and write.chance():
        return f"({counting}) & ({text}.shape[0] < 5)"
    if is_bool(carry.value):
        return f"pnp.logical_and({counting}, pnp.any({text}))"
    if is_int(carry.value):
        return f"pnp.logical_and({counting}, pnp.all({text} < 3))"
    return f"({counting}) & (pnp.sum({text}) < 0.7310585)" if not carry.value.noisy else counting


# scan


def scan(write: Writer, body: Body) -> None:
    first = write.pick(lambda value: has_axes(value) and limits(value.dims[0])[1] <= _MOST_TRIPS + 1)
    if first is None:
        return
    length = first.dims[0]
    second = write.pick(lambda value: has_axes(value) and same(value.dims[0], length) is True)
    stacked = [first, *([second] if second is not None and write.chance() else [])]
    rows = [replace(one, text=write.name(), dims=one.dims[1:]) for one in stacked]
    loop = Loop(limits(length)[1], write.chance(), [dim for row in rows for dim in row.dims])
    found = [*carries(write, loop), *_numbers(write, loop.trips)]
    pack, row_pack = packing(write, ("tuple", "dict")), packing(write, ("tuple", "dict"))
    step, names = write.name("step"), [one.value.text for one in found]
    write.line(f"def {step}({pack.name}, {row_pack.name}):")
    with write.nested() as inner:
        pack.unpack(inner, names)
        row_pack.unpack(inner, [row.text for row in rows])
        parameters(inner, found)
        inner.values += rows
        body(inner)
        picked = (_made(inner, length, write.atoms) for _ in range(inner.number(1, 2)))
        made = [value for value in picked if value is not None]
        kept = pack.packed([_next(inner, one) for one in found])
        inner.line(f"return {kept}, [{', '.join(value.text for value in made)}]")
    option = ", reverse=True" if write.chance() else ""
    given = f"{pack.packed([one.first for one in found])}, {row_pack.packed([one.text for one in stacked])}"
    stacks = write.name("s")
    write.line(f"{pack.name}, {stacks} = plica.scan({step}, {given}{option}{loop.option})")
    after = [write.name() for _ in found]
    pack.unpack(write, after)
    results(write, _renamed(write, found, after), after, loop.trips)
    for number, value in enumerate(made):
        name = write.name()
        write.line(f"{name} = {stacks}[{number}]")
        write.values.append(replace(value, text=name, dims=(length, *value.dims)))


def _made(inner: Writer, length: Dim, outside: Sequence[Atom]) -> Value | None:
    """What a step makes: of sizes that are known outside."""
    return inner.pick(lambda value: all(is_within(dim, outside) for dim in value.dims) and fits((length, *value.dims)))
