"""All contenders of the benchmark of rows read the same cells, and the numbers are those of cells of Python."""

import json
from pathlib import Path

import numpy as np

from benchmarks import rows as benchmark
from plica.data import Rows, numbers
from plica.files.encoding import Encoding
from plica.tables.files import open_table


def test_contenders_read_the_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    benchmark.write_table(path, 300, group=200)
    report = json.loads(json.dumps(benchmark.speeds(path, rounds=1)))
    assert set(report["million cells per second"]) == set(report["ratios"]) == set(benchmark.CONTENDERS)
    encoding = Encoding(benchmark.columns_of(path))
    with open_table(path) as cells:
        by_cell = encoding.reader(cells)
        expected = np.concatenate([by_cell(batch) for batch in cells.batches(128)])
    np.testing.assert_array_equal(
        np.concatenate([batch.numbers for batch in numbers(encoding, Rows(path), size=70)]), expected
    )
