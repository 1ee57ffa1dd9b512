"""The dtypes that circuits compute in."""

import torch

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType, as_dtype


def real_dtype(dtype: torch.dtype | str) -> DType:
    """A dtype of real numbers that circuits compute in.

    Raises:
        UnsupportedError: Circuits do not compute in `dtype`, which a user asked for or cast a circuit to.
    """
    real = as_dtype(dtype)
    if real not in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64):
        raise UnsupportedError(
            f"circuits compute in float32 or float64 (or float16), not in {dtype}; "
            "if a larger module was cast, cast its circuit back: circuit.to(torch.float32)."
        )
    return real
