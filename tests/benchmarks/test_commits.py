"""Two source trees side by side: here a tree and itself."""

import json
from pathlib import Path

import pytest

from benchmarks import commits


@pytest.mark.full  # three processes that import torch
def test_a_tree_against_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    root = Path(commits.__file__).resolve().parents[1]
    commits.main([str(root), "--circuit", "quad-tree-2-cp-8x8-16", "--rounds", "2", "--out", str(out)])
    report = json.loads(out.read_text())["quad-tree-2-cp-8x8-16"]
    assert set(report) == set(commits._TASKS)
    assert all(set(one["ratios"]) == set(commits._NAMES.values()) for one in report.values())
    assert "the other tree" in capsys.readouterr().out
