"""Numbers as MLIR writes them.

>>> literal_text(0.1, DType.FLOAT32), literal_text(True, DType.BOOL), literal_text(-1, DType.UINT8)
('0x3DCCCCCD', 'true', '-1')
"""

import numpy as np

from plica.ir.dtypes import DType


def literal_text(value: complex, dtype: DType) -> str:
    """One number; floats by their bits, so that none is rounded and NaN, infinities and -0.0 have a name."""
    if dtype == DType.BOOL:
        return "true" if value else "false"
    if dtype.kind == "int":
        return str(int(value.real))
    bits = np.asarray(value).astype(dtype.numpy).view(f"u{dtype.numpy.itemsize}")
    return f"0x{int(bits):0{2 * dtype.numpy.itemsize}X}"
