"""Examples of sorting and searching."""

import array_api_compat.numpy as xp
import numpy as np

import plica.numpy as pnp
from tests.harness.examples.example import Example, examples

EXAMPLES = [
    *examples("sort argsort", "f"),
    *examples("sort argsort", "i", axis=0),
    *examples("sort argsort", "i", descending=True),
    *examples("sort argsort", "f", axis=0, descending=True, stable=False),
    *examples("argsort", "i", axis=1, descending=True, stable=True),
    Example(
        "searchsorted", "vf", lambda v, x: pnp.searchsorted(pnp.sort(v), x), lambda v, x: np.searchsorted(np.sort(v), x)
    ),
    Example(
        "searchsorted",
        "jf",
        lambda j, x: pnp.searchsorted(pnp.sort(j), x, side="right"),
        lambda j, x: np.searchsorted(np.sort(j).astype("float32"), x, side="right"),
    ),
    Example(
        "searchsorted",
        "vd",
        lambda v, x: pnp.searchsorted(v, x, sorter=pnp.argsort(v)),
        lambda v, x: vars(xp)["searchsorted"](v, x, sorter=np.argsort(v)),
    ),
    Example(
        "searchsorted",
        "v",
        lambda v: pnp.searchsorted(pnp.sort(v), 0.5),
        lambda v: np.searchsorted(np.sort(v), np.float32(0.5)),
    ),
]
