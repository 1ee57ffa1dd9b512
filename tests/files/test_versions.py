"""Files of older versions keep their meaning. `data/version_1.plica` was written when version 1 was the only one; its
options hold rows of data and the log-likelihoods that it had then."""

import copy
from pathlib import Path
from typing import Any

import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.files.model import ModelFile, load_model, save_model
from plica.files.versions import UPGRADES, VERSION, upgraded, version_of
from plica.symbolic.layers import CategoricalLayer
from tests.harness.model_mutations import ModelParts

OLD = Path(__file__).parent / "data" / "version_1.plica"
KEYS = ["table", "2.logits", "3.logits", "4.probs", "5.mean", "5.stddev", "6.weight", "8.weight"]


def assert_means_the_same(loaded: ModelFile) -> None:
    compiled = TorchCompiler(dtype=torch.float64).compile(loaded.circuit)
    assert list(compiled.state_dict()) == KEYS
    compiled.load_state_dict({name: torch.from_numpy(value) for name, value in loaded.tensors.items()})
    found = compiled(torch.tensor(loaded.options["rows"], dtype=torch.float64))[:, 0, 0]
    torch.testing.assert_close(found, torch.tensor(loaded.options["expected"], dtype=torch.float64))


def test_an_old_file_means_the_same_today() -> None:
    assert ModelParts.read(OLD).description["version"] == 1
    assert_means_the_same(load_model(OLD))


def test_every_version_has_a_step_to_the_next() -> None:
    assert sorted(UPGRADES) == list(range(1, len(UPGRADES) + 1))
    assert len(UPGRADES) + 1 == VERSION


def test_logits_of_version_1_are_normalized_in_version_2(tmp_path: Path) -> None:
    loaded = load_model(OLD)
    for layer in loaded.circuit.input_layers:
        if isinstance(layer, CategoricalLayer) and layer.logits is not None:
            last = layer.logits.output
            assert type(last).__name__ == "LogSoftmaxParameter"
            assert last.config == {"axis": -1}
            assert last.shape == (layer.num_output_units, layer.num_categories)
    assert_means_the_same(loaded)
    save_model(tmp_path / "new.plica", loaded.circuit, loaded.tensors, loaded.options)
    description = ModelParts.read(tmp_path / "new.plica").description
    assert description["version"] == 2  # the oldest that says all of it
    nodes = [node["class"] for node in description["circuit"]["nodes"]]
    assert_means_the_same(load_model(tmp_path / "new.plica"))
    assert nodes.count("LogSoftmaxParameter") == 4  # once for each layer; a file of version 2 is left as it is
    again = ModelParts.read(tmp_path / "new.plica").description
    assert upgraded(copy.deepcopy(again), 2) == again


def test_parameters_that_layers_share_stay_shared_and_other_layers_as_they_are() -> None:
    description = ModelParts.read(OLD).description
    circuit = description["circuit"]
    first, third = (circuit["layers"][i]["params"] for i in (0, 2))
    third["logits"] = copy.deepcopy(first["logits"])
    before = copy.deepcopy(circuit)
    upgraded(description, 2)
    assert description["version"] == 2
    assert first["logits"] == third["logits"]
    assert circuit["nodes"][: len(before["nodes"])] == before["nodes"]
    assert [node["class"] for node in circuit["nodes"][len(before["nodes"]) :]] == ["LogSoftmaxParameter"] * 3
    for new, old in zip(circuit["layers"], before["layers"], strict=True):
        assert (new == old) == ("logits" not in old["params"])


def test_layers_among_the_settings_of_others_are_upgraded() -> None:
    description = ModelParts.read(OLD).description
    layers = description["circuit"]["layers"]
    before = copy.deepcopy(layers[0])
    layers[7]["config"]["inner"] = {"tuple": [{"layer": copy.deepcopy(before)}]}
    upgraded(description, 2)
    (found,) = layers[7]["config"]["inner"]["tuple"]
    assert found["layer"]["params"] == layers[0]["params"] != before["params"]


def test_the_oldest_version_that_says_all_of_it_is_written() -> None:
    plain: Any = {
        "layers": [{"class": "A", "config": {"domain": None, "n": {"tuple": [1]}}, "params": {}}],
        "nodes": [],
    }
    assert version_of(plain) == 2
    assert version_of({**plain, "complete": {}, "data_scope": [0]}) == VERSION == 5
    assert version_of({**plain, "data_scope": [0]}) == 4
    assert version_of({**plain, "modules": {}}) == 3
    plain["layers"][0]["config"]["n"] = {"tuple": [{"domain": {"name": "reals"}}]}
    assert version_of(plain) == 3
