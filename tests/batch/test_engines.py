"""Ray, Spark and Dask: answers of the command without an engine, also where workers are killed at random moments."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from plica.batch.engines import ENGINES, engine_of
from plica.errors import InputError, MissingExtraError
from tests.batch.conftest import BATCH, written

LIBRARIES = {"ray": ("ray",), "spark": ("pyspark",), "dask": ("distributed",)}


def is_installed(name: str) -> bool:
    return all(find_spec(library) is not None for library in LIBRARIES.get(name, ()))


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_engine_that_is_not_installed_says_how_to_install_it(
    name: str, plica: Callable[..., Result], model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in LIBRARIES[name]:
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install '\.\[{name}\]'"):
        list(engine_of(name)(str, [0], 1))
    result = plica("score", model, folder, "-o", "out", "--engine", name)
    assert result.exit_code == 2
    assert f"pip install '.[{name}]'" in result.stderr
    assert not list(Path("out").glob("part-*"))


@pytest.mark.full
@pytest.mark.parametrize("name", LIBRARIES)
def test_every_engine_answers_as_the_command_without_one(
    name: str, plica: Callable[..., Result], model: Path, folder: Path
) -> None:
    assert is_installed(name), f"to test this engine: pip install '.[{name}]'; Spark also wants a Java runtime"
    plica("score", model, folder, "--batch", BATCH, "-o", "alone.parquet")
    result = plica("score", model, folder, "--batch", BATCH, "-o", "out", "--engine", name, "--workers", 2)
    assert result.exit_code == 0, result.output
    assert written(Path("out")).equals(pq.read_table("alone.parquet"))


@pytest.mark.full
def test_ray_says_where_actors_would_take_all_processors() -> None:
    assert is_installed("ray"), "to test this engine: pip install '.[ray]'"
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with pytest.raises(InputError, match=r"--workers 2: the Ray cluster has 2 processors.*give --workers 1"):
            list(engine_of("ray")(str, [0, 1, 2], 2))
    finally:
        ray.shutdown()


def children(process: int) -> Iterator[int]:
    """The processes below one, to any depth."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    below, found = {process}, {process}
    while found:
        found = {child for child, parent in pairs if parent in below} - below
        below |= found
    yield from below - {process}


def workers_of(process: int, words: Sequence[str]) -> list[int]:
    """The processes below one whose command has one of some words, and which have torch loaded: they answer parts."""
    found = []
    for child in children(process):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            is_worker = (
                any(word in command for word in words) and b"libtorch" in Path(f"/proc/{child}/maps").read_bytes()
            )
        except OSError:  # it has ended
            continue
        found += [child] if is_worker else []
    return found


WORDS = {
    "processes": ("multiprocessing.spawn",),
    "ray": ("ray::",),
    "spark": ("pyspark.daemon", "pyspark/daemon"),
    "dask": ("multiprocessing.spawn", "multiprocessing-fork"),
}


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found by /proc")
@pytest.mark.parametrize("name", ENGINES)
def test_workers_that_are_killed_at_random_moments_lose_no_row(
    name: str, plica: Callable[..., Result], model: Path, folder: Path
) -> None:
    assert is_installed(name), f"to test this engine: pip install '.[{name}]'; Spark also wants a Java runtime"
    plica("score", model, folder, "--batch", 1, "-o", "alone.parquet")
    words = ("score", model, folder, "--batch", "1", "-o", "out", "--engine", name, "--workers", "2")
    command = [sys.executable, "-m", "plica", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    moments, kills, end = random.Random(0), 0, time.monotonic() + 500
    while process.poll() is None and time.monotonic() < end:
        time.sleep(moments.uniform(0.05, 1.0))
        found = workers_of(process.pid, WORDS[name])
        if found and kills < 3:
            os.kill(moments.choice(found), signal.SIGKILL)
            kills += 1
    said = process.communicate(timeout=60)
    assert kills, "the run was over before a worker was found"
    if process.returncode:  # all attempts of a part were killed: the run says so, and a second one goes on
        assert said[1].startswith("plica: error:"), said
        again = plica(*words)
        assert again.exit_code == 0, again.output
    assert written(Path("out")).equals(pq.read_table("alone.parquet"))
