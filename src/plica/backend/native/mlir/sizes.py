"""Sizes as MLIR: polynomials, maxima, quotients and remainders, as integer arithmetic on the host."""

from collections.abc import Callable
from typing import Any

from plica.backend.native.mlir.code import Code
from plica.ir.sizes import Dim, Opaque


def index_constant(code: Code, value: int) -> str:
    """An integer as a value of type `index`."""
    return code.once(f"arith.constant {value} : index")


Texts = Callable[[Any], str]


def write_size(code: Code, size: Dim, variable: Texts, divisor: Texts) -> str:
    """A size as a value of type `index`.

    Args:
        code: Where its lines go.
        size: The size.
        variable: The value, of type `index`, of each variable in it.
        divisor: From a divisor to one that is not 0.
    """
    if isinstance(size, int):
        return index_constant(code, size)
    return code.known(size, lambda: _polynomial(code, size, variable, divisor))


def _polynomial(code: Code, size: Any, variable: Texts, divisor: Texts) -> str:
    result = ""
    for powers, factor in size.ordered:
        term = ""
        for atom, power in powers:
            value = _atom(code, atom, variable, divisor)
            for _ in range(power):
                term = code.op(f"arith.muli {term}, {value} : index") if term else value
        if not term:
            term = index_constant(code, factor)
        elif factor != 1:
            term = code.op(f"arith.muli {term}, {index_constant(code, factor)} : index")
        result = code.op(f"arith.addi {result}, {term} : index") if result else term
    return result


def _atom(code: Code, atom: Any, variable: Texts, divisor: Texts) -> str:
    if not isinstance(atom, Opaque):
        return variable(atom)
    first, second = (write_size(code, argument, variable, divisor) for argument in atom.arguments)
    if atom.function == "max":
        return code.op(f"arith.maxsi {first}, {second} : index")
    if not isinstance(atom.arguments[1], int):
        second = divisor(second)
    # rounded towards minus infinity, whatever the signs, as in Python
    quotient = code.op(f"arith.floordivsi {first}, {second} : index")
    if atom.function == "floordiv":
        return quotient
    multiple = code.op(f"arith.muli {quotient}, {second} : index")
    return code.op(f"arith.subi {first}, {multiple} : index")
