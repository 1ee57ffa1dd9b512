"""A Program becomes a function of MLIR on tensors, with `?` for each size that is not known before it runs.

    module_text([emit(program, "score")])

Each equation is written by the row of its operation in `rows/`; what has no row goes through its decomposition. The
function takes the leaves of the Program's consts, then its arguments, all as tensors (scalars too), and returns the
results. Implicit sizes are read off the arguments, whose sizes the caller has checked. What a check finds while it runs
is told as `plica.runtime.faults` says.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from plica.backend.native.mlir.checks import Checks, Fault, values_text
from plica.backend.native.mlir.code import Code
from plica.backend.native.mlir.decomposed import decomposed
from plica.backend.native.mlir.literals import constant_text
from plica.backend.native.mlir.nested import with_sizes
from plica.backend.native.mlir.rows import ROWS
from plica.backend.native.mlir.rows.linalg import LINALG
from plica.backend.native.mlir.rows.reduce import REDUCE
from plica.backend.native.mlir.rows.row import Call
from plica.backend.native.mlir.rows.scans import SCANS
from plica.backend.native.mlir.sizes import index_constant, write_size
from plica.backend.native.mlir.structured import apart, copied, indexed
from plica.backend.native.mlir.types import Value, tensor_type
from plica.backend.native.scalars import MlirScalars
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.op import View
from plica.ir.program import Equation, Literal, Operand, Program, Var, size_variables
from plica.ir.signature import size_sources
from plica.ir.sizes import Dim, Size, as_size
from plica.ops import OPS
from plica.ops.divisions import BY_ZERO
from plica.ops.rules import real_dtype
from plica.runtime.arrays import Array
from plica.runtime.manifest import ALIGNMENT, SCOPE


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module.

    Args:
        name: Its name.
        text: Its lines.
        tells: Whether what its checks say has numbers in it.
        branches: Whether the host goes one of several ways in it that leave tensors, or goes round in a loop.
        parameters: The types of the parameters of the module that it reads.
    """

    name: str
    text: str
    tells: bool = False
    branches: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)


def emit(
    program: Program,
    name: str = "main",
    parameters: Mapping[Var, str] | None = None,
    *,
    are_places_known: bool = False,
    is_gpu: bool = False,
) -> Function:
    """The function of a Program.

    Args:
        program: The Program.
        name: The name of the function.
        parameters: Consts that are no arguments of the function but parameters of the module, by their names there.
        are_places_known: Whether all indices are known to lie within their axes, so that they are not checked.
        is_gpu: Whether graphics processors run it.

    Raises:
        UnsupportedError: An operation has neither a row nor a decomposition, or numbers are complex.
    """
    emitter = Emitter(name, are_places_known=are_places_known, is_gpu=is_gpu)
    code = emitter.code
    known = {} if parameters is None else parameters
    read = {}
    for var, parameter in known.items():
        value = _stored(code.name(), var)
        code.put(f"{value.text} = util.global.load immutable @{_global(parameter)} : {value.type}")
        emitter.bind([var], [emitter.of_pairs(value) if var.type.dtype.kind == "complex" else value])
        read[parameter] = value.type
    variables = [var for var in (*program.consts, *program.arguments) if var not in known]
    arguments = [Value(f"%arg{place}", var.type.shape, var.type.dtype) for place, var in enumerate(variables)]
    emitter.bind(variables, arguments)
    for var, (place, axis) in size_sources(program).items():
        emitter.bind_size(var, emitter.dim(arguments[len(program.consts) - len(known) + place], axis))
    emitter.equations(program)
    results = [emitter.result(one) for one in program.results]
    emitter.checks.settle()
    returned = f"return {', '.join(one.text for one in results)}"
    code.put(f"{returned} : {', '.join(one.type for one in results)}" if results else "return")
    taken = ", ".join(f"{one.text}: {one.type}" for one in arguments)
    head = f"  func.func @{name}({taken}) -> ({', '.join(one.type for one in results)}) {{"
    lines = (line if line.startswith(" ") else f"      {line}" for line in code.lines)  # the code of entries too
    text = "\n".join([head, *lines, "  }"]) + "\n"
    return Function(name, "".join([*code.executables, text]), emitter.checks.tells, code.branches, read)


def _stored(name: str, var: Var) -> Value:
    """A parameter where it lies: complex numbers as pairs along a last axis, since IREE ends at those of 128 bits."""
    is_complex = var.type.dtype.kind == "complex"
    return Value(name, (*var.type.shape, 2) if is_complex else var.type.shape, real_dtype(var.type.dtype))


def _global(parameter: str) -> str:
    return f"plica_parameter_{parameter}"


def module_text(functions: Iterable[Function], arrays: Mapping[str, Array] | None = None) -> str:
    """The module of some functions.

    Args:
        functions: The functions.
        arrays: The parameters that stand in the text; by default all are given where it is loaded.
    """
    found, known = list(functions), {} if arrays is None else arrays
    read = {name: type_ for one in found for name, type_ in one.parameters.items()}
    parts = [
        *(
            f"  util.global private @{_global(name)} = {_origin(name, known)} : {type_}\n"
            for name, type_ in read.items()
        ),
        *([values_text()] if any(one.tells for one in found) else []),
        *(one.text for one in found),
    ]
    text = "module @plica {\n" + "\n".join(parts) + "}\n"
    return text + _resources(known) if known else text


def _origin(parameter: str, arrays: Mapping[str, Array]) -> str:
    if parameter in arrays:
        return f"dense_resource<{parameter}>"
    return f'#stream.parameter.named<"{SCOPE}"::"{parameter}">'


def _resources(arrays: Mapping[str, Array]) -> str:
    """Arrays as MLIR writes them behind a module: four bytes that say how entries are aligned, and the entries."""
    align = ALIGNMENT.to_bytes(4, "little").hex()
    lines = ",\n".join(f'      {name}: "0x{align}{array.tobytes().hex()}"' for name, array in arrays.items())
    return "{-#\n  dialect_resources: {\n    builtin: {\n" + lines + "\n    }\n  }\n#-}\n"


_JOINS = ("concat", "stack")  # what is put into them may lie in them, and must not be written to there
_REDUCTIONS = frozenset({*REDUCE, *SCANS, *LINALG})
"""They read from memory what is computed from numbers alone: IREE 3.13 adds a number that it knows once per vector."""


def _read_later(program: Program, shared: Iterable[Operand], *, is_nested: bool = False) -> set[Operand]:
    """What an update must copy: IREE 3.13 may write over it before another reader has read it.

    A reader has read it before if the update needs its result. Results, `shared`, which other Programs read, and what
    a join holds are read later. So is an array of which the values of an update are a part, since it would be copied to
    itself. What is true of an array is true of its views.

    In a nested Program (`is_nested`), IREE may compute nothing for an equation: `a * 1.0`, a join of one array that has
    entries, a call that returns its argument. Then its result is an array from outside, which the next iteration reads.
    Only what an iteration is given, and what an update of some entries has made, are arrays of its own.
    """
    sources: dict[Operand, Operand] = {}

    def source(operand: Operand) -> Operand:
        return sources.get(operand, operand)

    later = {source(operand) for operand in shared}
    readers: dict[Operand, list[int]] = {}
    updates = []
    for index, equation in enumerate(program.equations):
        name, read = equation.op.name, list(dict.fromkeys(map(source, equation.inputs)))
        if name in OPS and OPS[name].view in (View.MOVED, View.SELECTED):
            sources.update((view, source(equation.inputs[0])) for view in equation.outputs)
            read = list(dict.fromkeys(map(source, equation.inputs[1:])))  # indices
        for operand in read:
            readers.setdefault(operand, []).append(index)
        if name in _JOINS:
            later.update(read)
        elif name == "update":
            updates.append(index)
            if source(equation.inputs[0]) in map(source, equation.inputs[1:]):
                later.add(source(equation.inputs[0]))
    later.update(map(source, program.outputs))
    makers = {var: index for index, equation in enumerate(program.equations) for var in equation.outputs}
    own: set[Operand] = set(program.inputs)
    for index in updates:
        base, values = program.equations[index].inputs[:2]
        if base.type.shape != values.type.shape:  # else it may be what is written
            own.update(program.equations[index].outputs)
    copied_bases = set()
    for index in updates:
        base = program.equations[index].inputs[0]
        others = set(readers[source(base)]) - {index}
        is_foreign = is_nested and source(base) not in own
        if is_foreign or source(base) in later or (others and others - _needed(program, index, makers)):
            copied_bases.add(base)
    return copied_bases


def _needed(program: Program, index: int, makers: Mapping[Any, int]) -> set[int]:
    """The indices of the equations whose results an equation needs; `makers` has the one that makes a variable."""
    needed: set[int] = set()
    waiting = [index]
    while waiting:
        operands = program.equations[waiting.pop()].inputs
        new = {makers[operand] for operand in operands if isinstance(operand, Var) and operand in makers} - needed
        needed |= new
        waiting += new
    return needed


class Emitter:
    """What rows write with: the lines of one function, the values of variables, and sizes.

    Attributes:
        code: The lines.
        scalars: The code of entries, written to the same lines.
        checks: Checks of what is known only when the function runs.
        overwrites: Whether a part of an array was written.

    Args:
        name: The name of the function.
        are_places_known: Whether all indices are known to lie within their axes.
        is_gpu: Whether graphics processors run the function.
    """

    def __init__(self, name: str, *, are_places_known: bool = False, is_gpu: bool = False) -> None:
        self.name, self.are_places_known, self.is_gpu = name, are_places_known, is_gpu
        self.code = Code()
        self.scalars = MlirScalars(self.code.lines)
        self.checks = Checks(self)
        self.overwrites = False
        self._values: dict[Operand, Value] = {}
        self._begun = Counter[tuple[str, int, str]]()
        self._depth = 0  # how many regions there are around
        self._plain = set[str]()  # tensors that are computed from numbers alone

    # Variables and sizes

    def bind(self, variables: Iterable[Var], values: Iterable[Value]) -> None:
        """From now on, variables are these values."""
        for var, value in zip(variables, values, strict=True):
            value = value if value.is_scalar else self.shaped(value, var.type.shape)
            is_size = value.size is None and as_size(var) is not None
            self._values[var] = replace(value, size=Size.of(var)) if is_size else value

    def bind_size(self, var: Var, index: str) -> None:
        """From now on, a variable is a size: a value of type `index`."""
        self.code.known(Size.of(var), lambda: index)
        text = self.code.op(f"arith.index_cast {index} : index to i64")
        self._values[var] = Value(text, (), DType.INT64, is_scalar=True, size=Size.of(var))

    def read(self, operand: Operand) -> Value:
        """The value of an operand; that of a number of the Program is a scalar."""
        if isinstance(operand, Literal):
            return self.constant(operand.value, operand.type.dtype)
        return self._values[operand]

    def size(self, dim: Dim) -> str:
        """A size, as a value of type `index`."""
        return write_size(self.code, dim, lambda var: self.index(self._values[var]), self._divisor)

    def _divisor(self, index: str) -> str:
        """What a size is divided by, where it is not 0."""
        zero = index_constant(self.code, 0)
        text = self.code.op(f"arith.cmpi ne, {index}, {zero} : index")
        self.checks.require(Value(text, (), DType.BOOL, is_scalar=True), Fault("ZeroDivisorError", BY_ZERO))
        return self.code.op(f"arith.select {text}, {index}, {index_constant(self.code, 1)} : index")

    def size_text(self, dim: Dim) -> str:
        """A size where MLIR takes numbers too."""
        return str(dim) if isinstance(dim, int) else self.size(dim)

    def size_value(self, dim: Dim) -> Value:
        """A size, as a scalar of the host."""
        if isinstance(dim, int):
            return self.constant(dim, DType.INT64)
        text = self.code.once(f"arith.index_cast {self.size(dim)} : index to i64")
        return Value(text, (), DType.INT64, is_scalar=True, size=dim)

    def dim(self, value: Value, axis: int) -> str:
        """The size of an axis, read off a tensor."""
        return self.code.once(f"tensor.dim {value.text}, {index_constant(self.code, axis)} : {value.type}")

    # Values

    def constant(self, value: complex, dtype: DType) -> Value:
        """A number, as a scalar."""
        made = Value("", (), dtype, is_scalar=True)
        text = self.code.once(constant_text(value, dtype))
        return replace(made, text=text, size=int(value.real) if dtype.kind == "int" else None)

    def result(self, operand: Operand) -> Value:
        """What the function returns for an operand.

        Where a part of an array is written, it is hidden from the compiler: what may be an argument, or another view
        of its entries, would be written over in place, and then be returned.
        """
        found, code = self.tensor(self.read(operand)), self.code
        if not self.overwrites or not found.shape:
            return found
        text = code.op(f"util.optimization_barrier {found.text} : {found.type}")
        sizes = [self.size(dim) for dim in found.shape if not isinstance(dim, int)]
        if sizes:
            text = code.op(f"flow.tensor.tie_shape {text} : {found.type}{{{', '.join(sizes)}}}")
        return replace(found, text=text)

    def tensor(self, value: Value) -> Value:
        """A value as a tensor: a scalar becomes one of no dimension."""
        if not value.is_scalar:
            return value
        if value.dtype.kind in ("bool", "complex"):  # of which IREE makes no tensor by its element
            return self.full((), value)
        text = self.code.once(f"tensor.from_elements {value.text} : {tensor_type((), value.dtype)}")
        return Value(text, (), value.dtype, size=value.size)

    def scalar(self, value: Value) -> Value:
        """A value of no dimension as a scalar of the host, which waits for it where it is a tensor."""
        if value.is_scalar:
            return value
        self.checks.settle()  # before anything is computed from what may be wrong
        return replace(value, text=self.code.once(f"tensor.extract {value.text}[] : {value.type}"), is_scalar=True)

    def index(self, value: Value) -> str:
        """An integer of no dimension as a value of type `index`."""
        scalar = self.scalar(value)
        return self.code.once(f"arith.index_cast {scalar.text} : {scalar.element} to index")

    def empty(self, shape: Sequence[Dim], dtype: DType) -> Value:
        """An array whose entries are all written later."""
        sizes = ", ".join(self.size(dim) for dim in shape if not isinstance(dim, int))
        return Value(self.code.op(f"tensor.empty({sizes}) : {tensor_type(shape, dtype)}"), tuple(shape), dtype)

    def is_begun(self, out: Value, place: int, first: str) -> bool:
        """Whether an array was begun in the same way: one of a type, into which a tensor of a type is put first."""
        key = (out.type, place, first)
        self._begun[key] += 1
        return self._begun[key] > 1

    def inserted(self, parts: Iterable[tuple[Value, str]], out: Value, *, is_begun: bool) -> Value:
        """An array of which each part is put to its place.

        Of two arrays into which the same is put first, IREE 3.13 makes one. Where both are read by one dispatch, what
        is put there second replaces what the other array has in its place. Sizes that it cannot see keep them apart.

        Args:
            parts: Tensors, and their offsets, sizes and strides.
            out: What has the type of the array.
            is_begun: Whether an array may be begun in the same way.
        """
        type_, sizes = out.type, [self.size(dim) for dim in out.shape if not isinstance(dim, int)]
        if is_begun:
            rest = [dim for dim in out.shape[1:] if not isinstance(dim, int)]
            sizes = [
                self.code.op(f"util.optimization_barrier {self.size(dim)} : index") for dim in (out.shape[0], *rest)
            ]
            type_ = type_.replace(f"<{out.shape[0]}x", "<?x", 1) if isinstance(out.shape[0], int) else type_
        text = self.code.op(f"tensor.empty({', '.join(sizes)}) : {type_}")
        for one, where in parts:
            text = self.code.op(f"tensor.insert_slice {one.text} into {text}{where} : {one.type} into {type_}")
        if type_ != out.type:
            text = self.code.op(f"tensor.cast {text} : {type_} to {out.type}")
        return Value(text, *out.array)

    def full(self, shape: Sequence[Dim], fill: Value) -> Value:
        """An array of one number, given as a scalar."""
        if fill.dtype.kind == "complex":
            return self._full_of_parts(shape, fill)
        out = self.empty(shape, fill.dtype)
        text = self.code.op(f"linalg.fill ins({fill.text} : {fill.type}) outs({out.text} : {out.type}) -> {out.type}")
        return Value(text, tuple(shape), fill.dtype)

    def _full_of_parts(self, shape: Sequence[Dim], fill: Value) -> Value:
        """An array of one complex number, of parts that IREE cannot see: it fills no array with 128 bits."""
        code, dtype = self.code, real_dtype(fill.dtype)
        parts = [Value(code.op(f"complex.{part} {fill.text} : {fill.type}"), (), dtype, True) for part in ("re", "im")]
        real, imag = (code.op(f"util.optimization_barrier {one.text} : {one.type}") for one in parts)

        def body(_: Sequence[str]) -> str:
            return code.op(f"complex.create {real}, {imag} : {fill.type}")

        return indexed(self, shape, fill.dtype, body)

    def of_pairs(self, pairs: Value) -> Value:
        """Complex numbers, of floats that lie as pairs along the last axis."""
        dtype = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}[pairs.dtype]
        found = Value("", pairs.shape[:-1], dtype)
        return replace(found, text=self.code.op(f"flow.tensor.bitcast {pairs.text} : {pairs.type} -> {found.type}"))

    def shaped(self, value: Value, shape: Sequence[Dim]) -> Value:
        """A tensor with other sizes in its type, which it is known to have: `?` for numbers, or numbers for `?`.

        Not by `tensor.cast`: MLIR folds one into loops, of whose sizes IREE then loses count, and into the arguments,
        which IREE then refuses before any check of ours. Numbers that become `?` are hidden from both.
        """
        if value.shape == tuple(shape):
            return value
        found = replace(value, shape=tuple(shape))
        if found.type == value.type:
            return replace(found, text=value.text)
        before, after = list[str](), list[str]()
        for dim, other in zip(value.shape, shape, strict=True):
            is_known = all(var in self._values for var in size_variables((dim,)))
            size = self.size(dim if is_known else other)  # what a loop leaves may have sizes of its body
            if not isinstance(dim, int):
                before.append(size)
            if not isinstance(other, int):
                hides = isinstance(dim, int)
                after.append(self.code.op(f"util.optimization_barrier {size} : index") if hides else size)
        source, result = (
            f"{one.type}{{{', '.join(dims)}}}" if dims else one.type for one, dims in ((value, before), (found, after))
        )
        return replace(found, text=self.code.op(f"flow.tensor.reshape {value.text} : {source} -> {result}"))

    # Equations

    def equations(self, program: Program, shared: Iterable[Operand] = ()) -> None:
        """All equations of a Program, whose inputs are bound; other Programs read `shared`, and what it captures."""
        read_later = _read_later(program, (*program.consts, *shared), is_nested=self._depth > 0)
        for equation in program.equations:
            inputs = [self.read(one) for one in equation.inputs]
            if equation.op.name == "update" and equation.inputs[0] in read_later:
                inputs[0] = copied(self, inputs[0])
            self.bind(equation.outputs, self.equation(equation, inputs))

    def equation(self, equation: Equation, inputs: Sequence[Value]) -> Sequence[Value]:
        """The results of one equation."""
        name = equation.op.name
        row = ROWS.get(name)
        write: Callable[..., Any] | None = decomposed(name) if row is None else row.write
        if write is None:
            raise UnsupportedError(
                f"{equation.source or 'a Program'}: {name} has no native code, neither a row nor a decomposition; "
                "compute it with the torch backend."
            )
        if name in _REDUCTIONS:
            inputs = [apart(self, one) if one.text in self._plain and one.shape else one for one in inputs]
        call = Call(name, tuple(inputs), equation.outputs, equation.params, equation.source, equation.inputs)
        self.checks.sizes(call)
        try:
            made = write(self, call)
        except UnsupportedError as error:
            if not equation.source or equation.source in str(error):
                raise
            raise UnsupportedError(f"{equation.source}: {error}") from None
        found = [made] if isinstance(made, Value) else made
        if all(one.is_scalar or one.text in self._plain for one in inputs):
            self._plain.update(one.text for one in found if not one.is_scalar)
        return found

    def inline(
        self, program: Program, consts: Sequence[Value], inputs: Sequence[Value], *, is_called: bool = False
    ) -> list[Value]:
        """All outputs of a nested Program, implicit sizes first; of one that is called, others may read the inputs."""
        own = with_sizes(program, zip((*program.consts, *program.inputs), (*consts, *inputs), strict=True))
        self.bind((*own.consts, *own.inputs), (*consts, *inputs))
        self.equations(own, own.inputs if is_called else ())
        return [self.read(one) for one in own.outputs]

    @contextmanager
    def region(self) -> Iterator[None]:
        """Lines that may not run, or run several times: what they check is checked there."""
        self._depth += 1
        with self.code.block(), self.checks.apart():
            yield
        self._depth -= 1

    def hidden(self, scalar: Value) -> Value:
        """A scalar of which IREE does not know, within a region, that it is a constant.

        Arrays of it are then none either: where a loop that is given one array twice goes on with a constant in one of
        its places, IREE 3.13 gives the other place memory of constants too, and refuses that.
        """
        if not self._depth or scalar.dtype.kind == "complex":  # `full` hides the parts of those
            return scalar
        return replace(scalar, text=self.code.op(f"util.optimization_barrier {scalar.text} : {scalar.type}"))
