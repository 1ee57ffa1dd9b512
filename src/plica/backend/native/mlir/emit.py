"""A Program becomes a function of MLIR on tensors, with `?` for each size that is not known before it runs.

    module_text([emit(program, "score")])

The row of an operation in `rows/` writes its equations; an operation without a row is decomposed. The
function takes the leaves of the Program's consts, then its arguments, all as tensors (scalars too), and returns the
results. Implicit sizes are read off the arguments, whose sizes the caller has checked. A check that fails reports its
error as `plica.runtime.faults` describes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from plica.backend.native.mlir.checks import values_text
from plica.backend.native.mlir.decomposed import decomposed
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.rows import ROWS
from plica.backend.native.mlir.rows.nests import write_runs
from plica.backend.native.mlir.types import Value
from plica.ir.program import Program, Var
from plica.ir.signature import size_sources
from plica.ops.rules import real_dtype
from plica.runtime.arrays import Array
from plica.runtime.manifest import ALIGNMENT, SCOPE


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module.

    Args:
        name: Its name.
        text: Its lines.
        reports_numbers: Whether messages of its checks have numbers in them.
        branches: Whether the host runs branches that return tensors, or loops.
        parameters: The types of the parameters of the module that it reads.
    """

    name: str
    text: str
    reports_numbers: bool = False
    branches: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)


def emit(
    program: Program,
    name: str = "main",
    parameters: Mapping[Var, str] | None = None,
    *,
    are_indices_in_bounds: bool = False,
    is_gpu: bool = False,
    in_nests: bool = False,
) -> Function:
    """The function of a Program.

    Args:
        program: The Program.
        name: The name of the function.
        parameters: Consts that are no arguments of the function but parameters of the module, by their names there.
        are_indices_in_bounds: Whether all indices are known to lie within their axes, so that they are not checked.
        is_gpu: Whether graphics processors run it.
        in_nests: Whether equations that have loop nests become nests, as many as possible in one dispatch, which one
            thread runs.

    Raises:
        UnsupportedError: An operation has neither a row nor a decomposition, or numbers are complex.
    """
    emitter = Emitter(
        name,
        _row,
        are_indices_in_bounds=are_indices_in_bounds,
        is_gpu=is_gpu,
        write_runs=write_runs if in_nests else None,
    )
    code = emitter.code
    known = {} if parameters is None else parameters
    read = {}
    for var, parameter in known.items():
        value = _stored(code.name(), var)
        code.put(f"{value.text} = util.global.load immutable @{_global(parameter)} : {value.type}")
        emitter.bind([var], [emitter.of_pairs(value) if var.type.dtype.kind == "complex" else value])
        read[parameter] = value.type
    variables = [var for var in (*program.consts, *program.arguments) if var not in known]
    arguments = [Value(f"%arg{index}", var.type.shape, var.type.dtype) for index, var in enumerate(variables)]
    emitter.bind(variables, arguments)
    for var, (index, axis) in size_sources(program).items():
        emitter.bind_size(var, emitter.dim(arguments[len(program.consts) - len(known) + index], axis))
    emitter.equations(program)
    results = [emitter.result(result) for result in program.results]
    emitter.checks.settle()
    returned = f"return {', '.join(result.text for result in results)}"
    code.put(f"{returned} : {', '.join(result.type for result in results)}" if results else "return")
    parameter_list = ", ".join(f"{argument.text}: {argument.type}" for argument in arguments)
    head = f"  func.func @{name}({parameter_list}) -> ({', '.join(result.type for result in results)}) {{"
    lines = (line if line.startswith(" ") else f"      {line}" for line in code.lines)  # the code of entries too
    text = "\n".join([head, *lines, "  }"]) + "\n"
    return Function(name, "".join([*code.executables, text]), emitter.checks.reports_numbers, code.branches, read)


def _row(name: str) -> Row | None:
    """The row of an operation, else one that writes its decomposition."""
    if name in ROWS:
        return ROWS[name]
    write = decomposed(name)
    return None if write is None else Row(write)


def _stored(name: str, var: Var) -> Value:
    """A parameter as it is stored: complex numbers as pairs along a last axis, since IREE has none of 128 bits."""
    is_complex = var.type.dtype.kind == "complex"
    return Value(name, (*var.type.shape, 2) if is_complex else var.type.shape, real_dtype(var.type.dtype))


def _global(parameter: str) -> str:
    return f"plica_parameter_{parameter}"


def module_text(functions: Iterable[Function], arrays: Mapping[str, Array] | None = None) -> str:
    """The module of some functions.

    Args:
        functions: The functions.
        arrays: The parameters that the text contains; by default the loader passes all.
    """
    listed, known = list(functions), {} if arrays is None else arrays
    read = {name: type_ for function in listed for name, type_ in function.parameters.items()}
    parts = [
        *(
            f"  util.global private @{_global(name)} = {_origin(name, known)} : {type_}\n"
            for name, type_ in read.items()
        ),
        *([values_text()] if any(function.reports_numbers for function in listed) else []),
        *(function.text for function in listed),
    ]
    text = "module @plica {\n" + "\n".join(parts) + "}\n"
    return text + _resources(known) if known else text


def _origin(parameter: str, arrays: Mapping[str, Array]) -> str:
    if parameter in arrays:
        return f"dense_resource<{parameter}>"
    return f'#stream.parameter.named<"{SCOPE}"::"{parameter}">'


def _resources(arrays: Mapping[str, Array]) -> str:
    """Arrays as MLIR writes them after a module: four bytes for the alignment of entries, and the entries."""
    align = ALIGNMENT.to_bytes(4, "little").hex()
    lines = ",\n".join(f'      {name}: "0x{align}{array.tobytes().hex()}"' for name, array in arrays.items())
    return "{-#\n  dialect_resources: {\n    builtin: {\n" + lines + "\n    }\n  }\n#-}\n"
