"""The processes of a distributed run: which one this is, and what they tell each other.

They find each other by the environment that `torchrun` sets. Without it there is one process, and every function here
returns what it was given, so that callers need no second way.

>>> ALONE.size, ALONE.is_first, ALONE.sum([torch.ones(2)]), ALONE.of_first(lambda: "read once")
(1, True, [tensor([1., 1.])], 'read once')
>>> with launched() as ranks:
...     ranks == current_ranks() == ALONE
True
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar, final
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from plica.errors import LostProcessError, UnsupportedError

_SECONDS = 600.0  # that a process waits for others; longer than the slowest of them reads its rows
_ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LAST_WORD = "plica/last word"

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of `torch.distributed`'s default group; by default this one alone.

    Every process calls the same functions in the same order, and gets the same results: `share`, `claims` and what only
    the first one does are where they differ.

    Args:
        rank: The number of this process, from 0.
        size: How many there are.
        device: Where small messages are; devices that cannot reach the CPU's memory have none there.
        store: Where processes leave words for each other; None without one.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default=torch.device("cpu"), compare=False)
    store: Any = field(default=None, compare=False, repr=False)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """Its part of rows `(B, ...)`: contiguous, and as many as others have, or one more; none of too few."""
        return rows if self.size == 1 else torch.tensor_split(rows, self.size)[self.rank]

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sums of tensors over processes, by one message: a flat buffer in the widest of their dtypes."""
        if self.size == 1 or not tensors:
            return list(tensors)
        reals = [torch.view_as_real(one) if one.is_complex() else one for one in (one.detach() for one in tensors)]
        wide = reduce(torch.promote_types, (real.dtype for real in reals))
        flat = torch.cat([real.reshape(-1).to(wide) for real in reals])
        with self._telling():
            dist.all_reduce(flat)
        sums = []
        parts = torch.split(flat, [real.numel() for real in reals])
        for tensor, real, part in zip(tensors, reals, parts, strict=True):
            total = part.view(real.shape).to(real.dtype)
            sums.append(torch.view_as_complex(total) if tensor.is_complex() else total)
        return sums

    def copy_first(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of the tensors of the first process, which have the same names and shapes on all."""
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        for copied in copies.values() if self.size > 1 else ():
            with self._telling():
                dist.broadcast(torch.view_as_real(copied) if copied.is_complex() else copied, 0)
        return copies

    def of_first(self, function: Callable[[], T]) -> T:
        """What a function returns on the first process, the only one that calls it; what it raises is raised on all."""
        if self.size == 1:
            return function()
        told: list[Any] = [None, None]
        if self.is_first:
            try:
                told[0] = function()
            except Exception as error:
                told[1] = error
        with self._telling():
            dist.broadcast_object_list(told, 0)
        if told[1] is not None:
            raise told[1]
        result: T = told[0]
        return result

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self._telling():
            dist.all_gather_object(values, value)
        return values

    def claims(self) -> bool:
        """Whether this process is the first one that ends badly, and so the one to say why."""
        if self.store is None:
            return True
        try:
            return bool(self.store.add(_LAST_WORD, 1) == 1)
        except RuntimeError:  # the store is gone, with the process that kept it
            return self.is_first

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """A context in which an error of torch says that another process does not answer.

        Raises:
            LostProcessError: One has ended, or hangs.
            UnsupportedError: The group has no backend for the device of the tensors.
        """
        try:
            yield
        except RuntimeError as error:
            if "No backend" in str(error):
                raise UnsupportedError(
                    f"the process group does not take such tensors ({error}); make it by "
                    "init_process_group('cpu:gloo,cuda:nccl'), or by plica.distributed.ranks.launched()"
                ) from error
            raise self._lost(error) from error

    def _lost(self, error: RuntimeError) -> LostProcessError:
        (first, *_) = str(error).strip().splitlines() or [type(error).__name__]
        reason = re.sub(r"^(\[\S+\] )+", "", first).partition(". ")[0]  # without torch's places in its own source
        return LostProcessError(
            f"process {self.rank} of {self.size} has lost another one, which has ended or hangs: {reason}; look at the "
            "output of the others, and go on from the checkpoint"
        )


ALONE = Ranks()
"""One process."""


@final
class Agreement:
    """What processes want done after a step, known to all of them after the same one.

    A message travels while the next step is computed, so that none waits for it. Alone, a wish holds at once.

    Args:
        ranks: The processes.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._message: Tensor | None = None
        self._work: Any = None

    def on(self, wish: int) -> int:
        """The greatest of the wishes of the call before; where that is 0, this one is sent.

        Args:
            wish: 0 for nothing.
        """
        if self._ranks.size == 1:
            return wish
        agreed = self.last()
        self._message = torch.tensor(0 if agreed else wish, device=self._ranks.device)
        with self._ranks._telling():
            self._work = dist.all_reduce(self._message, dist.ReduceOp.MAX, async_op=True)
        return agreed

    def last(self) -> int:
        """What was agreed on by the last call; nothing travels afterwards."""
        if self._work is None or self._message is None:
            return 0
        with self._ranks._telling():
            self._work.wait()
        agreed = int(self._message)
        self._work = self._message = None
        return agreed


def current_ranks() -> Ranks:
    """The processes of the default group; this one alone where none was made."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return ALONE
    on_cpu = "cpu" in dist.get_backend_config()
    device = torch.device("cpu") if on_cpu else torch.device("cuda", torch.cuda.current_device())
    return Ranks(dist.get_rank(), dist.get_world_size(), device)


@contextmanager
def launched(seconds: float = _SECONDS) -> Iterator[Ranks]:
    """A context with the processes that `torchrun` has started, or with this one alone; here groups begin and end.

    Tensors of CPUs go by gloo, those of CUDA devices by NCCL. Each process has the device of its number on its machine.

    Args:
        seconds: How long one waits for another before it gives up.

    Raises:
        LostProcessError: Not all of them came.
    """
    is_started = all(name in os.environ for name in _ENVIRONMENT) and int(os.environ["WORLD_SIZE"]) > 1
    if not is_started or not dist.is_available() or dist.is_initialized():
        yield current_ranks()
        return
    patience = timedelta(seconds=seconds)
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    try:
        store, rank, size = next(iter(rendezvous("env://", timeout=patience)))
        store.set_timeout(patience)
        store = _own_room(store, rank, size, seconds)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=patience)
    except RuntimeError as error:
        raise Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))._lost(error) from error
    try:
        yield replace(current_ranks(), store=store)
    finally:
        dist.destroy_process_group()


def _own_room(store: Any, rank: int, size: int, seconds: float) -> Any:
    """A part of a store that these processes alone use.

    `torchrun` keeps one store for all its restarts, in which processes find addresses of those that have ended
    (pytorch/pytorch issue 135712), and machines may count restarts differently. So the first process makes a name that
    was never used, and gives it to each that asks with a name of its own.

    Raises:
        RuntimeError: One does not come in time.
    """
    own, end = uuid4().hex, time.monotonic() + seconds
    if rank:
        store.set(f"plica/asks/{rank}", own)
        room = store.get(f"plica/room/{own}").decode()
        store.set(f"plica/came/{room}/{rank}", "")
        return PrefixStore(room, store)
    missing = set(range(1, size))
    while missing:
        for other in sorted(missing):
            if store.check([f"plica/asks/{other}"]):  # it may be the question of one that has ended
                store.set(f"plica/room/{store.get(f'plica/asks/{other}').decode()}", own)
            if store.check([f"plica/came/{own}/{other}"]):
                missing.remove(other)
        if missing and time.monotonic() > end:
            raise RuntimeError(f"of {size} processes {len(missing)} did not come in {seconds:g} seconds")
        time.sleep(0.01 if missing else 0.0)
    return PrefixStore(own, store)


def are_restarted(ranks: Ranks) -> bool:
    """Whether `torchrun` has started processes again, since one of them had ended."""
    return any(ranks.gather(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0))


def launches(ranks: Ranks) -> list[str]:
    """The names of the records of `torchrun` on all machines, in order: random ones, which a restart keeps.

    Empty without such records, as where `torchrun` keeps none.
    """
    record = Path(os.environ.get("TORCHELASTIC_ERROR_FILE", ""))  # <name>/attempt_<number>/<rank>/error.json
    is_there = len(record.parents) > 3 and record.parents[1].name.startswith("attempt_")
    return sorted(set(ranks.gather(record.parents[2].name if is_there else "")) - {""})
