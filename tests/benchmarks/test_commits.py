"""Two source trees side by side: here a tree and itself."""

import json
from pathlib import Path

import pytest

from benchmarks import commits


@pytest.mark.full  # three processes that import torch, for each subject
def test_a_tree_against_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    root = Path(commits.__file__).resolve().parents[1]
    subjects = ["quad-tree-2-cp-8x8-16", "kalman", "start-up"]
    commits.main([str(root), "--subject", *subjects, "--rounds", "2", "--out", str(out)])
    reports = json.loads(out.read_text())
    assert list(reports) == subjects
    assert "file 128" in reports["quad-tree-2-cp-8x8-16"]
    assert set(reports["kalman"]) == {"in process", "file", "compile"}
    assert set(reports["start-up"]) == set(commits._STARTS)
    tables = [table for report in reports.values() for table in report.values()]
    assert all(set(table["ratios"]) == set(commits._NAMES.values()) for table in tables)
    assert "the other tree" in capsys.readouterr().out
