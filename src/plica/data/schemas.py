"""Types of columns: which ones stand for each other, and casts that change no cell.

Views of text (as polars has them) become text, since pyarrow can neither choose rows of views nor decode them. Codes
of a dictionary have 32 bits at least, since the dictionaries of many batches are joined.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plica.data.arrow_cells import cell_type
from plica.errors import FileFormatError

_EXACT_DIGITS = 15  # decimal digits that a float64 has


def plain_type(stored: Any) -> Any:
    """The type that a column is read as."""
    if pa.types.is_string_view(stored):
        return pa.large_string()
    if pa.types.is_dictionary(stored):
        codes = pa.int32() if stored.index_type.bit_width < 32 else stored.index_type
        return pa.dictionary(codes, plain_type(stored.value_type), stored.ordered)
    return stored


def plain_schema(schema: Any) -> Any:
    """A schema of plain types, without metadata, and without the spaces around names."""
    return pa.schema([pa.field(field.name.strip(), plain_type(field.type)) for field in schema])


def check_names(schema: Any, source: str) -> None:
    """Raise unless each column has a name of its own.

    Raises:
        FileFormatError: Two columns have one name.
    """
    names = schema.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileFormatError(f"{source}: two columns are called {twice!r}; rename one: names tell columns apart")


def may_be_cast(stored: Any, wanted: Any) -> bool:
    """Whether two types of Arrow hold the same kind of cells; whole numbers and reals are one kind here."""
    if stored == wanted or pa.types.is_null(stored):
        return True
    if _loses_digits(stored, wanted):
        return False
    kinds = [cell_type(stored), cell_type(wanted)]
    is_zoned = [getattr(kind, "tz", None) is None for kind in (stored, wanted)]
    if all(kind in (int, float) for kind in kinds):
        return True
    return kinds[0] is not None and kinds[0] == kinds[1] and is_zoned[0] == is_zoned[1]


def _loses_digits(stored: Any, wanted: Any) -> bool:
    """Whether a cast may round numbers without a word."""
    types = pa.types
    if types.is_floating(stored):
        is_narrower = types.is_floating(wanted) and stored.bit_width > wanted.bit_width
        return bool(types.is_decimal(wanted) or is_narrower)
    if types.is_decimal(stored) and types.is_floating(wanted):
        return bool(wanted.bit_width < 64 or stored.precision > _EXACT_DIGITS)
    return bool(types.is_float16(wanted))


def cast(array: Any, wanted: Any) -> Any:
    """An array or a chunked array as another type of the same kind; NaN becomes null where the type has no NaN.

    Raises:
        pyarrow.ArrowInvalid: A cell would change.
    """
    if array.type == wanted:
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([cast(chunk, wanted) for chunk in array.chunks], wanted)
    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        if pa.types.is_dictionary(wanted):
            return pa.DictionaryArray.from_arrays(
                array.indices.cast(wanted.index_type), cast(values, wanted.value_type), ordered=wanted.ordered
            )
        array = cast(values, plain_type(values.type)).take(array.indices)
    if pa.types.is_dictionary(wanted):
        codes = cast(array, wanted.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            codes.indices.cast(wanted.index_type), codes.dictionary, ordered=wanted.ordered
        )
    if pa.types.is_floating(array.type) and pa.types.is_integer(wanted):
        array = pc.if_else(pc.is_nan(array), None, array)
    return array.cast(wanted)
