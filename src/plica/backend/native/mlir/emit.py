"""Turns a Program into a function of MLIR on tensors, and functions into a module. A symbolic size is `?` in types.

    module_text([emit(program, "score")])

The registry entry of an operation in `rows/` writes its equations; an operation without one is decomposed first. The
function takes the Program's captured constants, then its arguments, all as tensors (scalars too), and returns the
results. Constants in `parameters` are not taken: they are globals of the module. Implicit sizes are read off the
arguments, whose sizes the caller has checked. A check that fails reports its error as `plica.runtime.faults` describes.
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
        text: Its MLIR, after that of the executables that it dispatches.
        reports_numbers: Whether a message of its checks has numbers in it, such as an index and a size.
        branches: Whether the host takes a branch that returns tensors, or runs a loop.
        parameters: The parameters of the module that it reads, by name, each with its MLIR type.
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
        parameters: The captured constants that are parameters of the module, each with its name there.
        are_indices_in_bounds: Whether all indices are known to lie within their axes, so that they are not checked.
        is_gpu: Whether graphics processors run it.
        in_nests: Whether to write equations as loop nests where their operations have them. As many as possible form
            one dispatch, a piece of work that the runtime starts at once, and that one thread runs.

    Raises:
        UnsupportedError: An operation has neither a registry entry nor a decomposition, or not for complex numbers.
    """
    emitter = Emitter(
        name,
        _row,
        are_indices_in_bounds=are_indices_in_bounds,
        is_gpu=is_gpu,
        write_runs=write_runs if in_nests else None,
    )
    code = emitter.code
    global_names = {} if parameters is None else parameters
    types_read = {}
    for var, parameter in global_names.items():
        value = _loaded(code.name(), var)
        code.put(f"{value.text} = util.global.load immutable @{_global(parameter)} : {value.type}")
        emitter.bind([var], [emitter.of_pairs(value) if var.type.dtype.kind == "complex" else value])
        types_read[parameter] = value.type
    variables = [var for var in (*program.consts, *program.arguments) if var not in global_names]
    arguments = [Value(f"%arg{index}", var.type.shape, var.type.dtype) for index, var in enumerate(variables)]
    emitter.bind(variables, arguments)
    for var, (index, axis) in size_sources(program).items():
        emitter.bind_size(var, emitter.dim(arguments[len(program.consts) - len(global_names) + index], axis))
    emitter.equations(program)
    results = [emitter.result(result) for result in program.results]
    emitter.checks.settle()  # fails here if an entry of an array was wrong
    returned = f"return {', '.join(result.text for result in results)}"
    code.put(f"{returned} : {', '.join(result.type for result in results)}" if results else "return")
    signature = ", ".join(f"{argument.text}: {argument.type}" for argument in arguments)
    head = f"  func.func @{name}({signature}) -> ({', '.join(result.type for result in results)}) {{"
    lines = (line if line.startswith(" ") else f"      {line}" for line in code.lines)  # scalar code has no indent
    text = "\n".join([head, *lines, "  }"]) + "\n"
    return Function(name, "".join([*code.executables, text]), emitter.checks.reports_numbers, code.branches, types_read)


def _row(name: str) -> Row | None:
    """The registry entry of an operation, else one that writes its decomposition; None without either."""
    if name in ROWS:
        return ROWS[name]
    write = decomposed(name)
    return None if write is None else Row(write)


def _loaded(name: str, var: Var) -> Value:
    """A parameter as the module stores it.

    Complex numbers are pairs of real ones along a further last axis, since IREE fails at complex numbers of 128 bits.
    """
    is_complex = var.type.dtype.kind == "complex"
    return Value(name, (*var.type.shape, 2) if is_complex else var.type.shape, real_dtype(var.type.dtype))


def _global(parameter: str) -> str:
    """The MLIR symbol of a parameter."""
    return f"plica_parameter_{parameter}"


def module_text(functions: Iterable[Function], arrays: Mapping[str, Array] | None = None) -> str:
    """The MLIR of a module with these functions and the parameters that they read.

    Args:
        functions: The functions.
        arrays: The parameters whose entries are part of the text, by name. Whoever loads the module gives the others.
    """
    listed, inline = list(functions), {} if arrays is None else arrays
    types = {name: type_ for function in listed for name, type_ in function.parameters.items()}
    parts = [
        *(
            f"  util.global private @{_global(name)} = {_origin(name, inline)} : {type_}\n"
            for name, type_ in types.items()
        ),
        *([values_text()] if any(function.reports_numbers for function in listed) else []),
        *(function.text for function in listed),
    ]
    text = "module @plica {\n" + "\n".join(parts) + "}\n"
    return text + _resources(inline) if inline else text


def _origin(parameter: str, arrays: Mapping[str, Array]) -> str:
    """The MLIR attribute for the entries of a parameter: a resource of the text, or a name that the loader gives."""
    if parameter in arrays:
        return f"dense_resource<{parameter}>"
    return f'#stream.parameter.named<"{SCOPE}"::"{parameter}">'


def _resources(arrays: Mapping[str, Array]) -> str:
    """The section after a module with arrays as hexadecimal bytes: 4 that give the alignment, then the entries."""
    align = ALIGNMENT.to_bytes(4, "little").hex()
    lines = ",\n".join(f'      {name}: "0x{align}{array.tobytes().hex()}"' for name, array in arrays.items())
    return "{-#\n  dialect_resources: {\n    builtin: {\n" + lines + "\n    }\n  }\n#-}\n"
