"""The site as it was built: `make docs-test` builds it first, with warnings as errors."""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from PIL import Image
from sphinx.util.inventory import InventoryFile

DOCS = Path(__file__).parents[1]
SITE = DOCS / "_build" / "html"
LARGEST = 200 * 1024  # bytes of a page
sys.path.insert(0, str(DOCS / "_ext"))

from public_names import MODULES, full_names  # noqa: E402 - it lies in `_ext`

PACKAGES = ("plica", *(f"plica.{name}" for name in (
    "queries", "templates", "symbolic", "numpy", "native", "learn", "sklearn", "tables", "draw", "data"
)))  # fmt: skip


class Page(HTMLParser):
    """What a page loads, links to, and offers as targets of links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.resources: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Read one tag."""
        values = {name: value for name, value in attributes if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") != "canonical":
            self.resources.append(values.get("href", ""))
        self.resources += [values[name] for name in ("src", "data", "poster") if name in values and tag != "a"]


@cache
def pages() -> dict[Path, Page]:
    """The pages of the site by their paths."""
    found = {path: Page(path.read_text()) for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts}
    assert found, f"no page in {SITE}; run `make docs`"
    return found


def test_all_packages_of_the_reference_are_there() -> None:
    assert [name for name in PACKAGES if not any(f"{module}.".startswith(f"{name}.") for module in MODULES)] == []


def test_the_inventory_holds_every_public_name() -> None:
    inventory = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="")
    known = {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}
    names = list(full_names())
    assert len(names) > 500
    assert [name for name in names if name not in known] == []


def test_every_public_name_has_a_summary() -> None:
    silent = []
    for path, _ in pages().items():
        if path.parent.name == "api":
            body = re.search(r"<dd>(.*?)</dd>", path.read_text(), re.DOTALL)
            if body is None or not re.sub(r"<[^>]*>|\s", "", body[1]):
                silent.append(path.stem)
    assert silent == []


def test_no_page_is_too_large() -> None:
    sizes = {path.relative_to(SITE).as_posix(): path.stat().st_size for path in pages()}
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def outside(address: str) -> bool:
    """Whether an address leads to another host."""
    return bool(urlsplit(address).netloc) or address.startswith("//")


def test_pages_load_nothing_of_other_hosts() -> None:
    loaded = {address for page in pages().values() for address in page.resources if outside(address)}
    assert loaded == set()


def test_styles_load_nothing_of_other_hosts() -> None:
    found = set()
    for path in SITE.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        found |= {
            address for address in re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s;]+)", text) if outside(address)
        }
    assert found == set()


def broken_links(path: Path, page: Page) -> Iterator[str]:
    """The links of a page that lead nowhere in the site."""
    for address in page.links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        fragment = unquote(parts.fragment)
        anchors = pages()[target].anchors if target in pages() else {fragment}
        if not target.exists() or (fragment and fragment not in anchors):
            yield address


def test_links_inside_the_site_lead_somewhere() -> None:
    broken = {
        path.relative_to(SITE).as_posix(): links
        for path, page in pages().items()
        if (links := list(broken_links(path, page)))
    }
    assert broken == {}


def gallery() -> list[Path]:
    """The examples of the gallery."""
    return sorted(path for path in (DOCS.parent / "examples").glob("*.py") if path.stem not in ("__init__", "on_spark"))


def deviation(path: Path) -> float:
    """The standard deviation of the values of an image, from 0 to 255."""
    with Image.open(path) as image:
        return float(np.asarray(image.convert("L")).std())


@pytest.mark.parametrize("example", gallery(), ids=lambda path: path.stem)
def test_an_example_has_a_picture_its_time_and_files(example: Path) -> None:
    page = SITE / "gallery" / f"{example.stem}.html"
    text = page.read_text()
    assert "Total running time" in text
    downloads = {Path(link).name for link in pages()[page].links}
    assert {example.name, f"{example.stem}.ipynb"} <= downloads
    images = [SITE / "gallery" / address for address in pages()[page].resources if "sphx_glr_" in address]
    assert images, "the page shows no picture"
    thumbnail = DOCS / "gallery" / "images" / "thumb" / f"sphx_glr_{example.stem}_thumb.png"
    for image in (thumbnail, *(image.resolve() for image in images)):
        assert deviation(image) > 10, f"{image.name} is nearly of one colour"


def test_no_notebook_failed() -> None:
    reports = [path.name for path in (DOCS / "_build" / "html" / "reports").glob("*.log")]
    assert reports == []


def test_each_tutorial_has_a_picture_or_output() -> None:
    for source in (DOCS / "tutorials").glob("*.md"):
        text = (SITE / "tutorials" / f"{source.stem}.html").read_text()
        assert text.count("cell_output") >= 3, source.name


def test_the_switcher_names_this_version() -> None:
    versions = json.loads((SITE / "_static" / "switcher.json").read_text())
    assert all({"version", "url"} <= set(version) for version in versions)
    page = (SITE / "index.html").read_text()
    [match] = re.findall(r"theme_switcher_version_match = '([^']*)'", page)
    assert match in {version["version"] for version in versions}


def test_search_needs_no_server() -> None:
    index = (SITE / "searchindex.js").read_text()
    assert index.startswith("Search.setIndex(")
    for word in ("viterbi", "imput", "sampl"):
        assert word in index


def test_it_is_served_as_it_is() -> None:
    assert (SITE / ".nojekyll").exists()
