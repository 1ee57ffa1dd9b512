"""Actors of Ray, by `ray.data`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import InputError
from plica.extras import require

_RETRIES = 3


def reports(worker: Callable[[int], str], numbers: Sequence[int], workers: int) -> Iterator[str]:
    """The worker's text for each number; see `plica.batch.engines`.

    Ray starts lost actors again. The cluster is that of `ray job submit` or of RAY_ADDRESS, else one of this process.

    Raises:
        InputError: The cluster has no processor more than there are workers.
    """
    require("ray")
    import ray

    begun = not ray.is_initialized()
    if begun:
        # Ray's own tasks take a processor too: they would wait for ever for one that actors keep.
        _start(ray, workers)
    try:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus <= workers:
            raise InputError(
                f"--workers {workers}: the Ray cluster has {cpus} processors, of which Ray itself needs one; give "
                f"--workers {max(1, cpus - 1)}, or a cluster with more"
            )
        import ray.data

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars, context.actor_task_retry_on_errors = False, True
        rows = ray.data.from_items([{"part": number} for number in numbers], override_num_blocks=len(numbers))
        answered = rows.map_batches(
            _Actor,
            fn_constructor_args=(worker,),
            batch_size=1,
            num_cpus=1,
            max_task_retries=_RETRIES,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(numbers))),
        )
        for row in answered.iter_rows():
            yield str(row["report"])
    finally:
        if begun:
            ray.shutdown()


def _start(ray: Any, workers: int) -> None:
    import os

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not os.environ.get("RAY_ADDRESS"):
        settings |= {"num_cpus": workers + 1, "include_dashboard": False}
    ray.init(**settings)


class _Actor:
    """The worker as `map_batches` calls it."""

    def __init__(self, worker: Callable[[int], str]) -> None:
        self._worker = worker

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {"report": np.array([self._worker(int(number)) for number in batch["part"]], dtype=object)}
