"""Who may import whom: a module imports only its own folder and folders with lower numbers; torch is found late.

No module imports one that imports it, by way of others or not.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import plica

ROOT = Path(plica.__file__).parent
LEVELS = {
    "errors": -2,  # the tree of errors is below everything
    "extras": -1,  # libraries that may be missing
    "logger": -1,
    "notebooks": -1,  # tables of HTML, and the explorer, found late
    "paths": -1,
    "public": -1,
    "forks": -1,  # locks
    "single_flight": -1,
    "arguments": 0,  # what callers pass, checked
    "graph": 0,
    "runtime": 0,  # loads native files: needs errors, paths and locks alone
    "ir": 1,
    "ops": 2,
    "rules": 2,
    "tracing": 3,
    "passes": 3,
    "eager": 4,
    "constants": 5,
    "symbolic": 5,
    "templates": 6,
    "lower": 6,
    "backend/torch": 7,
    "backend/native": 7,
    "distributed": 7,  # processes, by torch.distributed
    "learn": 8,
    "files": 8,
    "draw": 8,
    "data": 9,
    "frontend": 9,
    "native": 10,
    "numpy": 10,  # faces of eager/ and frontend/
    "pipeline": 10,
    "queries": 10,
    "utils": 10,
    "explore": 10,  # the page that shows circuits and Programs
    "tables": 11,
    "batch": 12,
    "bench": 12,
    "cli": 13,
    "sklearn": 13,
    "__main__": 14,
    "__init__": 14,  # the public names, nothing else
}
Folders = tuple[str, ...]
# (package, folders that may import it, folders that may import it within a function alone)
OPTIONAL = (
    ("torch", ("backend/torch", "distributed", "learn"), ("batch", "bench", "cli", "tables")),
    ("matplotlib", (), ("draw", "cli")),
    ("sklearn", ("sklearn",), ("files", "templates")),
    ("array_api_compat", ("eager", "constants", "frontend"), ()),
    ("cryptography", (), ("runtime",)),
)
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "backend" / "__init__.py")


def _folder(parts: tuple[str, ...]) -> str:
    """The entry of `LEVELS` that a path within the package belongs to."""
    return "/".join(parts[:2]) if parts[0] == "backend" else parts[0]


@cache
def _imports(path: Path, *, typed: bool = False) -> tuple[tuple[str, int, bool], ...]:
    """What a module imports: (dotted name, line, whether within a function); `typed`: for type checkers alone too."""
    return tuple(_read_imports(path.read_text(), path, typed))


def _read_imports(text: str, path: Path, typed: bool) -> Iterator[tuple[str, int, bool]]:
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(text), False)]
    wanted = ast.AST if "import_module" in text else (ast.stmt, ast.ExceptHandler, ast.match_case)
    while todo:
        node, late = todo.pop()
        if not typed and isinstance(node, ast.If) and _is_type_checking(node.test):
            todo += [(child, late) for child in node.orelse]
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield from ((f"{node.module}.{alias.name}", node.lineno, late) for alias in node.names)
        elif isinstance(node, ast.Call) and _is_import_module(node.func):
            yield ast.unparse(node.args[0]).strip("'"), node.lineno, True
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        todo += [(child, late) for child in ast.iter_child_nodes(node) if isinstance(child, wanted)]


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name | ast.Attribute) and ast.unparse(test).endswith("TYPE_CHECKING")


def _is_import_module(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr != "import_module":
        return False
    return ast.unparse(function) == "importlib.import_module"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("folder", LEVELS)
def test_modules_import_only_lower_folders(folder: str) -> None:
    paths = [path for path in MODULES if _folder(path.relative_to(ROOT).with_suffix("").parts) == folder]
    assert paths
    wrong = []
    for path, (name, line, _) in [(one, imported) for one in paths for imported in _imports(one)]:
        if name.split(".")[0] != "plica":
            continue
        target = _folder((*name.split(".")[1:], "__init__"))
        if target not in LEVELS:
            target = "__init__"  # `from plica import trace`
        if target != folder and LEVELS[target] >= LEVELS[folder]:
            wrong.append(f"{path}:{line} imports {name}: {folder} is {LEVELS[folder]}, {target} is {LEVELS[target]}")
    assert not wrong, "\n".join(wrong)


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _graph(imports: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """The modules that each module imports, of the names that it imports: modules, or what stands in them."""
    graph: dict[str, set[str]] = {}
    for module, names in imports.items():
        imported = {name if name in imports else name.rpartition(".")[0] for name in names}
        graph[module] = {name for name in imported if name in imports and name != module}
    return graph


def _circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules of one circle of imports, each before the one that imports it; none where there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle_of_imports() -> None:
    """Imports for type checkers and imports within functions count too."""
    graph = _graph({_module(path): [name for name, _, _ in _imports(path, typed=True)] for path in MODULES})
    assert not _circle(graph), "\n".join(_circle(graph))


@pytest.mark.parametrize(
    "text", ["import plica.b", "if TYPE_CHECKING:\n    from plica.b import C", "def f():\n    from plica import b"]
)
def test_a_circle_of_imports_is_found(text: str) -> None:
    """Whichever way one of its modules is imported."""
    names = [name for name, _, _ in _read_imports(text, Path("a.py"), typed=True)]
    graph = _graph({"plica": [], "plica.a": names, "plica.b": ["plica.c.thing"], "plica.c": ["plica.a"]})
    assert set(_circle(graph)) == {"plica.a", "plica.b", "plica.c"}
    assert not _circle({**graph, "plica.c": set()})


@pytest.mark.parametrize("package", OPTIONAL, ids=lambda row: row[0])
def test_optional_packages_are_imported_where_they_belong(package: tuple[str, Folders, Folders]) -> None:
    name, always, within_functions = package
    wrong = []
    for path in MODULES:
        folder = _folder(path.relative_to(ROOT).with_suffix("").parts)
        for imported, line, late in _imports(path):
            if imported.split(".")[0] == name and folder not in (*always, *(within_functions if late else ())):
                wrong.append(f"{path}:{line} imports {imported}")
    assert not wrong, "\n".join(wrong)


def test_every_folder_has_a_number() -> None:
    folders = {_folder(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
    assert folders <= set(LEVELS)


def _python(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "import plica",
        "import plica.numpy, plica.queries, plica.cli.main",
        "import plica.draw.circuit",
    ],
)
def test_importing_plica_finds_no_optional_package(statement: str) -> None:
    found = "[name for name in ('torch', 'matplotlib', 'sklearn') if name in sys.modules]"
    assert _python(f"import sys\n{statement}\nprint({found})").strip() == "[]"


PROGRAMS = """
import plica, plica.numpy as pnp
from plica.templates.data_modalities import image_data
from plica.backend.torch.compiler import TorchCompiler
from plica.lower.fold.groups import fold_circuit
from tests.harness.circuits import CIRCUITS
from tests.harness.folding import fold_nodes

def scores(x, y):
    n, m = x.shape
    big = pnp.reshape(pnp.concat([x, x], axis=1), (2 * m, n))
    return pnp.logsumexp(big, axis=0), pnp.broadcast_to(y, (n * m, m)), pnp.zeros((n + m * m + 1,))

def grown(x):
    for _ in range(6):
        x = pnp.concat([x, x[1:]])
    return x

print(plica.trace(grown, plica.spec("n")))
print(plica.trace(scores, plica.spec(("n", "m")), plica.spec(("m",))))
circuit = image_data((1, 3, 3), input_layer="categorical", num_input_units=2, sum_product_layer="cp", num_sum_units=2)
compiled = TorchCompiler().compile(circuit)
print(compiled.program)
print(compiled.code)

names = [f"node {number}" for number in range(40)]
inputs = {name: [names[place // 2], names[place // 3]] if place > 5 else [] for place, name in enumerate(names)}
print(fold_nodes(names, names[-1:], inputs.__getitem__, lambda name: (len(inputs[name]), name[-1] in "135")))
for name, build in CIRCUITS.items():
    described = build()
    for group in fold_circuit(described).groups:
        print("folded", name, [described.layer_index(layer) for layer in group.members], group.in_fold_idx)
"""


@pytest.mark.full
def test_programs_and_folds_print_the_same_under_every_hash_seed() -> None:
    first, second = (_python(PROGRAMS, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second
    assert "f32[n,m]" in first
    assert "log_matmul_exp" in first
    assert first.count("\nfolded") > 40
