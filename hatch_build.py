"""Makes two fields of the package's metadata as it is built: its description, which is the README, and its links.

`PLICA_REPOSITORY` is the address of the repository. The release workflow sets it, and no file has it
(docs/adr/0061-releases-name-the-repository.md).
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)]*)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Adds `readme`, and `urls` where the address is known."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the fields of `pyproject.toml`."""
        address, tag = os.environ.get("PLICA_REPOSITORY", "").rstrip("/"), f"v{metadata['version']}"
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(readme, address, tag)}
        if address:
            metadata["urls"] = {
                "Source": address,
                "Documentation": f"{address}/tree/{tag}/docs",
                "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }


def with_absolute_links(text: str, address: str, tag: str) -> str:
    """Markdown in which links and pictures lead to the files of a tag.

    Without an address, the text of a link replaces it, and pictures are left out.

    >>> with_absolute_links("![A](a.png) [b](docs/b.md) [c](mailto:c)", "https://host/plica", "v1")
    '![A](https://host/plica/raw/v1/a.png) [b](https://host/plica/blob/v1/docs/b.md) [c](mailto:c)'
    >>> with_absolute_links("![A](a.png) [b](docs/b.md)", "", "v1")
    ' b'
    """

    def replaced(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if not address:
            return "" if picture else words
        return f"{picture}[{words}]({address}/{'raw' if picture else 'blob'}/{tag}/{path})"

    return _RELATIVE_LINK.sub(replaced, text)
