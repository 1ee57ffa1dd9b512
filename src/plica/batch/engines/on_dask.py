"""Tasks of Dask, by `map_partitions`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from logging import CRITICAL
from typing import Any

from plica.extras import require

_RETRIES = 3


def reports(worker: Callable[[int], str], numbers: Sequence[int], workers: int) -> Iterator[str]:
    """The worker's text for each number; see `plica.batch.engines`.

    Dask tries lost tasks again. The cluster is that of the current client or of DASK_SCHEDULER_ADDRESS, else one of
    this machine.
    """
    require("distributed")
    import dask.dataframe
    import pandas  # type: ignore[import-untyped]
    from distributed import Client, LocalCluster, as_completed, get_client

    cluster = None
    try:
        client, begun = get_client(), False
    except ValueError:  # there is none
        begun = True
        if not os.environ.get("DASK_SCHEDULER_ADDRESS"):
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=CRITICAL
            )
        client = Client(cluster or os.environ["DASK_SCHEDULER_ADDRESS"])
    try:
        frame = pandas.DataFrame({"part": list(numbers)})
        rows = dask.dataframe.from_pandas(frame, npartitions=len(numbers), sort=False)
        meta = pandas.DataFrame({"report": pandas.Series(dtype=object)})
        answered = rows.map_partitions(partial(_mapped, worker), meta=meta)
        futures = client.compute(answered.to_delayed(), retries=_RETRIES)
        for future in as_completed(futures):
            yield from future.result()["report"]
    finally:
        if begun:
            client.close()
            if cluster is not None:
                cluster.close()


def _mapped(worker: Callable[[int], str], rows: Any) -> Any:
    """The worker as `map_partitions` calls it: a frame of numbers in, a frame of texts out."""
    import pandas

    return pandas.DataFrame({"report": [worker(int(number)) for number in rows["part"]]}, dtype=object)
