"""Emission: a Program becomes the source of one Python function over torch calls, and that function.

Control flow is Python's own: a `for_loop` is a `for`. Values are deleted after their last use. The source is registered
with `linecache`, so that tracebacks show its lines.
"""

import linecache
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch

from plica.backend.torch import kernels
from plica.backend.torch.bounds import Bounds
from plica.backend.torch.leaves import attribute_of
from plica.backend.torch.operations import ROWS
from plica.backend.torch.operations.call import (
    Call,
    axis_source,
    dtype_source,
    number_source,
    scalar_source,
    shape_source,
    size_source,
)
from plica.backend.torch.operations.indexing import in_place, is_python_index, written
from plica.backend.torch.operations.subscripts import not_negative, parts_read, slices, subscript, unproven
from plica.backend.torch.operations.unsigned import UNSIGNED
from plica.backend.torch.plan import Plan
from plica.backend.torch.reading import Chain, joined_reads, sizes_read
from plica.errors import UnsupportedError
from plica.ir.program import Equation, Literal, Operand, Program, Var, size_variables
from plica.ir.signature import size_sources
from plica.ir.sizes import Dim
from plica.ops.places import (
    bounds_of,
    call_inputs,
    carries,
    explicit_outputs,
    implicit_operand,
    kept_sizes,
    known_in_turns,
    scanned,
    size_places,
)
from plica.ops.regions import regions_of
from plica.passes.ownership import Owned, owned

_NUMBERS = count()
_INDENT = "    "
_KEPT = 8  # how many of the first and of the last facts about bounds are kept in a block
_DIVISIONS = ("//", ")%(", " % ", "torch.div(", "torch.remainder(")  # in lines that may divide integers by zero


def emit(
    program: Program,
    name: str = "forward",
    *,
    is_checked: bool = False,
    numbers: frozenset[int] = frozenset(),
    constants: frozenset[int] = frozenset(),
) -> Callable[..., Any]:
    """The Python function of `program`: `run(leaves, *arguments)`, leaves by attribute (`attribute_of`).

    It returns the result, or a tuple where there are several. Arguments that are scalars may be Python numbers.

    Args:
        program: What to run.
        name: What the function is called.
        is_checked: Whether the function compares the sizes of its arguments that have one name.
        numbers: The places of arguments that the caller has as Python numbers.
        constants: Those that are never anything else, and have no gradient: floats too stay Python numbers.

    Raises:
        UnsupportedError: An operation has no row here.
    """
    return load(source(program, name, is_checked=is_checked, numbers=numbers, constants=constants), name)


def source(
    program: Program,
    name: str = "forward",
    *,
    is_checked: bool = False,
    numbers: frozenset[int] = frozenset(),
    constants: frozenset[int] = frozenset(),
) -> str:
    """The text of the function of `program`."""
    leaves = [f"leaves.{attribute_of(var.name)}" for var in program.consts]
    plan = Plan.of(program, numbers, constants)
    named = plan.program
    emitter = _Emitter(plan, dict(zip(named.consts, leaves, strict=True)), owned(named), Bounds(plan))
    return "\n".join(emitter.function(name, is_checked)) + "\n"


def number_arguments(program: Program, numbers: frozenset[int] = frozenset()) -> frozenset[int]:
    """The places of arguments that the generated code takes as Python numbers (tensors are converted)."""
    plan = Plan.of(program, numbers)
    return frozenset(place for place, var in enumerate(plan.program.arguments) if var in plan.sizes)


def load(code: str, name: str) -> Callable[..., Any]:
    """The function called `name` of `code`, which sees `torch` and `kernels`."""
    filename = f"<plica {name} {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"torch": torch, "kernels": kernels, "inf": float("inf"), "nan": float("nan")}
    exec(compile(code, filename, "exec"), scope)  # the text above is all that is run
    function: Callable[..., Any] = scope[name]
    return function


@dataclass(frozen=True, slots=True)
class _Emitter:
    """Lines of Python for a plan.

    Args:
        plan: What is needed, and which scalars are Python numbers.
        leaves: The text that reads each const of the whole Program.
        owned: What may be written over where no gradient is asked for.
        bounds: The bounds of slices that have names.
    """

    plan: Plan
    leaves: Mapping[Var, str]
    owned: Owned
    bounds: Bounds

    def function(self, name: str, is_checked: bool) -> Iterator[str]:
        program = self.plan.program
        body = list(self._body(program))
        yield f"def {name}(leaves{''.join(f', {var.name}' for var in program.arguments)}):"
        if any("device=device" in line for line in body):
            yield f"{_INDENT}device = leaves.device"
        sources = size_sources(program)
        for var, (index, axis) in sources.items():
            yield f"{_INDENT}{var.name} = {program.arguments[index].name}.shape[{axis}]"
        for var in program.arguments:
            if var in self.plan.sizes:
                yield f"{_INDENT}{var.name} = {self.plan.dtype_of_size(var)}({var.name})"
        if is_checked:
            yield from self._checks(program, list(sources.values()))
        if any("in_place" in line for line in body):
            yield f"{_INDENT}in_place = kernels.may_write({', '.join(self._differentiable(program))})"
        divides = any(sign in line for line in body for sign in _DIVISIONS)
        if divides or any(is_python_index(self._as_call(equation)) for equation in self.plan.live):
            kinds = "(IndexError, ArithmeticError, RuntimeError)" if divides else "IndexError"
            body = [f"{_INDENT}try:", *(f"{_INDENT}{line}" for line in body)]
            body += [f"{_INDENT}except {kinds} as error:", f"{_INDENT * 2}raise kernels.told(error) from None"]
        yield from body

    def _differentiable(self, program: Program) -> Iterator[str]:
        """The text of everything outside that may ask for gradients."""
        for var in (*program.consts, *program.arguments):
            if var.type.dtype.kind in ("float", "complex") and not self.plan.is_host(var):
                yield self.leaves.get(var, var.name)

    def _checks(self, program: Program, read: list[tuple[int, int]]) -> Iterator[str]:
        for var in dict.fromkeys(size_variables(tuple(one.type for one in program.arguments))):
            if var in self.leaves:
                yield f"{_INDENT}{var.name} = int({self.leaves[var]})"
        for index, var in enumerate(program.arguments):
            for axis, dim in enumerate(var.type.shape):
                if (index, axis) not in read and not isinstance(dim, int):
                    found, wanted = f"{var.name}.shape[{axis}]", size_source(dim)
                    yield f"{_INDENT}if {found} != {wanted}:"
                    yield f"{_INDENT * 2}kernels.refuse_size({var.name!r}, {axis}, {found}, {str(dim)!r}, {wanted})"

    def _body(self, program: Program) -> Iterator[str]:
        yield from self._block(program, _INDENT)
        for operand in program.results:  # a leaf that no equation reads
            if operand in self.leaves and operand not in self._loaded_by(program):
                assert isinstance(operand, Var), "leaves are variables"
                yield f"{_INDENT}{operand.name} = {self._leaf(operand)}"
        results = ", ".join(map(self._tensor, program.results))
        yield f"{_INDENT}return {results}" if len(program.results) == 1 else f"{_INDENT}return ({results})"

    def _loaded_by(self, program: Program) -> dict[Operand, None]:
        return dict.fromkeys(
            one for equation in program.equations if equation in self.plan.live for one in equation.inputs
        )

    def _leaf(self, var: Var) -> str:
        text = self.leaves[var]
        return f"{self.plan.dtype_of_size(var)}({text})" if self.plan.is_host(var) else text

    # Blocks

    def _block(
        self, program: Program, indent: str, sizes: Iterable[Operand] = (), known: Iterable[Dim] = ()
    ) -> Iterator[str]:
        """The equations of a Program; its inputs have their values.

        Args:
            program: The Program.
            indent: What its lines begin with.
            sizes: What is read after it.
            known: Sizes that are not negative.
        """
        equations = [equation for equation in program.equations if equation in self.plan.live]
        dying = self._last_uses(equations, (*program.results, *sizes))
        loaded: dict[Operand, None] = {}
        known = list(known)
        place = ""
        for chain, dead in joined_reads(equations, dying, self.plan):
            equation = chain[-1]
            if equation.source != place:
                place = equation.source
                yield f"{indent}# {place or 'the whole circuit'}"
            for operand in (one for each in chain for one in (*each.inputs, *sizes_read(each))):
                if operand in self.leaves and operand not in loaded:
                    assert isinstance(operand, Var), "leaves are variables"
                    loaded[operand] = None
                    yield f"{indent}{operand.name} = {self._leaf(operand)}"
            for one in chain:
                yield from self._bounds(one, known, indent)
            yield from self._equation(chain, indent)
            names = dict.fromkeys(var.name for var in dead)
            if names:
                yield f"{indent}del {', '.join(names)}"

    def _last_uses(self, equations: list[Equation], results: tuple[Operand, ...]) -> list[list[Var]]:
        """For each equation, the variables made in this block that nothing after it reads; inputs are the caller's."""
        last: dict[Operand, int] = {}
        own: dict[Operand, None] = dict.fromkeys(self.leaves)
        for index, equation in enumerate(equations):
            made = equation.outputs
            if equation.op.name in _CONTROL:
                made = tuple(var for var in made if var in self.plan.reads or var in self.plan.sizes)
            own.update(dict.fromkeys(made))
            sizes = list(sizes_read(equation))
            if equation.op.name == "scan":  # the shapes of stacks of no rows
                sizes += (one for var in made for one in size_variables(var.type))
            last.update(dict.fromkeys((*equation.inputs, *made, *sizes), index))
        dying: list[list[Var]] = [[] for _ in equations]
        for var, index in last.items():
            if isinstance(var, Var) and var in own and var not in results:
                dying[index].append(var)
        return dying

    def _bounds(self, equation: Equation, known: list[Dim], indent: str) -> Iterator[str]:
        """Compares the bounds of slices, but for what is `known`, which what is compared is added to."""
        if equation.op.name == "update" and not (self._is_in_place(equation) and written(self._as_call(equation))):
            return  # a kernel compares them
        for axis, size, bounds in slices(equation):
            condition = unproven(size, bounds, known, self.bounds.text)
            if condition:
                numbers = ", ".join(map(self.bounds.text, (size, *bounds)))
                yield f"{indent}if not ({condition}):"
                yield f"{indent}{_INDENT}kernels.refuse_slice({axis}, {numbers})"
                known += not_negative(size, *bounds)
                del known[_KEPT:-_KEPT]  # so that the work is linear in the text

    def _equation(self, chain: Chain, indent: str) -> Iterator[str]:
        equation = chain[-1]
        control = _CONTROL.get(equation.op.name)
        if control is not None:
            yield from control(self, equation, indent)
            yield from self._made_sizes(equation, indent)
            return
        results = ", ".join(var.name for var in equation.outputs)
        if self._is_in_place(equation):
            yield f"{indent}if in_place:"
            is_copied = self.owned.written[equation]
            lines = in_place(self._as_call(equation), results, self.bounds.text, is_copied=is_copied)
            yield from (f"{indent}{_INDENT}{line}" for line in lines)
            yield f"{indent}else:"
            indent += _INDENT
        yield f"{indent}{results} = {self._expression(chain)}"
        if len(equation.outputs) > 1:
            for var in equation.outputs:
                if var in self.plan.sizes:
                    yield f"{indent}{var.name} = {self.plan.dtype_of_size(var)}({var.name})"

    def _made_sizes(self, equation: Equation, indent: str) -> Iterator[str]:
        """The sizes that control flow makes, and scalars that it carried as tensors and that are sizes afterwards."""
        sizes = tuple(
            var for var in equation.outputs[: equation.params["num_implicit_outputs"]] if var in self.plan.reads
        )
        arrays = {var: var.name for var in explicit_outputs(equation) if var in self.plan.reads}
        yield from (f"{indent}{size.name} = {text}" for size, text in size_places(sizes, arrays))
        if "body" in equation.params:
            for place, var in self.plan.unread_sizes(equation):
                yield f"{indent}{var.name} = {self._host(implicit_operand(equation, place))}"
            for inner, _, _, output in carries(equation):
                if self.plan.is_host(output) and not self.plan.is_host(inner):
                    yield f"{indent}{output.name} = {self.plan.dtype_of_size(output)}({output.name})"

    def _expression(self, chain: Chain) -> str:
        plan, equation = self.plan, chain[-1]
        row = plan.row(equation)
        if row is not None:
            return row.format(*map(self._host, equation.inputs))
        found = ROWS.get(equation.op.name)
        if found is None:
            raise UnsupportedError(f"the torch backend has no row for the operation {equation.op.name!r}.")
        if equation.op.name == "slice" or len(chain) > 1:
            text = self._part(chain)
        else:
            text = found.text(self._as_call(equation))
        if len(equation.outputs) == 1 and equation.outputs[0] in plan.sizes:
            return f"{plan.dtype_of_size(equation.outputs[0])}({text})"
        return text

    def _part(self, chain: Chain) -> str:
        parts = parts_read(chain, self._text)
        assert parts is not None, "equations are joined where they are one subscript"
        return f"{self._text(chain[0].inputs[0])}[{subscript(parts, self.bounds.text)}]"

    def _as_call(self, equation: Equation) -> Call:
        hosts = frozenset(place for place, one in enumerate(equation.inputs) if self.plan.is_host(one))
        return Call(equation, tuple(map(self._text, equation.inputs)), hosts)

    def _is_in_place(self, equation: Equation) -> bool:
        """Whether an update is written both ways, of which one is chosen at each call."""
        x = equation.inputs[0] if equation in self.owned.written else None
        return x is not None and not self.plan.is_host(x) and x.type.dtype not in UNSIGNED

    # Operands

    def _text(self, operand: Operand) -> str:
        return number_source(operand.value) if isinstance(operand, Literal) else operand.name

    def _tensor(self, operand: Operand) -> str:
        text = self._text(operand)
        return scalar_source(text, operand.type.dtype) if self.plan.is_host(operand) else text

    def _host(self, operand: Operand) -> str:
        if isinstance(operand, Literal) or self.plan.is_host(operand):
            return self._text(operand)
        return f"{self.plan.dtype_of_size(operand)}({operand.name})"

    def _as(self, operand: Operand, var: Var) -> str:
        """`operand` as what `var` is: a Python number or a tensor."""
        return self._host(operand) if self.plan.is_host(var) else self._tensor(operand)

    def _assign(self, pairs: list[tuple[Var, Operand]], indent: str, *, wrapped: bool = False) -> Iterator[str]:
        """Simultaneous assignment; what keeps its value is left out."""
        moved = [(var, self._as(operand, var)) for var, operand in pairs if var in self.plan.reads]
        moved = [(var, text) for var, text in moved if text != var.name]
        if wrapped:
            moved = [(var, f"kernels.wrap({text})" if self._may_overflow(var) else text) for var, text in moved]
        if moved:
            yield f"{indent}{', '.join(var.name for var, _ in moved)} = {', '.join(text for _, text in moved)}"

    def _may_overflow(self, var: Var) -> bool:
        return self.plan.is_host(var) and var.type.dtype == "int64"

    def _sizes(
        self, program: Program, arrays: Mapping[Var, str], indent: str, kept: Container[str] = ()
    ) -> Iterator[str]:
        """The sizes of a region's inputs, read off the arrays that it is given; the names `kept` have theirs."""
        needed = (var for var in program.inputs[: program.num_implicit_inputs] if var in self.plan.reads)
        sizes = tuple(var for var in needed if var.name not in kept)
        assigned = {var: text for var, text in arrays.items() if var in self.plan.reads}
        yield from (f"{indent}{size.name} = {text}" for size, text in size_places(sizes, assigned))

    def _literals(self, equation: Equation, indent: str) -> Iterator[str]:
        """Names for the literals that regions capture."""
        for program, operands in regions_of(equation):
            for var, operand in zip(program.consts, operands, strict=False):
                if isinstance(operand, Literal) and var in self.plan.reads:
                    yield f"{indent}{var.name} = {self._text(operand)}"

    # Control flow

    def _for(self, equation: Equation, indent: str) -> Iterator[str]:
        body: Program = equation.params["body"]
        lower, upper, step = bounds_of(equation)
        first, last, by = (self._host(one) for one in (lower, upper, step))
        counted = (
            f"range({first}, {last}, {by})" if isinstance(step, Literal) else f"kernels.steps({first}, {last}, {by})"
        )
        if by == "1":
            counted = f"range({last})" if first == "0" else f"range({first}, {last})"
        yield from self._starts(equation, indent)
        yield f"{indent}for {body.arguments[0].name} in {counted}:"
        yield from self._loop_body(equation, indent + _INDENT)

    def _starts(self, equation: Equation, indent: str) -> Iterator[str]:
        """What stands before a loop, whose body is to be written next."""
        yield from self._literals(equation, indent)
        yield from (f"{indent}{name} = {text}" for name, text in self.bounds.enter(equation))
        copied = self.owned.copied.get(equation, ())
        for place, (inner, first, _, output) in enumerate(carries(equation)):
            if inner in self.plan.reads or output in self.plan.reads:
                text = self._as(first, inner)
                if place in copied:
                    text = f"{text}.clone() if in_place else {text}"
                if text != inner.name:
                    yield f"{indent}{inner.name} = {text}"

    def _loop_body(self, equation: Equation, indent: str, extra: Iterable[str] = ()) -> Iterator[str]:
        body: Program = equation.params["body"]
        lines = list(self._sizes(body, {var: var.name for var in body.arguments}, indent, self._kept(equation)))
        lines += self._block(body, indent, known=known_in_turns(equation))
        lines += extra
        self.bounds.leave(equation)
        lines += self._assign([(inner, result) for inner, _, result, _ in carries(equation)], indent, wrapped=True)
        yield from lines or [f"{indent}pass"]

    def _kept(self, equation: Equation) -> list[str]:
        return [inner.name for inner, outer in kept_sizes(equation) if isinstance(outer, Var)]

    def _while(self, equation: Equation, indent: str) -> Iterator[str]:
        cond: Program = equation.params["cond"]
        inner = indent + _INDENT
        yield from self._starts(equation, indent)
        asked = list(self._sizes(cond, {var: var.name for var in cond.arguments}, inner, self._kept(equation)))
        asked += self._block(cond, inner)
        (holds,) = cond.results
        yield f"{indent}while True:"
        yield from asked
        yield f"{inner}if not {self._text(holds)}:"
        yield f"{inner}{_INDENT}break"
        yield from self._loop_body(equation, inner)

    def _cond(self, equation: Equation, indent: str) -> Iterator[str]:
        branches: tuple[Program, ...] = equation.params["branches"]
        outputs = explicit_outputs(equation)
        yield from self._literals(equation, indent)
        for place, program in enumerate(branches):
            word = "else" if place == len(branches) - 1 else f"elif {self._text(equation.inputs[place])}"
            yield f"{indent}{'if' + word[4:] if place == 0 and word != 'else' else word}:"
            sizes = [(var, program.outputs[at]) for at, var in self.plan.unread_sizes(equation)]
            lines = list(self._block(program, indent + _INDENT, [size for _, size in sizes]))
            lines += self._assign([*sizes, *zip(outputs, program.results, strict=True)], indent + _INDENT)
            yield from lines or [f"{indent}{_INDENT}pass"]

    def _scan(self, equation: Equation, indent: str) -> Iterator[str]:
        params, body = equation.params, equation.params["body"]
        rows = scanned(equation)
        stacks = explicit_outputs(equation)[params["num_carries"] :]
        made = list(zip(stacks, body.results[params["num_carries"] :], strict=True))
        made = [(stack, result) for stack, result in made if stack in self.plan.reads]
        yield from self._starts(equation, indent)
        yield from (f"{indent}{stack.name} = []" for stack, _ in made)
        arrays = [f"{self._tensor(array)}.unbind(0)" for _, array in rows]
        names = [row.name for row, _ in rows]
        if params["reverse"]:
            arrays = [f"{array}[::-1]" for array in arrays]
        if not rows:
            yield f"{indent}for _ in range({axis_source(params['length'])}):"
        elif len(rows) == 1:
            yield f"{indent}for {names[0]} in {arrays[0]}:"
        else:
            yield f"{indent}for {', '.join(names)} in zip({', '.join(arrays)}, strict=True):"
        inner = indent + _INDENT
        converted = [f"{inner}{row.name} = int({row.name})" for row, _ in rows if row in self.plan.sizes]
        appended = (f"{inner}{stack.name}.append({self._tensor(result)})" for stack, result in made)
        yield from converted
        yield from self._loop_body(equation, inner, appended)
        for stack, _ in made:
            shape, dtype = shape_source(stack.type.shape), dtype_source(stack.type.dtype)
            reverse = "[::-1]" if params["reverse"] else ""
            empty = f"torch.empty({shape}, dtype={dtype}, device=device)"
            yield f"{indent}{stack.name} = torch.stack({stack.name}{reverse}) if {stack.name} else {empty}"

    def _call(self, equation: Equation, indent: str) -> Iterator[str]:
        program: Program = equation.params["program"]
        yield from self._literals(equation, indent)
        yield from self._assign([(inner, outer) for inner, outer in call_inputs(equation)], indent)
        yield from self._sizes(program, {var: var.name for var in program.arguments}, indent)
        sizes = [(var, program.outputs[place]) for place, var in self.plan.unread_sizes(equation)]
        yield from self._block(program, indent, [size for _, size in sizes])
        yield from self._assign([*sizes, *zip(explicit_outputs(equation), program.results, strict=True)], indent)


_CONTROL: Mapping[str, Callable[[_Emitter, Equation, str], Iterator[str]]] = {
    "for_loop": _Emitter._for,
    "while_loop": _Emitter._while,
    "cond": _Emitter._cond,
    "scan": _Emitter._scan,
    "call": _Emitter._call,
}
