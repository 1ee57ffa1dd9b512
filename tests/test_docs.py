"""Every example of the documentation runs, and its generated parts are up to date."""

import doctest
import importlib
import re
import shlex
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import plica
from plica.cli.main import main
from tests.harness import prose
from tests.harness.circuits import pixels
from tests.harness.generated import TABLES, generated_files, made, tables_of
from tests.harness.own_operations import own_operations
from tests.harness.pages import LANGUAGES, blocks_of, columns_of, is_typed, run_page, run_program

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "docs/native", "docs/start")
PAGES = [page for folder in (".", *FOLDERS) for page in sorted(ROOT.glob(f"{folder}/*.md"))]


FULL = {"docs/index.md", "docs/native.md", "docs/scale.md", "docs/serving.md", "docs/tables.md"}
"""Pages that run with the full suite alone. Other tests show what they show, but for engines."""


def _pages(pages: Sequence[Path]) -> pytest.MarkDecorator:
    """One test for each page; some under `make test-all` alone."""
    names = {page.relative_to(ROOT).as_posix(): page for page in pages}
    return pytest.mark.parametrize(
        "page",
        [pytest.param(page, id=name, marks=pytest.mark.full if name in FULL else []) for name, page in names.items()],
    )


@_pages([page for page in PAGES if page.parent != ROOT])
def test_examples_of_a_page_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # pages read files of `examples`
    with own_operations():
        failures, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert failures == 0


def test_every_public_name_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    names, shown = (importlib.import_module(module) for module in ("public_names", "shown_examples"))
    groups = {module: names.kinds(module) for module in names.MODULES}
    called = [(module, name) for module, kinds in groups.items() for name in (*kinds["classes"], *kinds["functions"])]
    assert len(called) > 500
    assert [f"{module}.{name}" for module, name in called if not shown.has_example(module, name)] == []


def test_an_example_of_a_module_has_what_it_needs_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    [example] = importlib.import_module("shown_examples").examples_of("plica.symbolic.parameters", "SigmoidParameter")
    lines = example.text.splitlines()
    assert lines[:2] == [">>> import numpy as np", ">>> import plica.numpy as pnp"]
    assert lines[2].startswith(">>> x, y = ")
    assert lines[3].startswith(">>> SigmoidParameter(")
    assert len(lines) == 5


@pytest.mark.parametrize("path", generated_files(), ids=lambda path: path.name)
def test_what_is_generated_is_up_to_date(path: Path) -> None:
    """`python -m tests.harness.generated` makes it anew."""
    assert path.read_text() == made(path)


def test_every_generated_table_is_in_one_page() -> None:
    found = [name for path in generated_files() for name in tables_of(path.read_text())]
    assert sorted(found) == sorted(TABLES)


def test_every_link_leads_somewhere() -> None:
    others = [page for page in prose.pages() if page.parent.name != "tutorials"]  # those link to pages that are built
    pages = {*PAGES, *others, *ROOT.glob("docs/adr/*.md"), ROOT / "changes" / "README.md"}
    links = {page: re.findall(r"\]\((?!\w+:)([^)#]+)(?:#[^)]*)?\)", page.read_text()) for page in pages}
    assert links[ROOT / "README.md"]
    assert [(page, path) for page, paths in links.items() for path in paths if not (page.parent / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_names_its_language(page: Path) -> None:
    unknown = [block.text for block in blocks_of(page) if block.language not in LANGUAGES]
    assert not unknown


def test_blocks_that_no_test_runs_are_known() -> None:
    """They install packages, run this suite, or need a container engine."""
    numbers = {page.relative_to(ROOT).as_posix(): sum(block.is_not_run for block in blocks_of(page)) for page in PAGES}
    assert {name: number for name, number in numbers.items() if number} == {
        "CONTRIBUTING.md": 2,
        "README.md": 1,
        "docs/explore.md": 1,
        "docs/index.md": 1,
        "docs/install.md": 2,
        "docs/native.md": 1,
        "docs/serving.md": 2,
        "docs/start/index.md": 1,
    }


TYPED = [page for page in PAGES if any(map(is_typed, blocks_of(page)))]


@_pages(TYPED)
def test_what_a_reader_types_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path)


COLUMNS = columns_of(ROOT / "docs/start/from_other_libraries.md")
INSTALLED = {
    "cirkit": find_spec("cirkit"),
    "PyJuice": find_spec("pyjuice") and torch.cuda.is_available(),
    "SPFlow": find_spec("spflow"),
    "scikit-learn": find_spec("sklearn"),
    "JAX": find_spec("jax"),
}


SLOW = {"Plica beside scikit-learn"}  # three models are trained; tests of `plica.sklearn` train smaller ones


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in SLOW else [])
        for name in COLUMNS
        if INSTALLED.get(name, name.startswith("Plica"))
    ],
)
def test_a_column_of_code_runs(name: str) -> None:
    assert {*COLUMNS} == {*INSTALLED, *(f"Plica beside {library}" for library in INSTALLED)}
    run_program(COLUMNS[name])


def test_calls_of_cirkit_run_unchanged() -> None:
    assert COLUMNS["cirkit"].replace("cirkit", "plica") == COLUMNS["Plica beside cirkit"]


def test_figures_of_the_readme_are_those_of_the_circuit() -> None:
    text = (ROOT / "README.md").read_text()
    [figures] = re.findall(r"quad graph of (\d+) layers folds into (\d+) groups, and its Program has (\d+) equ", text)
    circuit = pixels(28, 16, graph="quad-graph", layer="cp-t", values=256)
    model = plica.compile(circuit)
    assert [len(circuit.layers), len(model.folded.groups), len(model.program.equations)] == list(map(int, figures))


def _tables_of_the_readme() -> tuple[list[list[str]], list[list[str]]]:
    """The cells of the table of pets before and after `plica complete`, with the names of its columns."""
    lines = [line for line in (ROOT / "README.md").read_text().splitlines() if line.count("|") == 12]
    cells = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines if not line.startswith("|---")]
    return [line[:5] for line in cells], [line[6:] for line in cells]


def test_the_readme_shows_the_table_that_its_commands_read() -> None:
    lines = (ROOT / "examples" / "pets.csv").read_text().splitlines()
    before, after = _tables_of_the_readme()
    assert before == [line.split(",") for line in lines[: len(before)]]
    assert [name for row in after for name in row].count("") == 0


@pytest.mark.full
def test_the_readme_shows_what_its_commands_fill_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = next(block.text for block in blocks_of(ROOT / "README.md") if "plica complete" in block.text)
    printed = ""
    for line in commands.splitlines():
        result = CliRunner().invoke(main, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
        printed += result.output
    columns = next(block.text for block in blocks_of(ROOT / "docs/tables.md") if "categorical: pet" in block.text)
    assert columns in printed
    _, after = _tables_of_the_readme()
    filled = [line.split(",") for line in Path("full.csv").read_text().splitlines()[: len(after)]]
    assert [[*row[:2], *row[3:]] for row in filled] == [[*row[:2], *row[3:]] for row in after]
    assert [float(row[2]) for row in filled[1:]] == pytest.approx([float(row[2]) for row in after[1:]], abs=0.5)


def test_the_job_of_kubernetes_runs_the_command_that_is_tested() -> None:
    command, job = (
        next(line for block in blocks_of(ROOT / "docs/scale.md") for line in block.text.splitlines() if begin(line))
        for begin in (lambda line: line.startswith("torchrun"), lambda line: "- torchrun" in line)
    )
    assert job.strip() == f"- {command}"


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {name for entries in lists for entry in entries for name in re.findall(r"^[\w-]+", entry)}
    explained = (ROOT / "docs/dependencies.md").read_text()
    unexplained = names - {"plica"} - set(re.findall(r"[\w-]+", explained))
    assert not unexplained


def test_every_decision_is_in_the_index_with_its_date() -> None:
    lines = (ROOT / "docs" / "adr" / "README.md").read_text().splitlines()
    expected = []
    for path in sorted((ROOT / "docs" / "adr").glob("0*.md")):
        title, _, decided, *_ = path.read_text().splitlines()
        number, name = title.removeprefix("# ").split(" ", 1)
        date = decided.removeprefix("Decided ").removesuffix(".")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", date), path.name
        expected.append(f"| {number} | [{name}]({path.name}) | {date} |")
    assert [line for line in lines if line.startswith("| 0")] == expected


def test_names_of_the_glossary_exist() -> None:
    """Those of classes, functions and files."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    files = {path.relative_to(ROOT / "src" / "plica").as_posix() for path in (ROOT / "src" / "plica").rglob("*")}
    rows = [
        line.split("|") for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.count("|") == 5
    ]
    names = [name for row in rows for name in re.findall(r"`([\w./]+)`", row[3])]
    assert len(names) > 50
    for name in names:
        is_file = any(one == name.rstrip("/") or one.endswith("/" + name) for one in files)
        assert is_file or all(re.search(rf"\b{part}\b", source) for part in name.strip(".").split(".")), name
