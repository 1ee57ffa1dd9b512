"""Modules that layers hold survive a model file: their tensors do, and whoever loads it makes modules anew."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import FileFormatError, InputError, UnsupportedError
from plica.files.model import ModelFile, load_model, save_model
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import UNIT_INTERVAL, Domain, finite
from plica.symbolic.layers import EvidenceLayer, GaussianLayer, HadamardLayer, ModuleLayer, SumLayer
from tests.harness.layer_cases.module import ANSWERS, Distances, Normals
from tests.harness.oracle import numbers

Modules = dict[str, Any]
X = torch.tensor([[0.3, -1.0, 0.5, 0.0], [1.0, 0.2, -0.3, 2.0], [0.1, math.nan, math.nan, 1.0]], dtype=torch.float64)


def above(inputs: Any, units: int) -> Circuit:
    """A mixture of products of input layers."""
    product, total = HadamardLayer(units, len(inputs)), SumLayer(units, 1)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


def mixture(*modules: nn.Module) -> Circuit:
    """Modules of one variable each, one under evidence, and a density."""
    first, second, third = modules
    inputs = [
        ModuleLayer([0], 3, module=first, answers=ANSWERS),
        ModuleLayer([1], 3, module=second, answers=ANSWERS),
        EvidenceLayer(ModuleLayer([2], 3, module=third, answers=ANSWERS), observation=0.25),
        GaussianLayer([3], 3),
    ]
    return above(inputs, 3)


def three() -> Modules:
    """Modules for the keys of `mixture`, alike until something fills them."""
    return {"0.module": Normals(1, 3), "1.module": Normals(1, 3), "2.layer.module": Normals(1, 3)}


def compiled(circuit: Circuit) -> Any:
    return TorchCompiler(dtype="float64").compile(circuit)


def shaken(circuit: Circuit) -> Any:
    """A compiled circuit whose tensors are no longer as they were made."""
    found, generator = compiled(circuit), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(torch.rand(parameter.shape, generator=generator))
    return found


def save(path: Path, circuit: Any, **options: Any) -> Path:
    save_model(path, circuit.symbolic, numbers(circuit), options)
    return path


def again(file: ModelFile) -> Any:
    """The circuit of a file, as any other file is used."""
    found = compiled(file.circuit)
    found.load_state_dict({name: torch.from_numpy(value) for name, value in file.tensors.items()})
    return found


def description(path: Path) -> Any:
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["plica-model"])


def rewritten(path: Path, change: Callable[[Any, Any], object]) -> None:
    """The file with another description or other tensors, and no digest."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        described = json.loads(file.metadata()["plica-model"])
    del tensors["sha256"]
    change(described, tensors)
    save_file(tensors, path, metadata={"plica-model": json.dumps(described)})


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Any]:
    found = shaken(mixture(*three().values()))
    return save(tmp_path / "m.plica", found), found


def test_values_gradients_and_training_go_on(saved: tuple[Path, Any]) -> None:
    path, first = saved
    given = three()
    file = load_model(path, modules=given)
    assert torch.equal(given["1.module"].mean, first.leaves.module_1.mean), "filled as the file is read"
    second = again(file)
    assert list(second.state_dict()) == list(first.state_dict())
    for _ in range(3):
        gradients = []
        for one in (first, second):
            loss = -one(X).sum()
            gradients.append((loss, *torch.autograd.grad(loss, list(one.parameters()), allow_unused=True)))
            with torch.no_grad():
                for parameter, gradient in zip(one.parameters(), gradients[-1][1:], strict=True):
                    parameter.sub_(0.1 * (0.0 if gradient is None else gradient))
        for one, other in zip(*gradients, strict=True):
            assert (one is None) == (other is None)
            assert one is None or torch.equal(one, other)
    assert torch.equal(given["0.module"].mean, second.leaves.module_0.mean), "shared with whoever made it"
    drawn = [plica.queries.sample(one, 5, seed=1) for one in (first, second)]
    assert torch.equal(*drawn)


def test_what_is_written_of_what_was_read_is_the_same_file(saved: tuple[Path, Any], tmp_path: Path) -> None:
    path, _ = saved
    file = load_model(path, modules=three())
    save_model(tmp_path / "again.plica", file.circuit, file.tensors, file.options)
    assert (tmp_path / "again.plica").read_bytes() == path.read_bytes()
    found = description(path)
    assert found["version"] == 3
    kind = f"{Normals.__module__}.Normals"
    assert found["circuit"]["modules"] == {key: {"class": kind} for key in three()}


def test_a_module_of_several_layers_stays_one(tmp_path: Path) -> None:
    module = Normals(1, 3)
    found = shaken(mixture(module, module, Normals(1, 3)))
    path = save(tmp_path / "m.plica", found)
    file = load_model(path, modules={"0.module": Normals(1, 3), "2.layer.module": Normals(1, 3)})
    second = again(file)
    assert second.leaves.module_0 is file.circuit.layers[1].config["module"]
    assert torch.equal(second(X), found(X))
    assert len(list(second.parameters())) == len(list(found.parameters()))


class Tied(nn.Module):
    """A module that shares its weight with another, holds it twice, and has buffers of every kind."""

    def __init__(self, trunk: nn.Linear | None = None, *, twice: bool = True) -> None:
        super().__init__()
        self.trunk = trunk or nn.Linear(1, 3)
        self.head = self.trunk if twice else nn.Linear(1, 3)
        self.register_buffer("steps", torch.tensor(7))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("phase", torch.tensor([1 + 2j, 0.5 - 1j, 0.0]))
        self.register_buffer("cache", torch.zeros(3), persistent=False)
        self.register_buffer("nothing", torch.zeros(0, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * self.steps + self.mask + self.phase.imag + self.cache


def pair(first: Tied, second: Tied) -> Circuit:
    inputs = [ModuleLayer([v], 3, module=module, normalized=True) for v, module in enumerate((first, second))]
    return above(inputs, 3)


def test_tied_weights_and_buffers(tmp_path: Path) -> None:
    def two(*, shared: bool = True, twice: bool = True) -> Modules:
        first = Tied(twice=twice)
        return {"0.module": first, "1.module": Tied(first.trunk if shared else None, twice=twice)}

    x = torch.randn(5, 2, dtype=torch.float64)
    found = compiled(pair(*two().values()))
    found.leaves.module_0.steps.fill_(9)
    found.leaves.module_0.mask.fill_(True)
    path = save(tmp_path / "m.plica", found)
    names = [f"{key}.module.{part}" for key in (0, 1) for part in ("trunk", "head")]
    assert description(path)["shared"] == [[f"{one}.{kind}" for one in names] for kind in ("weight", "bias")]
    file = load_model(path, modules=two())
    assert not any("cache" in name for name in file.tensors)
    assert torch.equal(again(file)(x), found(x))
    assert len(list(again(file).parameters())) == len(list(found.parameters())) == 3
    for other in (two(shared=False), two(twice=False)):
        with pytest.raises(FileFormatError, match=r"circuit\.modules: '0.*' were one tensor when .* are other"):
            load_model(path, modules=other)
    path = save(tmp_path / "m.plica", compiled(pair(*two(shared=False).values())))
    with pytest.raises(FileFormatError, match=r"'0\.module\.head\.bias', .* were one tensor when they were saved"):
        load_model(path, modules=two())
    path = save(tmp_path / "m.plica", compiled(pair(*two(shared=False, twice=False).values())))
    with pytest.raises(FileFormatError, match="were other tensors when they were saved, and are one in the modules"):
        load_model(path, modules=two(shared=False))


def test_domains_and_settings(tmp_path: Path) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.table(x[:, 0].long()).exp()
            return found

    own = Domain("halves", "no half", "give halves", -0.5, math.inf, above=True)
    for domain in (finite(4), UNIT_INTERVAL, own):
        found = compiled(above([ModuleLayer([0], 2, module=Table(), domain=domain, log_space=False)], 2))
        path = save(tmp_path / "m.plica", found)
        layer = load_model(path, modules={"0.module": Table()}).circuit.layers[0]
        assert isinstance(layer, ModuleLayer)
        assert layer.domain == domain
        assert [getattr(layer.domain, name) for name in ("name", "refusal", "advice", "least", "most")] == [
            getattr(domain, name) for name in ("name", "refusal", "advice", "least", "most")
        ]
        assert not layer.log_space
        assert layer.answers == ()


class Renamed(Normals):
    """Of another name, and with the same tensors."""


GIVEN: dict[str, tuple[Callable[[], Any], str]] = {
    "none": (
        dict,
        r"circuit\.modules: a file holds no code of modules; construct them .* and pass them in Python: "
        r"plica\.load\(\.\.\., modules={key: module}\); missing: '0\.module', a 'Normals'; '1\.module', "
        r"a 'Normals'; '2\.layer\.module', a 'Normals'$",
    ),
    "one less": (
        lambda: {key: module for key, module in three().items() if key != "0.module"},
        r"modules={key: module}\); missing: '0\.module', a 'Normals'$",
    ),
    "one more": (
        lambda: {**three(), "3.module": Normals(1, 3)},
        r"a module '3\.module' is given, and the file has '0\.module', '1\.module', '2\.layer\.module'",
    ),
    "a class": (lambda: {**three(), "0.module": Normals}, r"'0\.module' was saved as a 'Normals', and a type is given"),
    "another class": (lambda: {**three(), "0.module": Renamed(1, 3)}, "and a Renamed is given; pass a module of that"),
    "one for two": (lambda: dict.fromkeys(three(), Normals(1, 3)), "were two modules .* and one is given for both"),
    "other sizes": (
        lambda: {**three(), "1.module": Normals(2, 3)},
        r"tensors do not fit the circuit: 1\.module\.mean: expected float64 \(3, 2\), found .*of the file",
    ),
    "another dtype": (
        lambda: {**three(), "1.module": Normals(1, 3).float()},
        r"1\.module\.mean: expected float32 \(3, 1\), found float64 \(3, 1\); .*module\.to changes dtypes",
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_other_modules_are_refused_and_nothing_is_filled(saved: tuple[Path, Any], case: str) -> None:
    make, message = GIVEN[case]
    given = make()
    before = {key: copy.deepcopy(module) for key, module in given.items()}
    with pytest.raises(FileFormatError, match=message) as caught:
        load_model(saved[0], modules=given)
    assert str(caught.value).startswith(f"{saved[0]}: ")
    assert "\n" not in str(caught.value)
    for key, module in given.items():
        assert isinstance(module, type) or module.state_dict().keys() == before[key].state_dict().keys()
        assert isinstance(module, type) or torch.equal(module.mean, before[key].mean)


def test_methods_that_are_gone_are_told(saved: tuple[Path, Any]) -> None:
    other: Any = type("Normals", (Distances,), {})
    with pytest.raises(
        FileFormatError, match=r"no method 'log_partition'.*\); the module is not as it was when it was saved"
    ):
        load_model(saved[0], modules={**three(), "0.module": other()})
    with pytest.raises(InputError, match="a model file: modules must be a mapping"):
        load_model(saved[0], modules=[Normals(1, 3)])  # type: ignore[arg-type]


class Keeper(nn.Module):
    """Of a state that is not only tensors with numbers."""

    def __init__(self, kept: Any) -> None:
        super().__init__()
        self.kept = kept

    def forward(self, x: Tensor) -> Tensor:
        return x

    def get_extra_state(self) -> Any:
        return self.kept

    def set_extra_state(self, state: Any) -> None:
        raise AssertionError(state)


@pytest.mark.parametrize("kept", [{"any": "object"}, torch.zeros(2)])
def test_extra_state_is_refused_by_name(tmp_path: Path, kept: Any) -> None:
    layer = ModuleLayer([0], 1, module=Keeper(kept))
    with pytest.raises(UnsupportedError, match=r"0\.module\._extra_state cannot be in a model file: .*get_extra_state"):
        save_model(tmp_path / "m.plica", above([layer], 1), {}, {})
    assert not list(tmp_path.iterdir())


def test_extra_state_is_never_given_what_a_file_has(tmp_path: Path) -> None:
    plain: Any = type("Keeper", (nn.Module,), {"forward": lambda _, x: x})
    module = plain()
    module.register_buffer("_extra", torch.zeros(2))
    path = save(tmp_path / "m.plica", compiled(above([ModuleLayer([0], 1, module=module)], 1)))

    def change(_: Any, tensors: Any) -> None:
        tensors["weight/0.module._extra_state"] = tensors.pop("weight/0.module._extra")

    rewritten(path, change)
    with pytest.raises(UnsupportedError, match=r"0\.module\._extra_state cannot be in a model file"):
        load_model(path, modules={"0.module": Keeper(torch.zeros(2))})


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.LazyLinear(1), r"0\.module\.weight .*a tensor without a shape yet; call the module with rows once"),
        (nn.Linear(1, 1, device="meta"), r"0\.module\.weight .*no[t]? .*meta"),
    ],
)
def test_modules_without_numbers_are_refused(tmp_path: Path, module: nn.Module, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        save_model(tmp_path / "m.plica", above([ModuleLayer([0], 1, module=module)], 1), {}, {})


def test_objects_that_are_no_torch_modules_are_refused(tmp_path: Path) -> None:
    class Plain:
        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(UnsupportedError, match=r"0\.module: a model file keeps .*torch\.nn\.Module, found Plain"):
        save_model(tmp_path / "m.plica", above([ModuleLayer([0], 1, module=Plain())], 1), {}, {})


def test_tensors_of_modules_must_be_there_to_be_saved(tmp_path: Path) -> None:
    circuit = mixture(*three().values())
    state = numbers(compiled(circuit))
    del state["2.layer.module.factor"]
    with pytest.raises(FileFormatError, match=r"2\.layer\.module\.factor: expected float64 \(3,\), found none"):
        save_model(tmp_path / "m.plica", circuit, state, {})


def test_a_module_that_changes_what_it_loads_is_refused(tmp_path: Path) -> None:
    class Table(nn.Linear):
        pass

    class Other(nn.Linear):
        def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
            state[f"{prefix}weight"] = state[f"{prefix}weight"] + 1
            super()._load_from_state_dict(state, prefix, *rest)

    Other.__name__ = "Table"
    path = save(tmp_path / "m.plica", compiled(above([ModuleLayer([0], 2, module=Table(1, 2))], 2)))
    with pytest.raises(FileFormatError, match=r"0\.module\.weight holds other numbers after it was loaded"):
        load_model(path, modules={"0.module": Other(1, 2)})


DAMAGED: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "no records": (lambda file, _: file["circuit"].pop("modules"), "is given, and the file has none"),
    "another key": (
        lambda file, _: file["circuit"]["layers"][0]["config"].update(module={"module": "9.module"}),
        r"layer 0\.module: there is no module '9\.module' among the modules of the file",
    ),
    "keys changed about": (
        lambda file, _: [
            file["circuit"]["layers"][place]["config"].update(module={"module": f"{1 - place}.module"})
            for place in (0, 1)
        ],
        r"no layer holds a module at '0\.module'; the file is damaged",
    ),
    "code": (
        lambda file, _: file["circuit"]["modules"]["0.module"].update({"class": "os.system"}),
        "was saved as a 'system', and a Normals is given",
    ),
    "a record more": (
        lambda file, _: file["circuit"]["modules"]["0.module"].update(code="print()"),
        r"circuit\.modules\.0\.module: 'code' is not known",
    ),
    "a module elsewhere": (
        lambda file, _: file["circuit"]["layers"][0]["config"].update(scope={"module": "0.module"}),
        "layer 0: ModuleLayer: scope: expected Iterable, found Normals",
    ),
    "a missing tensor": (
        lambda _, tensors: tensors.pop("weight/0.module.mean"),
        r"0\.module\.mean: expected float64 \(3, 1\), found none",
    ),
    "an empty domain": (
        lambda file, _: file["circuit"]["layers"][0]["config"]["domain"]["domain"].update(least=3, most=2),
        r"layer 0\.domain cannot be rebuilt .*there is no value from 3 to 2",
    ),
    "a huge domain": (
        lambda file, _: file["circuit"]["layers"][0]["config"]["domain"]["domain"].update(most=10**400),
        r"layer 0\.domain",
    ),
    "shared names": (lambda file, _: file.update(shared=[["x", "y"]]), "'x', 'y' were one tensor"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused(saved: tuple[Path, Any], case: str) -> None:
    change, message = DAMAGED[case]
    rewritten(saved[0], change)
    given = three()
    with pytest.raises(FileFormatError, match=message):
        load_model(saved[0], modules=given)
    assert torch.equal(given["0.module"].mean, Normals(1, 3).mean)


def test_a_changed_weight_is_found_before_a_module_is_filled(saved: tuple[Path, Any]) -> None:
    path, first = saved
    content, weight = path.read_bytes(), numbers(first)["1.module.factor"].tobytes()
    place = content.index(weight)
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    given = three()
    with pytest.raises(FileFormatError, match="the file is damaged: its digest does not match its contents"):
        load_model(path, modules=given)
    assert torch.equal(given["1.module"].factor, Normals(1, 3).factor)
