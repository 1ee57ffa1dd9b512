"""Work that is counted: how many functions a call runs, the same on every machine and at every load.

>>> count_calls(lambda: (abs(1), abs(2), abs(3))) - count_calls(lambda: abs(1))
2
"""

import sys
from collections.abc import Callable
from typing import Any


def count_calls(call: Callable[[], object]) -> int:
    """The number of functions, of Python and built in, that run within `call`, itself included."""
    calls = 0

    def note(frame: Any, event: str, argument: Any) -> None:  # noqa: ARG001 - what `sys.setprofile` hands over
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return calls
