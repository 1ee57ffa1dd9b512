"""Pages of the explorer as text: alone, in notebooks, and by the command."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import plica
from plica.cli.main import main
from plica.explore import explore, explore_record
from plica.explore.page import page
from plica.files.model import save_model
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer
from tests.explore.test_record import image


def record_of(text: str) -> dict[str, object]:
    (data,) = re.findall(r'<script type="application/json" class="record">(.*?)</script>', text, re.DOTALL)
    content: dict[str, object] = json.loads(data)
    return content


def test_a_page_holds_its_record_and_loads_nothing(tmp_path: Path) -> None:
    circuit = plica.compile(image(2))
    explore(circuit, tmp_path / "page.html", title="</script><b>", image_shape=(1, 2, 2))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert record_of(text) == json.loads(
        json.dumps(explore_record(circuit, title="</script><b>", image_shape=(1, 2, 2)))
    )
    assert not re.search(r"<link|@import|url\(|\ssrc=|fetch\(|XMLHttpRequest|WebSocket", text)
    assert "connect-src" not in text  # what the policy does not name, it forbids
    assert "default-src 'none'" in text
    assert "<b>" not in text


@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "described"])
def test_notebooks_show_the_explorer_without_elkjs(is_compiled: bool) -> None:
    circuit = image(2)
    shown = (plica.compile(circuit) if is_compiled else circuit)._repr_html_()
    (text,) = re.findall(r'^<iframe srcdoc="([^"]*)"', shown)
    content = record_of(html.unescape(text))
    stages = content["stages"]
    assert isinstance(stages, list)
    assert [stage["name"] for stage in stages] == ["described", "optimized", "folded"][: 3 if is_compiled else 1]
    assert all(len(stage["places"]) == len(stage["kind"]) for stage in stages)
    assert len(shown) < 200_000 < len(page(content))


def test_the_command_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    leaf, total = CategoricalLayer([0], 2, num_categories=3), SumLayer(2, 1)
    circuit = Circuit([leaf, total], {total: [leaf]}, [total])
    tensors = {name: tensor.numpy() for name, tensor in plica.compile(circuit).state_dict().items()}
    save_model("model.plica", circuit, tensors, {"semiring": "lse-sum"})
    np.save("rows.npy", np.asarray([[0], [2], [1]]))
    result = CliRunner().invoke(main, ["explore", "model.plica", "--rows", "rows.npy", "-n", "2"])
    assert (result.exit_code, result.output) == (0, "wrote model.html\n")
    content = record_of(Path("model.html").read_text(encoding="utf-8"))
    assert content["title"] == "model.plica"
    assert [row["x"] for row in content["rows"]] == [[0.0], [2.0]]  # type: ignore[attr-defined]
    assert content["seconds"]
    refused = CliRunner().invoke(main, ["explore", "model.plica", "-o", "model.plica"])
    assert refused.exit_code == 2
