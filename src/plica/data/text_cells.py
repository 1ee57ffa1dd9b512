"""Numbers of cells that are plain texts of numbers, by operations on whole arrays, as `typed_cells` has typed ones.

A text is plain if Arrow and `plica.files.numbers` read it as the same number: at most 15 digits, no spaces, no sign
but a minus, no thousands separators. Others are left to the functions of `plica.files.columns`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plica.data.typed_cells import MissingWords, Numbers, of_floats
from plica.files import numbers
from plica.files.kinds import TableColumn

_WHOLE = "^-?[0-9]{1,15}$"
_REAL = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?$"
_WITH_POINT = r"^-?[0-9]{1,15}(\.0{1,9})?$"


def numbers_of_text(column: TableColumn, cells: Any, missing: MissingWords) -> Numbers | None:
    """The numbers of a column of text; None if it is no column of numbers.

    Args:
        column: A column of counts, whole numbers or reals.
        cells: A `pyarrow.Array`.
        missing: The words for missing cells.
    """
    is_text = pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)
    if not is_text or column.kind not in ("count", "whole", "real"):
        return None
    pattern = _WHOLE if numbers.picture(column.format).point == "," else _REAL if column.kind == "real" else _WITH_POINT
    is_plain = pc.match_substring_regex(cells, pattern)
    plain = pc.if_else(is_plain, cells, pa.scalar(None, cells.type)).cast(pa.float64())
    floats = plain.to_numpy(zero_copy_only=False)
    is_number = ~np.isnan(floats)
    read = of_floats(column, np.where(is_number, floats, 0.0))
    if read is None:
        return None
    result, fits = read
    is_nothing = pc.is_in(cells, pa.array([*missing.texts, None], cells.type)).to_numpy(zero_copy_only=False)
    result[is_nothing] = np.nan
    return result, (is_number & fits) | is_nothing
