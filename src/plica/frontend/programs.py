"""The public functions on Programs, with the operation table filled in.

>>> import numpy as np
>>> import plica
>>> program = plica.trace(lambda x: x + 1, plica.spec(("n",), "float32"))
>>> plica.interpret(program, np.ones(2, "float32"))[0].tolist()
[2.0, 2.0]
>>> plica.parse(str(program)) == program
True
"""

from collections.abc import Sequence
from typing import Any

from plica.ir.interpret import interpret_program
from plica.ir.op import Array
from plica.ir.program import Program
from plica.ir.text import parse_program
from plica.ir.verify import verify_program
from plica.ops import OPS
from plica.passes.results import own_results
from plica.tracing.trace import trace

__all__ = ["interpret", "parse", "trace", "verify"]


def parse(text: str) -> Program:
    """Parse the text of a Program; the inverse of `str(program)`.

    Raises:
        ParseError: The text does not follow the grammar.
        VerifyError: The text is well-formed, but the Program breaks a rule.
    """
    program = parse_program(text, OPS)
    verify_program(program, OPS)
    return program


def verify(program: Program) -> None:
    """Check every rule that a Program keeps.

    Raises:
        VerifyError: A rule is broken; the message shows the equation between its neighbours.

    >>> import plica
    >>> from dataclasses import replace
    >>> program = plica.trace(lambda x: x + x, plica.spec((2,), "float32"))
    >>> plica.verify(program)
    >>> plica.verify(replace(program, equations=()))
    Traceback (most recent call last):
    plica.errors.VerifyError: the signature: the results, a, is used before it is defined
    """
    verify_program(program, OPS)


def interpret(program: Program, *args: Any, consts: Sequence[Any] = (), precise: bool = False) -> tuple[Array, ...]:
    """The results of `program` by the numpy interpreter, the definition of its meaning.

    Args:
        program: The Program.
        args: Its arguments, anything that numpy makes an array of, in the dtypes that it declares.
        consts: The values of the leaves that it captures, in order.
        precise: Compute floats in float64 whatever the Program declares.

    Raises:
        InputError: The number or the shape of an argument does not fit.
        DTypeError: A dtype does not fit.
    """
    return interpret_program(own_results(program), OPS, args, consts, precise=precise)
