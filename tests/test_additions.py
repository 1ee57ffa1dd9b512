"""A distribution, an operation and a query are added to a copy of the source: what that takes, and what knows them.

An addition is a new file and a line of a table; an operation is a line alone. Beside them each has what nothing can
make: a check against an independent reference.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.generated import generated_files

ROOT = Path(__file__).parents[1]
LAYERS, QUERIES = "src/plica/symbolic/layers", "src/plica/lower/queries"
CASES, CHECKS = "tests/harness/layer_cases/logistic.py", "tests/harness/query_checks.py"

# file -> the file of the harness that it is a copy of
NEW = {f"{LAYERS}/logistic.py": "tests/harness/logistic.py", f"{QUERIES}/greedy.py": "tests/harness/own_queries.py"}
# file -> the line before which a text stands, and the text
LINES = {
    f"{LAYERS}/__init__.py": (
        "from plica.symbolic.layers.module import",
        "from plica.symbolic.layers.logistic import LogisticLayer as LogisticLayer\n",
    ),
    f"{QUERIES}/table.py": ('    "mpe":', '    "greedy": "greedy",\n'),
    "src/plica/ops/elementwise.py": (
        '    _Row("safe_log",',
        '    _Row("rsqrt", lambda x: 1 / np.sqrt(x), ("float",), "positive", '
        "decompose=lambda xp, x: 1 / xp.sqrt(x)),\n",
    ),
}
# what stands for the references: of a query its check, of a distribution its case, which reads the layer from Plica
REFERENCES = {
    CHECKS: (
        "QUERY_CHECKS:",
        """def check_greedy(asked: Asked) -> None:
    x = asked.data(0.5)
    rows, logs = queries.greedy(asked.compiled, torch.from_numpy(x))
    assert (np.isnan(x) | (rows.numpy() == x)).all()
    assert not rows.isnan().any()
    asked.close(logs, np.log(asked.values(x)))


""",
    ),
}


def copy_with_additions(folder: Path) -> None:
    """A copy of the source, the pages and the tests, with all additions."""
    for part in ("src", "docs", "tests"):
        shutil.copytree(ROOT / part, folder / part)
    for path, source in NEW.items():
        shutil.copy(ROOT / source, folder / path)
    for path, (before, text) in (LINES | REFERENCES).items():
        whole = (folder / path).read_text()
        assert whole.count(f"\n{before}") == 1, path
        (folder / path).write_text(whole.replace(f"\n{before}", f"\n{text}{before}"))
    case = (folder / CASES).read_text()
    (folder / CASES).write_text(case.replace("from tests.harness.logistic import", "from plica.symbolic.layers import"))


def changed(folder: Path) -> set[str]:
    """The files of a copy that are new or not as they were."""
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {
        name.as_posix()
        for name in names
        if not (ROOT / name).exists() or (ROOT / name).read_bytes() != (folder / name).read_bytes()
    }


def run(folder: Path, *command: str) -> str:
    """Python in a copy."""
    paths = os.pathsep.join(map(str, (folder / "src", folder)))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_an_addition_touches_one_file_and_one_line(tmp_path: Path) -> None:
    copy_with_additions(tmp_path)
    assert all(text.count("\n") == 1 for _, text in LINES.values())
    written = {*NEW, *LINES, *REFERENCES, CASES}
    assert changed(tmp_path) == written
    run(tmp_path, "-m", "tests.harness.additions")
    assert changed(tmp_path) <= written | {path.relative_to(ROOT).as_posix() for path in generated_files()}


TESTS = """
tests/symbolic/layers tests/ops tests/tracing/test_namespace.py tests/eager tests/lower/queries/test_table.py
tests/backend/torch/test_operations.py tests/backend/native/scalars/test_rows.py tests/backend/native/loops/test_rows.py
tests/backend/native/stablehlo/test_operations.py tests/test_wrong_arguments.py tests/test_surface.py
"""


@pytest.mark.full
def test_the_tests_of_a_copy_hold_the_additions_to_their_references(tmp_path: Path) -> None:
    copy_with_additions(tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    run(tmp_path, "-m", "tests.harness.generated")
    own = "--ignore=tests/symbolic/layers/test_declared.py"  # where the distribution is a user's own
    run(tmp_path, "-m", "pytest", "-q", "-n", "0", own, *TESTS.split())
