"""Rows of contractions and factorizations."""

from math import prod

from plica.backend.torch.contract import is_tucker
from plica.backend.torch.operations.call import Call, Row, Text, Unsigned, dtype_source, function
from plica.ir.program import Equation


def _is_matrix_product(term: str, weighted: str, result: str) -> bool:
    """`fbi,foi->fbo`: rows of the first against rows of the second; no letter is another one too."""
    if len(term) != 3 or len(result) != 3 or term[2] in result:
        return False
    return term[:2] == result[:2] and weighted == result[0] + result[2] + term[2]


def _weight_of_einsum(equation: Equation) -> int | None:
    """The place of the weight where an Einstein sum is a matrix product of alike terms."""
    terms, _, result = equation.params["equation"].partition("->")
    *other_terms, weighted = terms.split(",")
    is_product = len(dict.fromkeys(other_terms)) == 1 and _is_matrix_product(other_terms[0], weighted, result)
    return len(other_terms) if is_product else None


def _weight_of_logs(equation: Equation) -> int:
    """The position of the weight: the last operand, or the one before the source of its logarithms."""
    return len(equation.inputs) - (1 if equation.params.get("logs") is None else 2)


def _einsum(call: Call) -> str:
    """The common equations by name, so that no call parses one."""
    equation = call.params["equation"]
    _, *other_terms = equation.partition("->")[0].split(",")
    dtype = call.equation.outputs[0].type.dtype
    is_integer = dtype.kind == "int"  # of which devices multiply no matrices
    if not is_integer and _weight_of_einsum(call.equation) == 1:
        return f"torch.bmm({call.tensor(0)}, {call.tensor(1)}.mT)"  # what matmul calls once it has looked at shapes
    if not is_integer and is_tucker(equation):
        vectors = [call.tensor(index) for index in range(len(other_terms) + 1) if index != 1]
        return f"kernels.tucker([{', '.join(vectors)}], {call.tensor(1)})"
    text = f"kernels.einsum({equation!r}, {call.tensors})"
    # a sum over one operand is one of int64 in torch
    return f"{text}.to({dtype_source(dtype)})" if is_integer and not other_terms else text


def _logs(call: Call) -> str:
    """The argument that says where a weight's logarithms come from; it is the last operand."""
    form = call.params.get("logs")
    lost = call.params.get("lost", 1.0)
    return "" if form is None else f", logs={form!r}" + (f", lost={lost!r}" if lost > 1 else "")


_FEW = 8  # operands of one operator; Python's own compiler goes one call deeper for each


def _log_einsum_exp(call: Call) -> str:
    equation = call.params["equation"]
    terms, _, result = equation.partition("->")
    first, *middle, weighted = terms.split(",")
    if _weight_of_einsum(call.equation) is not None:
        factors = [call.tensor(index) for index in range(len(middle) + 1)]
        few = len(factors) <= _FEW
        product = " + ".join(factors) if few else f"kernels.total({', '.join(factors)})"
        weights = ", ".join(call.tensor(index) for index in range(len(factors), len(call.inputs)))
        return f"kernels.log_matmul_exp({product}, {weights}{_logs(call)})"
    if is_tucker(",".join([first, weighted, *middle]) + f"->{result}"):
        return f"kernels.log_tucker({call.tensors}{_logs(call)})"
    return f"kernels.log_einsum_exp({equation!r}, {call.tensors}{_logs(call)})"


def _vector_norm(call: Call) -> str:
    axis, keepdims, order = (call.params[name] for name in ("axis", "keepdims", "ord"))
    return f"kernels.linalg.vector_norm({call.tensor(0)}, {axis!r}, {keepdims}, {order!r})"


def _kernel(name: str, *params: str) -> Text:
    """A kernel of all operands and some parameters."""
    return lambda call: (
        f"kernels.linalg.{name}({', '.join([call.tensors, *(repr(call.params[param]) for param in params)])})"
    )


_LARGE = 2**16  # entries for each row: what a hundred rows come to is large


def _matmul(call: Call) -> str:
    """Products of stacks that are large for some hundred rows know where to put them."""
    shape = call.equation.outputs[0].type.shape
    is_stack = len(shape) == 3 and all(len(operand.type.shape) == 3 for operand in call.equation.inputs)
    known = prod(dim for dim in shape if isinstance(dim, int))
    kind = call.equation.outputs[0].type.dtype.kind
    if kind == "int":
        return f"kernels.integer_matmul({call.tensors})"
    return f"{'kernels' if is_stack and kind == 'float' and known >= _LARGE else 'torch'}.matmul({call.tensors})"


_OF_KERNELS = ("conditional_factor", "conditional_moments", "log_multivariate_normal", "regression_matrix")
_OF_LINALG = ("eigh", "eigvalsh", "inv", "matrix_rank", "pinv", "slogdet", "solve", "svdvals")

LINALG: dict[str, Row] = {
    **{name: Row(function(f"kernels.{name}")) for name in _OF_KERNELS},
    **{name: Row(function(f"kernels.linalg.{name}")) for name in _OF_LINALG},
    "matmul": Row(_matmul, unsigned=Unsigned.MODULAR),
    "log_matmul_exp": Row(
        lambda call: f"kernels.log_matmul_exp({call.tensors}{_logs(call)})", transposed=_weight_of_logs
    ),
    "einsum": Row(_einsum, unsigned=Unsigned.MODULAR, transposed=_weight_of_einsum),
    "log_einsum_exp": Row(_log_einsum_exp, transposed=_weight_of_einsum),
    "directed_matmul": Row(lambda call: f"kernels.directed_matmul({call.tensors}{_logs(call)})"),
    "cross": Row(_kernel("cross", "axis"), unsigned=Unsigned.MODULAR),
    "diagonal": Row(lambda call: f"torch.diagonal({call.tensor(0)}, {call.params['offset']}, -2, -1)"),
    "vector_norm": Row(_vector_norm),
    "cholesky": Row(_kernel("cholesky", "upper")),
    "det": Row(function("torch.linalg.det")),
    "qr": Row(_kernel("qr", "mode")),
    "svd": Row(_kernel("svd", "full_matrices")),
}
