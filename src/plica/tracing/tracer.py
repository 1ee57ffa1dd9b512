"""`Tracer`: a placeholder for an array while a function is traced; its scope records the operations on it."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from plica.errors import DTypeError, MissingNameError, PlicaError, ShapeError, TraceError, UndecidedSizeError
from plica.ir.builder import Builder
from plica.ir.dtypes import DType, as_dtype, check_range
from plica.ir.program import Literal, Operand, Var
from plica.ir.sizes import Dim, Size, atoms, product
from plica.ir.types import SCALAR_SIZE, ArrayType, ShapedArray
from plica.tracing.locations import has_word, statement, user_line, user_location
from plica.tracing.other_libraries import advice
from plica.tracing.signatures import refuse_wrong_signature, wrong_value_error


def call_traced(function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of the namespace; its errors name the function and the user's line."""
    try:
        return function(*args, **kwargs)
    except PlicaError as error:
        if isinstance(error, TypeError):  # an error of traces among them
            refuse_wrong_signature(function, name, args, kwargs)
        line = user_line()
        if line in str(error):
            raise
        kind = ShapeError if isinstance(error, UndecidedSizeError) else type(error)
        raise kind(f"{line}: {name}: {error}") from None
    except _OF_ARGUMENTS as error:
        refuse_wrong_signature(function, name, args, kwargs)
        raise wrong_value_error(function, name, args, kwargs, error) from error
    except (RuntimeError, BufferError) as error:
        if name != "from_dlpack" and kwargs.get("device") is None:
            raise
        # the device does not exist, or does not lend its memory
        raise wrong_value_error(function, name, args, kwargs, error) from error


# Errors that Python and numpy raise when they compute with a value of the wrong kind.
_OF_ARGUMENTS = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)


def _method(name: str) -> Callable[..., Tracer]:
    """The function `name` of the namespace as a method or an operator."""
    return lambda self, *args, **kwargs: call_traced(getattr(namespace(), name), name, (self, *args), kwargs)


def _swapped(name: str) -> Callable[[Any, Any], Tracer]:
    """The same with the tracer on the right."""
    return lambda self, left: call_traced(getattr(namespace(), name), name, (left, self), {})


def _refusing(what: str, instead: str) -> Callable[..., NoReturn]:
    """A method that Python calls and that a tracer refuses."""

    def refuse(self: Tracer, *_: object) -> NoReturn:
        raise self._refusal(what, instead)

    return refuse


class Recorder(Protocol):
    """The part of a scope that its tracers call; implemented by `plica.tracing.scope.Trace`.

    Attributes:
        builder: The Program that grows.
        location: `file:line` of the function that is traced.
        is_open: Whether the function still runs.
    """

    builder: Builder
    location: str
    is_open: bool


class Tracer:
    """An array that is not known yet; has the attributes and operators of the Array API standard.

    Args:
        value: A variable, a literal, or a size: scalars that count are kept as polynomials until an array needs them.
        trace: The scope.
        weak: Whether it stands for a Python number, which takes the dtype of the arrays that it meets.
    """

    __slots__ = ("trace", "value", "weak")
    __array_priority__ = 1000

    def __init__(self, value: Operand | Size, trace: Recorder, *, weak: bool = False) -> None:
        self.value = value
        self.trace = trace
        self.weak = weak

    @property
    def operand(self) -> Operand:
        """The variable or literal of the Program; a size becomes an equation here."""
        return self.trace.builder.size_operand(self.value) if isinstance(self.value, Size) else self.value

    @property
    def line(self) -> str:
        """`file:line` of what made it."""
        value = next(atoms(self.value)) if isinstance(self.value, Size) else self.value
        return (
            (isinstance(value, Var) and self.trace.builder.line_of(value)) or self.trace.location or "an unknown line"
        )

    @property
    def aval(self) -> ArrayType:
        """The type: shape and dtype."""
        return SCALAR_SIZE if isinstance(self.value, Size) else self.value.type

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Sizes: numbers, or polynomials where they are not known yet."""
        return self.aval.shape

    @property
    def shape(self) -> tuple[int | Tracer, ...]:
        """Sizes: numbers, or scalar tracers where they are not known yet."""
        return tuple(Tracer(dim, self.trace, weak=True) if isinstance(dim, Size) else dim for dim in self.aval.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.aval.dtype

    @property
    def device(self) -> None:
        """Not known while tracing: a Program runs wherever its arguments are."""
        return None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.aval.shape)

    @property
    def size(self) -> int | Tracer:
        """The number of elements."""
        count = product(self.dims)
        return Tracer(count, self.trace, weak=True) if isinstance(count, Size) else count

    @property
    def T(self) -> Tracer:  # noqa: N802 - the standard's name
        """The transpose of a matrix."""
        return namespace().permute_dims(self, (1, 0))  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tracer:  # noqa: N802 - the standard's name
        """The transpose of the last two axes."""
        return namespace().matrix_transpose(self)  # type: ignore[no-any-return]

    @property
    def at(self) -> Any:
        """`x.at[index].set(values)` and `.add(values)`: a new array with other elements at `index`."""
        return namespace().updates(self)

    def reshape(self, *shape: Any) -> Tracer:
        """The elements in another shape, given as one tuple or as sizes."""
        given = (self, shape[0] if len(shape) == 1 else shape)
        return call_traced(namespace().reshape, "reshape", given, {})  # type: ignore[no-any-return]

    astype = _method("astype")
    sum, prod, mean = _method("sum"), _method("prod"), _method("mean")
    max, min, argmax, argmin = _method("max"), _method("min"), _method("argmax"), _method("argmin")
    any, all = _method("any"), _method("all")

    def __array_namespace__(self, api_version: str | None = None) -> ModuleType:
        del api_version
        return namespace()

    def to_device(self, device: object, /, *, stream: object = None) -> Tracer:
        """Itself: a Program runs wherever its arguments are."""
        del device, stream
        return self

    def __repr__(self) -> str:
        if isinstance(self.value, Size):
            return f"Tracer({self.value}:{SCALAR_SIZE})"
        return f"Tracer({self.value!r})"

    def __pos__(self) -> Tracer:
        return self

    __add__, __radd__ = _method("add"), _swapped("add")
    __sub__, __rsub__ = _method("subtract"), _swapped("subtract")
    __mul__, __rmul__ = _method("multiply"), _swapped("multiply")
    __truediv__, __rtruediv__ = _method("divide"), _swapped("divide")
    __floordiv__, __rfloordiv__ = _method("floor_divide"), _swapped("floor_divide")
    __mod__, __rmod__ = _method("remainder"), _swapped("remainder")
    __pow__, __rpow__ = _method("pow"), _swapped("pow")
    __and__, __rand__ = _method("bitwise_and"), _swapped("bitwise_and")
    __or__, __ror__ = _method("bitwise_or"), _swapped("bitwise_or")
    __xor__, __rxor__ = _method("bitwise_xor"), _swapped("bitwise_xor")
    __lshift__, __rlshift__ = _method("bitwise_left_shift"), _swapped("bitwise_left_shift")
    __rshift__, __rrshift__ = _method("bitwise_right_shift"), _swapped("bitwise_right_shift")
    __matmul__, __rmatmul__ = _method("matmul"), _swapped("matmul")
    __eq__ = _method("equal")  # type: ignore[assignment]
    __ne__ = _method("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__
    __lt__, __le__ = _method("less"), _method("less_equal")
    __gt__, __ge__ = _method("greater"), _method("greater_equal")
    __neg__ = _method("negative")
    __abs__ = _method("abs")
    __invert__ = _method("bitwise_invert")

    __getitem__ = _method("index")

    __setitem__ = _refusing("its elements cannot be changed in place", "x = x.at[index].set(values)")

    def __len__(self) -> int:
        if self.dims and isinstance(self.dims[0], int):
            return self.dims[0]
        raise self._refusal("Python asks for its length", "x.shape[0], a scalar of the program,")

    def __bool__(self) -> bool:
        what, instead = _BRANCHES.get(statement(), ("its truth value is needed", "plica.numpy.where or plica.cond"))
        raise self._refusal(what, instead)

    __int__ = _refusing("it is converted to a Python int", "array operations, or astype(x, 'int64'),")
    __float__ = _refusing("it is converted to a Python float", "array operations, or astype(x, 'float64'),")
    __complex__ = _refusing("it is converted to a Python complex", "array operations, or astype(x, 'complex128'),")

    def __index__(self) -> int:
        if statement() == "for":
            raise self._refusal("a Python `for` loop counts to it", "@plica.for_loop(0, n)")
        raise self._refusal(
            "it is used as a Python index",
            "x[i] of a tracer x (plica.numpy.asarray(w)[i] of an array w), or plica.for_loop,",
        )

    def __format__(self, format_spec: str) -> str:
        if not format_spec:
            return repr(self)
        raise self._refusal(f"Python formats it as {format_spec!r}", "the result of the function, when it ran,")

    __round__ = _refusing("Python rounds it", "plica.numpy.round(x)")
    __floor__ = _refusing("Python rounds it", "plica.numpy.floor(x)")
    __ceil__ = _refusing("Python rounds it", "plica.numpy.ceil(x)")
    __trunc__ = _refusing("Python rounds it", "plica.numpy.trunc(x)")
    __divmod__ = _refusing("Python divides it with a remainder", "(x // y, x % y)")
    __rdivmod__ = __divmod__

    __delitem__ = _refusing("its elements cannot be removed", "plica.numpy.concat([x[:i], x[i + 1:]])")
    __contains__ = _refusing("Python looks for a value in it", "plica.numpy.any(x == value)")

    def __iter__(self) -> Iterator[Tracer]:
        """The parts along the first axis, if their number is known: `a, b = x`. A Python `for` is refused."""
        if self.dims and isinstance(self.dims[0], int) and not has_word("for"):
            return iter(namespace().unstack(self))
        raise self._refusal(
            "Python iterates over it",
            "@plica.for_loop(0, x.shape[0]), plica.scan, plica.numpy.sum(x) for sum(x), or plica.numpy.unstack(x) "
            "(which needs a size known now)",
        )

    def __array__(self, *_: object, **__: object) -> Any:
        raise self._refusal(
            "numpy needs its elements",
            "the functions of plica.numpy in place of numpy's, and plica.numpy.asarray(w)[i] of an array w,",
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Refuse a function of torch; operators of tensors take this TypeError as leave to ask the tracer instead."""
        del types, args, kwargs
        name = getattr(func, "__name__", str(func))
        if name in ("__getitem__", "__setitem__"):
            raise _foreign("torch", name, "write plica.numpy.asarray(w)[i] of a tensor w")
        raise _foreign("torch", name, advice(name, public_names()))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Refuse a function of numpy, but for those that ask for what is known: shape, size and number of axes."""
        del types, kwargs
        name = func.__name__
        if name in ("ndim", "shape", "size") and len(args) == 1:
            return getattr(self, name)
        raise _foreign("numpy", name, advice(name, public_names()))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(f"a traced array has no attribute {name!r}", name=name, obj=self)
            what = f"{user_line()}: a traced array has no attribute {name!r}: {advice(name, public_names())}."
            raise MissingNameError(what, name=name, obj=self)

    def _refusal(self, what: str, instead: str) -> TraceError:
        name, line = user_location()
        text = linecache.getline(name, line).strip()
        shown = f"\n    {text}\n" if text else " "
        return TraceError(
            f"{name}:{line}:{shown}the value of {self!r} is not known while the function is traced, but {what}. "
            f"Use {instead} instead."
        )


def _foreign(library: str, name: str, instead: str) -> TraceError:
    return TraceError(
        f"{user_line()}: {library}'s {name} needs the elements of an array, which are not known while a function is "
        f"traced: {instead}."
    )


def public_names() -> list[str]:
    """The names in the namespace, and those of its modules, such as `linalg.inv`."""
    names = [name for name in dir(namespace()) if not name.startswith("_")]
    return [
        *names,
        *(f"{module}.{name}" for module in ("fft", "linalg") for name in getattr(namespace(), module).__all__),
    ]


_BRANCHES = {
    "if": ("a Python `if` needs its truth value", "@plica.cond(...), or plica.numpy.where for elements,"),
    "elif": ("a Python `elif` needs its truth value", ".else_if(...) of @plica.cond(...)"),
    "while": ("a Python `while` needs its truth value", "@plica.while_loop(condition)"),
    "assert": ("a Python `assert` needs its truth value", "a comparison that the function returns"),
}


def serve(module: ModuleType) -> None:
    """Register the module of functions over tracers, which imports this one: methods call them by name."""
    _NAMESPACE.append(module)


def namespace() -> ModuleType:
    """The functions over tracers."""
    return _NAMESPACE[-1]


_NAMESPACE: list[ModuleType] = []


def literal(value: complex, dtype: DType) -> Literal:
    """A scalar of the Program's own text.

    Raises:
        DTypeError: `dtype` has no such number.
    """
    try:
        number = _CASTS[dtype.kind](value)
    except (TypeError, ValueError, OverflowError):
        raise DTypeError(f"the number {value} does not fit {dtype.value}; choose another dtype.") from None
    check_range(number, dtype)
    return Literal(number, ShapedArray((), dtype))


_CASTS: Mapping[str, Callable[..., complex]] = {"bool": bool, "int": int, "float": float, "complex": complex}


def default_dtype(value: complex) -> DType:
    """The dtype of a Python scalar that meets no array."""
    return as_dtype(type(value))
