"""Numbers as MLIR writes them.

>>> constant_text(0.1, DType.FLOAT32), constant_text(True, DType.BOOL), constant_text(-1, DType.UINT8)
('arith.constant 0x3DCCCCCD : f32', 'arith.constant true', 'arith.constant -1 : i8')
>>> constant_text(1 - 2j, DType.COMPLEX64)
'complex.constant [0x3F800000 : f32, 0xC0000000 : f32] : complex<f32>'
"""

import numpy as np

from plica.backend.native.mlir.types import element
from plica.ir.dtypes import DType
from plica.ops.rules import real_dtype


def constant_text(value: complex, dtype: DType) -> str:
    """The operation that makes one number; floats are written by their bits, NaN, infinities and -0.0 among them."""
    match dtype.kind:
        case "bool":
            return f"arith.constant {'true' if value else 'false'}"
        case "int":
            return f"arith.constant {int(value.real)} : {element(dtype)}"
        case "float":
            return f"arith.constant {_bits(value.real, dtype)}"
    part = real_dtype(dtype)
    return f"complex.constant [{_bits(value.real, part)}, {_bits(value.imag, part)}] : {element(dtype)}"


def _bits(value: float, dtype: DType) -> str:
    bits = np.asarray(value).astype(dtype.numpy).view(f"u{dtype.numpy.itemsize}")
    return f"0x{int(bits):0{2 * dtype.numpy.itemsize}X} : {element(dtype)}"
