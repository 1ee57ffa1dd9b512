"""Examples of elementwise functions."""
# ruff: noqa: ARG005 - the tables hold functions of a given number of arguments

import numpy as np
from scipy import special

import plica.numpy as pnp
from plica.ops import OPS
from plica.ops.elementwise import ARITIES, KINDS
from plica.ops.special import OPERANDS
from tests.harness.examples.example import SIZES, Example, examples

_LETTERS = {"bool": "b", "int": "i", "complex": "x"}
_OF_FLOATS = ("f", "p"), ("fp", "pp")
_OF_SPECIAL = {"any": "f", "deep": "f", "positive": "p", "another": "p", "unit": "q"}


def _of_row(name: str, kind: str) -> Example:
    """An operation of the table on operands of a kind; on floats where it is finite."""
    arity = ARITIES[name]
    if kind != "float":
        return Example(name, _LETTERS[kind] * arity)
    ways = [Example(name, letters) for letters in _OF_FLOATS[arity - 1]]
    with np.errstate(all="ignore"):
        finite = [way for way in ways if np.isfinite(OPS[name].reference(*way.arrays(*SIZES[0]))).all()]
    return [*finite, *ways][0]


EXAMPLES = [
    *(_of_row(name, kind) for name, kinds in KINDS.items() for kind in kinds),
    *(Example(name, "".join(map(_OF_SPECIAL.__getitem__, operands.values()))) for name, operands in OPERANDS.items()),
    *examples("positive real imag conj", "f"),
    *examples("positive", "x"),
    *examples("positive ceil floor round trunc conj real imag", "i"),
    *examples("real imag", "x"),
    *examples("add multiply subtract maximum", "fv"),
    *examples("divide", "ii"),
    *examples("add multiply", "fd"),
    # integers where floats are needed
    Example("exp", "i", numpy=lambda i: np.exp(i.astype("float64"))),
    Example("sqrt", "b", numpy=lambda b: np.sqrt(b.astype("float64"))),
    Example("hypot", "ii", numpy=lambda i, j: np.hypot(i.astype("float64"), j)),
    Example("divide", "i", lambda i: pnp.divide(i, 2), lambda i: i / 2),
    Example("divide", "f", lambda x: x / x.shape[0], lambda x: x / np.float32(len(x)), eager=False),
    Example(
        "sqrt", "f", lambda x: x * pnp.sqrt(x.shape[1]), lambda x: x * np.float32(np.sqrt(x.shape[1])), eager=False
    ),
    # Python numbers
    Example("add", "if", numpy=lambda i, f: np.add(i.astype("float32"), f)),
    Example("add", "f", lambda x: pnp.add(x, 2), lambda x: x + 2),
    Example("add", "f", lambda x: x + pnp.add(1, 2.5), lambda x: x + np.float32(3.5), eager=False),
    Example("exp", "f", lambda x: x + pnp.exp(2.0), lambda x: x + np.float32(np.exp(2.0)), eager=False),
    Example("pow", "i", lambda i: pnp.pow(i, 2), lambda i: i**2),
    Example("pow", "i", lambda i: pnp.pow(i, 0.5), lambda i: i**0.5),
    Example("pow", "f", lambda x: x**-1, lambda x: x**-1),
    Example("pow", "p", lambda x: 2.0**x, lambda x: np.float32(2) ** x),
    Example("pow", "f", lambda x: pnp.ones(x.shape[0] ** 2), lambda x: np.ones(len(x) ** 2), eager=False),
    Example("square", "f", lambda x: pnp.ones(pnp.square(x.shape[0])), lambda x: np.ones(len(x) ** 2), eager=False),
    Example("bitwise_left_shift", "i", lambda i: i << 2, lambda i: i << 2),
    Example("bitwise_right_shift", "i", lambda i: 1000 >> i, lambda i: 1000 >> i),
    Example("maximum", "f", lambda x: pnp.maximum(0.0, x), lambda x: np.maximum(x, 0)),
    Example("positive", "f", lambda x: +x, lambda x: x),
    Example("logaddexp", "fff", lambda x, y, z: pnp.logaddexp(x, y, z), lambda x, y, z: x + np.float32(np.log(3))),
    Example(
        "log_normal",
        "fff",
        lambda x, y, z: pnp.log_normal(x, y, z),
        lambda x, y, z: -x - np.float32(np.log(np.sqrt(2 * np.pi))),
    ),
    Example("lgamma", "i", numpy=lambda i: special.gammaln(i.astype("float64"))),
    # parts of complex numbers
    *examples("angle", "x"),
    *examples("angle", "f"),
    Example("clip", "f", lambda x: pnp.clip(x, min=-0.5, max=0.5), lambda x: np.clip(x, -0.5, 0.5)),
    Example("clip", "f", lambda x: pnp.clip(x), lambda x: x),
    Example("clip", "f", lambda x: pnp.clip(x, max=0.5), lambda x: np.clip(x, None, 0.5)),
    Example("clip", "fp", lambda x, y: pnp.clip(x, None, y - 1), lambda x, y: np.minimum(x, y - 1)),
    Example("clip", "fd", lambda x, y: pnp.clip(x, 0, y), lambda x, y: np.clip(x, 0, y.astype("float32"))),
    Example("clip", "fv", lambda x, v: pnp.clip(x, v - 1, v), lambda x, v: np.clip(x, v - 1, v)),
    Example("clip", "v1", lambda v, y: pnp.clip(v, y, y + 1), lambda v, y: np.clip(v, y, y + 1)),
    Example("clip", "i", lambda i: pnp.clip(i, 2, 3), lambda i: np.clip(i, 2, 3)),
    Example("clip", "i", lambda i: pnp.clip(i, 1.5, 3), lambda i: np.clip(i, 1.5, 3.0)),
    Example("isin", "fv"),
    Example("isin", "ij", numpy=np.isin),
    Example("isin", "if", lambda i, x: pnp.isin(i, x[:0], invert=True), lambda i, x: np.ones(i.shape, "bool")),
    Example("where", "bfp"),
    Example("where", "bf", lambda b, x: pnp.where(b, x, 0), lambda b, x: np.where(b, x, np.float32(0))),
    Example("where", "b", lambda b: pnp.where(b, 1.0, 0.0), lambda b: b.astype("float64")),
    Example("astype", "f", lambda x: pnp.astype(x, pnp.int32), lambda x: x.astype("int32")),
    Example("astype", "f", lambda x: pnp.astype(x, pnp.float64), lambda x: x.astype("float64")),
    Example("astype", "i", lambda x: pnp.astype(x, "complex64", copy=False), lambda x: x.astype("complex64")),
    Example("stop_gradient", "f", numpy=lambda x: x),
]
