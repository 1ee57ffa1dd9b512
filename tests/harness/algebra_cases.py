"""A traced function where each rule on Programs fires, and near misses where it must not: one table for all rules.

A row of another rule needs rows here; `tests/passes/test_algebra.py` says so where there is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plica.tracing.namespace as xp


@dataclass(frozen=True)
class AlgebraCase:
    """A function of an array of shape (n, 3).

    Args:
        rule: The name of the rule.
        name: What this case is about.
        function: The function.
        left: The operations of its Program after all rules, without dead code.
        near: Whether the rule must not fire.
        dtype: Of the array.
    """

    rule: str
    name: str
    function: Callable[[Any], Any]
    left: tuple[str, ...]
    near: bool = False
    dtype: str = "float64"

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def _rows(x: Any) -> Any:
    return xp.reshape(x, (1, x.shape[0] * 3))


ENTRYWISE_CASES = (
    AlgebraCase("log-softmax", "log", lambda x: xp.log(xp.softmax(x)), ("log_softmax",)),
    AlgebraCase("log-softmax", "safe_log", lambda x: xp.safe_log(xp.softmax(x, axis=0)), ("log_softmax",)),
    AlgebraCase("log-softmax", "of a sigmoid", lambda x: xp.log(xp.sigmoid(x)), ("sigmoid", "log"), True),
    AlgebraCase("exp-log-softmax", "alone", lambda x: xp.exp(xp.log_softmax(x)), ("softmax",)),
    AlgebraCase("exp-log-softmax", "of a softmax", lambda x: xp.exp(xp.softmax(x)), ("softmax", "exp"), True),
    AlgebraCase("log-exp", "alone", lambda x: xp.log(xp.exp(x)) + x, ("add",)),
    AlgebraCase("log-exp", "complex", lambda x: xp.log(xp.exp(x)), ("exp", "log"), True, "complex128"),
    AlgebraCase("exp-log", "of a sigmoid", lambda x: xp.exp(xp.log(xp.sigmoid(x))), ("sigmoid",)),
    AlgebraCase("exp-log", "of a sum", lambda x: xp.exp(xp.log(xp.sum(xp.square(x)))), ("square", "sum")),
    AlgebraCase("exp-log", "of anything", lambda x: xp.exp(xp.log(x)), ("log", "exp"), True),
    AlgebraCase("exp-log", "of -0.0", lambda x: xp.exp(xp.log(xp.sqrt(x))), ("sqrt", "log", "exp"), True),
    AlgebraCase("abs", "of a softmax", lambda x: xp.abs(xp.softmax(x)), ("softmax",)),
    AlgebraCase("abs", "through a view", lambda x: xp.abs(xp.expand_dims(xp.exp(x), axis=0)), ("exp", "expand_dims")),
    AlgebraCase("abs", "of what was cut off", lambda x: xp.abs(xp.clip(x, 1.0, 2.0)), ("clip",)),
    AlgebraCase("abs", "of anything", lambda x: xp.abs(x), ("abs",), True),
    AlgebraCase("abs", "of -0.0", lambda x: xp.abs(xp.clip(x, 0.0, 2.0)), ("clip", "abs"), True),
    AlgebraCase("abs", "complex", lambda x: xp.abs(xp.exp(x)), ("exp", "abs"), True, "complex128"),
    AlgebraCase("abs", "integers wrap", lambda x: xp.abs(x * x), ("multiply", "abs"), True, "int64"),
    AlgebraCase("negative-negative", "alone", lambda x: xp.negative(xp.negative(x)) * x, ("multiply",)),
    AlgebraCase("negative-negative", "of exp", lambda x: -xp.exp(x), ("exp", "negative"), True),
    AlgebraCase("not-not", "alone", lambda x: xp.logical_not(xp.logical_not(x > 1)), ("greater",)),
    AlgebraCase("not-not", "once", lambda x: xp.logical_not(x > 1), ("greater", "logical_not"), True),
    AlgebraCase("times-one", "right", lambda x: x * 1 + x, ("add",)),
    AlgebraCase("times-one", "left", lambda x: 1.0 * x + x, ("add",)),
    AlgebraCase("times-one", "two", lambda x: x * 2, ("multiply",), True),
    AlgebraCase("times-one", "zero may be NaN", lambda x: x * 0, ("multiply",), True),
    AlgebraCase("times-one", "complex", lambda x: x * 1, ("multiply",), True, "complex128"),
    AlgebraCase("divided-by-one", "alone", lambda x: x / 1 + x, ("add",)),
    AlgebraCase("divided-by-one", "turned", lambda x: 1 / x, ("divide",), True),
    AlgebraCase("times-ones", "right", lambda x: x * xp.full((1, 3), 1.0) + x, ("add",)),
    AlgebraCase("times-ones", "left", lambda x: xp.ones((3,)) * x + x, ("add",)),
    AlgebraCase("times-ones", "twos", lambda x: x * xp.full((3,), 2.0), ("full", "multiply"), True),
    AlgebraCase(
        "times-ones", "more rows", lambda x: xp.sum(x, axis=0) * xp.ones((2, 3)), ("sum", "full", "multiply"), True
    ),
    AlgebraCase("times-ones", "complex", lambda x: x * xp.full(3, 1 + 0j), ("full", "multiply"), True, "complex128"),
    AlgebraCase("divided-by-ones", "alone", lambda x: x / xp.ones((3,)) + x, ("add",)),
    AlgebraCase("divided-by-ones", "turned", lambda x: xp.ones((3,)) / x, ("full", "divide"), True),
    AlgebraCase("maximum-of-more", "right", lambda x: xp.maximum(xp.exp(x), -1.0), ("exp",)),
    AlgebraCase("maximum-of-more", "left", lambda x: xp.maximum(-1.0, xp.exp(x)), ("exp",)),
    AlgebraCase("maximum-of-more", "x may be less", lambda x: xp.maximum(xp.exp(x), 0.5), ("exp", "maximum"), True),
    AlgebraCase("maximum-of-more", "zeros", lambda x: xp.maximum(xp.exp(x), -0.0), ("exp", "maximum"), True),
    AlgebraCase("maximum-of-more", "nothing is known", lambda x: xp.maximum(x, -1e300), ("maximum",), True),
    AlgebraCase("plus-zero", "right", lambda x: xp.exp(x) + 0.0, ("exp",)),
    AlgebraCase("plus-zero", "left", lambda x: 0 + xp.exp(x), ("exp",)),
    AlgebraCase("plus-zero", "-0.0", lambda x: (x + -0.0) * x, ("multiply",)),
    AlgebraCase("plus-zero", "integers", lambda x: (x + 0) * x, ("multiply",), dtype="int32"),
    AlgebraCase("plus-zero", "x may be -0.0", lambda x: x + 0.0, ("add",), True),
    AlgebraCase("plus-zero", "a root may be -0.0", lambda x: xp.sqrt(x) + 0.0, ("sqrt", "add"), True),
    AlgebraCase("minus-zero", "alone", lambda x: (x - 0.0) * x, ("multiply",)),
    AlgebraCase("minus-zero", "x may be -0.0", lambda x: x - -0.0, ("subtract",), True),
    AlgebraCase("minus-zero", "turned", lambda x: 0.0 - x, ("subtract",), True),
    AlgebraCase("minus-zero", "x - x may be NaN", lambda x: x - x, ("subtract",), True),
    AlgebraCase("where-same", "alone", lambda x: xp.where(x > 0, x, x) * x, ("multiply",)),
    AlgebraCase("where-same", "two", lambda x: xp.where(x > 0, x, -x), ("greater", "negative", "where"), True),
)

SHAPE_CASES = (
    AlgebraCase("squeeze-expand", "alone", lambda x: xp.squeeze(xp.expand_dims(x, axis=1), 1) * x, ("multiply",)),
    AlgebraCase(
        "squeeze-expand",
        "other axes",
        lambda x: xp.squeeze(xp.expand_dims(xp.expand_dims(x, axis=0), axis=3), 0),
        ("expand_dims", "expand_dims", "squeeze"),
        True,
    ),
    AlgebraCase(
        "expand-squeeze",
        "alone",
        lambda x: xp.expand_dims(xp.squeeze(xp.sum(x, axis=1, keepdims=True), 1), axis=1),
        ("sum",),
    ),
    AlgebraCase(
        "expand-squeeze",
        "other axes",
        lambda x: xp.expand_dims(xp.squeeze(xp.sum(x, axis=1, keepdims=True), 1), axis=0),
        ("sum", "squeeze", "expand_dims"),
        True,
    ),
    AlgebraCase(
        "permute-permute",
        "alone",
        lambda x: xp.permute_dims(xp.permute_dims(xp.expand_dims(x, axis=0), (1, 2, 0)), (1, 2, 0)),
        ("expand_dims", "permute_dims"),
    ),
    AlgebraCase("permute-permute", "once", lambda x: xp.matrix_transpose(x), ("permute_dims",), True),
    AlgebraCase("permute-identity", "alone", lambda x: xp.permute_dims(x, (0, 1)) * x, ("multiply",)),
    AlgebraCase("permute-identity", "turned", lambda x: xp.permute_dims(x, (1, 0)), ("permute_dims",), True),
    AlgebraCase(
        "reshape-reshape",
        "alone",
        lambda x: xp.reshape(xp.reshape(x, (3, x.shape[0])), (1, x.shape[0], 3)),
        ("reshape",),
    ),
    AlgebraCase(
        "reshape-reshape",
        "something between",
        lambda x: xp.reshape(xp.exp(_rows(x)), (x.shape[0], 3)),
        ("reshape", "exp", "reshape"),
        True,
    ),
    AlgebraCase(
        "same-type",
        "reshape",
        lambda x: x.trace.apply("reshape", x.operand, shape=x.dims)[0] * x,
        ("multiply",),
    ),
    AlgebraCase(
        "same-type",
        "rounding",
        lambda x: xp.astype(xp.astype(x, "float32"), "float64"),
        ("astype", "astype"),
        True,
    ),
)

ALGEBRA_CASES = (*ENTRYWISE_CASES, *SHAPE_CASES)
