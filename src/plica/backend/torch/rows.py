"""How each operation is written in torch: one row each, from an equation to the text of a Python expression.

Generated code sees `torch` and `kernels`. An operation without a row must have a decomposition.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plica.backend.torch.contract import is_tucker
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal
from plica.ir.sizes import Dim, Opaque


@dataclass(frozen=True, slots=True)
class Call:
    """An equation with its operands as Python text."""

    equation: Equation
    inputs: tuple[str, ...]

    @property
    def params(self) -> Any:
        """The parameters of the equation."""
        return self.equation.params

    def tensor(self, place: int) -> str:
        """An operand where torch takes nothing but tensors: a literal becomes one."""
        operand = self.equation.inputs[place]
        if isinstance(operand, Literal):
            return scalar_source(self.inputs[place], operand.type.dtype)
        return self.inputs[place]

    @property
    def tensors(self) -> str:
        """All operands as tensors, separated by commas."""
        return ", ".join(self.tensor(place) for place in range(len(self.inputs)))


Row = Callable[[Call], str]


def dtype_source(dtype: DType) -> str:
    """The torch dtype as Python text."""
    return f"torch.{dtype.value}"


def scalar_source(value: str, dtype: DType) -> str:
    """A tensor of no dimension as Python text."""
    return f"torch.full((), {value}, dtype={dtype_source(dtype)}, device=device)"


def size_source(size: Dim) -> str:
    """A size as Python text over the names of its variables."""
    if isinstance(size, int):
        return str(size)
    terms = []
    for monomial, factor in size.terms:
        factors = sorted(
            f"{_atom_source(atom)}**{power}" if power > 1 else _atom_source(atom) for atom, power in monomial
        )
        terms.append(
            "*".join(factors if factor == 1 and factors else [*factors, str(factor) if factor > 0 else f"({factor})"])
        )
    return " + ".join(sorted(terms))


def _atom_source(atom: Any) -> str:
    if not isinstance(atom, Opaque):
        return str(atom.name)
    arguments = [f"({size_source(argument)})" for argument in atom.arguments]
    infix = {"floordiv": "//", "mod": "%"}
    if atom.function in infix:
        return f"({infix[atom.function].join(arguments)})"
    return f"{atom.function}({', '.join(arguments)})"


def shape_source(shape: tuple[Dim, ...]) -> str:
    """A shape as the text of a tuple."""
    inner = ", ".join(map(size_source, shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _index(call: Call, place: int) -> str:
    """An operand of indices: torch reads only some integer types as such."""
    text = call.tensor(place)
    return text if call.equation.inputs[place].type.dtype == DType.INT64 else f"{text}.to(torch.int64)"


def _wide(row: Row) -> Row:
    """Sums of unsigned integers are unsigned in the standard, and signed in torch."""
    unsigned = "{}.to(torch.uint64)".format
    return lambda call: unsigned(row(call)) if call.equation.outputs[0].type.dtype == DType.UINT64 else row(call)


def _function(name: str) -> Row:
    return lambda call: f"{name}({call.tensors})"


def _infix(symbol: str) -> Row:
    def row(call: Call) -> str:
        if all(isinstance(operand, Literal) for operand in call.equation.inputs):
            return f"{call.tensor(0)} {symbol} {call.inputs[1]}"
        return f"{call.inputs[0]} {symbol} {call.inputs[1]}"

    return row


def _reduction(name: str) -> Row:
    return lambda call: f"{name}({call.tensor(0)}, {call.params['axis']!r}, keepdim={call.params['keepdims']})"


def _copy(call: Call) -> str:
    return f"{call.tensor(0)}.to({dtype_source(call.equation.outputs[0].type.dtype)}, copy=True)"


def _over_axes(name: str) -> Row:
    """A torch function that reduces one axis at a time: the last axis first, so that the others keep their places."""

    def row(call: Call) -> str:
        text, keep = call.tensor(0), call.params["keepdims"]
        if not call.params["axis"]:
            return _copy(call)
        for axis in sorted(call.params["axis"], reverse=True):
            text = f"{name}({text}, {axis}, keepdim={keep})"
        return text

    return row


def _none_or(axis_row: Row) -> Row:
    """Reductions over no axis leave the array as it is; torch would take an empty tuple for all axes."""
    return lambda call: axis_row(call) if call.params["axis"] else _copy(call)


def _along(name: str) -> Row:
    return lambda call: f"{name}({call.tensor(0)}, {call.params['axis']})"


def _slice(call: Call) -> str:
    axis, start, stop, step = (call.params[name] for name in ("axis", "start", "stop", "step"))
    axis %= len(call.equation.inputs[0].type.shape)
    if step == 1:
        return f"{call.tensor(0)}.narrow({axis}, {start}, {stop - start})"
    return f"{call.tensor(0)}[{':, ' * axis}{start}:{stop}:{step}]"


def _full(call: Call) -> str:
    (fill,) = call.equation.inputs
    shape = shape_source(call.params["shape"])
    if isinstance(fill, Literal):
        return f"torch.full({shape}, {call.inputs[0]}, dtype={dtype_source(fill.type.dtype)}, device=device)"
    return f"{call.tensor(0)}.expand({shape})"


def _squeeze(call: Call) -> str:
    return f"{call.tensor(0)}.squeeze({call.params['axis']!r})"


def _where(call: Call) -> str:
    _, first, second = call.equation.inputs
    if isinstance(first, Literal) and isinstance(second, Literal):  # torch would take its own default dtype
        return f"torch.where({call.tensors})"
    return f"torch.where({call.tensor(0)}, {call.inputs[1]}, {call.inputs[2]})"


def _method(name: str, param: str) -> Row:
    return lambda call: f"{call.tensor(0)}.{name}({shape_source(call.params[param])})"


def _joined(name: str) -> Row:
    return lambda call: f"{name}(({call.tensors},), {call.params['axis']})"


def _is_matrix_product(term: str, weighted: str, result: str) -> bool:
    """`fbi,foi->fbo`: rows of the first against rows of the second."""
    return len(result) == 3 and term[:2] == result[:2] and weighted == result[0] + result[2] + term[2:]


def _einsum(call: Call) -> str:
    """The common equations by name, so that no call parses one."""
    equation = call.params["equation"]
    terms, _, result = equation.partition("->")
    first, *others = terms.split(",")
    if len(others) == 1 and _is_matrix_product(first, others[0], result):
        return f"torch.matmul({call.tensor(0)}, {call.tensor(1)}.mT)"
    if is_tucker(equation):
        vectors = [call.tensor(place) for place in range(len(others) + 1) if place != 1]
        return f"kernels.tucker([{', '.join(vectors)}], {call.tensor(1)})"
    return f"kernels.einsum({equation!r}, {call.tensors})"


def _log_einsum_exp(call: Call) -> str:
    equation = call.params["equation"]
    terms, _, result = equation.partition("->")
    first, *others, weighted = terms.split(",")
    if all(term == first for term in others) and _is_matrix_product(first, weighted, result):
        product = " + ".join(call.tensor(place) for place in range(len(others) + 1))
        return f"kernels.log_matmul_exp({product}, {call.tensor(len(others) + 1)})"
    if is_tucker(",".join([first, weighted, *others]) + f"->{result}"):
        return f"kernels.log_tucker({call.tensors})"
    return f"kernels.log_einsum_exp({equation!r}, {call.tensors})"


_SAME_NAME = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "maximum",
    "minimum",
    "reciprocal",
    "round",
    "sigmoid",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "remainder",
    "pow",
]
_KERNELS = ["safe_log", "sign", "rescale", "log_matmul_exp", "logaddexp"]
_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}

ROWS: dict[str, Row] = {
    **{name: _function(f"torch.{name}") for name in _SAME_NAME},
    **{name: _function(f"kernels.{name}") for name in _KERNELS},
    **{name: _infix(symbol) for name, symbol in _INFIX.items()},
    "bitwise_invert": _function("torch.bitwise_not"),
    "floor_divide": lambda call: f"torch.div({call.tensors}, rounding_mode='floor')",
    "negative": _function("torch.neg"),
    "softplus": lambda call: f"torch.logaddexp({call.tensor(0)}, torch.zeros_like({call.tensor(0)}))",
    "where": _where,
    "stop_gradient": lambda call: f"{call.tensor(0)}.detach()",
    "astype": lambda call: f"{call.tensor(0)}.to({dtype_source(call.params['dtype'])})",
    "sum": _wide(_none_or(_reduction("torch.sum"))),
    "mean": _none_or(_reduction("torch.mean")),
    "max": _none_or(_reduction("torch.amax")),
    "min": _none_or(_reduction("torch.amin")),
    "any": _over_axes("torch.any"),
    "all": _over_axes("torch.all"),
    "prod": _wide(_over_axes("torch.prod")),
    "logsumexp": _none_or(
        lambda call: f"kernels.logsumexp({call.tensor(0)}, {call.params['axis']!r}, {call.params['keepdims']})"
    ),
    "argmax": lambda call: f"torch.argmax({call.tensor(0)}, {call.params['axis']}, keepdim={call.params['keepdims']})",
    "argmin": lambda call: f"torch.argmin({call.tensor(0)}, {call.params['axis']}, keepdim={call.params['keepdims']})",
    "softmax": _along("torch.softmax"),
    "log_softmax": _along("torch.log_softmax"),
    "cumulative_sum": _wide(_along("torch.cumsum")),
    "reshape": _method("reshape", "shape"),
    "permute_dims": _method("permute", "axes"),
    "broadcast_to": _method("expand", "shape"),
    "expand_dims": lambda call: f"{call.tensor(0)}.unsqueeze({call.params['axis']})",
    "squeeze": _squeeze,
    "concat": _joined("torch.cat"),
    "stack": _joined("torch.stack"),
    "flip": lambda call: f"torch.flip({call.tensor(0)}, {call.params['axis']!r})",
    "slice": _slice,
    "full": _full,
    "arange": lambda call: (
        f"torch.arange({size_source(call.params['size'])}, dtype={dtype_source(call.params['dtype'])}, device=device)"
    ),
    "take": lambda call: f"{call.tensor(0)}.index_select({call.params['axis']}, {_index(call, 1)})",
    "take_along_axis": lambda call: f"{call.tensor(0)}.gather({call.params['axis']}, {_index(call, 1)})",
    "lookup": lambda call: f"kernels.lookup({call.tensor(0)}, {_index(call, 1)})",
    "search_cumulative": lambda call: (
        f"kernels.search_cumulative({call.tensor(0)}, {_index(call, 1)}, {call.tensor(2)})"
    ),
    "einsum": _einsum,
    "log_einsum_exp": _log_einsum_exp,
}
