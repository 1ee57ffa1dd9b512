"""`python -m tests.distributed.streamed` is `plica` for which little data is large, so that it is read as a stream."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plica.cli.entry import main
from plica.tables import large

WORDS = ("--epochs", "40", "--batch", "50", "--units", "3", "--dtype", "float64", "--columns", "auto")


def write_rows(folder: Path, files: int = 10, rows: int = 60) -> None:
    """Write Parquet files of several row groups, with missing cells."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(files):
        hidden = random.integers(0, 3, rows)
        columns = {
            "pet": np.array(["cat", "dog", "eel"])[hidden],
            "weight": random.normal(size=rows) + hidden,
            "age": random.integers(0, 9, rows) + hidden,
        }
        table = {name: pa.array(values, mask=random.random(rows) < 0.1) for name, values in columns.items()}
        pq.write_table(pa.table(table), folder / f"part-{number:02}.parquet", row_group_size=37)


if __name__ == "__main__":
    large._MOST_HELD_ROWS, large._MOST_HELD_CELLS, large._LEAST_ROWS = 100, 1000, 20
    large._HELD_OUT_CELLS, large._SAMPLE_CELLS = 1200, 900
    main()
