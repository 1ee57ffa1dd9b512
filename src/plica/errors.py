"""The classes of errors; a message says what failed, where, what was expected and found, and one thing to try.

    >>> from plica.errors import PlicaError, ShapeError
    >>> issubclass(ShapeError, PlicaError)
    True

Errors that a caller of plain Python would expect keep their usual base too (`ValueError`, `TypeError`).
"""

from typing import Any


class PlicaError(Exception):
    """Base of every error that Plica raises on purpose."""


class GraphError(PlicaError, ValueError):
    """A graph that is not a DAG, or an edge to a node that the graph does not hold."""


class ShapeError(PlicaError, ValueError):
    """Sizes or numbers of units that do not fit together."""


class AxisError(ShapeError, IndexError):
    """An axis that an array does not have.

    >>> import numpy as np, plica.numpy as pnp
    >>> pnp.sum(np.zeros(3), axis=1)
    Traceback (most recent call last):
    plica.errors.AxisError: ...: sum: axis 1 does not exist in an array of 1 dimension(s).
    """


class UndecidedSizeError(ShapeError):
    """Two sizes that may or may not be equal when the program runs.

    >>> print(UndecidedSizeError("n", "m", "add: the shapes differ."))
    add: the shapes differ. Whether n = m is not known before the program runs.
    """

    def __init__(self, first: Any, second: Any, message: str, axis: int | None = None, operand: int = 0) -> None:
        super().__init__(f"{message} Whether {first} = {second} is not known before the program runs.")
        self.first = first
        self.second = second
        self.message = message
        self.axis = axis  # the axis whose size is `second` and must be `first`, if it is a single one of `operand`
        self.operand = operand


class DTypeError(PlicaError, TypeError):
    """Data types that do not fit together."""


class ParseError(PlicaError, ValueError):
    """Program text that does not follow the grammar; the message shows line and column.

    >>> import plica
    >>> plica.parse("{ lambda ; x:f32[2 . let in (x,) }")
    Traceback (most recent call last):
    plica.errors.ParseError: line 1, column 20: expected ',', found '.'
    ...
    """


class VerifyError(PlicaError):
    """A Program that breaks a rule of the intermediate representation; the message shows the equation.

    >>> import plica
    >>> plica.parse("{ lambda ; x:f32[2] . let y:f32[3] = add x x in (y,) }")
    Traceback (most recent call last):
    plica.errors.VerifyError: equation 0: the result of add has type f32[2], but is declared as f32[3]
    ...
    """


class MissingNameError(PlicaError, AttributeError):
    """A function or a method that other libraries have and Plica does not; the message says what to write instead.

    >>> import plica.numpy as pnp
    >>> pnp.nansum
    Traceback (most recent call last):
    plica.errors.MissingNameError: ...plica.numpy has no 'nansum': write sum(where(isnan(x), 0.0, x), axis=0) ...
    """


class InternalError(PlicaError, RuntimeError):
    """A fault of Plica itself; the message tells users to report it.

    >>> print(InternalError("add gave f32[2], expected f32[3]."))
    add gave f32[2], expected f32[3].
    This is a fault of Plica, not of your program. Please report it, ...
    """

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis is a fault of Plica, not of your program. Please report it, with the function that the "
            "message names and the types of its arguments."
        )


class TraceError(PlicaError, TypeError):
    """A Python construct that cannot be recorded."""


class UnsupportedError(PlicaError, NotImplementedError):
    """Something well-formed that Plica cannot do, and why."""


class MissingExtraError(ModuleNotFoundError, UnsupportedError):
    """A library of an extra of Plica is not installed; the message says how to install it.

    >>> import sys
    >>> from unittest import mock
    >>> from plica.extras import require
    >>> with mock.patch.dict(sys.modules, {"pyspark": None}):  # as if it were not installed
    ...     require("pyspark")
    Traceback (most recent call last):
    plica.errors.MissingExtraError: this needs pyspark, which is not installed; try...
    """


class StructuralPropertyError(PlicaError):
    """A circuit without the structural property that an operation needs.

    >>> import plica
    >>> from plica.symbolic.functional import integrate
    >>> from plica.symbolic.layers import EmbeddingLayer, HadamardLayer
    >>> x, square = EmbeddingLayer([0], 1), HadamardLayer(1)
    >>> integrate(plica.Circuit([x, square], {square: [x, x]}, [square]))
    Traceback (most recent call last):
    plica.errors.StructuralPropertyError: integrate needs a decomposable circuit, but HadamardLayer(1, ...)...
    """


class InputError(PlicaError, ValueError):
    """Data that does not fit the circuit: wrong width, a category out of range, NaN where none may be."""


class BoundsError(ShapeError, InputError, IndexError):
    """An index or a slice that does not lie within its axis.

    >>> import numpy as np, plica.numpy as pnp
    >>> pnp.index(np.zeros(3), 5)
    Traceback (most recent call last):
    plica.errors.BoundsError: ...: index 5 does not lie within axis 0 of size 3; indices are -3 <= i < 3...
    """


class ZeroDivisorError(InputError, ZeroDivisionError):
    """Integers, which have no infinity, divided by zero.

    >>> import numpy as np, plica.numpy as pnp
    >>> pnp.floor_divide(np.array([1, 2]), np.array([1, 0]))
    Traceback (most recent call last):
    plica.errors.ZeroDivisorError: ...: floor_divide: an integer is divided by 0; divide floats, ...
    """


class FileFormatError(PlicaError, ValueError):
    """A file that is missing, empty, damaged, of another version or of another kind."""


class WriteError(PlicaError, OSError):
    """A file that cannot be written for lack of space: a full disk, a quota, a limit of the process.

    >>> import errno
    >>> from plica.paths import saying_where_space_lacks
    >>> with saying_where_space_lacks("model.plica"):
    ...     raise OSError(errno.ENOSPC, "as a full disk does")
    Traceback (most recent call last):
    plica.errors.WriteError: model.plica: cannot be written: ...; free some space there, or choose another path
    """


class LostProcessError(PlicaError, RuntimeError):
    """Another process of a distributed run has ended, or does not answer in time.

    >>> try:
    ...     raise LostProcessError("process 0 of 2 has lost another one")
    ... except RuntimeError as error:
    ...     print(f"{error}: start again from the checkpoint")
    process 0 of 2 has lost another one: start again from the checkpoint
    """


class NativeFileError(FileFormatError):
    """A native file that is damaged, of another version, for another machine, badly signed, or closed.

    >>> import pathlib, plica.native
    >>> _ = pathlib.Path("text.plicab").write_text("no machine code")
    >>> plica.native.load("text.plicab")
    Traceback (most recent call last):
    plica.errors.NativeFileError: text.plicab: is no native file of Plica (its first bytes differ); make one with ...
    """
