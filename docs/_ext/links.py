"""Links of pages to files outside `docs/`: pages say `../examples/hmm.py`, as a reader of the repository needs it.

On the site such a link leads to the page that shows the file, or to a copy of the file.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+((?:examples|benchmarks|CHANGELOG)[\w./-]*)\)")
_OF_A_FOLDER = re.compile(r"\[([^\]]*)\]\((?!\w+:|\.\./)[^)]*\)")
"""Links of copied files to their own folder, which the site does not have."""
_PAGES = {
    "CHANGELOG.md": "contributing/changelog",
    "benchmarks/README.md": "contributing/benchmarks",
    "examples": "gallery/index",
    "examples/on_spark.py": None,
    "examples/pets.csv": None,
    "examples/serve": "serving",
    "examples/serve/Dockerfile": None,
}
_COPIES = {"contributing/benchmarks": "benchmarks/README.md", "contributing/changelog": "CHANGELOG.md"}
"""Pages whose text lies outside `docs/`."""
_APPENDED = {
    "adr/README": "\n\n:::{toctree}\n:hidden:\n:glob:\n\n0*\n:::\n",
    "results": "\n\n## Plots\n\n:::{toctree}\n\nmeasured/index\n:::\n",
}
"""Text that the site alone needs."""


def page_of(path: str, root: Path) -> str | None:
    """The page of the site that shows a path of the repository; None where a copy of the file is given instead.

    Raises:
        FileNotFoundError: The repository has no such file.
    """
    if not (root / path).exists():
        raise FileNotFoundError(f"a page links to {path}, which the repository does not have; correct the link")
    return _PAGES[path] if path in _PAGES else f"gallery/{Path(path).stem}"


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    root = Path(app.srcdir).parent
    if docname in _COPIES:
        source[0] = _OF_A_FOLDER.sub(r"\1", (root / _COPIES[docname]).read_text())

    def rewritten(link: re.Match[str]) -> str:
        page = page_of(link[2], root)
        return link[0] if page is None else f"{{doc}}`{link[1].strip('`')} </{page}>`"

    source[0] = _OUTSIDE.sub(rewritten, source[0]) + _APPENDED.get(docname, "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrites the links of each page when it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
