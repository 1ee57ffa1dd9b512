"""A command that `torchrun` has started in several processes: they are one run, and speak with one voice.

>>> with as_one_run():
...     pass
"""

import contextlib
import os
from collections.abc import Iterator

from plica.cli.errors import BAD_INPUT
from plica.cli.signals import INTERRUPTED, Terminated, leaving_at_once, speaking_if
from plica.errors import PlicaError


def prepare_torch() -> None:
    """Have idle threads sleep: with other work on the cores, spinning threads made training ten times slower."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded


@contextlib.contextmanager
def as_one_run() -> Iterator[None]:
    """A context in which the processes know each other; of those that fail, the first one says why.

    Raises:
        LostProcessError: Not all processes came.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    prepare_torch()
    with leaving_at_once():
        from plica.distributed.ranks import launched
    with launched() as ranks, speaking_if(ranks.claims):
        try:
            yield
        except (Exception, KeyboardInterrupt, Terminated) as error:
            if ranks.claims():
                raise
            raise SystemExit(_status(error)) from None


def _status(error: BaseException) -> int:
    """The exit status of a command that an error ends."""
    if isinstance(error, Terminated):
        return 128 + error.number
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return BAD_INPUT if isinstance(error, PlicaError | OSError | MemoryError) else 1
