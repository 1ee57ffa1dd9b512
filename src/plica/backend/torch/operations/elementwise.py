"""Rows of elementwise operations, special functions among them."""

from plica.backend.torch.operations.call import Call, Row, Text, Unsigned, dtype_source, function


def _infix(symbol: str) -> Text:
    def row(call: Call) -> str:
        if len(call.hosts) == len(call.inputs):
            return f"{call.tensor(0)} {symbol} {call.inputs[1]}"
        return f"{call.inputs[0]} {symbol} {call.inputs[1]}"

    return row


def _is_complex(call: Call) -> bool:
    return call.equation.inputs[0].type.dtype.kind == "complex"


def _with_numbers(name: str) -> Text:
    """A function of a tensor that takes Python numbers for the others, if all of them are."""

    def row(call: Call) -> str:
        if call.is_host(0) or len(call.hosts) < len(call.inputs) - 1:
            return f"{name}({call.tensors})"
        return f"{name}({', '.join(call.inputs)})"

    return row


def _floor_divide(call: Call) -> str:
    divisor = call.tensor(1) if call.is_host(0) else call.inputs[1]
    return f"torch.div({call.tensor(0)}, {divisor}, rounding_mode='floor')"


def _astype(call: Call) -> str:
    dtype = call.params["dtype"]
    if dtype.is_storage:
        return f"kernels.{dtype.value}({call.tensor(0)})"
    return f"{call.tensor(0)}.to({dtype_source(dtype)})"


def _where(call: Call) -> str:
    if call.is_host(1) and call.is_host(2):  # torch would take its own default dtype
        return f"torch.where({call.tensors})"
    return f"torch.where({call.tensor(0)}, {call.inputs[1]}, {call.inputs[2]})"


_OF_TORCH = """
    acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh digamma erf erfc erfinv exp exp2 expm1 floor imag
    isfinite isinf isnan lgamma log log10 log1p log2 nextafter real reciprocal sigmoid signbit sin sinh sqrt tan tanh
    trunc
"""
_OF_KERNELS = """
    betainc betaincc betaincinv gammainc gammaincc gammaincinv hypot log_ndtr log_normal logaddexp safe_log softplus
    stirling_error
"""

ELEMENTWISE: dict[str, Row] = {
    **{name: Row(function(f"torch.{name}")) for name in _OF_TORCH.split()},
    **{name: Row(function(f"kernels.{name}")) for name in _OF_KERNELS.split()},
    "abs": Row(function("torch.abs"), host="abs({})", unsigned=Unsigned.ORDERED),
    "add": Row(_infix("+"), host="{} + {}", unsigned=Unsigned.MODULAR),
    "astype": Row(_astype),
    "bitwise_and": Row(function("torch.bitwise_and"), host="{} & {}"),
    "bitwise_invert": Row(function("torch.bitwise_not"), unsigned=Unsigned.MODULAR),
    "bitwise_left_shift": Row(function("torch.bitwise_left_shift"), unsigned=Unsigned.MODULAR),
    "bitwise_or": Row(function("torch.bitwise_or"), host="{} | {}"),
    "bitwise_right_shift": Row(function("torch.bitwise_right_shift"), unsigned=Unsigned.ORDERED),
    "bitwise_xor": Row(function("torch.bitwise_xor"), host="{} ^ {}"),
    "clip": Row(_with_numbers("torch.clamp"), unsigned=Unsigned.ORDERED),
    "conj": Row(function("torch.conj_physical")),
    "copy": Row(lambda call: f"{call.tensor(0)}.clone()", host="{}"),
    "divide": Row(_infix("/"), over=("{}.div_({})",)),
    "equal": Row(_infix("=="), host="{} == {}"),
    "floor_divide": Row(_floor_divide, host="{} // {}", unsigned=Unsigned.ORDERED),
    "greater": Row(_infix(">"), host="{} > {}", unsigned=Unsigned.ORDERED),
    "greater_equal": Row(_infix(">="), host="{} >= {}", unsigned=Unsigned.ORDERED),
    "i0e": Row(function("torch.special.i0e")),
    "i1e": Row(function("torch.special.i1e")),
    "isin": Row(lambda call: f"torch.isin({call.tensor(0)}, {call.tensor(1)}.reshape(-1))", unsigned=Unsigned.MODULAR),
    "less": Row(_infix("<"), host="{} < {}", unsigned=Unsigned.ORDERED),
    "less_equal": Row(_infix("<="), host="{} <= {}", unsigned=Unsigned.ORDERED),
    "logical_and": Row(function("torch.logical_and"), host="{} and {}"),
    "logical_not": Row(function("torch.logical_not"), host="not {}"),
    "logical_or": Row(function("torch.logical_or"), host="{} or {}"),
    "logical_xor": Row(function("torch.logical_xor"), host="{} != {}"),
    "maximum": Row(
        function("torch.maximum"), host="max({}, {})", unsigned=Unsigned.ORDERED, over=("{}.clamp_min_({})",)
    ),
    "minimum": Row(function("torch.minimum"), host="min({}, {})", unsigned=Unsigned.ORDERED),
    "multiply": Row(_infix("*"), host="kernels.wrap({} * {})", over=("{}.mul_({})", "{1}.mul_({0})")),
    "negative": Row(function("torch.neg"), host="-({})", unsigned=Unsigned.MODULAR),
    "not_equal": Row(_infix("!="), host="{} != {}"),
    "pow": Row(_with_numbers("kernels.power"), unsigned=Unsigned.MODULAR),
    "remainder": Row(_with_numbers("kernels.remainder"), host="{} % {}", unsigned=Unsigned.ORDERED),
    "round": Row(lambda call: function("kernels.round" if _is_complex(call) else "torch.round")(call)),
    "sign": Row(function("kernels.sign"), unsigned=Unsigned.ORDERED),
    "square": Row(function("torch.square"), host="kernels.wrap({0} * {0})", unsigned=Unsigned.MODULAR),
    "stop_gradient": Row(lambda call: f"{call.tensor(0)}.detach()"),
    "subtract": Row(_infix("-"), host="{} - {}", unsigned=Unsigned.MODULAR),
    "where": Row(
        _where,
        host="{1} if {0} else {2}",
        over=("", "kernels.where_(torch.logical_not({0}), {2}, {1})", "kernels.where_({0}, {1}, {2})"),
    ),
}
