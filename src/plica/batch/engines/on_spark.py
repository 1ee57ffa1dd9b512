"""Tasks of Spark, by `mapInArrow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from plica.extras import require

_ATTEMPTS = 4  # of a task on this machine; those of a cluster are `spark.task.maxFailures`


def reports(worker: Callable[[int], str], numbers: Sequence[int], workers: int) -> Iterator[str]:
    """The worker's text for each number; see `plica.batch.engines`.

    Spark tries lost tasks again. The session is the active one or that of `spark-submit`, else one of this machine.
    """
    require("pyspark")
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    begun = session is None
    if session is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("plica")
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # `spark-submit` sets it, and has settings of its own
            builder = builder.master(f"local[{workers},{_ATTEMPTS}]").config("spark.ui.enabled", "false")
            builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
        session = builder.getOrCreate()
    try:
        rows = session.range(0, len(numbers), 1, len(numbers))  # a partition, which is a task, for each number
        for row in rows.mapInArrow(_mapped(worker, numbers), "report string").collect():
            yield row.report
    finally:
        if begun:
            session.stop()


def _mapped(worker: Callable[[int], str], numbers: Sequence[int]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The worker as `mapInArrow` calls it: RecordBatches of positions in `numbers` in, RecordBatches of texts out."""

    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            texts = [worker(numbers[position]) for position in batch.column("id").to_pylist()]
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array(texts, pyarrow.string())], ["report"])

    return answer
