"""The plan of a generated function: live equations, and scalars that are Python numbers.

Scalars that only sizes, indices and bounds of loops need are Python numbers in generated code: no tensor is made for
them, and no device is waited for. A scalar that comes out of an array and is needed as a size is converted once, where
it is made.
"""

from dataclasses import dataclass, field

from plica.backend.torch.names import with_python_names
from plica.backend.torch.operations import ROWS
from plica.backend.torch.operations.private import TORCH_OPS
from plica.backend.torch.operations.subscripts import sizes_compared
from plica.ir.program import Equation, Literal, Operand, Program, Var, nested, size_variables
from plica.ir.sizes import Size
from plica.ops.control_operands import (
    bounds_of,
    branch_programs,
    call_inputs,
    carries,
    constant_bindings,
    explicit_outputs,
    implicit_operand,
    implicit_operands,
    unchanged_sizes,
)
from plica.ops.regions import regions_of
from plica.passes.dead_code import checks_sizes

_CASTS = {"int64": "int({})", "bool": "bool({})", "float32": "float({})", "float64": "float({})"}
_CONSTANT_CASTS = {"int": "{}", "float": "float({})", "complex": "complex({})"}
_COUNTING = ("int64", "bool")


def host_row(equation: Equation) -> str | None:
    """How an equation is written on Python numbers; None if it is not."""
    if len(equation.outputs) != 1 or equation.outputs[0].type.shape:
        return None
    if any(operand.type.dtype not in _COUNTING for operand in equation.inputs):
        return None
    if equation.op.name == "astype":
        return _CASTS.get(equation.outputs[0].type.dtype.value)
    row = ROWS.get(equation.op.name)
    return row.host if row is not None and equation.outputs[0].type.dtype in _COUNTING else None


def is_counting(operand: Operand) -> bool:
    """Whether `operand` is a scalar that may be a Python number from one iteration to the next."""
    return not operand.type.shape and operand.type.dtype in _COUNTING


@dataclass(slots=True)
class Plan:
    """Facts that emission needs about a Program and those nested in it.

    Args:
        program: With a name of its own for every variable; a captured one has that of what it captures.
    """

    program: Program
    live: dict[Equation, None] = field(default_factory=dict)
    sizes: dict[Var, None] = field(default_factory=dict)
    reads: dict[Var, None] = field(default_factory=dict)
    constants: dict[Var, None] = field(default_factory=dict)
    _host: dict[Var, bool] = field(default_factory=dict)

    @staticmethod
    def of(program: Program, numbers: frozenset[int] = frozenset(), constants: frozenset[int] = frozenset()) -> "Plan":
        """The plan of a whole Program.

        Args:
            program: The Program.
            numbers: The positions of arguments that callers pass as Python numbers.
            constants: The positions of arguments that are always numbers without gradients, so that floats stay Python
                numbers too.
        """
        named = with_python_names(program)
        plan = Plan(named)
        plan.need(named)
        plan.sizes.update(
            (var, None) for index, var in enumerate(named.arguments) if index in numbers and is_counting(var)
        )
        plan.constants.update((var, None) for index, var in enumerate(named.arguments) if index in constants)
        hosts = (*named.inputs[: named.num_implicit_inputs], *plan.sizes, *plan.constants)
        for var in (*named.consts, *named.inputs):
            plan.mark(var, host=var in hosts)
        plan.place(named)
        return plan

    def is_host(self, operand: Operand) -> bool:
        """Whether `operand` is a Python number in the generated code."""
        return isinstance(operand, Literal) or self._host.get(operand, False)

    def python_type(self, var: Var) -> str:
        """The Python type to which generated code converts a tensor that it needs as a number: `bool` or `int`."""
        return "bool" if var.type.dtype == "bool" else "int"

    def row(self, equation: Equation) -> str | None:
        """How an equation is written where it makes a Python number; None where it makes a tensor."""
        row = host_row(equation)
        if row is None and equation.op.name == "astype" and equation.inputs[0] in self.constants:
            row = self._constant_cast(equation)
        return row if all(map(self.is_host, equation.inputs)) else None

    def _constant_cast(self, equation: Equation) -> str | None:
        """A number of the same or a higher kind, which torch rounds where it meets an array, as it does a literal."""
        kinds = [var.type.dtype.kind for var in (*equation.inputs, *equation.outputs)]
        return None if kinds == ["float", "int"] else _CONSTANT_CASTS.get(kinds[1])

    # Live equations and variables

    def need(self, program: Program) -> None:
        """Mark the equations that the explicit results need or that check sizes, and the variables that sizes need."""
        for result in program.results:
            self._read(result)
        for equation in reversed(program.equations):
            is_read = any(var in self.reads or var in self.sizes for var in equation.outputs)
            if is_read or checks_sizes(equation, TORCH_OPS):
                self.live[equation] = None
                self._need_operands(equation)

        for size in program.inputs[: program.num_implicit_inputs]:
            having = [var for var in program.arguments if Size.of(size) in var.type.shape]
            if size in self.reads and having and not any(var in self.reads for var in having):
                self._read(having[0])  # from which the size is read

    def _read(self, operand: Operand) -> None:
        if isinstance(operand, Var):
            self.reads[operand] = None

    def _need_size(self, operand: Operand) -> None:
        if isinstance(operand, Var):
            self.sizes[operand] = None
            self.reads[operand] = None

    def _need_operands(self, equation: Equation) -> None:
        plain = {name: value for name, value in equation.params.items() if not any(nested({name: value}))}
        for var in size_variables(tuple(plain.values())):
            self._need_size(var)
        for var in sizes_compared(equation):
            self._need_size(var)
        for index, _ in self.unread_sizes(equation):
            if "body" in equation.params:
                self._need_size(implicit_operand(equation, index))
            for program in branch_programs(equation):
                self._need_size(program.outputs[index])
        if regions_of(equation):
            self._need_arrays_of_sizes(equation)
        for program, _ in regions_of(equation):
            self.need(program)
        for inner, outer in constant_bindings(equation):
            if inner in self.sizes:
                self._need_size(outer)
        if equation.op.name == "while_loop":  # what the condition reads is carried by the body
            for tested, carried in zip(equation.params["cond"].inputs, equation.params["body"].inputs, strict=True):
                self.reads.update({carried: None} if tested in self.reads else {})
                self.sizes.update({carried: None} if tested in self.sizes else {})
        if "body" in equation.params:
            self.reads.update((inner, None) for inner, _, _, output in carries(equation) if output in self.reads)
            for inner, outer in unchanged_sizes(equation):
                if inner in self.reads or inner in self.sizes:
                    self._need_size(outer)
        implicit = implicit_operands(equation)
        for index, operand in enumerate(equation.inputs):
            if index not in implicit:
                self._read(operand)
        if equation.op.name == "for_loop":
            for bound in bounds_of(equation):
                self._need_size(bound)
        if equation.op.name == "scan":
            for result in equation.outputs[equation.params["num_implicit_outputs"] + equation.params["num_carries"] :]:
                for var in size_variables(result.type):
                    self._need_size(var)

    def _need_arrays_of_sizes(self, equation: Equation) -> None:
        """Sizes that control flow makes are read off a result that has them, which is then needed too."""
        for var in equation.outputs[: equation.params["num_implicit_outputs"]]:
            if var in self.reads or var in self.sizes:
                having = [output for output in explicit_outputs(equation) if Size.of(var) in output.type.shape]
                if having and not any(output in self.reads for output in having):
                    self._read(having[0])

    def unread_sizes(self, equation: Equation) -> list[tuple[int, Var]]:
        """The sizes that control flow returns, that something reads, and that no result has: by their place."""
        dims = [dim for var in explicit_outputs(equation) for dim in var.type.shape] if regions_of(equation) else []
        implicit = equation.outputs[: equation.params.get("num_implicit_outputs", 0)]
        needed = [var in self.reads or var in self.sizes for var in implicit]
        return [(index, var) for index, var in enumerate(implicit) if needed[index] and Size.of(var) not in dims]

    # Which scalars are Python numbers

    def place(self, program: Program) -> None:
        """Decide for each scalar of `program` whether it is a Python number; the inputs are decided already."""
        for equation in program.equations:
            if equation not in self.live:
                continue
            self._place_equation(equation)
            for var in equation.outputs:
                if var in self.sizes:
                    self._host[var] = True

    def mark(self, var: Var, *, host: bool) -> None:
        """Record whether an input is a Python number."""
        self._host[var] = host

    def _place_equation(self, equation: Equation) -> None:
        for program, operands in regions_of(equation):
            for var, operand in zip(program.consts, operands, strict=False):
                self._host[var] = self.is_host(operand)
            for var in program.inputs[: program.num_implicit_inputs]:
                self._host[var] = True
        match equation.op.name:
            case "for_loop" | "while_loop" | "scan":
                self._place_loop(equation)
            case "cond":
                self._place_cond(equation)
            case "call":
                program = equation.params["program"]
                for inner, outer in call_inputs(equation):
                    self._host[inner] = self.is_host(outer) or inner in self.sizes
                self.place(program)
                for var, result in zip(explicit_outputs(equation), program.results, strict=True):
                    self._host[var] = self.is_host(result)
                self._place_implicit(equation)
            case _:
                is_host = self.row(equation) is not None
                several = equation.outputs if len(equation.outputs) > 1 else ()
                counts = {var for output in several for var in size_variables(output.type)}  # sizes of its own results
                for var in equation.outputs:
                    self._host[var] = is_host or var in counts

    def _place_implicit(self, equation: Equation) -> None:
        for var in equation.outputs[: equation.params["num_implicit_outputs"]]:
            self._host[var] = True

    def _place_loop(self, equation: Equation) -> None:
        """A scalar that is carried is a Python number if it is one at first, and if the body returns one for it."""
        body: Program = equation.params["body"]
        carried = list(carries(equation))
        for var in body.inputs[body.num_implicit_inputs :]:
            self._host[var] = equation.op.name == "for_loop" or var in self.sizes
        for inner, first, _, _ in carried:
            self._host[inner] = inner in self.sizes or (is_counting(inner) and self.is_host(first))
        while True:
            self.place(body)
            become_tensors = [
                inner
                for inner, _, result, _ in carried
                if self._host[inner] and inner not in self.sizes and not self.is_host(result)
            ]
            if not become_tensors:
                break
            for inner in become_tensors:
                self._host[inner] = False
        if equation.op.name == "while_loop":
            cond: Program = equation.params["cond"]
            for inner, again in zip(cond.inputs, body.inputs, strict=True):
                self._host[inner] = self._host.get(again, False)
            self.place(cond)
        for inner, _, _, output in carried:
            self._host[output] = self._host[inner]
        self._place_implicit(equation)

    def _place_cond(self, equation: Equation) -> None:
        branches: tuple[Program, ...] = equation.params["branches"]
        for program in branches:
            self.place(program)
        for index, var in enumerate(explicit_outputs(equation)):
            results = [program.results[index] for program in branches]
            self._host[var] = is_counting(var) and all(map(self.is_host, results))
        self._place_implicit(equation)
