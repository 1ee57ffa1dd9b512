"""Arguments are checked against a signature: each shape and dtype; sizes are read off shapes."""

from collections.abc import Callable, Hashable, Mapping, Sequence

from plica.errors import DTypeError, InputError
from plica.ir.program import Program, Var
from plica.ir.sizes import Size, evaluate, substitute


def size_sources(program: Program) -> dict[Var, tuple[int, int]]:
    """For each implicit input, the first argument and axis of exactly this size, by index."""
    sources: dict[Var, tuple[int, int]] = {}
    for index, argument in enumerate(program.arguments):
        for axis, dim in enumerate(argument.type.shape):
            for var in program.inputs[: program.num_implicit_inputs]:
                if dim == Size.of(var):
                    sources.setdefault(var, (index, axis))
    return sources


def check_leaf(var: Var, shape: tuple[int, ...], dtype: str, sizes: Mapping[Hashable, int]) -> None:
    """Check an array that a Program captures.

    Args:
        var: The const.
        shape: The shape of the array.
        dtype: Its dtype.
        sizes: The values of the sizes that types of consts refer to.

    Raises:
        InputError: The dtype or the shape is another one.
    """
    if dtype != var.type.dtype or shape != tuple(evaluate(dim, sizes.__getitem__) for dim in var.type.shape):
        raise InputError(f"leaf {var.name} is {dtype} of shape {shape}, but the program expects {var!r}.")


def bind_sizes(
    program: Program, arguments: Sequence[tuple[tuple[int, ...], str]], captured: Mapping[Var, int] | None = None
) -> dict[Var, int]:
    """The values of the implicit sizes for arguments of these shapes and dtypes.

    Args:
        program: The Program.
        arguments: The shape and the dtype of each argument.
        captured: The values of captured sizes, which types of arguments may have.

    Raises:
        InputError: The number of arguments, a rank or a size does not fit.
        DTypeError: A dtype does not fit.
    """
    expected = program.arguments
    if len(arguments) != len(expected):
        names = ", ".join(repr(var) for var in expected)
        raise InputError(f"the program takes {len(expected)} argument(s) ({names}), but {len(arguments)} were given.")
    for var, (shape, dtype) in zip(expected, arguments, strict=True):
        if dtype != var.type.dtype:
            raise DTypeError(
                f"argument {var.name} has dtype {dtype}, but the program was made for {var.type.dtype.value}; "
                f"convert it with astype, or annotate plica.spec(shape, {dtype!r})."
            )
        if len(shape) != len(var.type.shape):
            raise InputError(f"argument {var.name} has shape {shape}, but the program expects {var.type}.")
    sizes = {var: arguments[index][0][axis] for var, (index, axis) in size_sources(program).items()}
    lookup: Callable[[Hashable], int] = {**(captured or {}), **sizes}.__getitem__  # type: ignore[assignment]
    for var, (shape, _) in zip(expected, arguments, strict=True):
        for axis, (dim, given) in enumerate(zip(var.type.shape, shape, strict=True)):
            wanted = evaluate(dim, lookup)
            if wanted != given:
                meaning = f" ({substitute(dim, lambda a: Size.of(a))} = {wanted})" if isinstance(dim, Size) else ""
                raise InputError(
                    f"argument {var.name} has shape {shape}, but the program expects {var.type}: "
                    f"axis {axis} is {given}, expected {wanted}{meaning}."
                )
    return sizes
