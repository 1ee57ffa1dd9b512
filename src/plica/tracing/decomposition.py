"""The Program of a decomposition, at operands of given types: backends write it where they have no row.

Decompositions from outside of Plica are held to what the type rule of their operation says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from plica.errors import DTypeError, ShapeError, UnsupportedError
from plica.ir.program import Operand, Program
from plica.ir.sizes import Dim, Size, same, substitute
from plica.ir.types import ArrayType, array_type, spec
from plica.ops import ADDED
from plica.tracing import namespace
from plica.tracing.locations import reported_at
from plica.tracing.namespace.operands import as_tracer
from plica.tracing.scope import scope_of
from plica.tracing.trace import trace
from plica.tracing.tracer import Recorder, Tracer
from plica.tracing.trees import flatten

Decompose = Callable[..., Any]


def sizes_within(params: Mapping[str, Any]) -> list[Size]:
    """The symbolic sizes within parameters."""
    return list(dict.fromkeys(_sizes(tuple(params.values()))))


def _sizes(value: Any) -> Iterable[Size]:
    if isinstance(value, Size):
        return [value]
    return [size for item in value for size in _sizes(item)] if isinstance(value, tuple) else []


def traced_decomposition(
    name: str,
    decompose: Decompose,
    types: Sequence[ArrayType],
    results: Sequence[ArrayType],
    params: Mapping[str, Any],
    sizes: Sequence[Size],
    source: str,
) -> Program:
    """The Program of a decomposition for operands of `types`, and for `source` in the user's code.

    Its arguments are the operands, followed by the numbers of `sizes`.

    Args:
        name: The operation.
        decompose: Its decomposition.
        types: The types of its operands.
        results: The types of its results.
        params: Its parameters.
        sizes: The symbolic sizes within the parameters.
        source: The line of the user's code.

    Raises:
        UnsupportedError: The decomposition captures an array, or needs the operation itself.
        DTypeError, ShapeError: It is from outside of Plica, and does not give what the type rule says.
    """
    names: dict[Dim, str] = {}
    specs = [
        spec(
            [dim if isinstance(dim, int) else names.setdefault(dim, f"n{len(names)}") for dim in type_.shape],
            type_.dtype,
        )
        for type_ in types
    ]
    decompose = as_promised(name, decompose, results, names)

    def run(*arguments: Any) -> Any:
        numbers = dict(zip(sizes, arguments[len(specs) :], strict=True))
        settings = {name: _with_numbers(value, numbers) for name, value in params.items()}
        return decompose(namespace, *arguments[: len(specs)], **settings)

    with reported_at(source):
        program = trace(run, *specs, *[int] * len(sizes))
    refuse_captured(name, program)
    return program


def refuse_captured(name: str, program: Program) -> None:
    """Refuse a decomposition that captures arrays, which the code that it becomes a part of does not have.

    Raises:
        UnsupportedError: It captures one.
    """
    if program.consts:
        raise UnsupportedError(
            f"the decomposition of {name!r} captures an array, {program.consts[0].type}; make it of its operands and "
            "of numbers: xp.stack([...]), xp.arange(...), or take the array as an operand."
        )


def as_promised(name: str, decompose: Decompose, results: Sequence[ArrayType], names: Mapping[Dim, str]) -> Decompose:
    """A decomposition from outside whose results have the types that its operation promises; another one as it is.

    Args:
        name: The operation.
        decompose: Its decomposition.
        results: The types of its results.
        names: The name of each symbolic size where the decomposition is traced. Others are not compared.
    """
    if name not in ADDED:
        return decompose

    def checked(xp: Any, *arrays: Any, **params: Any) -> list[Tracer]:
        scope = scope_of()
        given = [array.aval for array in arrays if isinstance(array, Tracer)]
        before = len(scope.builder.equations)
        leaves, _ = flatten(decompose(xp, *arrays, **params))
        for equation in scope.builder.equations[before:]:
            if equation.op.name == name and [operand.type for operand in equation.inputs] == given:
                raise UnsupportedError(
                    f"the decomposition of {name!r} needs {name!r} itself; write it in terms of other operations."
                )
        found = [scope.receive(as_tracer(f"the decomposition of {name!r}", leaf)) for leaf in leaves]
        shown = ", ".join(str(tracer.aval) for tracer in found) or "nothing"
        message = f"the decomposition of {name!r} gives {shown}, expected {', '.join(map(str, results))}"
        if len(found) != len(results):
            raise ShapeError(f"{message}; return one array for each result of its type rule.")
        if [tracer.dtype for tracer in found] != [type_.dtype for type_ in results]:
            raise DTypeError(f"{message}; convert its results with xp.astype, or change the type rule.")
        return [
            Tracer(_of_shape(scope, tracer.operand, type_, names, message), scope)
            for tracer, type_ in zip(found, results, strict=True)
        ]

    return checked


def _of_shape(scope: Recorder, operand: Operand, type_: ArrayType, names: Mapping[Dim, str], message: str) -> Operand:
    """An operand of the shape of a type: what only the run knows is checked there.

    Raises:
        ShapeError: It never has that shape.
    """
    found = operand.type.shape
    if len(found) != len(type_.shape):
        raise ShapeError(f"{message}; give its results the shapes of the type rule.")
    dims = [_renamed(scope, dim, names, own) for dim, own in zip(type_.shape, found, strict=True)]
    if any(same(dim, own) is False for dim, own in zip(dims, found, strict=True)):
        raise ShapeError(f"{message}; give its results the shapes of the type rule.")
    wanted = array_type(dims, operand.type.dtype)
    return operand if operand.type == wanted else scope.builder.assert_dims(operand, dims)


def _renamed(scope: Recorder, dim: Dim, names: Mapping[Dim, str], otherwise: Dim) -> Dim:
    """A size of the Program in terms of the sizes of the decomposition; another one where it has no name there."""
    unknown = False

    def of(atom: Any) -> Dim:
        nonlocal unknown
        name = names.get(Size.of(atom))
        unknown = unknown or name is None
        return 0 if name is None else scope.builder.size(name)

    if dim in names and not isinstance(dim, int):
        return scope.builder.size(names[dim])
    renamed = substitute(dim, of)
    return otherwise if unknown else renamed


def _with_numbers(value: Any, numbers: Mapping[Size, Any]) -> Any:
    """A parameter in which the numbers replace the sizes."""
    if isinstance(value, Size):
        return numbers[value]
    return tuple(_with_numbers(item, numbers) for item in value) if isinstance(value, tuple) else value
