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
    """An axis that an array does not have."""


class UndecidedSizeError(ShapeError):
    """Two sizes that may or may not be equal when the program runs."""

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
    """Program text that does not follow the grammar; the message shows line and column."""


class VerifyError(PlicaError):
    """A Program that breaks a rule of the intermediate representation; the message shows the equation."""


class MissingNameError(PlicaError, AttributeError):
    """A function or a method that other libraries have and Plica does not; the message says what to write instead."""


class InternalError(PlicaError, RuntimeError):
    """A fault of Plica itself; the message tells users to report it."""

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
    """A library of an extra of Plica is not installed; the message says how to install it."""


class StructuralPropertyError(PlicaError):
    """A circuit without the structural property that an operation needs."""


class InputError(PlicaError, ValueError):
    """Data that does not fit the circuit: wrong width, a category out of range, NaN where none may be."""


class BoundsError(ShapeError, InputError, IndexError):
    """An index or a slice that does not lie within its axis."""


class ZeroDivisorError(InputError, ZeroDivisionError):
    """Integers, which have no infinity, divided by zero."""


class FileFormatError(PlicaError, ValueError):
    """A file that is missing, empty, damaged, of another version or of another kind."""


class WriteError(PlicaError, OSError):
    """A file that cannot be written for lack of space: a full disk, a quota, a limit of the process."""


class LostProcessError(PlicaError, RuntimeError):
    """Another process of a distributed run has ended, or does not answer in time."""


class NativeFileError(FileFormatError):
    """A native file that is damaged, of another version, for another machine, badly signed, or closed."""
