"""Runs the code blocks of a page in their order, as a reader who types them does.

A block is `sh`, commands for a shell, `python`, a program, or `text`, which nobody types. Doctest runs examples with
`>>>`; they are left out here. A page marks commands that no test can run: `sh no-run`. They need a network, a
container engine or a cluster.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from click.testing import CliRunner

from plica.cli.main import main

ROOT = Path(__file__).parents[2]
LANGUAGES = ("python", "sh", "text")
_PATIENCE = 60.0  # seconds until a service answers
_LESS = ("--epochs", "1", "--units", "2")
"""What is added to `plica train`: the last value of an option counts."""
_LESS_OF_DIGITS = ("--region-graph", "quad-tree-4", "--batch", "500")
"""What is added for the bundled digits, whose default graph has twice the levels."""
_FENCE = re.compile(r"^```(\w*)( no-run)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A code block: the language that its fence names, whether it says `no-run`, and the text."""

    language: str
    is_not_run: bool
    text: str


def blocks_of(page: Path) -> list[Block]:
    """The code blocks of a page."""
    return [Block(language, bool(mark), text) for language, mark, text in _FENCE.findall(page.read_text())]


def is_typed(block: Block) -> bool:
    """Whether a reader types the block, no doctest runs it, and a test can."""
    if block.is_not_run:
        return False
    return block.language == "sh" or (block.language == "python" and ">>>" not in block.text)


def columns_of(page: Path) -> dict[str, str]:
    """The programs in the columns of a page: those of tables with a library beside Plica.

    A program of Plica is called by the library beside it, as in "Plica beside JAX".
    """
    programs: dict[str, str] = {}
    for library, rows in re.findall(
        r"^\| ([\w-]+) \| Plica \|\n\|---\|---\|\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE
    ):
        cells = [re.split(r" ?\| ?", row)[1:3] for row in rows.splitlines()]
        for name, column in ((library, 0), (f"Plica beside {library}", 1)):
            programs[name] = "\n".join(row[column].strip("`") for row in cells)
    return programs


def run_page(page: Path, folder: Path) -> None:
    """Run what a reader types, in a folder with the data that readers of the page have and the examples.

    Raises:
        AssertionError: A command or a program fails; the message has its output.
    """
    for name in _DATA.get(page.name, ()):
        _FILES[name](folder / name)
    (folder / "examples").symlink_to(ROOT / "examples")
    port = _free_port()
    with ExitStack() as services:
        for block in filter(is_typed, blocks_of(page)):
            text = block.text.replace("localhost:8000", f"localhost:{port}").replace("--port 8000", f"--port {port}")
            if block.language == "python":
                run_program(text)
                continue
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    _run_command(words, services)


def _run_command(words: list[str], services: ExitStack) -> None:
    if words[0] == "plica":
        more = [
            *(_LESS if words[1] == "train" else ()),
            *(_LESS_OF_DIGITS if words[1:3] == ["train", "digits"] else ()),
        ]
        result = CliRunner().invoke(main, [*words[1:], *more], prog_name="plica")
        assert result.exit_code == 0, f"{shlex.join(words)}\n{result.output}"
    elif words[:3] == ["python", "-m", "examples.serve"]:
        services.enter_context(_serving(words))
    elif words[:3] == ["ray", "job", "submit"]:  # what is submitted, on a cluster of this machine
        _run_command(words[words.index("--") + 1 :], services)
    elif words[0] == "spark-submit":
        _run_process("pyspark.bin.spark-submit", *_here(words[1:], {"--master": "local[2,4]"}))
    elif words[0] == "torchrun":
        _run_process(
            "torch.distributed.run", *_here(words[1:], {"--nnodes": "1", "--rdzv-endpoint": "localhost:0"}), *_LESS
        )
    elif words[0] == "curl":
        _ask(words[1:])
    else:
        raise AssertionError(
            f"no test runs {words[0]!r}; add it to tests/harness/pages.py, or mark the block `sh no-run`"
        )


def _here(words: list[str], values: Mapping[str, str]) -> list[str]:
    """Words of a cluster with the values that options have on this machine."""
    return [values.get(before, word) for before, word in zip(["", *words], words, strict=False)]


def _run_process(module: str, *words: str) -> None:
    if module == "pyspark.bin.spark-submit":
        import pyspark

        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), *words]
    else:
        command = [sys.executable, "-m", module, *words]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"


def run_program(program: str) -> None:
    """Runs a program with names of its own; modules that pages import are imported already."""
    try:
        exec(compile(program, "<page>", "exec"), {"__name__": "__main__"})
    except Exception as error:
        raise AssertionError(f"{program}\n{traceback.format_exc()}") from error


@contextmanager
def _serving(words: list[str]) -> Iterator[None]:
    """The service of a page, until the page ends."""
    with subprocess.Popen([sys.executable, *words[1:]], stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_for(process, int(words[words.index("--port") + 1]))
            yield
        finally:
            process.terminate()


def _wait_for(process: subprocess.Popen[str], port: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < end, "the service does not answer"
            time.sleep(0.05)
        else:
            return


def _ask(words: list[str]) -> None:
    """What `curl URL -H HEADER -d BODY --data-binary @FILE` asks; the answer must be JSON without an error."""
    headers: dict[str, str] = {}
    body, url = None, ""
    values = iter(words)
    for word in values:
        if word == "-H":
            name, _, value = next(values).partition(":")
            headers[name] = value.strip()
        elif word in ("-d", "--data-binary"):
            value = next(values)
            body = Path(value[1:]).read_bytes() if value.startswith("@") else value.encode()
        else:
            assert not word.startswith("-"), f"no test knows the option {word} of curl"
            url = word
    request = urllib.request.Request(f"http://{url}", body, headers)
    with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
        assert "error" not in json.load(answer)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _write_images(path: Path) -> None:
    np.savez(path, images=np.random.default_rng(0).integers(0, 4, (60, 6, 6)).astype(np.uint8))


def _write_rows(path: Path) -> None:
    np.save(path, np.random.default_rng(0).integers(0, 17, (5, 64)))


def _write_table(missing: float) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        rng = np.random.default_rng(0)
        lines = ["age,pet,weight"]
        for pet, age in zip(rng.choice(["cat", "dog"], 80), rng.integers(1, 20, 80), strict=True):
            cells = [age, pet, round(float(rng.uniform(3, 9)), 2)]
            lines.append(",".join("" if rng.random() < missing else str(cell) for cell in cells))
        path.write_text("\n".join(lines) + "\n")

    return write


def _write_folder(path: Path) -> None:
    path.mkdir()
    for part in range(3):
        _write_table(0.2)(path / f"{part}.csv")


_FILES: Mapping[str, Callable[[Path], None]] = {
    "my_images.npz": _write_images,
    "rows.npy": _write_rows,
    "table.csv": _write_table(0.0),
    "holes.csv": _write_table(0.2),
    "rows": _write_folder,
}
"""Writers of the data that readers have, by the names that pages give it."""

_DATA: Mapping[str, tuple[str, ...]] = {
    "scale.md": ("rows.npy", "table.csv", "rows"),
    "tables.md": ("table.csv", "holes.csv"),
    "training.md": ("my_images.npz",),
}
"""What readers of a page have of their own. On other pages they make what they read."""
