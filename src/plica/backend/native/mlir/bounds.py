"""Checks of indices: what is refused where one does not lie within its axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plica.backend.native.mlir.types import Value
from plica.ir.sizes import Dim

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter


def check_places(emitter: Emitter, indices: Value, size: Dim, *, wraps: bool, axis: int, source: str) -> None:
    """Refuse indices that do not lie within an axis of `size`."""
