"""Rows of elementwise operations."""

from plica.backend.torch.operations.call import Call, Row, dtype_source, function


def _infix(symbol: str) -> Row:
    def row(call: Call) -> str:
        if len(call.hosts) == len(call.inputs):
            return f"{call.tensor(0)} {symbol} {call.inputs[1]}"
        return f"{call.inputs[0]} {symbol} {call.inputs[1]}"

    return row


def _is_complex(call: Call) -> bool:
    return call.equation.inputs[0].type.dtype.kind == "complex"


def _with_numbers(name: str) -> Row:
    """A function of a tensor that takes Python numbers for the others, if all of them are."""

    def row(call: Call) -> str:
        if call.is_host(0) or len(call.hosts) < len(call.inputs) - 1:
            return f"{name}({call.tensors})"
        return f"{name}({', '.join(call.inputs)})"

    return row


def _floor_divide(call: Call) -> str:
    divisor = call.tensor(1) if call.is_host(0) else call.inputs[1]
    return f"torch.div({call.tensor(0)}, {divisor}, rounding_mode='floor')"


def _where(call: Call) -> str:
    if call.is_host(1) and call.is_host(2):  # torch would take its own default dtype
        return f"torch.where({call.tensors})"
    return f"torch.where({call.tensor(0)}, {call.inputs[1]}, {call.inputs[2]})"


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
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
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
    "imag",
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
    "maximum",
    "minimum",
    "nextafter",
    "real",
    "reciprocal",
    "sigmoid",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]
_KERNELS = ["safe_log", "sign", "logaddexp"]
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

ELEMENTWISE: dict[str, Row] = {
    **{name: function(f"torch.{name}") for name in _SAME_NAME},
    **{name: function(f"kernels.{name}") for name in _KERNELS},
    **{name: _infix(symbol) for name, symbol in _INFIX.items()},
    "bitwise_invert": function("torch.bitwise_not"),
    "clip": _with_numbers("torch.clamp"),
    "conj": function("torch.conj_physical"),
    "floor_divide": _floor_divide,
    "remainder": _with_numbers("torch.remainder"),
    "isin": lambda call: f"torch.isin({call.tensor(0)}, {call.tensor(1)}.reshape(-1))",
    "negative": function("torch.neg"),
    "pow": _with_numbers("torch.pow"),
    "round": lambda call: function("kernels.round" if _is_complex(call) else "torch.round")(call),
    "softplus": lambda call: f"torch.logaddexp({call.tensor(0)}, torch.zeros_like({call.tensor(0)}))",
    "where": _where,
    "stop_gradient": lambda call: f"{call.tensor(0)}.detach()",
    "astype": lambda call: f"{call.tensor(0)}.to({dtype_source(call.params['dtype'])})",
}
