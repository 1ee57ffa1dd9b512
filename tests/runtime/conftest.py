from collections.abc import Iterator
from pathlib import Path

import pytest

from plica.runtime.module import NativeModule, load
from tests.harness.native_files import native_file


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the harness; nobody changes it."""
    return native_file(tmp_path_factory.mktemp("native") / "hand.plicab")


@pytest.fixture
def module(path: Path) -> Iterator[NativeModule]:
    """That file, loaded."""
    with load(path) as loaded:
        yield loaded
