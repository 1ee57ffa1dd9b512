"""How a thread waits for threads of the IREE runtime: it lets them go on when they wake it.

Whoever completes a call wakes the thread that waits, and tells it a moment later that all is done, for which that one
turns on the spot. Where it was woken on the processor of the other, and takes its place, both stand still until the
system changes them: 3 milliseconds, in 7 to 30 of 100 calls on two processors (IREE 3.13). A thread of the policy
`SCHED_BATCH` takes nobody's place when it wakes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_NORMAL, _PATIENT = getattr(os, "SCHED_OTHER", None), getattr(os, "SCHED_BATCH", None)


@contextmanager
def patiently() -> Iterator[None]:
    """Have this thread take nobody's place meanwhile, where the system can and may do that."""
    is_changed = _PATIENT is not None and _changed(_NORMAL, _PATIENT)
    try:
        yield
    finally:
        if is_changed:
            _changed(_PATIENT, _NORMAL)


def _changed(before: int | None, after: int | None) -> bool:
    """Change the policy of this thread from one to another, which needs no privilege; nothing where it has a third."""
    try:
        if before is None or after is None or os.sched_getscheduler(0) != before:
            return False
        os.sched_setscheduler(0, after, os.sched_param(0))
    except OSError:  # a sandbox forbids it
        return False
    return True
