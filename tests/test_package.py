"""The package's metadata, and the files that services read: workflows, forms of issues, the citation, fragments."""

import re
import tomllib
from collections.abc import Callable
from email import message_from_string
from pathlib import Path

import hatchling.build
import pytest
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()
_LINK = re.compile(r"\]\(([^)]*)\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, list[str]]]:
    """The fields of the package that is built where the repository has an address; its description is `text`."""

    def read(address: str) -> dict[str, list[str]]:
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv("PLICA_REPOSITORY", address)
        folder = hatchling.build.prepare_metadata_for_build_wheel(str(tmp_path))
        message = message_from_string((tmp_path / folder / "METADATA").read_text())
        return {"text": [str(message.get_payload())], **{name: message.get_all(name, []) for name in message}}

    return read


def test_links_of_a_release_lead_to_files_of_its_tag(metadata) -> None:
    address, tag = "https://host.invalid/owner/plica", f"v{PROJECT['project']['version']}"
    fields = metadata(address + "/")
    (text,) = fields["text"]
    assert fields["Description-Content-Type"] == ["text/markdown"]
    assert f"Issues, {address}/issues" in fields["Project-URL"]
    assert len(_LINK.findall(text)) == len(_LINK.findall(README))
    for link in _LINK.findall(text):
        kind, _, path = link.removeprefix(f"{address}/").partition(f"/{tag}/")
        assert kind == ("raw" if Path(path).suffix in (".svg", ".png") else "blob")
        assert (ROOT / path).exists(), link
    assert _CODE.findall(text) == _CODE.findall(README)


def test_without_an_address_nothing_leads_nowhere(metadata) -> None:
    fields = metadata("")
    (text,) = fields["text"]
    assert not _LINK.findall(text)
    assert "Project-URL" not in fields
    assert "docs/tables.md" in text
    assert _CODE.findall(text) == _CODE.findall(README)


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_files_of_services_fit_their_schemas(schema: str, pattern: str) -> None:
    files = [str(path) for path in sorted(ROOT.glob(pattern))]
    assert files
    result = CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{schema}", *files])
    assert result.exit_code == 0, result.output


def test_the_citation_is_of_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {PROJECT['project']['version']}\n" in citation
    assert f"\nlicense: {PROJECT['project']['license']}\n" in citation


def test_every_fragment_has_a_kind_and_a_few_sentences() -> None:
    kinds = "|".join(kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"])
    for path in {*(ROOT / "changes").iterdir()} - {ROOT / "changes" / "README.md"}:
        assert re.fullmatch(rf"[\w-]+\.({kinds})\.md", path.name), path.name
        text = path.read_text().strip()
        assert text.endswith(".")
        assert len(text.split()) <= 75, path.name


def test_no_page_or_message_installs_a_package_that_is_not_published() -> None:
    """Whoever takes its name on the package index would be installed."""
    paths = [
        *ROOT.glob("*.md"),
        *(path for folder in ("src", "docs", "examples") for path in (ROOT / folder).rglob("*")),
    ]
    texts = {path: path.read_text() for path in paths if path.suffix in (".py", ".md") or path.name == "Dockerfile"}
    assert [path for path, text in texts.items() if re.search(r"pip install [^.\n]*\bplica", text)] == []
